//! Pods and data lost: all pods at once, a PVC deleted, the only member's volume wiped, those of two of three.

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{condition, is_ready, manifest, member_id, members, peer_selector, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;
use quorate_tests::kube::{process, stays, volume};

/// Members whose pods are gone come back as who they were; one whose PVC is gone comes back under a new id.
#[test]
fn no_acknowledged_write_is_lost_with_all_pods_gone_at_once_and_then_a_claim() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("lost");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    let pods = cluster.pod_uids(3);
    traffic.during("all pods gone", || {
        cluster.kill_pods(&cluster.selector());
        cluster.await_other_pods(&pods);
        let after = cluster.await_ready(3, &version);
        assert_eq!(members(&after), members(&before));
    });
    let claim = |name: &str| {
        let claim = namespace.json(&["persistentvolumeclaim", name])?;
        Some(claim["metadata"]["uid"].clone())
    };
    let lost = claim("c-1");
    traffic.during("the claim of c-1 deleted", || {
        // A claim in use stays until its pod has gone.
        namespace.must(&["delete", "persistentvolumeclaim", "c-1", "--wait=false"]);
        cluster.kill_pods(&peer_selector("c-1"));
        cluster.wait_for("c-1 under a new id", |c| {
            is_ready(c, 3, &version) && member_id(c, "c-1") != member_id(&before, "c-1")
        });
    });
    traffic.verdict();
    assert!(claim("c-1").is_some_and(|now| Some(now) != lost), "another claim");
    let after = members(&cluster.get());
    for n in [0, 2] {
        assert_eq!(after[n], members(&before)[n], "the others are who they were");
    }
    assert_eq!(cluster.cluster_ids(), [id], "one cluster, always");
}

/// Nobody can tell what the only member promised: nothing is begun over it, and its data put back heals it.
#[test]
fn the_only_member_wiped_blocks_and_its_data_put_back_heals() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("only");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    let before = cluster.await_ready(1, &version);
    cluster.put("key", "value");
    let data = volume::directory(&cluster, "c-0");
    let away = data.with_extension("away");
    std::fs::create_dir(&away).expect("a directory beside the volume");
    let entries = || {
        std::fs::read_dir(&data)
            .expect("the volume")
            .map(|e| e.expect("an entry").file_name())
    };
    for name in entries().collect::<Vec<_>>() {
        std::fs::rename(data.join(&name), away.join(&name)).expect("a file can be moved");
    }
    cluster.kill_pods(&cluster.selector());
    let message = cluster.await_condition("Blocked", "True", "QuorumLost");
    assert!(message.contains("no new cluster is started"), "{message}");
    let pod = namespace.wait_for("a pod of c-0", || cluster.pod("c-0"));
    assert_ne!(pod["status"]["phase"], "Running");
    for name in entries().collect::<Vec<_>>() {
        let path = data.join(&name);
        let removed = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        removed.expect("what was made meanwhile can be deleted");
    }
    for entry in std::fs::read_dir(&away).expect("what was moved") {
        let name = entry.expect("an entry").file_name();
        std::fs::rename(away.join(&name), data.join(&name)).expect("a file can be moved back");
    }
    std::fs::remove_dir(&away).expect("an empty directory");
    cluster.kill_pods(&cluster.selector());
    let after = cluster.await_ready(1, &version);
    assert_eq!(members(&after), members(&before));
    assert_eq!(cluster.value("key"), "value");
}

/// Two of three forgot everything: nobody may say that the third knows all, so nothing is begun over it.
#[test]
fn a_lost_quorum_is_reported_and_nothing_is_started_over() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("quorum");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    cluster.put("key", "value");
    for member in ["c-1", "c-2"] {
        volume::wipe(&cluster, member);
    }
    let lost = ["c-1", "c-2"].map(|m| cluster.pod(m).expect("a pod"));
    let running: Vec<_> = lost
        .iter()
        .flat_map(|p| process::of_container(p, "etcd"))
        .collect();
    process::kill(&running);
    let names = lost
        .iter()
        .map(|p| text(&p["metadata"]["name"]))
        .collect::<Vec<_>>();
    namespace.must(&[
        "delete",
        "pod",
        &names[0],
        &names[1],
        "--grace-period=0",
        "--force",
    ]);
    let message = cluster.await_condition("Blocked", "True", "QuorumLost");
    assert!(message.contains("no new cluster is started"), "{message}");
    stays("known as last seen, and without a quorum", || {
        let now = cluster.get();
        members(&now) == members(&before)
            && condition(&now, "Quorate").is_some_and(|c| c["status"] == "False")
    });
    for member in ["c-1", "c-2"] {
        let pod = cluster.pod(member).expect("a pod that waits");
        assert_eq!(pod["status"]["phase"], "Pending", "{member} waits at its gate");
        let begun = volume::directory(&cluster, member).join("g0/member");
        assert!(!begun.exists(), "{} was begun", begun.display());
    }
    let kept = cluster.pod("c-0").expect("the one with data");
    assert_eq!(kept["status"]["phase"], "Running", "it can still be copied");
}
