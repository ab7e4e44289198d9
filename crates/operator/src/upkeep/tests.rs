mod abandoned;

use quorate_pod::contract::Found;

use super::*;
use crate::execute::tests::{Ground0, peer, slot};
use crate::pod_state::tests::{at_the_gate, etcd_in, report};
use crate::slot::{Claim, Peer};

fn kept(slot: SlotObjects, ordinal: u32, memory: &Memory) -> Vec<String> {
    let (ground, mut objects) = (Ground0::new(), Objects::default());
    objects.slots.insert(Ordinal(ordinal), slot);
    let plot = ground.plot();
    let mut whole = Whole::default();
    for service in [service::headless(&plot), service::for_clients(&plot)] {
        let name = service.metadata.name.clone().unwrap();
        whole.services.insert(name, service);
    }
    let done = upkeep(&plot, memory, &objects, &whole, None);
    done.effects.iter().map(ToString::to_string).collect()
}

fn recorded(volume_id: &str) -> Option<VolumeRecord> {
    Some(VolumeRecord::of(&Memory::default(), Ordinal(0), volume_id))
}

#[test]
fn a_peer_gets_its_claim_and_its_replica_set() {
    let only = SlotObjects {
        peer: Some(peer()),
        ..SlotObjects::default()
    };
    let made = kept(only, 0, &Memory::default());
    assert_eq!(
        made,
        ["create PersistentVolumeClaim c-0", "create ReplicaSet c-0"]
    );
}

#[test]
fn the_services_are_made_and_at_rest_nothing_is() {
    let ground = Ground0::new();
    let done = upkeep(
        &ground.plot(),
        &Memory::default(),
        &Objects::default(),
        &Whole::default(),
        Some(1),
    );
    let made: Vec<String> = done.effects.iter().map(ToString::to_string).collect();
    assert_eq!(made, ["create Service c", "create Service c-client"]);
    assert_eq!(done.news.len(), 2);
    let rest = slot(
        &[etcd_in(serde_json::json!({"running": {}}))],
        recorded("volume-1"),
    );
    assert_eq!(kept(rest, 0, &Memory::default()), [""; 0]);
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
    // The claim was deleted and made again after a start was let through: this is not the volume it was meant for.
    let mut memory = Memory::default();
    memory.slots.entry(Ordinal(0)).or_default().mark = Mark::Intended;
    let another = Some(VolumeRecord::of(&memory, Ordinal(0), ""));
    assert_eq!(kept(slot(&[parked], another), 0, &memory), [""; 0]);
}

#[test]
fn a_claim_goes_after_its_pod_and_its_peer_last() {
    let ending = |set: bool, pods: bool, claim: Option<bool>| {
        let running = etcd_in(serde_json::json!({"running": {}}));
        let pods: &[_] = if pods { &[running] } else { &[] };
        let mut slot = slot(pods, None);
        slot.peer = Some(Peer {
            deleting: true,
            takes_claim: true,
            ..peer()
        });
        slot.set = slot.set.filter(|_| set);
        slot.claim = claim.map(|deleting| Claim {
            uid: "claim-1".to_owned(),
            deleting,
            record: None,
        });
        kept(slot, 0, &Memory::default())
    };
    assert_eq!(ending(true, true, Some(false)), ["delete Set c-0"]);
    assert_eq!(
        ending(false, true, Some(false)),
        [""; 0],
        "its pod may still use it"
    );
    assert_eq!(ending(false, false, Some(false)), ["delete Claim c-0"]);
    assert_eq!(ending(false, false, Some(true)), [""; 0]);
    assert_eq!(ending(false, false, None), ["set the finalizers of EtcdPeer c-0"]);
}

#[test]
fn a_place_that_was_never_needed_goes_with_its_claim() {
    let unused = slot(&[at_the_gate(&report(Found::Empty, None))], recorded("volume-1"));
    let gone = kept(unused.clone(), 5, &Memory::default());
    assert_eq!(gone, ["set the finalizers of EtcdPeer c-5", "delete Peer c-5"]);
    let mut started = unused;
    let record = started.claim.as_mut().and_then(|c| c.record.as_mut());
    record.unwrap().mark = Mark::Started;
    assert!(!kept(started, 5, &Memory::default()).contains(&"delete Peer c-5".to_owned()));
}
