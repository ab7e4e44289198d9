//! A member's data deleted: while it runs, while it is down, in part; with and without a supervisor watching.

use std::path::Path;

use quorate_host::Status;
use quorate_testkit::await_that;
use quorate_tests::cluster::{Cluster, PATIENCE, kill_member};
use quorate_tests::etcd::birth::KilledAtBirth;
use quorate_tests::torture::Torture;
use quorate_tests::{etcd, in_full};

/// The ways to lose a member's data.
const WIPES: [(&str, &str); 4] = [
    ("the data directory", ""),
    ("its member directory", "member"),
    ("its write-ahead log", "member/wal"),
    ("everything in its snap directory", "member/snap"),
];

fn wipe(data_dir: &Path, part: &str) {
    let path = if part.is_empty() {
        data_dir.to_owned()
    } else {
        data_dir.join(part)
    };
    std::fs::remove_dir_all(&path).unwrap_or_else(|e| panic!("cannot delete {}: {e}", path.display()));
}

/// Waits until no process of a member is on its way: one that was just launched holds its lock before it writes the
/// record by which `down` finds it. It then gives up, for its supervisor is gone, or writes it.
fn await_launched(root: &Path, replicas: u32) {
    let run = root.join("run");
    await_that("every member is launched or is not", PATIENCE, || {
        (0..replicas).all(|n| {
            // Without a file none was ever launched.
            let lock = std::fs::File::open(run.join(format!("t-{n}.alive")));
            let held = lock.is_ok_and(|file| file.try_lock().is_err());
            !held || run.join(format!("t-{n}.json")).exists()
        })
    });
}

fn ids(status: &Status) -> Vec<Option<String>> {
    status.members.iter().map(|m| m.id.clone()).collect()
}

#[test]
fn a_member_whose_data_is_deleted_comes_back_under_a_new_id_and_nothing_is_lost() {
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(3, &version);
    cluster.up();
    let first = cluster.await_ready(3, &version);
    let torture = Torture::start(&cluster);
    for (n, (what, part)) in WIPES.iter().enumerate().take(3) {
        let before = cluster.await_ready(3, &version);
        // The first member first: it is the one that older operators start as a new cluster of its own.
        let victim = before.members[n % 2].clone();
        torture.during(&format!("{what} of {} deleted", victim.name), || {
            wipe(&victim.data_dir, part);
            kill_member(victim.pid.expect("a process"));
            cluster.await_status("a new id", |s| {
                s.members
                    .iter()
                    .any(|m| m.name == victim.name && m.id.is_some() && m.id != victim.id)
            });
            let after = cluster.await_ready(3, &version);
            assert_eq!(after.cluster_id, first.cluster_id, "one cluster, always");
            assert_ne!(ids(&after), ids(&before));
        });
    }
    torture.during("the data directory of a running member deleted", || {
        let victim = cluster.await_ready(3, &version).members[2].clone();
        wipe(&victim.data_dir, "");
        cluster.await_status("a new id", |s| {
            s.members
                .iter()
                .any(|m| m.name == victim.name && m.id.is_some() && m.id != victim.id)
        });
        cluster.await_ready(3, &version);
    });
    torture.verdict();
    cluster.stop();
}

/// However it is wiped and whenever quorate is killed: the first member never forms a second cluster.
#[test]
fn a_wiped_first_member_never_forms_a_second_cluster() {
    let version = etcd::newest("3.6");
    let cases = WIPES.into_iter().flat_map(|wipe| [(wipe, false), (wipe, true)]);
    for (number, ((what, part), killed_too)) in cases.enumerate() {
        // The whole directory with a supervisor that sees it, and the log with none: what the others lie between.
        if in_full() || [0, 5].contains(&number) {
            let mut cluster = Cluster::new(3, &version);
            cluster.up();
            let before = cluster.await_ready(3, &version);
            let victim = &before.members[0];
            if killed_too {
                cluster.kill_supervisor();
            }
            kill_member(victim.pid.expect("a process"));
            wipe(&victim.data_dir, part);
            if killed_too {
                cluster.up();
            }
            let settled = cluster.await_status("three healthy members again", |s| {
                quorate_tests::cluster::is_ready(s, 3, &version) && s.members[0].pid != victim.pid
            });
            println!(
                "{what} wiped, supervisor killed: {killed_too}: id {:?} -> {:?}",
                victim.id, settled.members[0].id
            );
            assert_eq!(
                settled.cluster_id, before.cluster_id,
                "{what}, supervisor killed: {killed_too}"
            );
            cluster.stop();
        }
    }
}

/// Killed at any moment of the very first start, then wiped: blocked or healed, never started over on what may have
/// served.
#[test]
fn a_first_member_wiped_while_the_cluster_forms_never_starts_over() {
    let version = etcd::newest("3.6");
    for replicas in [1u32, 3] {
        let delays: &[u64] = if in_full() {
            &[0, 5, 20, 60, 120, 250, 500, 1000, 1500]
        } else {
            &[0, 60, 500]
        };
        for &delay_ms in delays {
            let mut cluster = Cluster::new(replicas, &version);
            cluster.up();
            // Not a wait for something: the moment of the kill is what varies.
            std::thread::sleep(std::time::Duration::from_millis(delay_ms));
            cluster.kill_supervisor();
            await_launched(cluster.root(), replicas);
            let data = cluster.root().join("members/t-0/g0");
            let had_data = data.join("member/wal").exists();
            let down = cluster.run(&["down"]);
            assert!(down.status.success(), "{}", String::from_utf8_lossy(&down.stderr));
            let served = data.join("member/wal").exists();
            if served {
                wipe(&data, "");
            }
            cluster.up();
            let settled = cluster.await_status("ready or blocked", |s| {
                quorate_tests::cluster::is_ready(s, replicas as usize, &version)
                    || s.blocks.iter().any(|b| b.reason == "QuorumLost")
            });
            let blocked = settled.blocks.iter().any(|b| b.reason == "QuorumLost");
            println!(
                "{replicas} members, killed after {delay_ms} ms: had data {had_data}, wiped {served}, blocked {blocked}"
            );
            if served && replicas == 1 {
                assert!(blocked, "the only member was wiped and started over");
            }
            if !served {
                assert!(!blocked, "nothing had been written, and it does not start");
            }
            cluster.stop();
        }
    }
}

/// etcd that is killed between making its log and its first write never serves again, for it then knows of no members.
/// It has promised nothing to anyone either, so quorate sets that log aside and starts it over.
#[test]
fn a_cluster_killed_at_birth_is_started_over() {
    let version = etcd::newest("3.6");
    for replicas in [1u32, 3] {
        let mut cluster = Cluster::new(replicas, &version);
        let killed = KilledAtBirth::install(cluster.root(), &etcd::binary(&version, "etcd"));
        let data: Vec<_> = (0..replicas)
            .map(|n| cluster.root().join(format!("members/t-{n}/g0")))
            .collect();
        cluster.up();
        await_that("every member has died at birth", PATIENCE, || {
            data.iter().all(|data_dir| KilledAtBirth::is_dead(data_dir))
        });
        cluster.kill_all();
        for data_dir in &data {
            KilledAtBirth::put_in_place(data_dir);
            let look = quorate_datadir::look(data_dir);
            assert!(
                matches!(look, Ok(quorate_datadir::Look::Unborn { .. })),
                "{look:?}"
            );
        }
        killed.end();
        cluster.up();
        cluster.await_ready(replicas as usize, &version);
        cluster.stop();
    }
}

#[test]
fn the_only_member_wiped_blocks_and_its_data_put_back_heals() {
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(1, &version);
    cluster.up();
    let before = cluster.await_ready(1, &version);
    let data = &before.members[0].data_dir;
    let away = cluster.root().join("moved-away");
    kill_member(before.members[0].pid.expect("a process"));
    std::fs::rename(data, &away).expect("the directory can be moved");
    let blocked = cluster.await_status("blocked", |s| s.blocks.iter().any(|b| b.reason == "QuorumLost"));
    assert!(
        blocked.blocks[0].detail.contains("no new cluster is started"),
        "{:?}",
        blocked.blocks
    );
    std::fs::rename(&away, data).expect("the directory can be moved back");
    let after = cluster.await_ready(1, &version);
    assert_eq!(ids(&after), ids(&before));
    cluster.stop();
}
