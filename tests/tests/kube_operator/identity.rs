//! A volume belongs to one member: copied under another name, swapped with another's, put back to an earlier state, or about to
//! be deleted.

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{
    KubeCluster, condition, is_ready, manifest, member_id, members, peer_selector, text,
};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;
use quorate_tests::kube::{said, stays, volume};

/// With the ids of the original it would enter its cluster, and mix what both have.
#[test]
fn copies_of_volumes_under_another_name_start_nothing_also_when_the_original_is_gone() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("copied");
    let original = namespace.create("e", &manifest("e", 3, &version));
    let before = original.await_ready(3, &version);
    original.put("key", "value");
    let traffic = Traffic::start(&original);
    let copy = KubeCluster::of(&namespace, "f");
    let starts_nothing = || (0..3).all(|n| !copy.etcd_runs(&format!("f-{n}")));
    traffic.during("copied", || {
        for n in 0..3 {
            namespace.apply(&claim(&format!("f-{n}")));
        }
        for n in 0..3 {
            let name = format!("f-{n}");
            namespace.wait_for(&format!("the claim {name} bound"), || {
                let claim = namespace.json(&["persistentvolumeclaim", &name])?;
                (claim["status"]["phase"] == "Bound").then_some(())
            });
            volume::copy_in_use(&original, &format!("e-{n}"), &name);
        }
        namespace.apply(&manifest("f", 3, &version));
        let message = copy.await_condition("Blocked", "True", "ForeignData");
        let owner = format!("{}/e/e-", namespace.name);
        assert!(
            message.contains(&owner) && message.contains("copied or moved here"),
            "{message}"
        );
        stays("without an etcd on the copies", starts_nothing);
        let written = copy.etcdctl(&["put", "crossed", "yes"]);
        assert!(!written.status.success(), "{}", said(&written));
    });
    traffic.verdict();
    let after = original.await_ready(3, &version);
    assert_eq!(members(&after), members(&before));
    assert_eq!(
        (original.value("key"), original.value("crossed")),
        ("value".into(), String::new())
    );
    // A new name for data that is there: reported as what it is, and still started by nobody.
    namespace.must(&["delete", "etcdcluster", "e", "--wait=true"]);
    copy.wait_for("the former name reported as one that is gone", |c| {
        let blocked = condition(c, "Blocked").map(|blocked| text(&blocked["message"]));
        blocked.is_some_and(|message| message.contains("/e/e-") && message.contains("renamed or deleted"))
    });
    stays("without an etcd on the copies", starts_nothing);
}

fn claim(name: &str) -> String {
    format!(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {name}
  labels: {{app.kubernetes.io/name: etcd, etcd.improbable.io/cluster-name: f, etcd.improbable.io/peer-name: {name}}}
spec:
  storageClassName: standard
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 50Mi}}}}
"
    )
}

/// Each would run under the other's id, and neither under its own.
#[test]
fn swapped_and_cloned_volumes_start_nothing_and_serve_again_where_they_belong() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("swapped");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let traffic = Traffic::start(&cluster);
    let swap = || {
        volume::swap(&cluster, "c-0", "c-2");
        for member in ["c-0", "c-2"] {
            cluster.kill_pods(&peer_selector(member));
        }
    };
    traffic.during("swapped", || {
        swap();
        let message = cluster.await_condition("Blocked", "True", "ForeignData");
        assert!(message.contains(&format!("{}/c/c-", namespace.name)), "{message}");
        cluster.wait_for("the two reported as swapped", |c| {
            let blocked = condition(c, "Blocked").map(|blocked| text(&blocked["message"]));
            blocked.is_some_and(|message| message.contains("swapped"))
        });
        stays("without an etcd on another's volume", || {
            !cluster.etcd_runs("c-0") && !cluster.etcd_runs("c-2")
        });
        swap();
        let after = cluster.await_ready(3, &version);
        assert_eq!(members(&after), members(&before));
    });
    traffic.during("cloned", || {
        let own = volume::take_away(&cluster, "c-1");
        volume::copy_in_use(&cluster, "c-0", "c-1");
        cluster.kill_pods(&peer_selector("c-1"));
        let message = cluster.await_condition("Blocked", "True", "ForeignData");
        assert!(
            message.contains("/c/c-0") && message.contains("clone"),
            "{message}"
        );
        stays("without an etcd on a clone", || !cluster.etcd_runs("c-1"));
        volume::put_back(&cluster, "c-1", &own);
        cluster.kill_pods(&peer_selector("c-1"));
        let after = cluster.await_ready(3, &version);
        let ids: std::collections::BTreeSet<_> = members(&after).into_iter().map(|m| m.id).collect();
        assert_eq!(ids.len(), 3, "{ids:?}");
    });
    traffic.verdict();
}

/// It has forgotten what it acknowledged since, and must not vote.
#[test]
fn a_volume_that_is_put_back_to_an_earlier_state_is_replaced_and_never_started() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("rolledback");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let snapshot = volume::snapshot(&cluster, "c-1");
    cluster.put("key", "value");
    let changed = cluster.patch(&serde_json::json!({"options": {"snapshotCount": 20000}}));
    assert!(changed.status.success(), "{}", said(&changed));
    cluster.wait_for("every pod restarted", |c| {
        let pods = ["c-0", "c-1", "c-2"].map(|member| cluster.pod(member).unwrap_or_default());
        let new = |pod: &serde_json::Value| pod.to_string().contains("--snapshot-count=20000");
        is_ready(c, 3, &version) && pods.iter().all(new)
    });
    let traffic = Traffic::start(&cluster);
    traffic.during("replaced", || {
        volume::put_back(&cluster, "c-1", &snapshot);
        cluster.kill_pods(&peer_selector("c-1"));
        let event = namespace.await_event("RolledBack", "c-1");
        assert!(text(&event["message"]).contains("rolled back"), "{event}");
        cluster.wait_for("c-1 under a new id", |c| {
            is_ready(c, 3, &version) && member_id(c, "c-1") != member_id(&before, "c-1")
        });
    });
    traffic.verdict();
    assert_eq!(cluster.value("key"), "value");
}

/// Such a claim goes with the last pod on it, so a restart would be the end of the data.
#[test]
fn a_member_whose_claim_is_deleted_is_not_stopped_before_it_is_replaced() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("doomed");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    let before = cluster.await_ready(1, &version);
    let traffic = Traffic::start(&cluster);
    let pod = cluster.pod_uid("c-0");
    namespace.must(&["delete", "persistentvolumeclaim", "c-0", "--wait=false"]);
    let message = cluster.await_condition("Blocked", "True", "VolumeDeletionPending");
    assert!(message.contains("quorate snapshot save"), "{message}");
    let event = namespace.await_event("VolumeDeletionPending", "c-0");
    assert_eq!(text(&event["type"]), "Warning");
    let changed = cluster.patch(&serde_json::json!({"options": {"snapshotCount": 20000}}));
    assert!(changed.status.success(), "{}", said(&changed));
    stays("the same pod, whatever is asked of it", || {
        cluster.pod_uid("c-0") == pod
    });
    traffic.during("replaced by way of a second member", || {
        cluster.scale(2);
        cluster.wait_for("c-0 under a new id", |c| {
            is_ready(c, 2, &version) && member_id(c, "c-0") != member_id(&before, "c-0")
        });
    });
    traffic.verdict();
    assert!(cluster.pod_uid("c-0") != pod);
}
