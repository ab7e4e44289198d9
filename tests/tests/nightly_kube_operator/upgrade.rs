//! Version changes by editing one value of the manifest, under clients that write down every answer.

use quorate_tests::etcd;
use quorate_tests::kube::assertions::await_version;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::changes::upgrade;
use quorate_tests::kube::cluster::{is_ready, manifest, members};
use quorate_tests::kube::kills::Kills;
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;

fn oldest(minor: &str) -> String {
    let prefix = format!("{minor}.");
    let found = etcd::patches().into_iter().find(|v| v.starts_with(&prefix));
    found.unwrap_or_else(|| panic!("no etcd {minor}: run `make tools`"))
}

#[test]
fn no_acknowledged_write_is_lost_from_the_oldest_minor_to_the_newest_and_in_a_patch() {
    let path = [
        etcd::newest("3.4"),
        oldest("3.5"),
        etcd::newest("3.5"),
        etcd::newest("3.6"),
        etcd::newest("3.7"),
    ];
    assert_ne!(path[1], path[2], "two patches of 3.5 are in the cache");
    let namespace = Namespace::new("upgrade");
    let cluster = namespace.create("c", &manifest("c", 3, &path[0]));
    cluster.await_ready(3, &path[0]);
    await_version(&cluster, &path[0]);
    let traffic = Traffic::start(&cluster);
    for version in &path[1..] {
        upgrade(&cluster, &traffic, version);
    }
    traffic.verdict();
}

/// The operator that acts is killed each time it has reported another kind of step, and the next goes on from there.
#[test]
fn an_upgrade_whose_operator_is_killed_between_its_steps_is_done_all_the_same() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let (from, to) = (etcd::newest("3.6"), etcd::newest("3.7"));
    let namespace = Namespace::alone("upkill");
    let cluster = namespace.create("c", &manifest("c", 3, &from));
    let before = cluster.await_ready(3, &from);
    let traffic = Traffic::start(&cluster);
    let killing = Kills::on(&cluster);
    traffic.planned(&format!("change to {to}, operators killed"), || {
        cluster.set_version(&to);
        let killed = killing.through(|c| is_ready(c, 3, &to));
        assert!(killed.len() >= 2, "killed in the middle of it: {killed:?}");
        assert_eq!(members(&cluster.get()), members(&before));
    });
    traffic.verdict();
    bed.await_operator();
}

#[test]
fn a_version_without_an_image_harms_nothing() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("versions");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    cluster.put("key", "value");
    let uids = || {
        (0..3)
            .map(|n| cluster.pod_uid(&format!("c-{n}")))
            .collect::<Vec<_>>()
    };
    let pods = uids();
    // Nobody ran it, so that a minor can be taken back as well.
    for missing in ["3.6.999", "3.7.999"] {
        cluster.set_version(missing);
        let message = cluster.await_condition("Ready", "False", "Preparing");
        let shown = namespace.wait_for("why the pod does not start", || {
            let message = cluster.await_condition("Ready", "False", "Preparing");
            (message.contains("Image") || message.contains("Pull")).then_some(message)
        });
        println!("{missing}: first {message:?}, then {shown:?}");
        assert_eq!(cluster.value("key"), "value", "the other two serve");
        let now = uids();
        assert_eq!(pods[..2], now[..2], "only one member was taken for {missing}");

        cluster.set_version(&version);
        let after = cluster.await_ready(3, &version);
        assert_eq!(
            members(&after),
            members(&before),
            "{missing}: it came back with its data"
        );
        assert_eq!(pods[..2], uids()[..2], "{missing}");
    }
}
