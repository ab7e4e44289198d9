use quorate_core::memory::{Bootstrap, Slot};
use quorate_core::model::{ClusterId, MemberId, Progress, Token};
use quorate_pod::contract::{Found, IDENTITY_GONE};
use serde_json::{Value, json};

use super::*;
use crate::cluster::observe::pod_state::tests::{at_the_gate, data, etcd_in, pod, report};

const NOW: Time = Time(1_767_225_700_000);

fn names() -> Names {
    Names::of("ns", "c")
}

fn peer() -> Peer {
    Peer {
        uid: "peer-1".to_owned(),
        resource_version: "7".to_owned(),
        deleting: false,
        obsolete_finalizer: None,
        owner: Owner::Ours,
        version: Version::new(3, 6, 1),
        generation: Generation(0),
        config: "config-0".to_owned(),
    }
}

fn record(volume_id: &str) -> VolumeRecord {
    VolumeRecord::of(&Memory::default(), Ordinal(0), volume_id)
}

/// A slot with an EtcdPeer, a claim whose volume is on record, and pods in these states.
fn slot(pods: &[Value]) -> SlotObjects {
    let mut slot = SlotObjects {
        peer: Some(peer()),
        claim: Some(Claim {
            uid: "claim-1".to_owned(),
            deleting: false,
            record: Some(record("volume-1")),
            ..Claim::default()
        }),
        set: Some("set-1".to_owned()),
        set_role: None,
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

fn view(slot: &SlotObjects, memory: &Memory) -> SlotView {
    slot.view(
        &names(),
        Ordinal(0),
        PeerUrl("http://c-0".to_owned()),
        memory,
        NOW,
    )
}

fn known() -> Memory {
    let slot = Slot {
        mark: Mark::Started,
        member: Some(MemberId(0xa)),
        ..Slot::default()
    };
    Memory {
        cluster: Some(ClusterId(0xc)),
        slots: [(Ordinal(0), slot)].into(),
        ..Memory::default()
    }
}

#[test]
fn nothing_is_known_where_nothing_has_looked() {
    let memory = Memory::default();
    let absent = view(&SlotObjects::default(), &memory);
    assert_eq!((absent.place, absent.volume), (Place::Absent, Volume::Unknown));
    for status in [json!({"phase": "Pending"}), json!({})] {
        let coming = view(&slot(&[status]), &memory);
        assert!(matches!(coming.place, Place::Preparing { .. }));
        assert_eq!(coming.volume, Volume::Unknown);
    }
}

#[test]
fn a_parked_pod_shows_its_volume_once_that_is_on_record() {
    let memory = Memory::default();
    let mut slot = slot(&[at_the_gate(&report(Found::Empty, None))]);
    let seen = view(&slot, &memory);
    assert_eq!((&seen.place, &seen.volume), (&Place::Ready, &Volume::Empty));
    assert_eq!(seen.first_start, FirstStart::NotRun);
    slot.claim.as_mut().unwrap().record = Some(record(""));
    assert!(matches!(view(&slot, &memory).place, Place::Preparing { .. }));
    slot.claim.as_mut().unwrap().record = Some(record("another"));
    let wiped = view(&slot, &memory);
    assert_eq!(
        (wiped.place, wiped.first_start),
        (Place::Ready, FirstStart::Unknown)
    );
    let mut memory = memory;
    memory.slots.entry(Ordinal(0)).or_default().mark = Mark::Intended;
    slot.claim.as_mut().unwrap().record = Some(VolumeRecord::of(&memory, Ordinal(0), ""));
    let another = view(&slot, &memory);
    assert_eq!(
        (another.place, another.first_start),
        (Place::Ready, FirstStart::Unknown)
    );
}

#[test]
fn a_pod_that_runs_is_running_for_what_it_was_made() {
    let slot = slot(&[etcd_in(json!({"running": {"startedAt": "2026-01-01T00:00:10Z"}}))]);
    let seen = view(&slot, &known());
    let Process::Running {
        since,
        version,
        config,
        generation,
    } = seen.process
    else {
        panic!("{seen:?}");
    };
    assert_eq!((since, version), (Time(1_767_225_610_000), Version::new(3, 6, 1)));
    assert_eq!((config.as_str(), generation), ("config-0", Generation(0)));
    assert_eq!(
        seen.volume,
        Volume::Unknown,
        "what was seen before it ran is out of date"
    );
    assert_eq!(slot.address(), Some("10.0.0.9"));
}

#[test]
fn a_pod_whose_peer_is_gone_or_that_is_being_deleted_is_stopping() {
    let mut gone = slot(&[etcd_in(json!({"running": {}}))]);
    gone.peer = None;
    assert_eq!(view(&gone, &known()).process, Process::Stopping);
    gone.peer = Some(Peer {
        deleting: true,
        ..peer()
    });
    assert_eq!(view(&gone, &known()).process, Process::Stopping);
    let mut reported = slot(&[etcd_in(json!({"running": {}}))]);
    reported.pods[0].terminating = true;
    assert_eq!(view(&reported, &known()).process, Process::Stopping);
    reported.pods.clear();
    reported.peer = None;
    reported.set = None;
    assert_eq!(view(&reported, &known()).place, Place::Absent);
}

#[test]
fn what_a_lost_node_left_does_not_hide_the_pod_that_runs() {
    let running = etcd_in(json!({"running": {"startedAt": "2026-01-01T00:00:10Z"}}));
    let mut slot = slot(&[running.clone(), running]);
    slot.pods[0].terminating = true;
    assert!(matches!(view(&slot, &known()).process, Process::Running { .. }));
    slot.pods[1].stage = Stage::Admitted;
    assert_eq!(
        view(&slot, &known()).process,
        Process::Stopping,
        "it may still wait for the volume"
    );
    slot.pods[1].stage = Stage::Running { since: NOW };
    slot.peer = None;
    assert_eq!(view(&slot, &known()).process, Process::Stopping);
}

#[test]
fn a_pod_that_its_dead_node_does_not_end_holds_up_nobody_and_is_named() {
    let running = etcd_in(json!({"running": {"startedAt": "2026-01-01T00:00:10Z"}}));
    let mut slot = slot(&[running]);
    let dead = &mut slot.pods[0];
    (dead.terminating, dead.node) = (true, Some("node-2".to_owned()));
    dead.gone_by = Some(Time(NOW.0 - 60_000));
    let stopping = |slot: &SlotObjects| {
        let view = view(slot, &known());
        let why = match view.place {
            Place::Preparing { why } => why,
            other => format!("{other:?}"),
        };
        (view.process == Process::Stopping).then_some(why)
    };
    let going = "pod c-0-abcde on node node-2 is being ended";
    assert_eq!(stopping(&slot).as_deref(), Some(going));
    slot.pods[0].gone_by = Some(Time(NOW.0 - 60_001));
    let lingers = stopping(&slot).unwrap();
    assert!(
        lingers.contains("pod c-0-abcde on node node-2 should have been gone"),
        "{lingers}"
    );
    // Another has got hold of the volume: it is the one that counts.
    let parked = at_the_gate(&report(data(), None));
    slot.add_pod(&pod(parked));
    (slot.pods[1].created, slot.pods[1].name) = (NOW, "c-0-fghij".to_owned());
    assert_eq!(stopping(&slot), None);
    slot.pods[1].stage = Stage::Starting("its pod cannot be scheduled".to_owned());
    assert!(stopping(&slot).is_some(), "the volume may still be there");
    // Where there is to be none, it is not waited for.
    slot.pods.truncate(1);
    (slot.peer, slot.set) = (None, None);
    assert_eq!(view(&slot, &known()).place, Place::Absent);
}

#[test]
fn it_is_said_why_there_is_no_pod() {
    let why = |slot: &SlotObjects| match view(slot, &known()).place {
        Place::Preparing { why, .. } => why,
        other => panic!("{other:?}"),
    };
    let mut none = slot(&[]);
    none.set_fails = Some("exceeded quota: small".to_owned());
    assert_eq!(why(&none), "its pod cannot be made: exceeded quota: small");
    let unscheduled = json!({"type": "PodScheduled", "status": "False", "message": "unbound claims"});
    let mut pending = slot(&[json!({"phase": "Pending", "conditions": [unscheduled]})]);
    assert_eq!(why(&pending), "its pod cannot be scheduled: unbound claims");
    pending.claim.as_mut().unwrap().unbound = Some("its claim c-0 is not bound yet".to_owned());
    assert_eq!(
        why(&pending),
        "its claim c-0 is not bound yet; its pod cannot be scheduled: unbound claims"
    );
    let mut coming = slot(&[json!({"phase": "Pending"})]);
    coming.claim = pending.claim.clone();
    assert_eq!(why(&coming), "its pod is being made");
}

#[test]
fn what_was_made_for_something_else_is_no_place() {
    let parked = at_the_gate(&report(data(), None));
    let mut other = slot(&[parked]);
    other.peer.as_mut().unwrap().config = "config-1".to_owned();
    let made_for = view(&other, &known())
        .made_for
        .expect("an EtcdPeer is made for something");
    assert_eq!(
        (made_for.version, made_for.config.as_str()),
        (peer().version, "config-1")
    );
    other.peer = Some(Peer {
        generation: Generation(1),
        ..peer()
    });
    assert_eq!(view(&other, &known()).place, Place::Unfit);
}

#[test]
fn a_crashing_member_counts_as_stopped_on_its_own_data() {
    let mut status = etcd_in(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    status["containerStatuses"][0]["lastState"] = json!({"terminated": {"exitCode": 2}});
    let crashed = slot(&[status]);
    let seen = view(&crashed, &known());
    assert!(matches!(seen.process, Process::Stopped { last: Some(exit) } if !exit.asked));
    let (member, cluster) = (MemberId(0xa), ClusterId(0xc));
    assert_eq!(seen.volume, Volume::Data { member, cluster });
    let unknown = view(&crashed, &Memory::default());
    assert_eq!(
        (unknown.volume, unknown.place),
        (Volume::Data { member, cluster }, Place::Absent),
        "as it was before etcd ran on it"
    );
}

#[test]
fn a_refused_pod_is_recreated_after_a_while() {
    let look = json!({"name": "look", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1, "message": "read-only"}}});
    let mut refused = slot(&[json!({"phase": "Pending", "initContainerStatuses": [look]})]);
    refused.pods[0].created = Time(10_000_000);
    let at = |now| {
        refused
            .view(&names(), Ordinal(0), PeerUrl(String::new()), &known(), now)
            .place
    };
    let created = refused.pods[0].created.0;
    assert!(matches!(at(Time(created + 1)), Place::Preparing { why, .. } if why.contains("read-only")));
    assert_eq!(at(Time(created + 61_000)), Place::Absent);
    // The operator's clock is behind that of the API server: a little, or by an hour.
    assert!(matches!(at(Time(created - 1_000)), Place::Preparing { .. }));
    assert_eq!(at(Time(created - 3_600_000)), Place::Absent);
}

#[test]
fn a_member_that_lacks_memory_or_room_is_not_taken_for_broken() {
    let crash = |reason: &str, message: &str| {
        let mut status = etcd_in(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        status["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"reason": reason, "exitCode": 137, "message": message}});
        view(&slot(&[status]), &known()).cannot_start
    };
    assert_eq!(crash("Error", ""), None);
    assert!(crash("OOMKilled", "").is_some_and(|why| why.contains("limits.memory")));
    let full =
        r#"{"level":"fatal","msg":"failed to create WAL","error":"write 0.tmp: no space left on device"}"#;
    assert!(crash("Error", full).is_some_and(|why| why.contains("spec.storage")));
}

#[test]
fn what_lies_aside_is_counted_and_a_gate_that_finds_no_room_for_more_says_so() {
    let mut status = at_the_gate(&Report {
        asides: 4,
        aside_bytes: 8192,
        ..report(data(), Some(("3.6.1", "config-0")))
    });
    let of = |status: &Value| slot(std::slice::from_ref(status));
    assert_eq!(of(&status).asides(), Some((4, 8192)));
    assert_eq!(view(&of(&status), &known()).no_room_aside, None);
    let why = format!("refused: 4 {NO_ROOM_ASIDE} /var/lib/etcd/aside");
    status["initContainerStatuses"][1]["state"] = json!({"terminated": {"exitCode": 3, "message": why}});
    let reported = view(&of(&status), &known()).no_room_aside;
    assert!(reported.is_some_and(|reported| reported.contains("/var/lib/etcd/aside")));
    assert_eq!(slot(&[]).asides(), None);
}

#[test]
fn a_volume_of_another_member_is_reported_by_its_name_and_neither_passes_nor_is_looked_at_again() {
    let belongs_to = |name: &str| Some(format!("ns/{name}").parse().unwrap());
    let of = |name| {
        at_the_gate(&Report {
            belongs_to: belongs_to(name),
            ..report(data(), Some(("3.6.1", "config-0")))
        })
    };
    let own = view(&slot(&[of("c/c-0")]), &known());
    assert!(
        matches!(own.process, Process::Running { .. }),
        "it passes alone: {own:?}"
    );
    for (name, memory) in [("c/c-1", known()), ("e/e-0", Memory::default())] {
        let mut objects = slot(&[of(name)]);
        objects.owner_exists = Some(false);
        let seen = view(&objects, &memory);
        let foreign = Volume::Foreign {
            belongs_to: format!("ns/{name}"),
            slot: (name == "c/c-1").then_some(Ordinal(1)),
            owner_exists: Some(false),
        };
        assert_eq!(seen.volume, foreign);
        assert_eq!(seen.process, Process::Stopped { last: None });
        assert_eq!(seen.place, Place::Ready);
    }
}

#[test]
fn a_volume_that_is_wiped_under_a_refused_pod_is_looked_at_again() {
    let mut status = at_the_gate(&Report {
        belongs_to: Some("ns/c/c-1".parse().unwrap()),
        ..report(data(), Some(("3.6.1", "config-0")))
    });
    let refuses = |status: &mut Value, why: &str| {
        status["initContainerStatuses"][1]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        status["initContainerStatuses"][1]["lastState"] =
            json!({"terminated": {"exitCode": 3, "message": why}});
    };
    refuses(&mut status, "refused: the volume belongs to the member ns/c/c-1");
    let foreign = view(&slot(std::slice::from_ref(&status)), &known());
    assert!(matches!(foreign.volume, Volume::Foreign { .. }), "{foreign:?}");
    refuses(&mut status, &format!("refused: {IDENTITY_GONE}, so it was wiped"));
    let mut wiped = slot(&[status]);
    wiped.pods[0].created = Time(NOW.0 - 30_000);
    let seen = view(&wiped, &known());
    assert_eq!((seen.volume, seen.marks), (Volume::Unknown, None));
    assert!(matches!(seen.place, Place::Preparing { .. }), "{:?}", seen.place);
    wiped.pods[0].created = Time(NOW.0 - 61_000);
    assert_eq!(view(&wiped, &known()).place, Place::Absent);
}

#[test]
fn a_volume_that_has_gone_on_is_not_called_empty_where_its_claim_lost_the_record() {
    let gone_on = |belongs_to: Option<&str>| {
        let found = Report {
            newest: Some(Generation(2)),
            belongs_to: belongs_to.map(|name| name.parse().unwrap()),
            ..report(Found::Empty, None)
        };
        let mut slot = slot(&[at_the_gate(&found)]);
        slot.claim.as_mut().unwrap().record = None;
        slot
    };
    let recalled = || {
        let mut memory = Memory {
            bootstrap: Some(Bootstrap {
                token: Token("token".to_owned()),
                members: BTreeMap::new(),
            }),
            ..Memory::default()
        };
        memory.slots.entry(Ordinal(0)).or_default().mark = Mark::Started;
        memory
    };
    // The volume says whose it is: its member goes on from what it has.
    let own = gone_on(Some("ns/c/c-0"));
    assert_eq!(
        own.own_generation(&names(), Ordinal(0), false),
        Some(Generation(2))
    );
    let mut objects = crate::cluster::observe::Objects::default();
    objects.slots.insert(Ordinal(0), own.clone());
    let memory = crate::cluster::pass::with_own_generations(recalled(), &names(), &objects);
    assert_eq!(memory.slot(Ordinal(0)).generation, Generation(2));
    assert_eq!(
        view(&own, &memory).place,
        Place::Unfit,
        "a pod is made for that one"
    );
    // Storage kept it, and it is bound again where nothing is remembered of its member: to a claim that was just made.
    let mut unseen = record("");
    unseen.mark = Mark::Never;
    let slot = objects.slots.get_mut(&Ordinal(0)).unwrap();
    slot.claim.as_mut().unwrap().record = Some(unseen);
    let retained = slot.clone();
    let mut memory = recalled();
    memory.slots.clear();
    let grown = crate::cluster::pass::with_own_generations(memory, &names(), &objects);
    assert_eq!(grown.slot(Ordinal(0)).generation, Generation(2));
    assert_eq!(grown.slot(Ordinal(0)).mark, Mark::Never);
    // Where nothing is remembered at all it is a former cluster's: no pod is made for it, and people decide.
    let nothing = crate::cluster::pass::with_own_generations(Memory::default(), &names(), &objects);
    assert_eq!(nothing, Memory::default());
    let seen = view(&retained, &nothing);
    assert_eq!(seen.place, Place::Ready);
    assert!(matches!(seen.volume, Volume::Damaged { .. }), "{seen:?}");
    // It does not say that: nothing is concluded, and the gate's words are reported.
    let unknown = gone_on(None);
    assert_eq!(unknown.own_generation(&names(), Ordinal(0), false), None);
    let seen = view(&unknown, &recalled());
    assert_eq!(seen.volume, Volume::Unknown);
    let Place::Preparing { why } = seen.place else {
        panic!("{:?}", seen.place);
    };
    assert!(
        why.contains("is for g0, and the volume has gone on to g2"),
        "{why}"
    );
    let swapped = gone_on(Some("ns/c/c-1"));
    assert_eq!(swapped.own_generation(&names(), Ordinal(0), true), None);
    let other = view(&swapped, &recalled());
    assert!(matches!(other.volume, Volume::Foreign { .. }), "{other:?}");
    // A record on the claim says which generation is meant.
    let mut recorded = unknown;
    recorded.claim.as_mut().unwrap().record = Some(record("volume-1"));
    assert_eq!(recorded.own_generation(&names(), Ordinal(0), true), None);
    assert_eq!(view(&recorded, &recalled()).volume, Volume::Empty);
}

#[test]
fn a_volume_that_was_rolled_back_is_shown_as_it_is_and_no_other_pod_is_made_for_it() {
    let found = Report {
        run: Some(1),
        last_index: Some(70),
        ..report(data(), Some(("3.6.1", "config-0")))
    };
    let at_gate = |floor: &str| {
        let mut slot = slot(&[]);
        let mut pod = pod(at_the_gate(&found));
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert("etcd.improbable.io/reached".to_owned(), floor.to_owned());
        slot.add_pod(&pod);
        slot
    };
    let memory = |run, index| {
        let mut memory = known();
        memory.slots.get_mut(&Ordinal(0)).unwrap().reached = Progress { run, index };
        memory
    };
    let passes = view(&at_gate(r#"{"run":1,"index":70}"#), &memory(1, 70));
    assert!(matches!(passes.process, Process::Running { .. }), "{passes:?}");
    for (floor, run, index) in [
        (r#"{"run":2,"index":0}"#, 2, 0),
        (r#"{"run":1,"index":71}"#, 1, 71),
    ] {
        let (slot, memory) = (at_gate(floor), memory(run, index));
        let seen = view(&slot, &memory);
        assert_eq!(
            (&seen.process, &seen.place),
            (&Process::Stopped { last: None }, &Place::Ready)
        );
        let marks = seen.marks.unwrap();
        assert_eq!((marks.run, marks.last_index), (Some(1), Some(70)));
        let fault = memory.fault(Ordinal(0), marks);
        assert!(matches!(fault, Some(Volume::RolledBack { .. })), "{fault:?}");
    }
    // The gate says which start it has written, and the log has grown since the look.
    let mut running = etcd_in(json!({"running": {"startedAt": "2026-01-01T00:00:10Z"}}));
    running["initContainerStatuses"][1]["state"]["terminated"]["message"] = json!(r#"{"run":9}"#);
    let marks = view(&slot(&[running]), &known()).marks.unwrap();
    assert_eq!((marks.run, marks.last_index), (Some(9), None));
}

#[test]
fn a_member_that_is_waited_for_has_a_pod_and_a_node() {
    let running = etcd_in(json!({"running": {"startedAt": "2026-01-01T00:00:10Z"}}));
    let mut slot = slot(&[running]);
    let located = |slot: &SlotObjects| view(slot, &known()).located;
    assert_eq!(
        located(&slot).as_deref(),
        Some("pod c-0-abcde"),
        "no node was found for it yet"
    );
    slot.pods[0].node = Some("node2".to_owned());
    assert_eq!(located(&slot).as_deref(), Some("pod c-0-abcde on node node2"));
    slot.pods[0].terminating = true;
    assert_eq!(located(&slot), None, "it is reported as one that goes");
    assert_eq!(located(&SlotObjects::default()), None);
}
