use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use quorate_api::{Cluster, Ground, parse, resolve};
use quorate_core::memory::{Bootstrap, Slot};
use quorate_core::model::{PeerUrl, StorageId, Time, Token};
use quorate_pod::contract::{Found, How};
use serde_json::json;

use super::*;
use crate::cluster::build::{Images, etcd};
use crate::cluster::observe::pod_state::tests::{UID, at_the_gate, etcd_in, pod, report};
use crate::cluster::observe::slot::{Claim, Owner, Peer};
use crate::cluster::pass::fallback;
use crate::names::Names;

const MANIFEST: &str = "apiVersion: etcd.improbable.io/v1alpha1
kind: EtcdCluster
metadata: {name: c}
spec:
  replicas: 1
  version: 3.6.1
  storage: {volumeClaimTemplate: {storageClassName: standard, resources: {requests: {storage: 1Gi}}}}
";
const V: Version = Version::new(3, 6, 1);

/// Everything a [`BuildContext`] borrows.
pub(crate) struct Ground0 {
    names: Names,
    cluster: Cluster,
    owner: OwnerReference,
    images: Images,
}

impl Ground0 {
    pub(crate) fn new() -> Ground0 {
        let manifest = parse(MANIFEST, "m").unwrap();
        let (cluster, _) = resolve(&manifest, Ground::Kubernetes, MANIFEST, "m").unwrap();
        Ground0 {
            names: Names::of("n", "c"),
            cluster,
            owner: OwnerReference::default(),
            images: Images::default(),
        }
    }

    pub(crate) fn context(&self) -> BuildContext<'_> {
        BuildContext {
            names: &self.names,
            cluster: &self.cluster,
            owner: &self.owner,
            images: &self.images,
            trusted: None,
            fallback: None,
        }
    }
}

pub(crate) fn peer() -> Peer {
    Peer {
        uid: "peer-1".to_owned(),
        resource_version: "7".to_owned(),
        deleting: false,
        obsolete_finalizer: None,
        owner: Owner::Ours,
        version: V,
        generation: Generation(0),
        config: "config-0".to_owned(),
    }
}

pub(crate) fn slot(pods: &[serde_json::Value], record: Option<VolumeRecord>) -> SlotObjects {
    let mut slot = SlotObjects {
        peer: Some(peer()),
        claim: Some(Claim {
            uid: "claim-1".to_owned(),
            deleting: false,
            record,
            ..Claim::default()
        }),
        set: Some("set-1".to_owned()),
        set_role: Some("voter".to_owned()),
        set_lacks: BTreeMap::new(),
        set_reached: None,
        set_resources: Default::default(),
        set_fails: None,
        pods: Vec::new(),
        owner_exists: None,
    };
    pods.iter().for_each(|status| slot.add_pod(&pod(status.clone())));
    slot
}

fn memory(mark: Mark) -> Memory {
    let url = PeerUrl("http://c-0.c.n.svc:2380".to_owned());
    let slot = Slot {
        mark,
        ..Slot::default()
    };
    Memory {
        bootstrap: Some(Bootstrap {
            token: Token("t".to_owned()),
            members: [(Ordinal(0), url)].into(),
        }),
        slots: [(Ordinal(0), slot)].into(),
        ..Memory::default()
    }
}

fn effects(slot: SlotObjects, memory: &Memory, step: &Step) -> Result<Requests, String> {
    effects_on(&Ground0::new(), slot, memory, step)
}

fn effects_on(ground: &Ground0, slot: SlotObjects, memory: &Memory, step: &Step) -> Result<Requests, String> {
    let mut objects = Objects::default();
    objects.slots.insert(Ordinal(0), slot);
    let fallback = fallback(&ground.context(), memory, None);
    let context = BuildContext {
        fallback: fallback.as_ref(),
        ..ground.context()
    };
    let executor = Executor {
        context: &context,
        memory,
        objects: &objects,
    };
    executor.effects(step)
}

fn start(version: Version) -> Step {
    let url = PeerUrl("http://c-0.c.n.svc:2380".to_owned());
    let how = StartHow::New {
        token: Token("t".to_owned()),
        initial: vec![(quorate_core::model::MemberName("c-0".to_owned()), url)],
    };
    Step::Start {
        ordinal: Ordinal(0),
        generation: Generation(0),
        how,
        version,
        config: "config-0".to_owned(),
    }
}

#[test]
fn a_first_start_is_on_the_claim_before_the_pod_may_pass() {
    let memory = memory(Mark::Intended);
    let record = VolumeRecord::of(&Memory::default(), Ordinal(0), "volume-1");
    let parked = slot(&[at_the_gate(&report(Found::Empty, None))], Some(record));
    let requests = effects(parked, &memory, &start(V)).unwrap();
    let [
        Effect::Annotate {
            kind: Kind::Claim,
            annotations: on_claim,
            ..
        },
        Effect::Annotate {
            kind: Kind::Pod,
            uid,
            annotations: on_pod,
            ..
        },
    ] = &requests.effects[..]
    else {
        panic!("{:?}", requests.effects);
    };
    let record = VolumeRecord::read(&on_claim[VOLUME_ANNOTATION]).unwrap();
    assert_eq!(
        (record.mark, record.volume_id.as_str()),
        (Mark::Intended, "volume-1")
    );
    let go = GoAhead::read(on_pod[START_ANNOTATION].as_bytes()).unwrap();
    assert_eq!((uid.as_str(), go.pod.as_str()), (UID, UID));
    assert!(matches!(go.how, How::New { .. }));
    assert_eq!((go.member, go.cluster), (None, None));
}

#[test]
fn nothing_is_started_that_is_not_remembered() {
    let mut parked = slot(&[at_the_gate(&report(Found::Empty, None))], None);
    assert!(effects(parked.clone(), &memory(Mark::Never), &start(V)).is_err());
    assert!(effects(parked.clone(), &memory(Mark::Intended), &start(V)).is_ok());
    // It would be written over what a later release has written on the claim.
    parked.claim.as_mut().unwrap().unreadable = Some("it is of format 2".to_owned());
    let refused = effects(parked, &memory(Mark::Intended), &start(V));
    assert!(refused.unwrap_err().contains("it is of format 2"));
}

fn crashed() -> serde_json::Value {
    let mut status = etcd_in(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    status["containerStatuses"][0]["lastState"] = json!({"terminated": {"exitCode": 2}});
    status
}

#[test]
fn a_crashing_pod_is_recreated() {
    let requests = effects(slot(&[crashed()], None), &memory(Mark::Started), &start(V)).unwrap();
    let [
        Effect::ConfirmClaim { name: claim, .. },
        Effect::DeleteUnchanged {
            kind, uid, version, ..
        },
    ] = &requests.effects[..]
    else {
        panic!("{requests:?}");
    };
    assert_eq!((*kind, uid.as_str(), version.as_str()), (Kind::Pod, UID, "7"));
    assert_eq!(claim, "c-0", "what the pod keeps from being deleted");
    assert_eq!(requests.news[0].reason, "PodReplaced");
    assert!(
        requests.news[0].message.contains("exit code 2"),
        "{}",
        requests.news[0].message
    );
}

#[test]
fn while_secrets_are_missing_a_pod_that_has_them_is_left_to_its_node() {
    let mut ground = Ground0::new();
    ground.cluster.tls = true;
    let slot = slot(&[crashed()], None);
    let requests = effects_on(&ground, slot, &memory(Mark::Started), &start(V));
    assert_eq!(requests, Ok(Requests::default()));
}

#[test]
fn a_start_does_not_take_away_the_pod_that_keeps_a_deleted_claim() {
    let crashing = || {
        slot(
            &[crashed()],
            Some(VolumeRecord::of(&memory(Mark::Started), Ordinal(0), "volume-1")),
        )
    };
    let deleted = |mut slot: SlotObjects| {
        slot.claim.as_mut().unwrap().deleting = true;
        slot
    };
    let requests = effects(crashing(), &memory(Mark::Started), &start(V)).unwrap();
    assert_eq!(requests.effects.len(), 2);
    let refused = effects(deleted(crashing()), &memory(Mark::Started), &start(V));
    assert!(refused.unwrap_err().contains("its data would go with the pod"));
    // Nothing is on it that was ever a member's.
    assert!(effects(deleted(crashing()), &memory(Mark::Never), &start(V)).is_ok());
}

#[test]
fn a_place_is_an_etcd_peer_made_for_what_is_asked() {
    let provide = Step::Provide {
        ordinal: Ordinal(0),
        generation: Generation(3),
        version: V,
        config: etcd::digest(&Ground0::new().context()),
    };
    let nothing = SlotObjects::default();
    let requests = effects(nothing, &Memory::default(), &provide).unwrap();
    let [Effect::Create(Object::Peer(made))] = &requests.effects[..] else {
        panic!("{:?}", requests.effects);
    };
    let start = made.spec.start.clone().unwrap();
    assert_eq!(start.generation, 3);
    assert_eq!((made.spec.version.as_str(), requests.news.len()), ("3.6.1", 1));
}

#[test]
fn a_stop_and_a_withdrawal_keep_the_claim_and_only_a_discard_deletes_it() {
    let stop = Step::Stop {
        ordinal: Ordinal(0),
        since: Time(0),
    };
    let withdraw = Step::Withdraw { ordinal: Ordinal(0) };
    for step in [stop, withdraw] {
        let requests = effects(slot(&[], None), &memory(Mark::Started), &step).unwrap();
        let claim = slot(&[], None).claim.unwrap();
        let seen = Effect::ConfirmClaim {
            name: "c-0".to_owned(),
            uid: claim.uid,
        };
        assert!(matches!(
            &requests.effects[..],
            [first, Effect::Delete { kind: Kind::Peer, .. }] if *first == seen
        ));
        // Nothing is on it that was ever a member's.
        let requests = effects(slot(&[], None), &memory(Mark::Never), &step).unwrap();
        assert!(matches!(&requests.effects[..], [Effect::Delete { .. }]));
    }
    let discard = Step::Discard {
        ordinal: Ordinal(0),
        storage: StorageId {
            uid: "seen".to_owned(),
            version: "7".to_owned(),
        },
    };
    let requests = effects(slot(&[], None), &memory(Mark::Never), &discard).unwrap();
    let [
        Effect::DeleteUnchanged {
            name, uid, version, ..
        },
    ] = &requests.effects[..]
    else {
        panic!("{:?}", requests.effects);
    };
    assert_eq!(
        (name.as_str(), uid.as_str(), version.as_str()),
        ("c-0", "seen", "7")
    );
    assert_eq!(requests.news[0].reason, "ClaimDeleted");
}

#[test]
fn nothing_is_started_or_made_where_there_is_something_else() {
    let newer = Version::new(3, 6, 2);
    let provide = Step::Provide {
        ordinal: Ordinal(0),
        generation: Generation(3),
        version: V,
        config: "config-0".to_owned(),
    };
    for step in [start(newer), provide] {
        let refused = effects(slot(&[], None), &memory(Mark::Started), &step);
        assert!(refused.unwrap_err().contains("made for something else"));
    }
}

#[test]
fn a_member_that_goes_back_is_made_of_the_manifest_that_served() {
    use quorate_core::memory::LastKnownGood;
    use quorate_core::model::Setup;
    let spec = json!({
        "replicas": 1, "version": "3.6.1", "options": {"snapshotCount": 777},
        "storage": {"volumeClaimTemplate": {
            "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}},
        }},
        "podTemplate": {"priorityClassName": "before"},
    });
    let good = LastKnownGood {
        setup: Setup {
            version: V,
            config: "as it was then".to_owned(),
        },
        manifest: Some(spec.to_string()),
        unproven: false,
    };
    let memory = Memory {
        good: Some(good),
        ..memory(Mark::Started)
    };
    let provide = |config: &str| Step::Provide {
        ordinal: Ordinal(0),
        generation: Generation(0),
        version: V,
        config: config.to_owned(),
    };
    let ground = Ground0::new();
    let fallback = fallback(&ground.context(), &memory, None).unwrap();
    let requests = effects(SlotObjects::default(), &memory, &provide(&fallback.config)).unwrap();
    let [Effect::Create(Object::Peer(made))] = &requests.effects[..] else {
        panic!("{:?}", requests.effects);
    };
    assert_eq!(made.spec.start.clone().unwrap().config, fallback.config);
    let template = made.spec.pod_template.clone().unwrap();
    assert_eq!(template.priority_class_name.as_deref(), Some("before"));
    let unknown = effects(SlotObjects::default(), &memory, &provide("another"));
    assert!(unknown.unwrap_err().contains("not known any more"));
    // And so is what the ReplicaSet makes of it.
    let mut objects = Objects::default();
    let only = SlotObjects {
        peer: Some(Peer {
            config: fallback.config.clone(),
            ..peer()
        }),
        ..SlotObjects::default()
    };
    objects.slots.insert(Ordinal(0), only);
    let whole = crate::cluster::upkeep::ClusterObjects::default();
    let context = BuildContext {
        fallback: Some(&fallback),
        ..ground.context()
    };
    let made = crate::cluster::upkeep::upkeep(&context, &memory, &objects, &whole, None);
    let set = made.effects.iter().find_map(|effect| match effect {
        Effect::Create(Object::Set(set)) => serde_json::to_string(set).ok(),
        _ => None,
    });
    let set = set.expect("a ReplicaSet");
    assert!(set.contains("--snapshot-count=777"), "{set}");
}

/// A cluster whose members are to have these resources.
fn with_resources(resources: serde_json::Value) -> Ground0 {
    let mut ground = Ground0::new();
    ground.cluster.pod.resources = Some(serde_json::from_value(resources).unwrap());
    ground
}

#[test]
fn a_resize_changes_the_pod_and_says_on_it_what_it_runs_with() {
    let ground = with_resources(json!({"limits": {"memory": "1Gi"}}));
    let (context, memory, mut objects) = (ground.context(), Memory::default(), Objects::default());
    let step = |config: String| Step::Resize {
        ordinal: Ordinal(0),
        config,
    };
    let asked = |objects: &Objects, config: String| {
        let executor = Executor {
            context: &context,
            memory: &memory,
            objects,
        };
        executor.effects(&step(config))
    };
    let wanted = etcd::digest(&context);
    assert!(asked(&objects, wanted.clone()).is_err(), "there is no pod");
    let running = slot(&[etcd_in(json!({"running": {}}))], None);
    objects.slots.insert(Ordinal(0), running);
    assert!(asked(&objects, "another".to_owned()).is_err());
    let requests = asked(&objects, wanted.clone()).unwrap();
    let [
        Effect::Resize {
            uid,
            resources,
            config,
            ..
        },
    ] = &requests.effects[..]
    else {
        panic!("{requests:?}");
    };
    assert_eq!((uid.as_str(), config), (UID, &wanted));
    let requested = "the API server requests it as well";
    assert_eq!(resources.requests, resources.limits, "{requested}");
    assert_eq!(requests.news[0].reason, "PodResized");
}

#[test]
fn resources_are_no_reason_for_a_restart_but_the_threads_they_allow_are() {
    let digest = |ground: &Ground0| etcd::settings_of(&etcd::digest(&ground.context())).to_owned();
    let of = |cpu: &str, memory: &str| {
        let limits = json!({"cpu": cpu, "memory": memory});
        digest(&with_resources(json!({"limits": limits})))
    };
    assert_eq!(of("1", "1Gi"), of("1500m", "2Gi"));
    assert_ne!(of("1", "1Gi"), of("2", "1Gi"), "another number of threads");
    assert_ne!(of("1", "1Gi"), digest(&Ground0::new()), "a number of threads");
    let memory = with_resources(json!({"limits": {"memory": "1Gi"}}));
    assert_eq!(digest(&memory), digest(&Ground0::new()));
    let whole = etcd::digest(&memory.context());
    assert_ne!(
        whole,
        etcd::digest(&Ground0::new().context()),
        "but another change"
    );
}
