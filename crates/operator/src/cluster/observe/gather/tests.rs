use quorate_core::Memory;
use quorate_core::model::{Ordinal, PeerUrl, Place, Time};
use serde_json::{Value, json};

use super::*;

const UID: &str = "cluster-2";

fn peer(owners: Value) -> Peer {
    let peer = json!({
        "apiVersion": "etcd.improbable.io/v1alpha1",
        "kind": "EtcdPeer",
        "metadata": {"name": "c-0", "uid": "p", "ownerReferences": owners, "finalizers": ["theirs", CLAIM_FINALIZER]},
        "spec": {"clusterName": "c", "version": "3.6.1"},
    });
    let seen = MemberObjects {
        peers: vec![Arc::new(serde_json::from_value(peer).unwrap())],
        ..MemberObjects::default()
    };
    let objects = seen.objects(&Names::of("n", "c"), UID);
    objects.slot(Ordinal(0)).peer.unwrap()
}

fn owned_by(kind: &str, name: &str, uid: &str, controller: bool) -> Value {
    json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": controller}])
}

#[test]
fn whose_a_peer_is_decides_what_becomes_of_it() {
    let ours = peer(owned_by("EtcdCluster", "c", UID, true));
    assert_eq!((&ours.owner, ours.deleting), (&Owner::Ours, false));
    assert_eq!(ours.obsolete_finalizer, Some(vec!["theirs".to_owned()]));
    let former = peer(owned_by("EtcdCluster", "c", "cluster-1", true));
    assert_eq!((former.owner, former.deleting), (Owner::Former, true));
    let orphan = peer(json!([]));
    assert_eq!((orphan.owner, orphan.deleting), (Owner::Nobody(vec![]), false));
    let shared = peer(owned_by("ConfigMap", "m", "u", false));
    assert!(matches!(&shared.owner, Owner::Nobody(others) if others.len() == 1));
    let other = peer(owned_by("Deployment", "d", "u", true));
    assert!(other.deleting, "it is none of ours to use");
    let slot = crate::cluster::observe::slot::SlotObjects {
        peer: Some(other),
        ..Default::default()
    };
    let memory = Memory::default();
    let view = slot.view(
        &Names::of("n", "c"),
        Ordinal(0),
        PeerUrl(String::new()),
        &memory,
        Time(1),
    );
    let Place::Preparing { why, .. } = view.place else {
        panic!("{view:?}");
    };
    assert!(why.contains("c-0 is controlled by Deployment d"), "{why}");
}

#[test]
fn a_record_that_cannot_be_read_is_not_taken_for_none() {
    let read = |annotations: Value| {
        let claim = json!({"metadata": {"name": "c-0", "uid": "v", "annotations": annotations}});
        let seen = MemberObjects {
            claims: vec![Arc::new(serde_json::from_value(claim).unwrap())],
            ..MemberObjects::default()
        };
        let objects = seen.objects(&Names::of("n", "c"), UID);
        let claim = objects.slot(Ordinal(0)).claim.unwrap();
        (claim.record, claim.unreadable)
    };
    assert_eq!(read(json!({})), (None, None));
    let record = VolumeRecord::of(&Memory::default(), Ordinal(0), "v");
    assert_eq!(
        read(json!({VOLUME_ANNOTATION: record.text()})),
        (Some(record), None)
    );
    let (record, unreadable) = read(json!({VOLUME_ANNOTATION: r#"{"format":2}"#}));
    assert_eq!(record, None);
    assert!(unreadable.unwrap().contains("it is of format 2"));
    assert!(read(json!({VOLUME_ANNOTATION: "gibberish"})).1.is_some());
}

#[test]
fn what_keeps_a_set_or_a_claim_is_read() {
    let set = json!({
        "metadata": {"name": "c-0", "uid": "s"},
        "status": {"replicas": 0, "conditions": [
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: small"},
        ]},
    });
    let claim = |phase: &str| {
        json!({
            "metadata": {"name": "c-0", "uid": "v"},
            "spec": {"storageClassName": "slow", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": phase},
        })
    };
    let read = |phase| {
        let seen = MemberObjects {
            sets: vec![Arc::new(serde_json::from_value(set.clone()).unwrap())],
            claims: vec![Arc::new(serde_json::from_value(claim(phase)).unwrap())],
            ..MemberObjects::default()
        };
        seen.objects(&Names::of("n", "c"), UID).slot(Ordinal(0))
    };
    let slot = read("Pending");
    assert_eq!(slot.set_fails.as_deref(), Some("exceeded quota: small"));
    let claim = slot.claim.unwrap();
    assert_eq!(claim.asks_for.as_deref(), Some("1Gi"));
    assert_eq!(
        claim.unbound.as_deref(),
        Some("its claim c-0 of StorageClass \"slow\" is not bound yet")
    );
    assert_eq!(read("Bound").claim.unwrap().unbound, None);
}
