use quorate_core::memory::Slot;
use quorate_core::model::{ClusterId, Generation, MemberId, Time};
use serde_json::json;

use super::*;
use crate::execute::tests::{peer, slot};
use crate::pod_state::tests::etcd_in;
use crate::record::VolumeRecord;

const HERE: Ordinal = Ordinal(0);

fn names() -> Names {
    Names::of("n", "c")
}

/// A cluster that runs, and what it remembers of the slot.
fn knows(slot: Slot) -> Memory {
    Memory {
        cluster: Some(ClusterId(1)),
        slots: [(HERE, slot)].into(),
        ..Memory::default()
    }
}

fn never(generation: u32) -> Slot {
    Slot {
        generation: Generation(generation),
        ..Slot::default()
    }
}

fn member(generation: u32) -> Slot {
    Slot {
        mark: Mark::Started,
        member: Some(MemberId(7)),
        ..never(generation)
    }
}

fn record(slot: Slot) -> Option<VolumeRecord> {
    Some(VolumeRecord::of(&knows(slot), HERE, "volume"))
}

/// An EtcdPeer that is being deleted and waits for its claim, once its pods are gone.
fn going(record: Option<VolumeRecord>) -> SlotObjects {
    let mut slot = slot(&[], record);
    slot.set = None;
    slot.peer = Some(Peer {
        deleting: true,
        takes_claim: true,
        finalizers: vec!["theirs".to_owned()],
        ..peer()
    });
    slot
}

fn ends(memory: Option<&Memory>, slot: SlotObjects) -> Vec<String> {
    let objects = Objects {
        slots: [(HERE, slot)].into(),
    };
    let done = endings(&names(), memory, &objects);
    done.effects.iter().map(ToString::to_string).collect()
}

const CLAIM_GOES: [&str; 1] = ["delete Claim c-0"];
const CLAIM_STAYS: [&str; 1] = ["set the finalizers of EtcdPeer c-0"];

#[test]
fn a_claim_goes_after_its_pod_and_its_peer_last() {
    let memory = knows(never(0));
    let mut slot = going(record(never(0)));
    let running = etcd_in(json!({"running": {}}));
    slot.add_pod(&crate::pod_state::tests::pod(running));
    slot.set = Some("set-1".to_owned());
    assert_eq!(ends(Some(&memory), slot.clone()), ["delete Set c-0"]);
    slot.set = None;
    assert_eq!(
        ends(Some(&memory), slot.clone()),
        [""; 0],
        "its pod may still use it"
    );
    slot.pods.clear();
    assert_eq!(ends(Some(&memory), slot.clone()), CLAIM_GOES);
    slot.claim.as_mut().unwrap().deleting = true;
    assert_eq!(ends(Some(&memory), slot.clone()), [""; 0]);
    slot.claim = None;
    assert_eq!(ends(Some(&memory), slot), CLAIM_STAYS);
}

#[test]
fn the_claim_of_a_member_stays_whatever_its_peer_carries() {
    let joining = Memory {
        change: Some(quorate_core::memory::Change {
            kind: ChangeKind::AddLearner(names().peer_url(HERE, true)),
            since: Time(0),
        }),
        ..knows(never(0))
    };
    let table = [
        // What is remembered, what is on record, whether the claim may go.
        (knows(member(0)), record(member(0)), false),
        (knows(member(0)), record(never(0)), false),
        (knows(never(0)), record(member(0)), false),
        (knows(never(0)), record(member(3)), false),
        (knows(never(0)), None, false),
        (joining, record(never(0)), false),
        (knows(never(1)), record(member(0)), true),
        (knows(never(1)), None, true),
        (knows(never(0)), record(never(0)), true),
    ];
    for (memory, record, goes) in table {
        let expected = if goes { CLAIM_GOES } else { CLAIM_STAYS };
        let seen = ends(Some(&memory), going(record.clone()));
        assert_eq!(seen, expected, "{memory:?} {record:?}");
    }
}

#[test]
fn without_its_cluster_a_claim_speaks_for_itself() {
    assert_eq!(ends(None, going(record(never(1)))), CLAIM_GOES);
    assert_eq!(ends(None, going(record(member(1)))), CLAIM_STAYS);
    assert_eq!(ends(None, going(None)), CLAIM_STAYS);
    let mut at_rest = going(record(never(1)));
    at_rest.peer.as_mut().unwrap().deleting = false;
    assert_eq!(ends(None, at_rest), [""; 0], "nobody asked for it to go");
}

#[test]
fn who_stays_after_all_does_not_take_its_claim_along() {
    let mut slot = going(record(never(0)));
    slot.peer.as_mut().unwrap().deleting = false;
    let (idle, joined) = (knows(never(0)), knows(member(0)));
    assert_eq!(stay(&names(), &idle, HERE, (false, &slot)), None, "it is to go");
    for (memory, wanted) in [(&idle, true), (&joined, false), (&joined, true)] {
        let effect = stay(&names(), memory, HERE, (wanted, &slot));
        let Some(Effect::Finalizers { finalizers, .. }) = effect else {
            panic!("{effect:?}");
        };
        assert_eq!(finalizers, ["theirs"]);
    }
    slot.peer.as_mut().unwrap().takes_claim = false;
    assert_eq!(stay(&names(), &joined, HERE, (true, &slot)), None);
}
