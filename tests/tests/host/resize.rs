//! From one member to five and back, under clients that write down every answer.

use quorate_tests::cluster::{Cluster, is_ready, kill_member};
use quorate_tests::torture::Torture;
use quorate_tests::{etcd, in_full};

#[test]
fn no_acknowledged_write_is_lost_from_one_to_three_to_five_and_back() {
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(1, &version);
    cluster.up();
    let first = cluster.await_ready(1, &version);
    let torture = Torture::start(&cluster);
    for replicas in [3usize, 5, 3, 1] {
        torture.planned(&format!("scale to {replicas}"), || {
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

/// etcd writes down what is committed only with the next entry. A survivor of two that is killed before that one
/// forgets that it is alone and waits for a vote that never comes; so quorate has it write one.
#[test]
fn the_survivor_of_two_killed_at_once_still_serves() {
    // They differ in what they write down when; the oldest and the newest are the furthest apart.
    let minors: &[&str] = if in_full() {
        &["3.4", "3.5", "3.6", "3.7"]
    } else {
        &["3.4", "3.7"]
    };
    for version in minors.iter().map(|minor| etcd::newest(minor)) {
        let mut cluster = Cluster::new(2, &version);
        cluster.up();
        cluster.await_ready(2, &version);
        cluster.must(&["scale", "1"]);
        let alone = cluster.await_status("one member in the list", |s| {
            s.members.iter().filter(|m| m.id.is_some()).count() == 1
        });
        let survivor = alone
            .members
            .iter()
            .find(|m| m.id.is_some())
            .expect("one is left");
        kill_member(survivor.pid.expect("a process"));
        let after = cluster.await_status("it serves again", |s| {
            is_ready(s, 1, &version) && s.members[0].pid != survivor.pid
        });
        assert_eq!(after.members[0].id, survivor.id);
        cluster.stop();
    }
}
