//! Growing and shrinking with kubectl, under clients that write down every answer, while pods and the operator die.

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::changes::{await_resize_events, resize};
use quorate_tests::kube::cluster::{is_ready, manifest};
use quorate_tests::kube::kills::Kills;
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;

#[test]
fn no_acknowledged_write_is_lost_from_three_to_five_and_back() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("resize");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    cluster.await_ready(3, &version);
    let traffic = Traffic::start(&cluster);
    resize(&cluster, &traffic, &[5, 3], &version, |_| {});
    traffic.verdict();
    await_resize_events(&cluster, &["c-3", "c-4"]);
}

/// The operator that acts is killed each time it has reported another kind of step, and the next goes on from there. Every
/// moment between two of its requests is tried by the simulator (`crates/sim/tests/kube.rs`).
#[test]
fn a_resize_whose_operator_is_killed_between_its_steps_is_done_all_the_same() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("kills");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    cluster.await_ready(1, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    for (replicas, kills) in [(3usize, 3), (1, 2)] {
        let killing = Kills::on(&cluster);
        traffic.planned(&format!("scale to {replicas}, operators killed"), || {
            cluster.scale(replicas as u32);
            let killed = killing.through(|c| is_ready(c, replicas, &version));
            assert!(
                killed.len() >= kills,
                "{} of at least {kills} were killed in the middle of it: {killed:?}",
                killed.len()
            );
        });
    }
    traffic.verdict();
    bed.await_operator();
    assert_eq!(cluster.cluster_id(), id);
    namespace.wait_for("nothing left behind", || {
        let claims = namespace.names(&["persistentvolumeclaims", "-l", &cluster.selector()]);
        (claims == ["c-0"]).then_some(())
    });
}
