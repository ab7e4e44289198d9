use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use quorate_api::Cluster;
use quorate_pki::describe_all;
use serde_json::json;

use super::*;
use crate::cluster::build::Images;
use crate::names::Names;
use crate::tls::cas::ROTATE_ANNOTATION;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A cluster's Secrets, and an API server that does as it is asked.
struct World {
    names: Names,
    cluster: Cluster,
    owner: OwnerReference,
    images: Images,
    secrets: BTreeMap<String, Arc<Secret>>,
    members: BTreeSet<Ordinal>,
    proven: BTreeSet<Ordinal>,
    /// What was proven before this operator lost the Lease; otherwise it is of the present stage.
    stale: Option<Proven>,
    running: BTreeSet<Ordinal>,
    now: SystemTime,
    writes: u64,
}

impl World {
    fn new() -> World {
        let resource = json!({
            "apiVersion": "etcd.improbable.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": "c", "namespace": "n"},
            "spec": {
                "replicas": 3,
                "version": "3.6.1",
                "tls": {},
                "storage": {"volumeClaimTemplate": {"storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}},
            },
        });
        let resource = serde_json::from_value(resource).unwrap();
        World {
            names: Names::of("n", "c"),
            cluster: quorate_api::crd::resolve(&resource).unwrap().0,
            owner: owner("one"),
            images: Images::default(),
            secrets: BTreeMap::new(),
            members: (0..3).map(Ordinal).collect(),
            proven: BTreeSet::new(),
            stale: None,
            running: BTreeSet::new(),
            now: SystemTime::now(),
            writes: 0,
        }
    }

    fn keep(&self) -> Result<SecretChanges, String> {
        let context = BuildContext {
            names: &self.names,
            cluster: &self.cluster,
            owner: &self.owner,
            images: &self.images,
            trusted: None,
            fallback: None,
        };
        let proven = self.stale.clone().or_else(|| self.all_proven());
        let keeper = SecretKeeper {
            context: &context,
            secrets: &self.secrets,
            members: &self.members,
            running: &self.running,
            proven: proven.as_ref(),
            domain: None,
            lifetimes: &Lifetimes::default(),
            now: self.now,
        };
        keeper.keep()
    }

    /// What members have proven in the stage that the Secret is in.
    fn all_proven(&self) -> Option<Proven> {
        let of = Cas::read(self.secrets.get("c-ca")?).ok()?;
        Some(Proven::new(of.stage, &of.restarts_for(), self.proven.clone()))
    }

    /// One pass, with its effects done.
    fn pass(&mut self) -> SecretChanges {
        let kept = self.keep().unwrap();
        for effect in &kept.requests.effects {
            self.writes += 1;
            match effect {
                Effect::Create(Object::Secret(secret)) => {
                    let mut secret = (**secret).clone();
                    secret.metadata.uid = Some(format!("uid-{}", self.writes));
                    secret.metadata.resource_version = Some(self.writes.to_string());
                    let name = secret.name_any();
                    assert!(self.secrets.insert(name, Arc::new(secret)).is_none());
                }
                Effect::Amend(change) => self.amend(change),
                Effect::Delete { kind, name, .. } => {
                    assert_eq!(*kind, Kind::Secret);
                    self.secrets.remove(name).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        kept
    }

    fn amend(&mut self, change: &Amendment) {
        let mut secret = (*self.secrets[&change.name]).clone();
        assert_eq!(secret.resource_version().as_ref(), Some(&change.version));
        change.apply_to(&mut secret);
        secret.metadata.resource_version = Some(self.writes.to_string());
        self.secrets.insert(change.name.clone(), Arc::new(secret));
    }

    /// Until nothing is left to do; what connections are made with then.
    fn settle(&mut self) -> Material {
        for _ in 0..5 {
            let kept = self.pass();
            if kept.requests.effects.is_empty() {
                return kept.material.unwrap();
            }
        }
        panic!("there is always something to do");
    }

    fn value(&self, secret: &str, key: &str) -> Vec<u8> {
        value(&self.secrets[secret], key).unwrap_or_default().to_vec()
    }

    fn change(&mut self, secret: &str, by: impl FnOnce(&mut Secret)) {
        let mut changed = (*self.secrets[secret]).clone();
        by(&mut changed);
        self.secrets.insert(secret.to_owned(), Arc::new(changed));
    }

    fn forget(&mut self, secret: &str, key: &str) {
        self.change(secret, |secret| drop(secret.data.as_mut().unwrap().remove(key)));
    }

    /// The certificates of members and client, in order.
    fn leaves(&self) -> Vec<Vec<u8>> {
        let members = ["c-0-tls", "c-1-tls", "c-2-tls"];
        let members = members
            .iter()
            .flat_map(|name| ["server.crt", "peer.crt"].map(|key| self.value(name, key)));
        let clients = ["c-client", "c-operator"].map(|name| self.value(name, "tls.crt"));
        members.chain(clients).collect()
    }
}

fn owner(uid: &str) -> OwnerReference {
    OwnerReference {
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

#[test]
fn all_is_made_once_and_then_left_alone() {
    let mut world = World::new();
    assert!(
        world.pass().material.is_none(),
        "nothing is there to connect with"
    );
    let material = world.settle();
    let names: Vec<&String> = world.secrets.keys().collect();
    assert_eq!(
        names,
        ["c-0-tls", "c-1-tls", "c-2-tls", "c-ca", "c-client", "c-operator"]
    );
    for (name, secret) in &world.secrets {
        let owned = secret.owner_references().iter().any(|o| o.uid == "one");
        assert_eq!(owned, name != "c-ca", "{name}: the CA outlives the cluster");
        assert_eq!(secret.labels()["app.kubernetes.io/name"], "etcd", "{name}");
    }
    assert_eq!(world.value("c-client", "ca.crt"), world.value("c-ca", "ca.crt"));
    let between = world.value("c-0-tls", "peer-ca.crt");
    assert_eq!(between, world.value("c-ca", "peer-ca.crt"));
    assert_ne!(
        between,
        world.value("c-0-tls", "ca.crt"),
        "no client's certificate opens a connection between members"
    );
    assert_eq!(
        world.value("c-client", "ca.key"),
        b"",
        "only the CA's Secret has its key"
    );
    assert_eq!(world.value("c-0-tls", "ca.key"), b"");
    let user = |secret: &str| {
        describe_all(&world.value(secret, "tls.crt")).unwrap()[0]
            .common_name
            .clone()
    };
    assert_eq!(
        (user("c-operator").as_str(), user("c-client").as_str()),
        ("root", "client")
    );
    assert!(material.proof.is_none());
    let again = world.keep().unwrap();
    assert_eq!(again.requests, Requests::default());
    assert!(again.good_until.unwrap() > world.now + 200 * DAY);
}

/// As an earlier quorate left them: the Secret for applications is root's, and the operator's own.
#[test]
fn applications_lose_root_only_when_the_operator_has_a_certificate_of_its_own() {
    let mut world = World::new();
    world.settle();
    let root = world.secrets.remove("c-operator").unwrap();
    let data = root.data.clone();
    world.change("c-client", |secret| secret.data = data);
    let kept = world.pass();
    assert!(
        kept.material.is_some(),
        "it goes on with that of the applications"
    );
    let user = |world: &World, secret: &str| {
        describe_all(&world.value(secret, "tls.crt")).unwrap()[0]
            .common_name
            .clone()
    };
    assert_eq!(user(&world, "c-operator"), "root");
    assert_eq!(user(&world, "c-client"), "root", "not in the same pass");
    world.settle();
    assert_eq!(user(&world, "c-client"), "client");
    assert_eq!(user(&world, "c-operator"), "root");
}

#[test]
fn certificates_are_renewed_long_before_their_end_and_nobody_is_restarted() {
    let mut world = World::new();
    let trusted = world.settle().trusted;
    let (before, until) = (world.leaves(), world.keep().unwrap().good_until.unwrap());
    world.now = until - DAY;
    assert_eq!(world.settle().trusted, trusted);
    assert_eq!(world.leaves(), before);
    world.now = until + DAY;
    assert_eq!(
        world.settle().trusted,
        trusted,
        "whom they trust is what members are restarted for"
    );
    let after = world.leaves();
    assert!(before.iter().zip(&after).all(|(old, new)| old != new));
}

#[test]
fn another_ca_goes_round_in_three_moves_of_which_two_restart_members() {
    let mut world = World::new();
    let trusted = world.settle().trusted;
    let before = world.leaves();
    world.change("c-ca", |secret| {
        let asked = (ROTATE_ANNOTATION.to_owned(), "now".to_owned());
        secret.annotations_mut().extend([asked]);
    });
    let introducing = world.settle();
    assert_eq!(introducing.proof.as_ref().unwrap().stage, Stage::Introducing);
    assert_ne!(introducing.trusted, trusted);
    assert_eq!(
        world.leaves(),
        before,
        "nobody shows anything of the next one yet"
    );
    assert_eq!(
        describe_all(&world.value("c-2-tls", "peer-ca.crt"))
            .unwrap()
            .len(),
        2
    );
    world.proven = (0..2).map(Ordinal).collect();
    assert_eq!(
        world.keep().unwrap().requests,
        Requests::default(),
        "one has proven nothing"
    );
    world.proven.insert(Ordinal(2));
    world.pass();
    world.proven.clear();
    let retiring = world.settle();
    assert_eq!(retiring.proof.as_ref().unwrap().stage, Stage::Retiring);
    assert_eq!(
        retiring.trusted, introducing.trusted,
        "nobody is restarted for this"
    );
    assert!(before.iter().zip(&world.leaves()).all(|(old, new)| old != new));
    assert_eq!(world.value("c-ca", "next.key"), b"");
    world.proven = world.members.clone();
    let after = world.settle();
    assert!(after.proof.is_none());
    assert!(after.trusted != trusted && after.trusted != retiring.trusted);
    assert_eq!(describe_all(&world.value("c-2-tls", "ca.crt")).unwrap().len(), 1);
    assert_eq!(world.value("c-ca", "former.crt"), b"");
    let annotations = world.secrets["c-ca"].annotations().clone();
    assert!(!annotations.contains_key(ROTATE_ANNOTATION), "{annotations:?}");
}

/// This operator saw all proven while the next CA was introduced, and lost the Lease; another one went on.
#[test]
fn what_was_proven_in_another_stage_is_worth_nothing_when_the_lease_comes_back() {
    let mut world = World::new();
    world.settle();
    world.change("c-ca", |secret| {
        let asked = (ROTATE_ANNOTATION.to_owned(), "now".to_owned());
        secret.annotations_mut().extend([asked]);
    });
    world.settle();
    world.proven = world.members.clone();
    let stale = world.all_proven();
    world.pass();
    world.proven.clear();
    let retiring = world.settle();
    assert_eq!(retiring.proof.unwrap().stage, Stage::Retiring);
    world.stale = stale;
    assert_eq!(
        world.keep().unwrap().requests,
        Requests::default(),
        "nobody has shown a certificate of the new CA"
    );
    world.stale = None;
    world.proven = world.members.clone();
    assert!(
        world.settle().proof.is_none(),
        "with proofs of this stage it goes on"
    );
}

#[test]
fn unasked_it_takes_its_time() {
    let mut world = World::new();
    world.settle();
    world.proven = world.members.clone();
    world.now += (3650 - 729) * DAY;
    let stage = |world: &mut World| world.settle().proof.map(|proof| proof.stage);
    assert_eq!(stage(&mut world), Some(Stage::Introducing));
    world.now += DAY / 2;
    assert_eq!(
        stage(&mut world),
        Some(Stage::Introducing),
        "clients have had half a day"
    );
    world.now += DAY;
    world.pass();
    assert_eq!(stage(&mut world), Some(Stage::Retiring));
    world.now += 2 * DAY;
    assert_eq!(stage(&mut world), None);
}

/// As an earlier quorate left it: one CA signed for all.
#[test]
fn members_are_taken_to_a_ca_of_their_own_and_clients_notice_nothing() {
    let mut world = World::new();
    world.settle();
    for key in ["peer-ca.crt", "peer-ca.key"] {
        world.forget("c-ca", key);
        world.forget("c-operator", key);
    }
    let common = world.value("c-ca", "ca.crt");
    let signer = Ca::read(&PairPem {
        cert: common.clone(),
        key: world.value("c-ca", "ca.key"),
    });
    let signer = signer.unwrap();
    let common_trust = signer.info().fingerprint.to_string();
    for ordinal in 0..3 {
        let member = format!("c-{ordinal}");
        let leaf = Leaf {
            common_name: &member,
            cluster_name: "c",
            sans: sans::peer(&world.names, Ordinal(ordinal), None),
            usages: LeafUsages::ServerAndClient,
        };
        let pem = signer.issue(&leaf, 365 * DAY, world.now).unwrap();
        world.change(&format!("{member}-tls"), |secret| {
            let data = secret.data.as_mut().unwrap();
            data.insert("peer-ca.crt".to_owned(), ByteString(common.clone()));
            data.insert("peer.crt".to_owned(), ByteString(pem.cert));
            data.insert("peer.key".to_owned(), ByteString(pem.key));
        });
    }
    let before = world.leaves();
    let kept = world.pass();
    assert_eq!(
        kept.material.unwrap().trusted,
        common_trust,
        "nobody is restarted for a thing that is the same"
    );
    let introducing = world.settle();
    assert_eq!(
        introducing.proof.unwrap().proofs.keys().collect::<Vec<_>>(),
        [&Port::Peer]
    );
    assert_eq!(world.leaves(), before);
    let trusted = world.value("c-2-tls", "peer-ca.crt");
    assert!(trusted.starts_with(&common) && trusted.len() > common.len());
    world.proven = world.members.clone();
    world.pass();
    world.proven.clear();
    assert_eq!(world.settle().proof.unwrap().stage, Stage::Retiring);
    world.proven = world.members.clone();
    let after = world.settle();
    assert!(after.proof.is_none() && after.trusted.contains('|'));
    let (between, for_clients) = (
        world.value("c-2-tls", "peer-ca.crt"),
        world.value("c-2-tls", "ca.crt"),
    );
    assert_eq!(for_clients, common, "what clients trust and show is as it was");
    assert_eq!(
        world.value("c-client", "tls.crt"),
        *before.iter().nth_back(1).unwrap()
    );
    assert_eq!(describe_all(&between).unwrap().len(), 1);
    assert_ne!(between, common);
    assert!(world.keep().unwrap().good_until.is_some(), "it is at rest");
}

#[test]
fn a_cluster_made_again_goes_on_with_what_is_there() {
    let mut world = World::new();
    let trusted = world.settle().trusted;
    let before = world.leaves();
    world.owner = owner("two");
    assert_eq!(world.settle().trusted, trusted);
    assert_eq!(world.leaves(), before);
    let taken_over = |name: &str| world.secrets[name].owner_references()[0].uid == "two";
    assert!(taken_over("c-0-tls") && taken_over("c-client"));
    world.secrets.retain(|name, _| name == "c-ca");
    assert_eq!(world.settle().trusted, trusted, "the CA alone is enough");
}

#[test]
fn a_member_that_is_no_more_leaves_no_key() {
    let mut world = World::new();
    world.settle();
    world.members.remove(&Ordinal(2));
    world.settle();
    assert!(!world.secrets.contains_key("c-2-tls"));
    assert!(world.secrets.contains_key("c-1-tls") && world.secrets.contains_key("c-ca"));
}

#[test]
fn a_ca_that_cannot_be_read_is_not_replaced() {
    let mut world = World::new();
    world.settle();
    world.change("c-ca", |secret| {
        let data = secret.data.as_mut().unwrap();
        let leaf_key =
            ByteString(b"-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n".to_vec());
        data.insert("ca.key".to_owned(), leaf_key);
    });
    let why = world.keep().unwrap_err();
    assert!(why.contains("Secret \"c-ca\" cannot be used"), "{why}");
    assert!(!why.contains("PRIVATE") && !why.contains("secret\n"), "{why}");
}

mod lost;
