//! The operator dies or is away: another takes over and finishes what was begun; members need none to serve.

use std::time::Instant;

use quorate_tests::etcd;
use quorate_tests::kube::bed::{Bed, OPERATOR_NAMESPACE};
use quorate_tests::kube::cluster::{is_ready, manifest, member_id, members, peer_selector, text};
use quorate_tests::kube::manifests::assert_refused;
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::operator::Then;
use quorate_tests::kube::traffic::Traffic;
use quorate_tests::kube::{must_be_back, said, stays, volume};
use serde_json::json;

/// No more pods than there are: a killed operator is not replaced, so that the one beside it must take over.
struct NoMorePods(&'static Bed);

impl NoMorePods {
    fn than(bed: &'static Bed, pods: u32) -> NoMorePods {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-more"},
            "spec": {"hard": {"pods": pods.to_string()}}});
        let applied = bed.kubectl_with(
            &["-n", OPERATOR_NAMESPACE, "apply", "-f", "-"],
            &quota.to_string(),
        );
        assert!(applied.status.success(), "{}", said(&applied));
        let guard = NoMorePods(bed);
        bed.wait_for("the quota in force", String::new, || {
            let quota = bed.json(&["-n", OPERATOR_NAMESPACE, "resourcequota", "no-more"])?;
            quota["status"]["used"]["pods"].as_str().map(|_| ())
        });
        guard
    }
}

impl Drop for NoMorePods {
    fn drop(&mut self) {
        let bed = self.0;
        let quota = ["delete", "resourcequota", "no-more", "--ignore-not-found"];
        let gone = bed.kubectl(&[&["-n", OPERATOR_NAMESPACE], &quota[..]].concat());
        must_be_back("the operator's namespace without a quota", &gone);
    }
}

#[test]
fn of_two_operators_the_other_takes_over_and_finishes_what_was_begun() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("two");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    cluster.await_ready(1, &version);
    bed.scale_operator(2);
    bed.acting_operator();
    let both = bed.operators().into_iter().map(|p| text(&p["metadata"]["name"]));
    let both: Vec<String> = both.collect();
    assert_eq!(both.len(), 2, "{both:?}");
    let no_more = NoMorePods::than(bed, 1);
    let traffic = Traffic::start(&cluster);
    traffic.during("scale to 3, the acting operator killed", || {
        // Without a pod for the second member nobody can finish before the operator is killed.
        namespace.allow_pods(1);
        cluster.scale(3);
        namespace.await_event("PeerCreated", "c-1");
        let killed = bed.kill_operator_then(Then::Replace);
        let now = cluster.get();
        assert!(!is_ready(&now, 3, &version), "it was not done yet: {now}");
        namespace.allow_pods(24);
        let began = Instant::now();
        let (next, _) = bed.acting_operator();
        println!("{next} took over after {:.1} s", began.elapsed().as_secs_f64());
        assert_ne!(next, killed);
        assert!(both.contains(&next), "{next} is not one of {both:?}");
        cluster.await_ready(3, &version);
    });
    traffic.verdict();
    drop(no_more);
    bed.scale_operator(1);
}

/// The API server refuses what is wrong by itself; pods restart by themselves; and a first member without data, which
/// older operators start as a cluster of its own, waits.
#[test]
fn while_the_operator_is_away_nothing_wrong_is_let_in_pods_restart_and_no_second_cluster_is_formed() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let refused = Namespace::alone("refused");
    let namespace = Namespace::alone("away");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let id = cluster.cluster_id();
    cluster.put("key", "value");
    bed.scale_operator(0);

    assert_refused(&refused);
    let paused = manifest("c", 1, "3.6.1").replace("spec:", "spec:\n  paused: true");
    let good = refused.try_apply(&paused, &[]);
    assert!(
        good.status.success(),
        "what is right is let in all the same: {}",
        said(&good)
    );

    let pods = cluster.pod_uids(3);
    cluster.kill_pods(&cluster.selector());
    cluster.await_other_pods(&pods);
    assert_eq!(cluster.value("key"), "value", "served without an operator");
    namespace.wait_for("every member's etcd running again", || {
        let running = |p: &serde_json::Value| p["status"]["phase"] == "Running";
        cluster.pods().iter().all(running).then_some(())
    });

    let uid = cluster.pod_uid("c-0");
    volume::wipe(&cluster, "c-0");
    cluster.kill_pods(&peer_selector("c-0"));
    namespace.wait_for("a new pod that has looked at its volume", || {
        let pod = cluster
            .pod("c-0")
            .filter(|p| Some(text(&p["metadata"]["uid"])) != uid)?;
        let containers = pod["status"]["initContainerStatuses"].as_array()?;
        let look = containers.iter().find(|c| c["name"] == "look")?;
        look["state"]["terminated"].is_object().then_some(())
    });
    stays("waiting at its gate", || {
        let pod = cluster.pod("c-0").expect("its pod");
        pod["status"]["phase"] == "Pending"
    });
    assert_eq!(cluster.cluster_ids(), std::slice::from_ref(&id));

    bed.scale_operator(1);
    bed.await_webhook();
    let after = cluster.wait_for("c-0 under a new id", |c| {
        is_ready(c, 3, &version) && member_id(c, "c-0") != member_id(&before, "c-0")
    });
    assert_eq!(
        members(&after)[1..],
        members(&before)[1..],
        "the others are who they were"
    );
    assert_eq!(cluster.cluster_ids(), [id]);
    assert_eq!(cluster.value("key"), "value");
}
