//! `quorate snapshot save` from real members: whole files, or the older ones as they were.

use std::path::Path;

use quorate_testkit::versions;
use serde_json::Value;

use crate::etcd::{Etcd, Then, Wire, newest, snapshot_tool};
use crate::sandbox::{Run, Sandbox, told};

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn with_large_values(etcd: &Etcd) {
    for number in 0..4 {
        etcd.put(&format!("large-{number}"), "x".repeat(1_000_000).as_bytes());
    }
}

#[test]
fn every_version() {
    for version in versions() {
        let sandbox = Sandbox::new();
        let etcd = Etcd::start(&version, &sandbox.path("etcd"));
        with_large_values(&etcd);
        std::fs::create_dir(sandbox.path("out")).unwrap();
        let file = sandbox.file("out/etcd.db", "an older one");
        let arguments = ["snapshot", "save", &file, "--endpoints", &etcd.url, "-o", "json"];
        let saved: Value = serde_json::from_str(sandbox.run(&arguments).succeeds()).unwrap();
        let size = std::fs::metadata(&file).unwrap().len();
        assert!(size > 4_000_000 && size % 512 == 32, "{version}: {saved}");
        assert_eq!(saved["size"], size, "{version}");
        assert_eq!(saved["endpoint"], etcd.url.as_str());
        let bytes = std::fs::read(&file).unwrap();
        let digest: String = bytes[bytes.len() - 32..]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(saved["sha256"], digest.as_str(), "{version}");
        assert_eq!(names(&sandbox.path("out")), ["etcd.db"], "{version}");

        // etcd's own tool takes it.
        let tool = snapshot_tool(&version);
        let restored = std::process::Command::new(tool)
            .args(["snapshot", "restore", &file, "--data-dir"])
            .arg(sandbox.path("restored"))
            .output()
            .unwrap();
        assert!(restored.status.success(), "{version}: {restored:?}");
        assert!(quorate_datadir::db_path(&sandbox.path("restored")).is_file());
    }
}

#[test]
fn what_fails_leaves_the_older_file_alone() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    with_large_values(&etcd);
    let file = sandbox.file("out/etcd.db", "an older one");
    let save = |url: &str| {
        sandbox.run(&[
            "snapshot",
            "save",
            &file,
            "--idle-timeout",
            "1s",
            "--endpoints",
            url,
        ])
    };
    let untouched = |run: &Run| {
        assert_eq!(std::fs::read(&file).unwrap(), b"an older one", "{run:?}");
        assert_eq!(names(&sandbox.path("out")), ["etcd.db"], "{run:?}");
    };

    let refused = save("http://127.0.0.1:1");
    refused.fails(1, &["http://127.0.0.1:1", "Nothing was saved"]);
    untouched(&refused);
    let cut = save(&Wire::to(&etcd, 1_000_000, Then::Cut).url);
    cut.fails(1, &["snapshot on http://127.0.0.1:", "Nothing was saved"]);
    untouched(&cut);
    let stalled = save(&Wire::to(&etcd, 1_000_000, Then::Stall).url);
    stalled.fails(1, &["waited 1000ms", "Nothing was saved"]);
    untouched(&stalled);

    let many = save("http://127.0.0.1:1,http://127.0.0.1:2");
    many.fails(2, &["name one of them"]);
    let trustless = save("https://127.0.0.1:1");
    trustless.fails(
        2,
        &["--cacert is required for https endpoints (https://127.0.0.1:1)"],
    );
    untouched(&trustless);
    sandbox
        .run(&["snapshot", "save", "no/such/x", "--endpoints", &etcd.url])
        .fails(1, &["cannot write no/such/x", "No such file or directory"]);
    sandbox
        .run(&["snapshot", "save", "x"])
        .fails(1, &["there is no cluster under", "--endpoints"]);
    assert!(sandbox.is_untouched());
}

/// A file that is renamed over a device or a link would end it, for everyone on this machine.
#[test]
fn only_a_regular_file_is_replaced() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    etcd.put("key", b"value");
    let snapshot = sandbox.path("snapshot");
    let snapshot = snapshot.to_str().unwrap();
    let save = |file: &str| sandbox.run(&["snapshot", "save", file, "--endpoints", &etcd.url]);
    save(snapshot).succeeds();
    let data_dir = etcd.data_dir.to_str().unwrap();
    let older = sandbox.file("older", "an older one");
    let place = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let (directory, link, pipe, socket) = (place("directory"), place("link"), place("pipe"), place("socket"));
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::symlink(&older, &link).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let kind = |path: &str| std::fs::symlink_metadata(path).unwrap().file_type();
    for path in [&directory, &link, &pipe, &socket] {
        let (before, expected) = (kind(path), format!("{path} exists and is not a regular file"));
        save(path).fails(2, &[&expected]);
        let dead = sandbox.run(&["snapshot", "save", path, "--from-data-dir", data_dir]);
        dead.fails(2, &[&expected]);
        let get = sandbox.run(&["snapshot", "get", snapshot, "key", "--output-file", path]);
        get.fails(2, &[&expected, "Leave --output-file out to print"]);
        let archive = format!("file://{}", place("archive"));
        let agent = [
            "backup",
            "run",
            &archive,
            "--endpoints",
            &etcd.url,
            "--status-file",
            path,
        ];
        sandbox.run(&agent).fails(2, &[&expected]);
        assert_eq!(kind(path), before, "{path}");
    }
    assert_eq!(std::fs::read(&older).unwrap(), b"an older one");
}

#[test]
fn a_disk_that_is_full_is_told() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    with_large_values(&etcd);
    let file = sandbox.file("out/etcd.db", "an older one");
    let save = sandbox.command(&["snapshot", "save", &file, "--endpoints", &etcd.url]);
    // A limit on the size of files fails a write as a full disk does; the signal that comes with it is ignored.
    let quoted: Vec<String> = std::iter::once(save.get_program())
        .chain(save.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let limited = std::process::Command::new("bash")
        .args([
            "-c",
            &format!("trap '' XFSZ; ulimit -f 1000; exec {}", quoted.join(" ")),
        ])
        .output()
        .unwrap();
    let run = told(limited);
    run.fails(
        1,
        &[
            "cannot write the snapshot",
            "File too large",
            "Nothing there was changed",
        ],
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"an older one");
    assert_eq!(names(&sandbox.path("out")), ["etcd.db"]);
}

#[test]
fn stopped_half_way_it_leaves_nothing() {
    for signal in ["-INT", "-TERM"] {
        let sandbox = Sandbox::new();
        let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
        with_large_values(&etcd);
        let file = sandbox.file("out/etcd.db", "an older one");
        let wire = Wire::to(&etcd, 1_000_000, Then::Stall);
        let mut command = sandbox.command(&["snapshot", "save", &file, "--endpoints", &wire.url]);
        let child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        wire.await_full();
        let pid = child.id().to_string();
        let sent = std::process::Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
        let run = told(child.wait_with_output().unwrap());
        run.fails(1, &["stopped", "is as it was"]);
        assert_eq!(std::fs::read(&file).unwrap(), b"an older one");
        assert_eq!(names(&sandbox.path("out")), ["etcd.db"]);
    }
}

#[test]
fn users_are_asked_for_their_password() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["role", "add", "root"]);
    etcd.ctl(&["user", "grant-role", "root", "root"]);
    etcd.ctl(&["auth", "enable"]);
    let save = |more: &[&str]| {
        let first = ["snapshot", "save", "etcd.db", "--endpoints", &etcd.url];
        let all: Vec<&str> = first.iter().chain(more).copied().collect();
        sandbox.command(&all)
    };
    told(save(&[]).output().unwrap()).fails(1, &["Nothing was saved"]);
    told(save(&["--user", "root"]).output().unwrap()).fails(2, &["ETCDCTL_PASSWORD"]);
    told(save(&["--user", "root:wrong"]).output().unwrap()).fails(1, &["Nothing was saved"]);
    told(save(&["--user", "root:secret"]).output().unwrap()).succeeds();
    let by_environment = save(&["--user", "root"])
        .env("ETCDCTL_PASSWORD", "secret")
        .output();
    told(by_environment.unwrap()).succeeds();
}
