//! Members outlive their supervisor, and the next one takes them over.

use quorate_host::control::{self, Down};

use crate::harness::{Place, any_etcd, pids, run};

#[test]
fn a_killed_supervisor_leaves_members_that_the_next_adopts() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        up.crash().await;
        assert!(!control::supervisor(place.root()).unwrap().unwrap().running);
        let up = place.up();
        let after = place
            .until("taken over", |s| {
                s.ready && s.supervisor.since != before.supervisor.since
            })
            .await;
        assert_eq!(pids(&before), pids(&after), "the same processes");
        // An adopted member that is killed is started again like any other.
        let victim = after.members[1].pid.unwrap();
        crate::harness::kill(victim);
        let healed = place
            .until("healed", |s| {
                s.ready && !pids(s).contains(&victim) && pids(s).len() == 3
            })
            .await;
        assert_eq!(healed.members[1].id, after.members[1].id);
        up.down().await;
        let leftover = pids(&healed)
            .into_iter()
            .find(|pid| std::path::Path::new(&format!("/proc/{pid}/exe")).exists());
        assert_eq!(leftover, None, "adopted members are stopped as well");
    });
}

#[test]
fn down_stops_what_a_killed_supervisor_left() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        place.until_ready().await;
        up.crash().await;
        assert_eq!(
            control::down(place.root()).await.unwrap(),
            Down::Leftovers { members: 1 }
        );
        assert_eq!(control::down(place.root()).await.unwrap(), Down::NothingRan);
    });
}

#[test]
fn leftovers_of_a_lost_ca_are_restarted() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        up.crash().await;
        std::fs::remove_dir_all(place.root().join("pki")).unwrap();
        let up = place.up();
        let after = place
            .until("ready again", |s| s.ready && pids(s).is_disjoint(&pids(&before)))
            .await;
        assert_eq!(after.cluster_id, before.cluster_id);
        up.down().await;
    });
}

#[test]
fn a_member_started_once_is_not_started_twice() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        up.crash().await;
        // Without its record the process cannot be adopted; its lock still says that it lives.
        std::fs::remove_file(place.root().join("run/t-0.json")).unwrap();
        let up = place.up();
        let pid = before.members[0].pid.unwrap();
        let named =
            |s: &quorate_host::Status| s.blocks.iter().any(|b| b.detail.contains(&format!("pid {pid}")));
        place.until("blocked, naming the process", named).await;
        crate::harness::kill(pid);
        place
            .until("started once it is gone", |s| s.ready && !pids(s).contains(&pid))
            .await;
        up.down().await;
    });
}

#[test]
fn a_first_start_that_leaves_nothing_is_proved_and_repeated() {
    run(async {
        let place = Place::new(1, &any_etcd());
        // An etcd that says its version and then dies at once, without a write-ahead log.
        let stub = place.root().join("stub");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && echo 'etcd Version: {}'\nexit 7\n",
            any_etcd()
        );
        std::fs::write(&stub, script).unwrap();
        std::process::Command::new("chmod")
            .arg("+x")
            .arg(&stub)
            .status()
            .unwrap();
        let up = place.up_with(Some(stub.clone()));
        let first = place.root().join("run/t-0-g0.first");
        place
            .until("ended", |s| {
                s.members
                    .first()
                    .is_some_and(|m| m.process.contains("exit status: 7"))
            })
            .await;
        let evidence = std::fs::read_to_string(&first).unwrap();
        assert_eq!(evidence, "ended-without-data");
        up.crash().await;
        let up = place.up();
        place.until_ready().await;
        assert_eq!(std::fs::read_to_string(&first).unwrap(), "fired");
        up.down().await;
    });
}

#[test]
fn a_lost_ca_stops_nobody_while_the_cluster_is_paused() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        place.edit_manifest("\n  host:", "\n  paused: true\n  host:");
        place.until("paused", |s| s.spec.paused).await;
        let (pki, kept) = (place.root().join("pki"), place.root().join("kept"));
        std::fs::create_dir(&kept).unwrap();
        for file in ["ca.crt", "ca.key"] {
            std::fs::rename(pki.join(file), kept.join(file)).unwrap();
        }
        let reported = |s: &quorate_host::Status| {
            s.blocks
                .iter()
                .any(|b| b.reason == "Certificates" && b.detail.contains("ca.crt"))
        };
        let shown = place.until("reported", reported).await;
        assert_eq!(pids(&shown), pids(&before), "nobody was stopped");
        assert!(!pki.join("ca.crt").exists(), "and no other was made");
        for file in ["ca.crt", "ca.key"] {
            std::fs::rename(kept.join(file), pki.join(file)).unwrap();
        }
        place.edit_manifest("\n  paused: true", "");
        let after = place.until("mended", |s| s.ready && !reported(s)).await;
        assert_eq!(pids(&after), pids(&before));
        up.down().await;
    });
}
