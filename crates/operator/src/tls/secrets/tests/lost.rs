//! CAs, keys and certificates that someone deleted.

use super::*;

#[test]
fn a_ca_that_someone_deleted_stays_trusted_until_members_have_another() {
    let mut world = World::new();
    world.settle();
    let (before, old) = (world.leaves(), world.value("c-ca", "ca.crt"));
    world.secrets.remove("c-ca").unwrap();
    let material = world.settle();
    assert_eq!(material.proof.unwrap().stage, Stage::Introducing);
    assert_eq!(world.leaves(), before);
    let bundle = world.value("c-1-tls", "ca.crt");
    assert!(bundle.starts_with(&old) && bundle.len() > old.len());
    world.proven = world.members.clone();
    world.now += 2 * DAY;
    world.pass();
    world.proven.clear();
    world.settle();
    assert_ne!(world.value("c-1-tls", "server.crt"), before[2]);
    assert_eq!(
        world.value("c-1-tls", "peer.crt"),
        before[3],
        "the operator has a copy of that CA"
    );
    assert!(
        world.value("c-1-tls", "ca.crt").ends_with(&old),
        "it is still trusted"
    );
}

#[test]
fn a_ca_between_members_that_is_lost_is_put_back_from_the_operators_copy() {
    let mut world = World::new();
    let trusted = world.settle().trusted;
    world.running = world.members.clone();
    let before = world.leaves();
    for lost in ["peer-ca.key", "peer-ca.crt"] {
        world.forget("c-ca", lost);
        if lost == "peer-ca.crt" {
            world.forget("c-ca", "peer-ca.key");
        }
        assert_eq!(world.settle().trusted, trusted, "{lost}");
        assert_eq!(world.leaves(), before);
    }
    for gone in ["c-ca", "c-2-tls"] {
        world.secrets.remove(gone).unwrap();
    }
    world.members.insert(Ordinal(3));
    let material = world.settle();
    assert_eq!(
        material.proof.unwrap().proofs.keys().collect::<Vec<_>>(),
        [&Port::Client]
    );
    let between = world.value("c-0-tls", "peer-ca.crt");
    for name in ["c-2-tls", "c-3-tls"] {
        assert!(!world.value(name, "peer.crt").is_empty(), "{name}");
        assert_eq!(world.value(name, "peer-ca.crt"), between, "{name}");
    }
    assert_eq!(world.value("c-1-tls", "peer.crt"), before[3]);
}

/// In the middle of a rotation the copy is of the one that signed before.
#[test]
fn what_members_trust_besides_the_copy_stays_trusted_until_all_show_certificates_of_it() {
    let mut world = World::new();
    world.settle();
    world.change("c-ca", |secret| {
        let asked = (ROTATE_ANNOTATION.to_owned(), "now".to_owned());
        secret.annotations_mut().extend([asked]);
    });
    world.settle();
    world.proven = world.members.clone();
    let copy = world.secrets["c-operator"].clone();
    world.pass();
    world.proven.clear();
    world.settle();
    assert_eq!(
        describe_all(&world.value("c-0-tls", "peer-ca.crt"))
            .unwrap()
            .len(),
        2
    );
    world.secrets.insert("c-operator".to_owned(), copy);
    world.secrets.remove("c-ca").unwrap();
    world.settle();
    let between = world.value("c-0-tls", "peer-ca.crt");
    assert_eq!(
        describe_all(&between).unwrap().len(),
        2,
        "some may show the other's still"
    );
    assert!(between.starts_with(&world.value("c-operator", "peer-ca.crt")));
}

/// The key that signs for clients is lost, and that between members is not.
#[test]
fn without_a_key_a_member_that_has_nothing_shows_clients_what_another_does() {
    let mut world = World::new();
    world.settle();
    world.running = world.members.clone();
    world.forget("c-ca", "ca.key");
    for gone in ["c-client", "c-2-tls"] {
        world.secrets.remove(gone).unwrap();
    }
    world.members.insert(Ordinal(3));
    let material = world.settle();
    assert_eq!(
        material.proof.unwrap().proofs.keys().collect::<Vec<_>>(),
        [&Port::Client]
    );
    let lent = world.value("c-1-tls", "server.crt");
    for name in ["c-2-tls", "c-3-tls"] {
        assert_eq!(world.value(name, "server.crt"), lent, "{name}");
        assert_ne!(world.value(name, "peer.crt"), lent, "{name}");
        assert_eq!(describe_all(&world.value(name, "ca.crt")).unwrap().len(), 2);
        assert_eq!(describe_all(&world.value(name, "peer-ca.crt")).unwrap().len(), 1);
    }
    assert!(
        !world.secrets.contains_key("c-client"),
        "no client gets a member's key"
    );
    assert_eq!(
        world.keep().unwrap().requests,
        Requests::default(),
        "nobody has proven anything"
    );
    world.proven = world.members.clone();
    world.pass();
    world.proven.clear();
    assert_eq!(world.settle().proof.unwrap().stage, Stage::Retiring);
    for name in ["c-1-tls", "c-2-tls", "c-3-tls"] {
        assert!(world.value(name, "server.crt") != lent, "{name} has its own");
    }
    let client = world.value("c-client", "tls.crt");
    assert!(!client.is_empty() && client != lent);
}

#[test]
fn without_a_ca_and_its_copy_a_member_that_has_nothing_waits_for_the_next() {
    let mut world = World::new();
    world.settle();
    world.running = BTreeSet::from([Ordinal(0), Ordinal(1)]);
    for gone in ["c-ca", "c-operator", "c-client", "c-2-tls"] {
        world.secrets.remove(gone).unwrap();
    }
    let material = world.settle();
    assert_eq!(material.proof.unwrap().stage, Stage::Introducing);
    assert_eq!(material.advice, None);
    assert!(!world.secrets.contains_key("c-2-tls"), "nobody can sign for it");
    world.running.insert(Ordinal(2));
    let advice = world.settle().advice.unwrap();
    assert!(advice.contains("\"c-2-tls\" is gone"), "{advice}");
    world.proven = BTreeSet::from([Ordinal(0), Ordinal(1)]);
    assert_eq!(
        world.keep().unwrap().requests,
        Requests::default(),
        "it runs, and trusts nobody knows whom"
    );
    world.running.remove(&Ordinal(2));
    world.pass();
    world.proven.clear();
    assert_eq!(world.settle().proof.unwrap().stage, Stage::Retiring);
    assert!(!world.value("c-2-tls", "peer.crt").is_empty());
}

#[test]
fn without_a_ca_and_with_a_member_that_has_nothing_all_forget_former_failures() {
    let mut world = World::new();
    world.settle();
    world.running = world.members.clone();
    for gone in ["c-ca", "c-operator", "c-2-tls"] {
        world.secrets.remove(gone).unwrap();
    }
    assert_eq!(world.pass().requests.news[0].reason, "CaLost");
    assert!(world.settle().proof.is_none());
    assert!(world.keep().unwrap().lost_ca.is_some());
}

#[test]
fn if_all_is_deleted_under_running_members_it_is_said_and_they_are_to_be_restarted() {
    let mut world = World::new();
    let trusted = world.settle().trusted;
    world.running = world.members.clone();
    // What a client trusts is not enough to go on with: no member has a certificate.
    world.secrets.retain(|name, _| name == "c-client");
    let made = world.pass().requests;
    assert_eq!(made.news[0].reason, "CaLost");
    assert!(made.news[0].warning);
    let after = world.settle();
    assert!(after.trusted != trusted && after.proof.is_none());
    let kept = world.keep().unwrap();
    assert!(kept.good_until.is_none(), "it is not at rest");
    let Some(Effect::Amend(over)) = kept.lost_ca else {
        panic!("members trust a CA that nobody has");
    };
    world.writes += 1;
    world.amend(&over);
    let kept = world.keep().unwrap();
    assert!(kept.lost_ca.is_none() && kept.good_until.is_some());
    assert_eq!(world.settle().trusted, after.trusted);
}

#[test]
fn what_cannot_be_gone_on_with_is_said_with_what_to_do() {
    let mut world = World::new();
    world.settle();
    world.now += 3651 * DAY;
    let why = world.keep().unwrap_err();
    assert!(why.contains("\"c-ca\" has ended"), "{why}");
    assert!(
        why.contains("kubectl delete secret --namespace n --selector "),
        "{why}"
    );
    // As it says; whichever of them goes first.
    world.running = world.members.clone();
    world.secrets.remove("c-ca").unwrap();
    assert_eq!(world.pass().requests.news[0].reason, "CaLost");
    world.settle();
    assert!(world.keep().unwrap().lost_ca.is_some());
    let mut world = World::new();
    world.settle();
    world.running = world.members.clone();
    world.forget("c-ca", "ca.key");
    world.secrets.retain(|name, _| name == "c-ca");
    let why = world.keep().unwrap_err();
    assert!(why.contains("put back ca.key"), "{why}");
    world.running.clear();
    let after = world.settle();
    assert_eq!(
        after.proof.unwrap().stage,
        Stage::Retiring,
        "nobody runs who would be cut off"
    );
    assert!(!world.value("c-0-tls", "server.crt").is_empty());
}
