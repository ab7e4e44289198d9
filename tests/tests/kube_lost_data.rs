//! Pods and data lost: all pods at once, one volume wiped, the first member's volume wiped while nobody watches.
#![cfg(feature = "kube")]

use std::time::Duration;

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{KubeCluster, manifest, members, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;
use quorate_tests::kube::{process, volume};

/// Kills etcd in the pods of a cluster, or of one member, all at once and without a word to it, and deletes the pods.
fn kill_pods(cluster: &KubeCluster<'_>, selector: &str) {
    let pods = cluster.namespace.items(&["pods", "-l", selector]);
    let running: Vec<_> = pods
        .iter()
        .flat_map(|p| process::of_container(p, "etcd"))
        .collect();
    // One that waits at the gate has no etcd.
    if !running.is_empty() {
        process::kill(&running);
    }
    let force = ["--grace-period=0", "--force"];
    let delete = ["delete", "pods", "--selector", selector];
    cluster.namespace.must(&[&delete[..], &force].concat());
}

fn peer(member: &str) -> String {
    format!("etcd.improbable.io/peer-name={member}")
}

/// The ids of the cluster that each pod believes it is in, of those that answer.
fn cluster_ids(cluster: &KubeCluster<'_>) -> Vec<String> {
    let mut ids: Vec<String> = cluster
        .pods()
        .iter()
        .filter_map(|pod| {
            let pod = text(&pod["metadata"]["name"]);
            let ask = [
                "exec", &pod, "-c", "etcd", "--", "etcdctl", "endpoint", "status", "-w", "json",
            ];
            let answer = cluster.namespace.kubectl(&ask);
            let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).ok()?;
            Some(answer[0]["Status"]["header"]["cluster_id"].to_string())
        })
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

#[test]
fn all_pods_gone_at_once_come_back_as_who_they_were() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("reboot");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    for round in 1..=2 {
        let pods: Vec<_> = (0..3).map(|n| cluster.pod_uid(&format!("c-{n}"))).collect();
        traffic.during(&format!("round {round}: all pods gone"), || {
            kill_pods(&cluster, &cluster.selector());
            namespace.wait_for("three new pods", || {
                let now: Vec<_> = (0..3).map(|n| cluster.pod_uid(&format!("c-{n}"))).collect();
                let new = |(a, b): (&Option<String>, &Option<String>)| a.is_some() && a != b;
                now.iter().zip(&pods).all(new).then_some(())
            });
            let after = cluster.await_ready(3, &version);
            assert_eq!(members(&after), members(&before));
        });
    }
    traffic.verdict();
    assert_eq!(cluster_ids(&cluster), [id]);
}

/// With nobody to watch: a plain restart needs no operator.
#[test]
fn pods_that_restart_while_the_operator_is_away_serve_again() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("away");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    cluster.put("key", "value");
    bed.scale_operator(0);
    kill_pods(&cluster, &cluster.selector());
    assert_eq!(cluster.value("key"), "value", "served without an operator");
    bed.scale_operator(1);
    let after = cluster.await_ready(3, &version);
    assert_eq!(members(&after), members(&before));
}

#[test]
fn a_member_whose_volume_is_wiped_comes_back_under_a_new_id_and_nothing_is_lost() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("wiped");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    cluster.await_ready(3, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    for victim in ["c-2", "c-0"] {
        let of = |c: &serde_json::Value| members(c).into_iter().find(|m| m.name == victim).map(|m| m.id);
        let before = of(&cluster.get());
        traffic.during(&format!("the volume of {victim} wiped"), || {
            volume::wipe(&cluster, victim);
            kill_pods(&cluster, &peer(victim));
            cluster.wait_for("a new id", |c| {
                let now = of(c);
                now.is_some() && now != before
            });
            cluster.await_ready(3, &version);
        });
    }
    traffic.verdict();
    assert_eq!(cluster_ids(&cluster), [id], "one cluster, always");
}

/// The first member is the one that older operators start anew as a cluster of its own.
#[test]
fn a_first_member_wiped_while_the_operator_is_away_never_forms_a_second_cluster() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("second");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let id = cluster.cluster_id();
    cluster.put("key", "value");
    bed.scale_operator(0);
    let uid = cluster.pod_uid("c-0");
    volume::wipe(&cluster, "c-0");
    kill_pods(&cluster, &peer("c-0"));
    // Its new pod waits at the gate, and goes on waiting.
    namespace.wait_for("a new pod that has looked at its volume", || {
        let pod = cluster
            .pod("c-0")
            .filter(|p| Some(text(&p["metadata"]["uid"])) != uid)?;
        let containers = pod["status"]["initContainerStatuses"].as_array()?;
        let look = containers.iter().find(|c| c["name"] == "look")?;
        look["state"]["terminated"].is_object().then_some(())
    });
    // Not a wait for something: whether it stays there is the question.
    std::thread::sleep(Duration::from_secs(5));
    let pod = cluster.pod("c-0").expect("its pod");
    assert_eq!(pod["status"]["phase"], "Pending", "it waits");
    assert_eq!(cluster_ids(&cluster), std::slice::from_ref(&id));
    bed.scale_operator(1);
    let after = cluster.wait_for("c-0 under a new id", |c| {
        let now = members(c).into_iter().find(|m| m.name == "c-0");
        quorate_tests::kube::cluster::is_ready(c, 3, &version)
            && now.is_some_and(|m| m.id != members(&before)[0].id)
    });
    assert_eq!(
        members(&after)[1..],
        members(&before)[1..],
        "the others are who they were"
    );
    assert_eq!(cluster_ids(&cluster), [id]);
    assert_eq!(cluster.value("key"), "value");
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
    kill_pods(&cluster, &cluster.selector());
    let message = cluster.await_condition("Blocked", "True", "QuorumLost");
    assert!(message.contains("nothing is started anew"), "{message}");
    let pod = cluster.pod("c-0").expect("a pod");
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
    kill_pods(&cluster, &cluster.selector());
    let after = cluster.await_ready(1, &version);
    assert_eq!(members(&after), members(&before));
    assert_eq!(cluster.value("key"), "value");
}
