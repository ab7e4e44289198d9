//! What is wrong shows as what it is, within seconds, and is taken back when it is mended.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use quorate_host::{Block, Status};
use quorate_pki::{Ca, Layout, Leaf, LeafUsages, MemberIdentity, PairPem, Policy, Wanted, ensure};
use quorate_testkit::{DefaultPorts, await_that_async};

use crate::harness::{PATIENCE, Place, any_etcd, first_member, kill, pids, run};

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
        let place = Place::on_small_disk(1, &any_etcd(), 320);
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
        let place = Place::on_small_disk(1, &any_etcd(), 250);
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
        let _ports = DefaultPorts::acquire();
        let (first, mut second) = (Place::new(1, &any_etcd()), Place::new(1, &any_etcd()));
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

const CASES: [Case; 3] = [
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
    Case {
        what: "a key of the CA that cannot be read",
        harm: |place, _| {
            let key = place.root().join("pki/ca.key");
            fs::rename(&key, place.root().join("kept.key")).unwrap();
            fs::create_dir(key).unwrap();
        },
        shows: |s| {
            let named = |b: &Block| b.reason == "Certificates" && b.detail.contains("pki/ca.key");
            s.blocks.iter().any(named) && !s.ready && s.members[0].healthy
        },
        mend: |place, _| {
            let key = place.root().join("pki/ca.key");
            fs::remove_dir(&key).unwrap();
            fs::rename(place.root().join("kept.key"), key).unwrap();
        },
    },
];

#[test]
fn what_is_wrong_shows_as_what_it_is() {
    run(async {
        let place = Place::new(1, &any_etcd());
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

/// Nothing is issued then, and new connections are refused while those that are open serve.
#[test]
fn a_certificate_that_expires_while_the_cluster_is_paused_is_shown() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        place.until_ready().await;
        place.edit_manifest("\n  host:", "\n  paused: true\n  host:");
        let paused = place.until("paused", |s| s.spec.paused).await;
        assert!(!blocked_by(&paused, "Certificates"), "{paused:#?}");
        let layout = Layout::new(&place.root().join("pki"));
        let read = |path: &Path| fs::read(path).unwrap();
        let ca = PairPem {
            cert: read(&layout.ca().cert),
            key: read(&layout.ca().key),
        };
        let MemberIdentity { name, sans } = MemberIdentity::local("t-0", []).unwrap();
        let leaf = Leaf {
            common_name: &name,
            cluster_name: "t",
            sans,
            usages: LeafUsages::ServerAndClient,
        };
        let (hour, before) = (
            Duration::from_secs(3600),
            SystemTime::now() - Duration::from_secs(86_400),
        );
        let expired = Ca::read(&ca).unwrap().issue(&leaf, hour, before).unwrap();
        fs::write(layout.server(&name).key, expired.key).unwrap();
        fs::write(layout.server(&name).cert, expired.cert).unwrap();
        let named = |b: &Block| {
            b.reason == "Certificates"
                && b.detail.contains("server-t-0.crt expired at")
                && b.detail.contains("spec.paused")
        };
        let shown = place.until("shown", |s| s.blocks.iter().any(named)).await;
        assert!(!shown.ready, "{shown:#?}");
        place.edit_manifest("\n  paused: true", "");
        let after = place.until_ready().await;
        assert!(!blocked_by(&after, "Certificates"), "{after:#?}");
        up.down().await;
    });
}

#[test]
fn a_pause_holds_while_certificates_cannot_be_kept() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        place.until_ready().await;
        let key = place.root().join("pki/ca.key");
        fs::rename(&key, place.root().join("kept.key")).unwrap();
        fs::create_dir(&key).unwrap();
        place.until("frozen", |s| blocked_by(s, "Certificates")).await;
        place.edit_manifest("\n  host:", "\n  paused: true\n  host:");
        let waits = |s: &Status| s.waits.iter().any(|w| w.reason == "Paused");
        place.until("paused", |s| s.spec.paused && waits(s)).await;
        place.edit_manifest("\n  paused: true", "");
        place
            .until("paused no longer", |s| !s.spec.paused && !waits(s))
            .await;
        fs::remove_dir(&key).unwrap();
        fs::rename(place.root().join("kept.key"), key).unwrap();
        place.until_ready().await;
        up.down().await;
    });
}

#[test]
fn a_supervisor_that_begins_without_a_readable_key_looks_after_the_members() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        place.until_ready().await;
        up.down().await;
        let (key, kept) = (place.root().join("pki/ca.key"), place.root().join("kept.key"));
        fs::rename(&key, &kept).unwrap();
        fs::create_dir(&key).unwrap();
        let up = place.up();
        let served = |s: &Status| blocked_by(s, "Certificates") && s.members[0].healthy;
        let shown = place.until("blocked, and served", served).await;
        kill(shown.members[0].pid.unwrap());
        let healed = |s: &Status| served(s) && pids(s) != pids(&shown);
        let healed = pids(&place.until("healed", healed).await);
        // They come first, whatever else is wrong.
        place.edit_manifest("name: t", "name: other");
        let both = |s: &Status| {
            let both = |b: &Block| b.reason == "Certificates" && b.detail.contains("changed from t to other");
            s.blocks.iter().any(both)
        };
        place.until("blocked for both", both).await;
        place.edit_manifest("name: other", "name: t");
        up.crash().await;
        // A CA that was put in the place of another is not what members were given.
        let (cert, other) = (place.root().join("pki/ca.crt"), place.root().join("other"));
        let wanted = Wanted::new("other", Vec::new());
        ensure(&other, &wanted, &Policy::default(), SystemTime::now()).unwrap();
        let given = fs::read(&cert).unwrap();
        fs::copy(other.join("ca.crt"), &cert).unwrap();
        let refused = place.up().failure().await.chain();
        assert!(refused.contains("ca.key"), "{refused}");
        fs::write(&cert, given).unwrap();
        let up = place.up();
        let shown = place.until("blocked, and served", served).await;
        assert_eq!(pids(&shown), healed, "nobody was stopped");
        fs::remove_dir(&key).unwrap();
        fs::rename(&kept, &key).unwrap();
        place.until_ready().await;
        up.down().await;
    });
}

#[test]
fn a_dead_process_that_nobody_may_start_again_is_dead() {
    run(async {
        let place = Place::new(1, &any_etcd());
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
        let (ours, theirs) = (Place::new(1, &any_etcd()), Place::new(1, &any_etcd()));
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
