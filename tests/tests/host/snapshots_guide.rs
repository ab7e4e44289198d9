//! The guide to snapshots, run in order beside a real cluster: every command, and every line that it shows.

use quorate_tests::cluster::Cluster;
use quorate_tests::etcd;
use quorate_tests::guide::compare::difference;
use quorate_tests::guide::document::{Item, items, marks};
use quorate_tests::guide::shell::{Came, Shell};

const GUIDE: &str = include_str!("../../../docs/guide/snapshots.md");

#[test]
fn the_guide_is_true() {
    let unknown: Vec<&str> = marks(GUIDE)
        .into_iter()
        .filter(|mark| *mark != "console")
        .collect();
    assert!(unknown.is_empty(), "blocks that nobody runs: {unknown:?}");
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(3, &version);
    cluster.up();
    let status = cluster.await_ready(3, &version);
    let shell = Shell::beside(&cluster, &version, status);
    let mut commands = 0;
    for item in items(GUIDE, "console") {
        let Item::Run { command, shown } = item else {
            panic!("{item:?} is no command");
        };
        commands += 1;
        let Came { well, printed } = shell.run(&command);
        println!("$ {command}\n{printed}");
        let fails = shown.first().is_some_and(|line| line.starts_with("error: "));
        assert_eq!(well, !fails, "$ {command}\n{printed}");
        let wrong = difference(shown.iter().map(String::as_str), &printed);
        assert_eq!(wrong, None, "$ {command}\n{printed}");
    }
    assert!(commands >= 25, "only {commands} commands");
}
