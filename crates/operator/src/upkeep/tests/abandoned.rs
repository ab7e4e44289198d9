//! Places that were made for members which are no longer wanted.

use quorate_core::memory::{Change, Slot};
use quorate_core::model::{ClusterId, Generation, MemberId, Time, Version};
use serde_json::json;

use super::super::*;
use crate::build::Images;
use crate::names::{CLAIM_FINALIZER, Names};
use crate::slot::{Claim, Owner, Peer};

/// The slot that a cluster of one had grown into, and is no longer to.
const SECOND: Ordinal = Ordinal(1);

fn place() -> SlotObjects {
    SlotObjects {
        peer: Some(Peer {
            uid: "peer".to_owned(),
            deleting: false,
            takes_claim: false,
            finalizers: Vec::new(),
            owner: Owner::Ours,
            version: Version::new(3, 6, 1),
            generation: Generation(0),
            config: "config".to_owned(),
        }),
        claim: Some(Claim {
            uid: "claim".to_owned(),
            deleting: false,
            record: Some(VolumeRecord::of(&Memory::default(), SECOND, "volume")),
            ..Claim::default()
        }),
        set: Some("set".to_owned()),
        set_fails: None,
        pods: Vec::new(),
    }
}

fn known() -> Memory {
    Memory {
        cluster: Some(ClusterId(1)),
        ..Memory::default()
    }
}

/// What is to be done about a slot of a cluster of one, besides Services.
fn effects(memory: &Memory, slot: SlotObjects) -> Vec<Effect> {
    let manifest = json!({
        "apiVersion": "etcd.improbable.io/v1alpha1",
        "kind": "EtcdCluster",
        "metadata": {"name": "c", "namespace": "n"},
        "spec": {
            "replicas": 1,
            "version": "3.6.1",
            "storage": {"volumeClaimTemplate": {"storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}},
        },
    });
    let resource = serde_json::from_value(manifest).unwrap();
    let (cluster, _) = quorate_api::crd::resolve(&resource).unwrap();
    let (names, owner, images) = (Names::of("n", "c"), OwnerReference::default(), Images::default());
    let plot = Plot {
        names: &names,
        cluster: &cluster,
        owner: &owner,
        images: &images,
        trusted: None,
    };
    let mut done = Done::default();
    member(&plot, memory, SECOND, &slot, &mut done);
    done.effects
}

fn deletes(effects: &[Effect], what: Kind) -> bool {
    let deleted = |e: &Effect| matches!(e, Effect::Delete { kind, .. } if *kind == what);
    effects.iter().any(deleted)
}

#[test]
fn a_place_that_is_no_longer_wanted_goes_with_its_unused_claim() {
    let first = effects(&known(), place());
    assert!(
        matches!(&first[..], [Effect::Finalizers { finalizers, .. }, Effect::Delete { kind: Kind::Peer, .. }]
            if finalizers == &[CLAIM_FINALIZER]),
        "{first:?}"
    );
    let mut going = place();
    going.peer.as_mut().unwrap().deleting = true;
    going.peer.as_mut().unwrap().takes_claim = true;
    assert!(deletes(&effects(&known(), going.clone()), Kind::Set));
    going.set = None;
    assert!(deletes(&effects(&known(), going), Kind::Claim));
    let alone = SlotObjects {
        peer: None,
        set: None,
        ..place()
    };
    assert!(deletes(&effects(&known(), alone), Kind::Claim));
    let used = SlotObjects {
        peer: None,
        ..place()
    };
    assert_eq!(effects(&known(), used), [], "its ReplicaSet may make a pod");
}

#[test]
fn a_claim_that_may_hold_anything_is_left_alone() {
    let with = |slot: Slot| Memory {
        slots: [(SECOND, slot)].into(),
        ..known()
    };
    let started = Slot {
        mark: Mark::Started,
        ..Slot::default()
    };
    let joined = Slot {
        member: Some(MemberId(7)),
        ..Slot::default()
    };
    let joining = Memory {
        change: Some(Change {
            kind: ChangeKind::AddLearner(Names::of("n", "c").peer_url(SECOND, false)),
            since: Time(0),
        }),
        ..known()
    };
    for memory in [with(started.clone()), with(joined), joining] {
        let done = effects(&memory, place());
        assert!(
            !deletes(&done, Kind::Peer) && !deletes(&done, Kind::Claim),
            "{done:?}"
        );
    }
    let recorded = VolumeRecord::of(&with(started), SECOND, "volume");
    for record in [None, Some(recorded)] {
        let mut foreign = place();
        foreign.claim.as_mut().unwrap().record = record;
        assert!(!deletes(&effects(&known(), foreign), Kind::Peer));
    }
}
