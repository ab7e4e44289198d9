//! From one member to five and back, under clients that write down every answer.
#![cfg(feature = "e2e")]

use quorate_tests::cluster::Cluster;
use quorate_tests::etcd;
use quorate_tests::torture::Torture;

#[test]
fn no_acknowledged_write_is_lost_from_one_to_three_to_five_and_back() {
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(1, &version);
    cluster.up();
    let first = cluster.await_ready(1, &version);
    let torture = Torture::start(&cluster);
    for replicas in [3usize, 5, 3, 1] {
        torture.during(&format!("scale to {replicas}"), || {
            cluster.must(&["scale", &replicas.to_string()]);
            let status = cluster.await_ready(replicas, &version);
            let names: Vec<&str> = status
                .members
                .iter()
                .filter(|m| m.id.is_some())
                .map(|m| m.name.as_str())
                .collect();
            let expected: Vec<String> = (0..replicas).map(|n| format!("t-{n}")).collect();
            assert_eq!(names, expected, "the highest numbers go first");
            assert_eq!(
                status.members[0].id, first.members[0].id,
                "the first member stays who it is"
            );
        });
    }
    torture.verdict();
    cluster.stop();
}
