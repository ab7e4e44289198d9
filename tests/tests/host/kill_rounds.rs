//! Members and the supervisor killed at random, again and again, under clients that write down every answer.

use quorate_tests::cluster::{Cluster, kill_member};
use quorate_tests::etcd;
use quorate_tests::torture::Torture;

/// A few rounds in CI; `make soak kill-rounds` runs fifty.
fn rounds() -> u32 {
    std::env::var("QUORATE_ROUNDS")
        .ok()
        .map_or(6, |n| n.parse().expect("QUORATE_ROUNDS is a number"))
}

#[test]
fn no_acknowledged_write_is_lost_when_members_and_the_supervisor_are_killed() {
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(3, &version);
    cluster.up();
    cluster.await_ready(3, &version);
    let torture = Torture::start(&cluster);
    let seed = std::env::var("QUORATE_SEED")
        .ok()
        .map_or(7, |n| n.parse().expect("QUORATE_SEED is a number"));
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 1..=rounds() {
        let status = cluster.await_ready(3, &version);
        let victim = &status.members[rng.usize(..3)];
        let pid = victim.pid.expect("a ready member has a process");
        let (what, supervisor, member) = match rng.u8(..4) {
            0 => ("the supervisor".to_owned(), true, false),
            1 => (format!("{} and the supervisor", victim.name), true, true),
            _ => (victim.name.clone(), false, true),
        };
        torture.during(&format!("round {round}: kill -9 of {what}"), || {
            if supervisor {
                cluster.kill_supervisor();
            }
            if member {
                kill_member(pid);
            }
            if supervisor {
                torture.await_writes(5);
                cluster.up();
            }
            cluster.await_status("a new process", |s| {
                let now = s
                    .members
                    .iter()
                    .find(|m| m.name == victim.name)
                    .and_then(|m| m.pid);
                s.supervisor.running && now.is_some() && (!member || now != Some(pid))
            });
            let after = cluster.await_ready(3, &version);
            assert_eq!(
                after.cluster_id, status.cluster_id,
                "it is still the same cluster"
            );
            for (was, is) in status.members.iter().zip(&after.members) {
                assert_eq!(was.id, is.id, "a crash is no reason for a new member");
                if !member || was.name != victim.name {
                    assert_eq!(was.pid, is.pid, "{} was adopted, not restarted", was.name);
                }
            }
        });
    }
    torture.verdict();
    cluster.stop();
}
