use quorate_core::model::{ClusterId, Epoch, MemberId};
use quorate_pod::contract::{FORMAT, Found, How, Started};
use serde_json::{Value, json};

use super::*;

pub(crate) const UID: &str = "uid-1";

/// A report on generation 0.
pub(crate) fn report(volume: Found, started: Option<(&str, &str)>) -> Report {
    Report {
        format: FORMAT,
        volume_id: "volume-1".to_owned(),
        fresh_id: false,
        generation: Generation(0),
        volume,
        fired: false,
        blank: false,
        started: started.map(|(version, config)| Started {
            version: version.parse().unwrap(),
            config: config.to_owned(),
        }),
        replay_limit: None,
        asides: 0,
        aside_bytes: 0,
        belongs_to: None,
        newest: None,
        epoch: Epoch(0),
        run: None,
        last_index: None,
    }
}

pub(crate) fn data() -> Found {
    Found::Data {
        member: MemberId(0xa),
        cluster: ClusterId(0xc),
    }
}

/// A pod made for generation 0, etcd 3.6.1 and config-0, with this status.
pub(crate) fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": "c-0-abcde",
            "namespace": "ns",
            "uid": UID,
            "resourceVersion": "7",
            "labels": {
                "etcd.improbable.io/cluster-name": "c",
                "etcd.improbable.io/peer-name": "c-0",
                "etcd.improbable.io/role": "voter",
                "app.kubernetes.io/name": "etcd",
                "app.kubernetes.io/instance": "c",
                "app.kubernetes.io/managed-by": "quorate",
                "app.kubernetes.io/component": "member",
            },
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {
                "etcd.improbable.io/generation": "0",
                "etcd.improbable.io/version": "3.6.1",
                "etcd.improbable.io/config": "config-0",
            },
        },
        "status": status,
    }))
    .unwrap()
}

fn container(name: &str, state: Value) -> Value {
    json!({"name": name, "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0})
}

fn looked(message: &str) -> Value {
    container("look", json!({"terminated": {"exitCode": 0, "message": message}}))
}

/// The status of a pod that has looked, and is at the gate.
pub(crate) fn at_the_gate(report: &Report) -> Value {
    let gate = container("prepare", json!({"running": {}}));
    json!({"phase": "Pending", "initContainerStatuses": [looked(&report.to_message()), gate]})
}

/// The status of a pod whose etcd is in `state`.
pub(crate) fn etcd_in(state: Value) -> Value {
    let gate = container("prepare", json!({"terminated": {"exitCode": 0}}));
    let look = looked(&report(data(), None).to_message());
    json!({
        "phase": "Running",
        "podIP": "10.0.0.9",
        "initContainerStatuses": [look, gate],
        "containerStatuses": [container("etcd", state)],
    })
}

fn stage_of(status: Value) -> Stage {
    PodState::of(&pod(status)).stage
}

#[test]
fn on_its_way_it_says_what_keeps_it() {
    let coming = |status| match stage_of(status) {
        Stage::Starting(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(coming(json!({"phase": "Pending"})), "its pod is being made");
    let unscheduled =
        json!({"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"});
    let why = coming(json!({"phase": "Pending", "conditions": [unscheduled]}));
    assert!(why.contains("0/1 nodes are available"), "{why}");
    let image = container(
        "image",
        json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}}),
    );
    let why = coming(json!({"phase": "Pending", "initContainerStatuses": [image]}));
    assert_eq!(why, "ErrImagePull: not found");
}

#[test]
fn at_the_gate_it_is_parked_until_it_may_pass_or_only_restarts() {
    assert_eq!(
        stage_of(at_the_gate(&report(Found::Empty, None))),
        Stage::AwaitingGoAhead
    );
    assert_eq!(
        stage_of(at_the_gate(&report(data(), None))),
        Stage::AwaitingGoAhead
    );
    let same = report(data(), Some(("3.6.1", "config-0")));
    assert_eq!(stage_of(at_the_gate(&same)), Stage::Admitted, "a plain restart");
    let other = report(data(), Some(("3.6.0", "config-0")));
    assert_eq!(
        stage_of(at_the_gate(&other)),
        Stage::AwaitingGoAhead,
        "another version"
    );
    let empty = report(Found::Empty, Some(("3.6.1", "config-0")));
    assert_eq!(
        stage_of(at_the_gate(&empty)),
        Stage::AwaitingGoAhead,
        "its data is gone"
    );
}

#[test]
fn a_go_ahead_counts_for_its_own_pod_only() {
    let reported = |uid: &str| {
        let go = GoAhead {
            format: FORMAT,
            pod: uid.to_owned(),
            volume_id: "volume-1".to_owned(),
            generation: Generation(0),
            version: Version::new(3, 6, 1),
            config: "config-0".to_owned(),
            how: How::Resume,
            member: None,
            cluster: None,
            served: false,
            run: None,
            floor: KnownProgress::default(),
        };
        let mut pod = pod(at_the_gate(&report(Found::Empty, None)));
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(START_ANNOTATION.to_owned(), go.to_annotation());
        PodState::of(&pod).stage
    };
    assert_eq!(reported(UID), Stage::Admitted);
    assert_eq!(reported("uid-0"), Stage::AwaitingGoAhead);
}

#[test]
fn etcd_runs_crashes_or_is_about_to() {
    let running = stage_of(etcd_in(json!({"running": {"startedAt": "2026-01-01T00:00:10Z"}})));
    assert_eq!(
        running,
        Stage::Running {
            since: Time(1_767_225_610_000)
        }
    );
    let ended = json!({"terminated": {"exitCode": 1}});
    assert_eq!(
        stage_of(etcd_in(ended)),
        Stage::Admitted,
        "kubelet starts it again at once"
    );
    let mut status = etcd_in(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    status["containerStatuses"][0]["lastState"] =
        json!({"terminated": {"exitCode": 2, "message": "first\npanic: no"}});
    let Stage::Crashing(exit) = stage_of(status) else {
        panic!("not crashing");
    };
    assert_eq!((exit.asked, exit.how.as_str()), (false, "exit code 2: panic: no"));
    let pull = etcd_in(json!({"waiting": {"reason": "ImagePullBackOff", "message": "gone"}}));
    assert_eq!(
        stage_of(pull),
        Stage::Starting("ImagePullBackOff: gone".to_owned())
    );
}

#[test]
fn a_look_or_a_gate_that_fails_is_reported() {
    let failed = container(
        "look",
        json!({"terminated": {"exitCode": 1, "message": "read-only"}}),
    );
    let why = stage_of(json!({"phase": "Pending", "initContainerStatuses": [failed]}));
    assert!(
        matches!(&why, Stage::Refused(why) if why.contains("read-only")),
        "{why:?}"
    );
    let why = stage_of(json!({"phase": "Pending", "initContainerStatuses": [looked("gibberish")]}));
    assert!(matches!(&why, Stage::Refused(_)), "{why:?}");
    let mut gate = container("prepare", json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    gate["lastState"] = json!({"terminated": {"exitCode": 3, "message": "foreign data"}});
    let look = looked(&report(data(), None).to_message());
    let why = stage_of(json!({"phase": "Pending", "initContainerStatuses": [look, gate]}));
    assert!(
        matches!(&why, Stage::Refused(why) if why.contains("foreign data")),
        "{why:?}"
    );
    assert_eq!(stage_of(json!({"phase": "Failed"})), Stage::Finished);
}
