//! Members that die, are wiped, or whose ports are taken.

use std::net::{Ipv4Addr, TcpListener};

use quorate_client::Refusal;

use crate::harness::{Place, any_etcd, first_member, kill, pids, run};

#[test]
fn a_killed_member_is_started_again() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        let victim = before.members[2].pid.unwrap();
        kill(victim);
        let after = place
            .until("healed", |s| {
                s.ready && !pids(s).contains(&victim) && pids(s).len() == 3
            })
            .await;
        assert_eq!(after.members[2].id, before.members[2].id);
        assert_eq!(after.members[2].restarts, 1);
        up.down().await;
    });
}

/// A first start that is remembered and of which there is no evidence may have run. So the evidence comes first.
#[test]
fn a_first_start_that_cannot_be_armed_is_not_remembered() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let in_the_way = place.root().join("run/t-0-g0.first");
        std::fs::create_dir_all(&in_the_way).unwrap();
        let up = place.up();
        let says = |problem: &String| problem.contains("t-0-g0.first");
        let held = place.until("held up", |s| s.problems.iter().any(says)).await;
        assert!(pids(&held).is_empty());
        up.crash().await;
        std::fs::remove_dir(&in_the_way).unwrap();
        let up = place.up();
        place.until_ready().await;
        up.down().await;
    });
}

#[test]
fn a_wiped_member_comes_back_under_a_new_id() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        let victim = &before.members[1];
        kill(victim.pid.unwrap());
        std::fs::remove_dir_all(&victim.data_dir).unwrap();
        let back = |s: &quorate_host::Status| s.ready && s.members[1].id != victim.id && s.members[1].healthy;
        let after = place.until("back under a new id", back).await;
        assert_ne!(after.members[1].data_dir, victim.data_dir, "on a new volume");
        assert_eq!(after.cluster_id, before.cluster_id);
        up.down().await;
    });
}

/// etcd counts a raft snapshot as applied only with the next entry of the log, and refuses all requests, its own first one
/// included, while it is more than 5,000 entries behind. So one that begins with a snapshot waits until somebody writes.
#[test]
fn a_member_that_is_replaced_serves_also_where_nobody_writes() {
    run(async {
        let place = Place::new(3, &any_etcd());
        place.edit_manifest("\n  host:", "\n  options:\n    snapshotCount: 100\n  host:");
        let up = place.up();
        let before = place.until_ready().await;
        let endpoint = first_member(&before);
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..60 {
            let endpoint = endpoint.clone();
            writers.spawn(async move {
                for _ in 0..100 {
                    endpoint
                        .put(format!("key-{writer}").as_bytes(), b"v")
                        .await
                        .unwrap();
                }
            });
        }
        writers.join_all().await;
        let victim = &before.members[1];
        kill(victim.pid.unwrap());
        std::fs::remove_dir_all(&victim.data_dir).unwrap();
        let back = |s: &quorate_host::Status| s.ready && s.members[1].id != victim.id && s.members[1].healthy;
        place.until("back under a new id", back).await;
        up.down().await;
    });
}

#[test]
fn a_foreign_process_on_a_port_is_named() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let text = std::fs::read_to_string(place.root().join("cluster.yaml")).unwrap();
        let port = text
            .rsplit("peerPort: ")
            .next()
            .unwrap()
            .trim()
            .parse::<u16>()
            .unwrap();
        // A cluster that exists waits for its port; one that is yet to begin is refused at once.
        let first = place.up();
        place.until_ready().await;
        first.down().await;
        let foreign = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let up = place.up();
        let blocked = place.until("blocked", |s| !s.blocks.is_empty()).await;
        let detail = &blocked.blocks[0].detail;
        assert_eq!(blocked.blocks[0].reason, "CannotStart");
        for part in [port.to_string(), format!("pid {}", std::process::id())] {
            assert!(detail.contains(&part), "{part:?} is not in {detail:?}");
        }
        assert!(pids(&blocked).is_empty());
        drop(foreign);
        place.until_ready().await;
        up.down().await;
    });
}

#[test]
fn a_broken_edit_of_the_manifest_changes_nothing_and_is_shown() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        place.until_ready().await;
        place.edit_manifest("replicas: 1", "replicas: many");
        let reported = |s: &quorate_host::Status| s.blocks.iter().any(|b| b.detail.contains("spec.replicas"));
        let shown = place.until("shown", reported).await;
        assert_eq!((shown.spec.replicas, shown.ready), (1, false));
        assert_eq!(shown.blocks[0].reason, "Invalid");
        place.edit_manifest("replicas: many", "replicas: 1");
        place.until("mended", |s| !reported(s) && s.ready).await;
        up.down().await;
    });
}

/// After a reboot as well: what was last in force starts the members, and the fault is shown.
#[test]
fn a_supervisor_that_begins_with_a_broken_manifest_heals_by_the_one_before() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let file = place.root().join("cluster.yaml");
        let up = place.up();
        let before = place.until_ready().await;
        up.down().await;
        let good = std::fs::read_to_string(&file).unwrap();
        // Spoilt while nobody ran, and then missing under members that a supervisor left running.
        place.edit_manifest("replicas: 3", "replicas: many");
        let up = place.up();
        let serves = |s: &quorate_host::Status| pids(s).len() == 3 && s.members.iter().all(|m| m.healthy);
        let shows = |s: &quorate_host::Status, what: &str| {
            !s.ready
                && s.blocks
                    .iter()
                    .any(|b| b.reason == "Invalid" && b.detail.contains(what))
        };
        let spoilt = place
            .until("three that serve, and the fault", |s| {
                serves(s) && shows(s, "spec.replicas")
            })
            .await;
        assert_eq!(
            (spoilt.spec.replicas, &spoilt.cluster_id),
            (3, &before.cluster_id)
        );
        up.crash().await;
        std::fs::remove_file(&file).unwrap();
        let victim = spoilt.members[1].pid.unwrap();
        kill(victim);
        let up = place.up();
        let missing = place
            .until("three that serve, and no file", |s| {
                serves(s) && shows(s, "no manifest at") && !pids(s).contains(&victim)
            })
            .await;
        assert_eq!(missing.members[0].pid, spoilt.members[0].pid, "taken over");
        std::fs::write(&file, good.replace("replicas: 3", "replicas: 1")).unwrap();
        let taken = place
            .until("the mended file in force", |s| s.ready && s.spec.replicas == 1)
            .await;
        assert_eq!(taken.members.len(), 1);
        up.down().await;
    });
}

#[test]
fn a_database_that_someone_else_has_open_is_not_started_on() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        up.down().await;
        let volume = &before.members[0].data_dir;
        let quorate_datadir::Attempt::Held(lock) = quorate_datadir::DbLock::try_hold(volume).unwrap() else {
            panic!("it is free after a clean stop");
        };
        let up = place.up();
        let named = format!("pid {}", std::process::id());
        place
            .until("blocked", |s| s.blocks.iter().any(|b| b.detail.contains(&named)))
            .await;
        drop(lock);
        place.until_ready().await;
        up.down().await;
    });
}

#[test]
fn an_upgrade_to_a_version_that_is_not_here_leaves_the_old_one_running() {
    run(async {
        let place = Place::new(3, "3.6.16");
        let up = place.up();
        let before = place.until_ready().await;
        place.edit_manifest("version: 3.6.16", "version: 3.6.999");
        let named = |s: &quorate_host::Status| {
            s.blocks
                .iter()
                .any(|b| b.detail.contains("etcd 3.6.999 was not found"))
        };
        let blocked = place.until("blocked", named).await;
        assert_eq!(pids(&blocked), pids(&before));
        // And the old one is still what a crashed member comes back with.
        let victim = before.members[0].pid.unwrap();
        kill(victim);
        let back = |s: &quorate_host::Status| pids(s).len() == 3 && s.members.iter().all(|m| m.healthy);
        let after = place
            .until("back", |s| back(s) && !pids(s).contains(&victim))
            .await;
        assert_eq!(after.members[0].version.as_deref(), Some("3.6.16"));
        up.down().await;
    });
}

#[test]
fn a_member_that_hangs_is_killed_when_it_is_to_stop() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        let status = place.until_ready().await;
        let pid = status.members[0].pid.unwrap();
        let process = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        quorate_testkit::pause(process.unwrap());
        // It answers to no other signal: that this ends at all is that it was killed.
        up.down().await;
        assert!(!std::path::Path::new(&format!("/proc/{pid}/exe")).exists());
    });
}

/// etcd says of its alarms in words, which differ from version to version.
#[test]
fn an_alarm_is_shown_for_as_long_as_it_lasts() {
    for version in quorate_testkit::versions() {
        run(async {
            let place = Place::new(1, &version);
            place.edit_manifest("\n  host:", "\n  quota: 2Mi\n  host:");
            let up = place.up();
            let status = place.until_ready().await;
            assert!(status.certs.is_some(), "TLS is the default");
            let (member, endpoint) = (&status.members[0], first_member(&status));
            let value = vec![7; 500_000];
            // etcd counts what it has committed, a tenth of a second later.
            for n in 0.. {
                let put = endpoint.put(format!("key-{n}").as_bytes(), &value).await;
                if put
                    .as_ref()
                    .is_err_and(|error| error.refusal() == Refusal::NoSpace)
                {
                    break;
                }
                assert!(n < 1000, "{version}: the quota holds 2 MiB: {put:?}");
            }
            let shown = place
                .until("the alarm", |s| s.blocks.iter().any(|b| b.reason == "NoSpace"))
                .await;
            assert!(!shown.ready, "{version}: it takes no writes");
            assert_eq!(shown.blocks[0].member.as_deref(), Some(member.name.as_str()));
            for alarm in endpoint.alarms().await.unwrap() {
                endpoint.disarm(alarm).await.unwrap();
            }
            place.until("the alarm taken back", |s| s.ready).await;
            up.down().await;
        });
    }
}

#[test]
fn settings_with_which_etcd_hangs_are_taken_back_at_once_also_by_the_only_member() {
    run(async {
        let version = any_etcd();
        let place = Place::new(1, &version);
        let up = place.up_with(Some(picky(&place, &quorate_testkit::binary(&version, "etcd"))));
        let before = place.until_ready().await;
        place.edit_manifest("\n  host:", "\n  options: {snapshotCount: 666}\n  host:");
        let hangs = |s: &quorate_host::Status| pids(s).len() == 1 && pids(s) != pids(&before) && !s.ready;
        place.until("one that hangs", hangs).await;
        place.edit_manifest("\n  options: {snapshotCount: 666}", "");
        let after = place.until_ready().await;
        assert_eq!(after.members[0].id, before.members[0].id);
        up.down().await;
    });
}

/// An etcd that ends with one setting, and hangs with another, as a real one would with others. It keeps its command line:
/// by that a reader of the status knows that it runs.
fn picky(place: &Place, real: &std::path::Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *snapshot-count=777*) echo 'picky: 777 is not for me' >&2; exit 1;;\n\
         *snapshot-count=666*) while :; do sleep 1; done;; esac\nexec {} \"$@\"\n",
        real.display()
    );
    let path = place.root().join("picky-etcd");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn settings_that_end_etcd_stop_at_one_member_which_goes_back_to_what_served() {
    run(async {
        let version = any_etcd();
        let place = Place::new(3, &version);
        let up = place.up_with(Some(picky(&place, &quorate_testkit::binary(&version, "etcd"))));
        let before = place.until_ready().await;
        place.edit_manifest("\n  host:", "\n  options: {snapshotCount: 777}\n  host:");
        let fails = |s: &quorate_host::Status| s.blocks.iter().any(|b| b.reason == "NewSettingsFail");
        let shown = place.until("blocked", fails).await;
        let reported = &shown.blocks[0].detail;
        assert!(
            reported.contains("777 is not for me"),
            "etcd's own reason: {reported}"
        );
        let ids = |s: &quorate_host::Status| s.members.iter().map(|m| m.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&shown), ids(&before), "no voter was removed");
        let all_serve = |s: &quorate_host::Status| s.members.iter().all(|m| m.healthy) && pids(s).len() == 3;
        let back = place
            .until("three that serve", |s| all_serve(s) && fails(s))
            .await;
        assert_eq!(ids(&back), ids(&before));
        let others = |s: &quorate_host::Status| [s.members[0].pid, s.members[1].pid];
        assert_eq!(others(&back), others(&before), "no other was touched");
        // Also a supervisor that is told of it only by the journal knows what to go back to.
        up.crash().await;
        let up = place.up_with(Some(picky(&place, &quorate_testkit::binary(&version, "etcd"))));
        let victim = back.members[2].pid.unwrap();
        kill(victim);
        let again = |s: &quorate_host::Status| all_serve(s) && fails(s) && !pids(s).contains(&victim);
        place.until("back again", again).await;
        // What is wanted now is what served: there is nothing left to do, and nothing to wait for.
        place.edit_manifest("\n  options: {snapshotCount: 777}", "");
        let after = place.until_ready().await;
        assert_eq!((ids(&after), others(&after)), (ids(&before), others(&before)));
        place.edit_manifest("\n  host:", "\n  options: {snapshotCount: 778}\n  host:");
        let rolled =
            |s: &quorate_host::Status| s.ready && others(s).iter().all(|pid| !others(&before).contains(pid));
        assert_eq!(ids(&place.until("other settings", rolled).await), ids(&before));
        up.down().await;
    });
}
