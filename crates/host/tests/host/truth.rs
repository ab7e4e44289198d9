//! What is wrong shows as what it is, within seconds, and is taken back when it is mended.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use quorate_host::Status;
use quorate_testkit::await_that_async;

use crate::harness::{PATIENCE, Place, first_member, kill, newest, pids, run};

fn blocked_by(status: &Status, reason: &str) -> bool {
    status.blocks.iter().any(|block| block.reason == reason)
}

fn process(status: &Status) -> rustix::process::Pid {
    let pid = status.members[0].pid.and_then(|pid| i32::try_from(pid).ok());
    pid.and_then(rustix::process::Pid::from_raw).expect("it runs")
}

/// Writes until there is no room.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    for size in [1 << 20, 4096, 1] {
        let chunk = vec![7; size];
        while file.write_all(&chunk).is_ok() {}
    }
}

/// Neither the journal nor the status can be written then, so who reads the status must look for themselves.
#[test]
fn a_full_disk_is_shown_with_what_is_dead_and_heals_once_there_is_room() {
    run(async {
        let place = Place::on_small_disk(1, &newest(), 320);
        let up = place.up();
        let before = place.until_ready().await;
        assert!(before.blocks.is_empty(), "{before:#?}");
        let filler = place.root().join("filler");
        fill(&filler);
        // At once, while etcd still runs.
        let full = place.status();
        assert!(blocked_by(&full, "DiskFull") && !full.ready, "{full:#?}");
        let etcd = first_member(&before).within(Duration::from_secs(2));
        let value = vec![7; 1 << 20];
        await_that_async("etcd ends for lack of room", PATIENCE, async || {
            let _ = etcd.put(b"key", &value).await;
            match place.status().members[0].pid {
                None => Ok(()),
                Some(pid) => Err(pid.to_string()),
            }
        })
        .await;
        let dead = place.status();
        assert_eq!((dead.ready, dead.members[0].healthy), (false, false));
        assert!(dead.members[0].process.starts_with("ended"), "{dead:#?}");
        let detail = &dead.blocks[0].detail;
        assert!(detail.contains("is full") && detail.contains("t-0"), "{detail}");
        fs::remove_file(&filler).unwrap();
        let after = place.until_ready().await;
        assert_eq!(after.members[0].id, before.members[0].id, "from its own data");
        assert!(after.blocks.is_empty());
        up.down().await;
    });
}

#[test]
fn little_room_is_shown_before_there_is_none() {
    run(async {
        let place = Place::on_small_disk(1, &newest(), 250);
        let up = place.up();
        let shown = place.until_ready().await;
        assert!(
            shown.problems.iter().any(|p| p.starts_with("DiskNearlyFull: ")),
            "{shown:#?}"
        );
        up.down().await;
    });
}

/// While the first one is stopped its ports are free, but they are its own.
#[test]
fn a_stopped_cluster_keeps_its_ports() {
    run(async {
        let without_ports = |place: &Place| {
            let text = fs::read_to_string(place.root().join("cluster.yaml")).unwrap();
            let (text, _) = text.split_once("\n  host:").unwrap();
            place.write_manifest(&format!("{text}\n"));
        };
        let urls = |status: &Status| {
            let members = status.members.iter();
            members
                .flat_map(|m| [m.client_url.clone(), m.peer_url.clone()])
                .collect::<Vec<_>>()
        };
        let (first, mut second) = (Place::new(1, &newest()), Place::new(1, &newest()));
        second.registry = first.registry.clone();
        without_ports(&first);
        without_ports(&second);
        let up = first.up();
        let before = urls(&first.until_ready().await);
        up.down().await;
        let other = second.up();
        let others = urls(&second.until_ready().await);
        assert!(
            others.iter().all(|url| !before.contains(url)),
            "{before:?} {others:?}"
        );
        other.down().await;
    });
}

/// What is done to a cluster of one, how that shows, and how it is mended.
struct Case {
    what: &'static str,
    harm: fn(&Place, &Status),
    shows: fn(&Status) -> bool,
    mend: fn(&Place, &Status),
}

const CASES: [Case; 2] = [
    Case {
        what: "a member that hangs",
        harm: |_, status| quorate_testkit::pause(process(status)),
        shows: |s| s.waits.iter().any(|wait| wait.reason == "MemberUnresponsive") && !s.members[0].healthy,
        mend: |_, status| {
            rustix::process::kill_process(process(status), rustix::process::Signal::CONT).unwrap()
        },
    },
    Case {
        what: "a key of the CA that is missing",
        harm: |place, _| fs::rename(place.root().join("pki/ca.key"), place.root().join("kept.key")).unwrap(),
        shows: |s| {
            s.problems
                .iter()
                .any(|p| p.starts_with("Certificates: ") && p.contains("ca.key"))
        },
        mend: |place, _| fs::rename(place.root().join("kept.key"), place.root().join("pki/ca.key")).unwrap(),
    },
];

#[test]
fn what_is_wrong_shows_as_what_it_is() {
    run(async {
        let place = Place::new(1, &newest());
        let up = place.up();
        for Case {
            what,
            harm,
            shows,
            mend,
        } in CASES
        {
            let before = place.until("well before", |s| s.ready && !shows(s)).await;
            harm(&place, &before);
            let shown = place.until(what, shows).await;
            let written = serde_json::to_value(&shown).unwrap();
            assert!(
                written["age"].is_u64() && written["stale"] == false,
                "{what}: {written}"
            );
            mend(&place, &before);
            place.until("well after", |s| s.ready && !shows(s)).await;
        }
        up.down().await;
    });
}

#[test]
fn a_dead_process_that_nobody_may_start_again_is_dead() {
    run(async {
        let place = Place::new(1, &newest());
        let up = place.up();
        place.until_ready().await;
        place.edit_manifest("\n  host:", "\n  paused: true\n  host:");
        let paused = place.until("paused", |s| s.spec.paused).await;
        kill(paused.members[0].pid.unwrap());
        let dead =
            |s: &Status| s.members[0].pid.is_none() && s.members[0].process.starts_with("ended: signal: 9");
        let shown = place.until("dead", dead).await;
        assert!(!shown.ready && !shown.members[0].healthy, "{shown:#?}");
        place.edit_manifest("\n  paused: true", "");
        place.until_ready().await;
        up.down().await;
    });
}

#[test]
fn data_of_another_cluster_is_foreign() {
    run(async {
        let (ours, theirs) = (Place::new(1, &newest()), Place::new(1, &newest()));
        let mut volumes = Vec::new();
        for place in [&ours, &theirs] {
            let up = place.up();
            volumes.push(place.until_ready().await.members[0].data_dir.clone());
            up.down().await;
        }
        let kept = ours.root().join("kept");
        fs::rename(&volumes[0], &kept).unwrap();
        fs::rename(&volumes[1], &volumes[0]).unwrap();
        let up = ours.up();
        let shown = ours.until("foreign", |s| blocked_by(s, "ForeignData")).await;
        assert!(pids(&shown).is_empty() && !shown.ready);
        fs::rename(&volumes[0], &volumes[1]).unwrap();
        fs::rename(&kept, &volumes[0]).unwrap();
        ours.until_ready().await;
        up.down().await;
    });
}
