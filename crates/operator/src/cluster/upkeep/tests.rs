use quorate_core::memory::Mark;
use quorate_pod::contract::Found;

use super::*;
use crate::cluster::build::etcd;
use crate::cluster::execute::tests::{Ground0, peer, slot};
use crate::cluster::observe::pod_state::tests::{at_the_gate, etcd_in, report};

fn kept(slot: SlotObjects, ordinal: u32, memory: &Memory) -> Vec<String> {
    let (ground, mut objects) = (Ground0::new(), Objects::default());
    objects.slots.insert(Ordinal(ordinal), slot);
    let context = ground.context();
    let mut whole = ClusterObjects::default();
    for service in [service::headless(&context), service::for_clients(&context)] {
        let name = service.metadata.name.clone().unwrap();
        whole.services.insert(name, service);
    }
    let requests = upkeep(&context, memory, &objects, &whole, None);
    requests.effects.iter().map(ToString::to_string).collect()
}

fn recorded(volume_id: &str) -> Option<VolumeRecord> {
    Some(VolumeRecord::of(&Memory::default(), Ordinal(0), volume_id))
}

#[test]
fn a_peer_gets_its_claim_and_its_replica_set() {
    let (ground, memory) = (Ground0::new(), Memory::default());
    let made_for = |config: String| SlotObjects {
        peer: Some(Peer { config, ..peer() }),
        ..SlotObjects::default()
    };
    let only = made_for(etcd::digest(&ground.context()));
    let made = kept(only.clone(), 0, &memory);
    assert_eq!(
        made,
        ["create PersistentVolumeClaim c-0", "create ReplicaSet c-0"]
    );
    // Nobody knows what its pods would be made of.
    let unknown = kept(made_for("another".to_owned()), 0, &memory);
    assert_eq!(unknown, ["create PersistentVolumeClaim c-0"]);
    let mut requests = Requests::default();
    member(&ground.context(), &memory, Ordinal(0), &only, &mut requests);
    let reported: Vec<&str> = requests.news.iter().map(|n| n.reason).collect();
    assert_eq!(reported, ["ClaimCreated", "ReplicaSetCreated"]);
    // Its volume was given up: what is still seen of its peer is going.
    let mut memory = Memory::default();
    memory.slots.entry(Ordinal(0)).or_default().generation = Generation(1);
    assert_eq!(kept(only, 0, &memory), ["create PersistentVolumeClaim c-0"]);
}

#[test]
fn a_peer_that_nobody_owns_is_taken_up_with_what_it_has() {
    let other = OwnerReference {
        uid: "other".to_owned(),
        ..OwnerReference::default()
    };
    let mut left = slot(
        &[etcd_in(serde_json::json!({"running": {}}))],
        recorded("volume-1"),
    );
    left.peer.as_mut().unwrap().owner = Owner::Nobody(vec![other.clone()]);
    let (ground, memory) = (Ground0::new(), Memory::default());
    let mut requests = Requests::default();
    member(&ground.context(), &memory, Ordinal(0), &left, &mut requests);
    let [Effect::Adopt { owners, .. }] = &requests.effects[..] else {
        panic!("{:?}", requests.effects);
    };
    assert_eq!(owners, &[other, ground.context().owner.clone()]);
    assert_eq!(requests.news[0].reason, "PeerAdopted");
}

#[test]
fn the_services_are_made_and_at_rest_nothing_is() {
    let ground = Ground0::new();
    let requests = upkeep(
        &ground.context(),
        &Memory::default(),
        &Objects::default(),
        &ClusterObjects::default(),
        Some(1),
    );
    let made: Vec<String> = requests.effects.iter().map(ToString::to_string).collect();
    assert_eq!(made, ["create Service c", "create Service c-client"]);
    assert_eq!(requests.news.len(), 2);
    let rest = slot(
        &[etcd_in(serde_json::json!({"running": {}}))],
        recorded("volume-1"),
    );
    assert_eq!(kept(rest, 0, &Memory::default()), [""; 0]);
}

#[test]
fn clients_and_budgets_know_voters_from_learners() {
    use crate::names::ROLE_LABEL;
    use quorate_core::model::{ClusterId, MemberId};
    let ground = Ground0::new();
    let context = ground.context();
    let selects =
        |labels: Option<BTreeMap<String, String>>| labels.unwrap_or_default().get(ROLE_LABEL).cloned();
    let budget = budget::budget(&context, 3)
        .unwrap()
        .spec
        .unwrap()
        .selector
        .unwrap();
    assert_eq!(selects(budget.match_labels).as_deref(), Some("voter"));
    let clients = service::for_clients(&context).spec.unwrap();
    assert_eq!(selects(clients.selector).as_deref(), Some("voter"));
    let peers = service::headless(&context).spec.unwrap();
    assert_eq!(
        selects(peers.selector),
        None,
        "members find each other before that"
    );

    let mut memory = Memory::default();
    assert_eq!(Role::of(&memory, Ordinal(0)), Role::Voter, "a first member");
    memory.cluster = Some(ClusterId(1));
    assert_eq!(
        Role::of(&memory, Ordinal(0)),
        Role::Learner,
        "one that is to join"
    );
    let running = || {
        let mut slot = slot(
            &[etcd_in(serde_json::json!({"running": {}}))],
            recorded("volume-1"),
        );
        slot.set_role = Some("learner".to_owned());
        slot.pods[0].role = Some("learner".to_owned());
        slot
    };
    let remembered = memory.slots.entry(Ordinal(0)).or_default();
    (remembered.member, remembered.voter) = (Some(MemberId(7)), false);
    let reported = |memory: &Memory| {
        let mut all = kept(running(), 0, memory);
        all.retain(|effect| effect.starts_with("label"));
        all
    };
    assert_eq!(reported(&memory), [""; 0]);
    memory.slots.get_mut(&Ordinal(0)).unwrap().voter = true;
    assert_eq!(
        reported(&memory),
        ["label Set c-0", "label Pod c-0-abcde"],
        "it was promoted"
    );
}

#[test]
fn pods_that_come_are_made_with_what_is_on_their_volume() {
    let mut memory = Memory::default();
    let reported = |memory: &Memory, said: Option<KnownProgress>| {
        let mut slot = slot(
            &[etcd_in(serde_json::json!({"running": {}}))],
            recorded("volume-1"),
        );
        slot.set_reached = said;
        let mut all = kept(slot, 0, memory);
        all.retain(|effect| effect.starts_with("annotate Set"));
        all
    };
    assert_eq!(reported(&memory, None), [""; 0], "nothing is known yet");
    let remembered = memory.slots.entry(Ordinal(0)).or_default();
    remembered.reached = Progress { run: 1, index: 70 };
    assert_eq!(reported(&memory, None), ["annotate Set c-0"]);
    let said = |run, index| {
        Some(KnownProgress {
            reached: Progress { run, index },
            ..KnownProgress::default()
        })
    };
    assert_eq!(reported(&memory, said(1, 70)), [""; 0]);
    assert_eq!(
        reported(&memory, said(1, 60)),
        [""; 0],
        "it is not well for good yet"
    );
    memory.slots.get_mut(&Ordinal(0)).unwrap().healthy_since = Some(quorate_core::model::Time(1));
    assert_eq!(reported(&memory, said(1, 60)), ["annotate Set c-0"]);
    // Whose data it is, once it was seen: one of before that was known is reported, too.
    use quorate_core::model::{ClusterId, MemberId};
    memory.cluster = Some(ClusterId(7));
    let remembered = memory.slots.get_mut(&Ordinal(0)).unwrap();
    remembered.member = Some(MemberId(1));
    remembered.mark = Mark::Intended;
    let with = |member| {
        said(1, 70).map(|known| KnownProgress {
            member,
            cluster: Some(ClusterId(7)),
            ..known
        })
    };
    assert_eq!(reported(&memory, said(1, 70)), ["annotate Set c-0"]);
    assert_eq!(
        reported(&memory, with(None)),
        [""; 0],
        "it may yet be added as another"
    );
    memory.slots.get_mut(&Ordinal(0)).unwrap().mark = Mark::Started;
    assert_eq!(reported(&memory, with(None)), ["annotate Set c-0"]);
    assert_eq!(reported(&memory, with(Some(MemberId(1)))), [""; 0]);
}

#[test]
fn a_service_is_repaired_once_all_pods_say_what_they_are() {
    let ground = Ground0::new();
    let context = ground.context();
    let mut whole = ClusterObjects::default();
    for mut service in [service::headless(&context), service::for_clients(&context)] {
        service.spec.as_mut().unwrap().selector = Some(context.names.labels());
        whole
            .services
            .insert(service.metadata.name.clone().unwrap(), service);
    }
    let repaired = |role: Option<&str>| {
        let mut objects = Objects::default();
        let mut slot = slot(
            &[etcd_in(serde_json::json!({"running": {}}))],
            recorded("volume-1"),
        );
        slot.pods[0].role = role.map(str::to_owned);
        slot.set_role = role.map(str::to_owned);
        objects.slots.insert(Ordinal(0), slot);
        let requests = upkeep(&context, &Memory::default(), &objects, &whole, None);
        requests
            .effects
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(repaired(None), ["label Set c-0", "label Pod c-0-abcde"]);
    assert_eq!(repaired(Some("voter")), ["update Service c-client"]);
}

#[test]
fn a_volume_is_put_on_record_once_and_never_over_another() {
    let parked = at_the_gate(&report(Found::Empty, None));
    let fresh = slot(std::slice::from_ref(&parked), recorded(""));
    assert_eq!(kept(fresh, 0, &Memory::default()), ["annotate Claim c-0"]);
    let same = slot(std::slice::from_ref(&parked), recorded("volume-1"));
    assert_eq!(kept(same, 0, &Memory::default()), [""; 0]);
    let wiped = slot(std::slice::from_ref(&parked), recorded("the-one-before"));
    assert_eq!(
        kept(wiped, 0, &Memory::default()),
        [""; 0],
        "the record is the proof"
    );
    // It has gone on to a later generation: what was looked at is not the present one.
    let gone_on = at_the_gate(&quorate_pod::contract::Report {
        newest: Some(Generation(2)),
        ..report(Found::Empty, None)
    });
    assert_eq!(kept(slot(&[gone_on], None), 0, &Memory::default()), [""; 0]);
    assert_eq!(
        kept(slot(std::slice::from_ref(&parked), None), 0, &Memory::default()),
        ["annotate Claim c-0"]
    );
    // Written by a later release, or spoilt: nobody knows what would be lost.
    let mut unreadable = slot(std::slice::from_ref(&parked), None);
    unreadable.claim.as_mut().unwrap().unreadable = Some("it is of format 2".to_owned());
    assert_eq!(kept(unreadable, 0, &Memory::default()), [""; 0]);
    // The claim was deleted and made again after a start was let through: this is not the volume it was meant for.
    let mut memory = Memory::default();
    memory.slots.entry(Ordinal(0)).or_default().mark = Mark::Intended;
    let another = Some(VolumeRecord::of(&memory, Ordinal(0), ""));
    assert_eq!(kept(slot(&[parked], another), 0, &memory), [""; 0]);
}

#[test]
fn a_peer_of_a_former_operator_does_not_wait_for_its_claim_for_ever() {
    let mut going = slot(&[], recorded("volume-1"));
    let peer = going.peer.as_mut().unwrap();
    (peer.deleting, peer.obsolete_finalizer) = (true, Some(vec!["theirs".to_owned()]));
    let [Effect::Finalizers { finalizers, .. }] = &release("c-0", peer).into_iter().collect::<Vec<_>>()[..]
    else {
        panic!("{peer:?}");
    };
    assert_eq!(finalizers, &["theirs"]);
    assert_eq!(
        kept(going, 0, &Memory::default()),
        ["set the finalizers of EtcdPeer c-0"]
    );
}

#[test]
fn objects_of_an_older_quorate_are_labelled_where_they_are() {
    let running = etcd_in(serde_json::json!({"running": {}}));
    let mut before = slot(&[running], recorded("volume-1"));
    let lacks = BTreeMap::from([("app.kubernetes.io/instance".to_owned(), "c".to_owned())]);
    before.pods[0].lacks = lacks.clone();
    before.set_lacks = lacks.clone();
    before.claim.as_mut().unwrap().lacks = lacks.clone();
    assert_eq!(
        kept(before, 0, &Memory::default()),
        ["label Claim c-0", "label Set c-0", "label Pod c-0-abcde"],
        "and nothing is recreated"
    );
    let ground = Ground0::new();
    let context = ground.context();
    let mut whole = ClusterObjects::default();
    for mut service in [service::headless(&context), service::for_clients(&context)] {
        service.metadata.labels = Some(context.names.labels());
        let name = service.metadata.name.clone().unwrap();
        whole.services.insert(name, service);
    }
    let mut budget = budget::budget(&context, 3).unwrap();
    budget.metadata.labels = Some(context.names.labels());
    whole.budget = Some(budget);
    let requests = upkeep(&context, &Memory::default(), &Objects::default(), &whole, Some(3));
    let asked: Vec<String> = requests.effects.iter().map(ToString::to_string).collect();
    assert_eq!(
        asked,
        ["label Service c", "label Service c-client", "label Budget c"]
    );
    assert!(requests.news.is_empty());
}

#[test]
fn a_pod_that_was_left_behind_on_a_dead_node_is_taken_out_of_the_services_once() {
    let running = serde_json::json!({"running": {"startedAt": "2026-01-01T00:00:10Z"}});
    let mut slot = slot(
        &[etcd_in(running.clone()), etcd_in(running)],
        recorded("volume-1"),
    );
    (slot.pods[0].name, slot.pods[0].terminating) = ("c-0-old".to_owned(), true);
    slot.pods[0].node = Some("node3".to_owned());
    let withdrawn = |slot: &SlotObjects| {
        let mut requests = Requests::default();
        withdraw_addresses(slot, &mut requests);
        let effects: Vec<String> = requests.effects.iter().map(ToString::to_string).collect();
        (effects, requests.news.len())
    };
    assert_eq!(withdrawn(&slot), (vec!["label Pod c-0-old".to_owned()], 1));
    slot.pods[0].left_behind = true;
    assert_eq!(withdrawn(&slot), (vec![], 0));
    // etcd may still run in the old one.
    slot.pods[0].left_behind = false;
    slot.pods[1].stage = crate::cluster::observe::pod_state::Stage::AwaitingGoAhead;
    assert_eq!(withdrawn(&slot), (vec![], 0));
}
