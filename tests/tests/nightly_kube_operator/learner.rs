//! A member that does not vote yet: nobody's quorum, and nobody's server.

use std::time::Duration;

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{manifest, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::{process, until};
use serde_json::Value;

/// With this its pod is let through to join. Until etcd runs there, seconds later, nobody can make it a voter.
const GO_AHEAD: &str = "etcd.improbable.io/start";

/// The operator stands still from the moment at which it let the learner's pod through: nobody promotes it then.
#[test]
fn a_learner_counts_for_no_budget_and_serves_no_client() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("learner");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    cluster.await_ready(3, &version);
    let (_, operator) = bed.acting_operator();
    cluster.scale(4);
    let let_through = || {
        let pod = cluster.pod("c-3")?;
        pod["metadata"]["annotations"][GO_AHEAD]
            .is_string()
            .then_some(pod)
    };
    let began = std::time::Instant::now();
    let pod = loop {
        if let Some(pod) = let_through() {
            break pod;
        }
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "c-3 is not let through\n{}",
            namespace.picture()
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    let held = process::Held::all(&operator);
    let learner = text(&pod["metadata"]["name"]);
    namespace.wait_for("etcd of the learner runs", || {
        cluster.etcd_runs("c-3").then_some(())
    });
    let listed = cluster.etcdctl(&["member", "list", "-w", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("etcdctl prints JSON");
    let all = listed["members"].as_array().expect("a list of members");
    let learners = all.iter().filter(|m| m["isLearner"] == true).count();
    assert_eq!(
        (all.len(), learners),
        (4, 1),
        "it was promoted before the operator stood still: {listed}"
    );

    let budget = namespace.wait_for("the budget is about three pods", || {
        let budget = namespace.json(&["poddisruptionbudget", "c"])?;
        let current = budget["status"]["observedGeneration"] == budget["metadata"]["generation"];
        (current && budget["status"]["expectedPods"] == 3).then_some(budget)
    });
    assert_eq!(
        budget["spec"]["minAvailable"], 3,
        "a quorum of the four that are wanted"
    );
    assert_eq!(budget["status"]["currentHealthy"], 3, "{budget:#}");
    assert_eq!(budget["status"]["disruptionsAllowed"], 0, "{budget:#}");

    // The Service by which members find each other leads to it: so it has been seen by who fills these lists.
    let endpoints = |service: &str| -> Vec<String> {
        let of = format!("kubernetes.io/service-name={service}");
        let slices = namespace.items(&["endpointslices", "-l", &of]);
        let endpoints = slices
            .iter()
            .flat_map(|s| s["endpoints"].as_array().cloned().unwrap_or_default());
        endpoints.map(|e| text(&e["targetRef"]["name"])).collect()
    };
    namespace.wait_for("the other members can find the learner", || {
        endpoints("c").contains(&learner).then_some(())
    });
    let clients = endpoints("c-client");
    assert!(
        clients.len() == 3 && !clients.contains(&learner),
        "clients are sent to {clients:?}"
    );

    drop(held);
    cluster.await_ready(4, &version);
    let served = until(Duration::from_secs(60), || {
        endpoints("c-client").contains(&learner).then_some(())
    });
    assert!(
        served.is_some(),
        "a voter serves clients: {:?}",
        endpoints("c-client")
    );
}
