//! Volumes that cannot be written.

use std::process::Command;

use quorate_pod::contract::Found;
use quorate_pod::{How, Report};

use crate::pod::{Slot, etcd};

/// Runs a script where it may mount things that nobody else sees. `$Q` is quorate.
fn with_mounts(script: &str) -> String {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-euc", script]);
    command.env("Q", env!("CARGO_BIN_EXE_quorate"));
    let output = command
        .output()
        .expect("this test mounts a small disk: install util-linux");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

fn unknown(report: &str) -> String {
    let report = Report::read(report.trim().as_bytes()).unwrap();
    assert!(report.fired && report.volume_id.is_empty(), "{report:?}");
    match report.volume {
        Found::Unknown { why } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_or_read_only_volume_is_said() {
    let slot = Slot::new();
    let volume = slot.volume();
    let volume = volume.display();
    let full = with_mounts(&format!(
        "mount -t tmpfs -o size=16k,nr_inodes=20 none {volume}; \
         dd if=/dev/zero of={volume}/fill bs=4k count=8 2>/dev/null || true; \
         $Q prepare --look --patience 0s --generation 0 --volume {volume}"
    ));
    let why = unknown(&full);
    assert!(why.contains("No space left"), "{why}");
    let read_only = with_mounts(&format!(
        "mount -t tmpfs -o ro none {volume}; $Q prepare --look --patience 0s --generation 0 --volume {volume}"
    ));
    let why = unknown(&read_only);
    assert!(
        why.contains("cannot create") && why.contains("Read-only file system"),
        "{why}"
    );
}

#[test]
fn a_plain_restart_passes_on_a_full_disk_and_a_change_does_not() {
    let slot = Slot::new();
    slot.served(&etcd(6));
    let seen = slot.pod(&etcd(6), "c1");
    seen.passes();
    let id = seen.look().volume_id;
    let changed = slot.pod(&etcd(6), "c2");
    changed.go(&id, How::Resume);
    let volume = slot.volume();
    let small = slot.dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let gate = |pod: &crate::pod::Pod<'_>| {
        let command = pod.gate("0s");
        let words: Vec<String> = command
            .get_args()
            .map(|word| word.to_str().unwrap().to_owned())
            .collect();
        words.join(" ")
    };
    let told = with_mounts(&format!(
        "mount -t tmpfs -o size=300m none {small}; cp -a {volume}/. {small}/; mount --bind {small} {volume}; \
         dd if=/dev/zero of={volume}/fill bs=64k 2>/dev/null || true; \
         dd if=/dev/zero of={volume}/fill2 bs=1k 2>/dev/null || true; \
         $Q {plain}; echo plain passed; $Q {changed} 2>&1 || echo the other ended with $?",
        small = small.display(),
        volume = volume.display(),
        plain = gate(&seen),
        changed = gate(&changed),
    ));
    assert!(told.contains("plain passed"), "{told}");
    assert!(
        told.contains("No space left") && told.contains("volume.json"),
        "{told}"
    );
    assert!(told.contains("the other ended with 1"), "{told}");
}
