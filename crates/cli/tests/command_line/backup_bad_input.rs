//! Archives and stores that are not what was thought: refused before anything is written, with what was found.

use std::fs;
use std::path::{Path, PathBuf};

use quorate_backup::record::{Delta, Entry};
use quorate_backup::{Archive, Store, StoreOptions, StoreUrl};
use quorate_testkit::{StoreKind as Kind, StoreServer};

use crate::agent::Agent;
use crate::etcd::{Etcd, newest};
use crate::sandbox::Sandbox;

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

#[test]
fn what_makes_no_sense_is_said_at_once() {
    let sandbox = Sandbox::new();
    let archive = url(&sandbox.path("archive"));
    let archive = archive.as_str();
    for (words, parts) in [
        (
            vec!["list", "nowhere"],
            vec!["not the address of a store", "file:///"],
        ),
        (
            vec!["list", "s3://bucket/x?secret_key=hunter2"],
            vec!["holds no secrets"],
        ),
        (vec!["prune", archive, "--keep", "7"], vec!["--keep 7", "7d"]),
        (
            vec!["prune", archive, "--keep", "7d", "--keep", "8d"],
            vec!["two parts"],
        ),
        (
            vec!["run", archive, "--endpoints", "https://127.0.0.1:1"],
            vec!["--cacert is required for https endpoints (https://127.0.0.1:1)"],
        ),
        (
            vec![
                "run",
                archive,
                "--endpoints",
                "http://127.0.0.1:1",
                "--schedule",
                "never",
            ],
            vec!["never"],
        ),
        (
            vec!["restore", archive, "--data-dir", "x", "--to-time", "yesterday"],
            vec!["10m ago"],
        ),
        (
            vec![
                "restore",
                archive,
                "--data-dir",
                "x",
                "--to-time",
                "now",
                "--to-revision",
                "7",
            ],
            vec!["cannot be used"],
        ),
        (
            vec![
                "undo", archive, "--prefix", "a", "--from", "0", "--to", "9", "--into", "x",
            ],
            vec!["from 1 on"],
        ),
        (
            vec![
                "restore",
                archive,
                "--data-dir",
                "x",
                "--every-member",
                "--initial-cluster",
                "../a=http://127.0.0.1:1",
            ],
            vec!["is not NAME=URL"],
        ),
    ] {
        let run = sandbox.run(&[&["backup"], &words[..]].concat());
        run.fails(2, &parts);
        assert!(!run.err.contains("hunter2"), "{run:?}");
    }
    sandbox
        .run(&["backup", "list", archive])
        .fails(3, &["there is no archive"]);
    let key = sandbox.file("key", "short");
    sandbox
        .run(&["backup", "list", archive, "--key-file", &key])
        .fails(3, &["is not a key file", "openssl rand"]);
    let words = [
        "backup",
        "now",
        archive,
        "--endpoints",
        "http://127.0.0.1:1",
        "--patience",
        "1s",
    ];
    assert_eq!(sandbox.run(&words).code, 1);
    assert!(
        !sandbox.path("archive").exists(),
        "nothing was made for a cluster that does not answer"
    );
}

#[test]
fn a_store_that_does_not_know_us_or_keeps_nothing_apart() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    let s3 = StoreServer::start(Kind::S3);
    let now = |url: &str| {
        sandbox.run(&[
            "backup",
            "now",
            url,
            "--endpoints",
            &etcd.url,
            "--patience",
            "60s",
        ])
    };
    now(&s3.url("missing", "etcd")).fails(1, &["missing", "Make it first"]);
    s3.make_bucket("there");
    let url = s3.url("there", "etcd");
    now(&url).succeeds();
    let right = fs::read_to_string(s3.credentials()).unwrap();
    fs::write(s3.credentials(), right.replace("protects-nothing", "hunter-two")).unwrap();
    for words in [vec!["list", &url], vec!["now", &url, "--endpoints", &etcd.url]] {
        let run = sandbox.run(&[&["backup"], &words[..], &["--patience", "60s"]].concat());
        run.fails(1, &["Check the credentials"]);
        assert!(!run.err.contains("hunter"), "{run:?}");
    }
    let agent = sandbox.run(&[
        "backup",
        "run",
        &url,
        "--endpoints",
        &etcd.url,
        "--patience",
        "60s",
    ]);
    assert_eq!(agent.code, 1, "{agent:?}");
    assert!(agent.err.contains("Check the credentials"), "{agent:?}");
    fs::write(s3.credentials(), right).unwrap();
    sandbox.run(&["backup", "verify", &url]).succeeds();

    // It works, and says what it cannot promise.
    let forgetful = StoreServer::start(Kind::Forgetful);
    forgetful.make_bucket("bucket");
    let run = now(&forgetful.url("bucket", "etcd"));
    run.succeeds();
    assert!(run.err.contains("cannot keep two agents apart"), "{run:?}");
}

struct Filled {
    sandbox: Sandbox,
    etcd: Etcd,
    archive: PathBuf,
    /// After each of three flushes, with a full copy before the first and before the last.
    revisions: [i64; 3],
}

fn filled() -> Filled {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    let archive = sandbox.path("archive");
    let mut agent = Agent::start(&sandbox, &url(&archive), &etcd, &[]);
    let mut revisions = [0; 3];
    for (number, revision) in revisions.iter_mut().enumerate() {
        if number == 2 {
            let words = ["backup", "now", &url(&archive), "--endpoints", &etcd.url];
            sandbox.run(&words).succeeds();
        }
        etcd.ctl(&["put", "key", &format!("value {number}")]);
        *revision = agent.catch_up(&etcd);
    }
    agent.stop();
    Filled {
        sandbox,
        etcd,
        archive,
        revisions,
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn flip(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

#[test]
fn points_and_places_that_are_not_there() {
    let Filled {
        sandbox,
        etcd,
        archive,
        revisions,
    } = filled();
    let url = url(&archive);
    let target = sandbox.path("target").display().to_string();
    let restore = |more: &[&str]| {
        let words = ["backup", "restore", &url, "--data-dir", &target];
        sandbox.run(&[&words[..], more].concat())
    };
    restore(&["--to-time", "1h ago"]).fails(3, &["The first time that is known is"]);
    restore(&["--to-revision", "999999"]).fails(3, &["999999"]);
    restore(&["--timeline", "7"]).fails(3, &["there is no timeline 7"]);
    // Long after the last sample nobody knows what was written: that has to be agreed to.
    restore(&["--to-time", "2200-01-01T00:00:00Z"]).fails(3, &["Nothing was done", "--yes"]);
    assert!(!sandbox.path("target").exists());
    fs::create_dir(sandbox.path("target")).unwrap();
    fs::write(sandbox.path("target/mine"), "precious").unwrap();
    restore(&[]).fails(3, &["there is something in it", "nothing is overwritten"]);
    restore(&["--dry-run"]).fails(3, &["there is something in it"]);
    assert_eq!(
        fs::read_to_string(sandbox.path("target/mine")).unwrap(),
        "precious"
    );
    fs::remove_dir_all(sandbox.path("target")).unwrap();

    // Another cluster has no business here, unless it is meant.
    let other = Etcd::start(&newest(), &sandbox.path("other"));
    let now = ["backup", "now", &url, "--endpoints", &other.url];
    sandbox.run(&now).fails(3, &["--new-timeline"]);
    let run = ["backup", "run", &url, "--endpoints", &other.url];
    let agent = sandbox.run(&run);
    assert_eq!(agent.code, 3, "{agent:?}");
    let listed = sandbox.run(&["backup", "list", &url, "-o", "json"]);
    assert!(!listed.succeeds().contains("\"timeline\": 2"), "{listed:?}");
    sandbox.run(&[&now[..], &["--new-timeline"]].concat()).succeeds();

    // More than there is room for.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let place = StoreUrl::parse(&url).unwrap();
        let store = Store::open(&place, &StoreOptions::default()).await.unwrap();
        let archive = Archive::open(&store, None).await.unwrap();
        let history = archive.history(1).await.unwrap();
        let delta = Delta {
            from: revisions[2] + 1,
            to: revisions[2] + 1,
            row_bytes: 1 << 55,
            ..(*history.deltas().last().unwrap().1).clone()
        };
        let mut log = archive.log(1, "a test").await.unwrap();
        log.append(Entry::Delta(delta), jiff::Timestamp::now())
            .await
            .unwrap();
    });
    restore(&["--timeline", "1"]).fails(3, &["too little room", "bytes are needed"]);
    assert!(!sandbox.path("target").exists());
    drop(etcd);
}

#[test]
fn what_is_damaged_is_told_and_the_rest_is_used() {
    let Filled {
        sandbox,
        etcd,
        archive,
        revisions,
    } = filled();
    let url = url(&archive);
    let data = archive.join("t/00000001");
    let (fulls, deltas) = (files(&data.join("full")), files(&data.join("delta")));
    let target = sandbox.path("target").display().to_string();
    let restore = |more: &[&str]| {
        let words = ["backup", "restore", &url, "--data-dir", &target];
        let run = sandbox.run(&[&words[..], more].concat());
        let _ = fs::remove_dir_all(sandbox.path("target"));
        run
    };
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();

    // The newest full copy: found, and done without.
    let newest = fulls.last().unwrap();
    let before = fs::read(newest).unwrap();
    flip(newest);
    let verified = sandbox.run(&["backup", "verify", &url]);
    assert_eq!(verified.code, 1, "{verified:?}");
    assert!(verified.out.contains(&name(newest)), "{verified:?}");
    let restored = restore(&[]);
    assert!(
        restored
            .succeeds()
            .contains(&format!("revision         {}", revisions[2])),
        "{restored:?}"
    );
    assert!(
        restored.out.contains("passed over") || restored.err.contains("passed over"),
        "{restored:?}"
    );
    fs::write(newest, before).unwrap();

    // A delta between: the full copy behind it has its revisions in its own history.
    let between = &deltas[deltas.len() - 2];
    fs::remove_file(between).unwrap();
    let inside = restore(&["--to-revision", &revisions[1].to_string()]);
    assert!(
        inside
            .succeeds()
            .contains(&format!("revision         {}", revisions[1])),
        "{inside:?}"
    );
    restore(&[]).succeeds();
    let verified = sandbox.run(&["backup", "verify", &url, "--level", "read"]);
    assert!(
        verified.code == 1 && verified.out.contains(&name(between)),
        "{verified:?}"
    );

    // A record: the log says so, and an agent does not write behind what it cannot read.
    let record = files(&data.join("log")).pop().unwrap();
    flip(&record);
    sandbox
        .run(&["backup", "list", &url])
        .fails(1, &["something in the log of the archive is damaged"]);
    let copied = sandbox.run(&["backup", "copy", &url, &self::url(&sandbox.path("copy"))]);
    assert_eq!(copied.code, 1, "{copied:?}");
    assert!(copied.err.contains("not in the copy"), "{copied:?}");
    drop(etcd);
}

#[test]
fn what_the_cluster_forgot_is_a_gap_and_is_said() {
    let Filled {
        sandbox,
        etcd,
        archive,
        revisions,
    } = filled();
    let url = url(&archive);
    for number in 0..5 {
        etcd.ctl(&["put", "lost", &number.to_string()]);
    }
    let forgotten = revisions[2] + 3;
    etcd.ctl(&["compact", &(revisions[2] + 4).to_string()]);
    let mut agent = Agent::start(&sandbox, &url, &etcd, &[]);
    let status = agent.until("it counts what is lost", |status| {
        status["missing"].as_i64() > Some(0)
    });
    assert!(status["missing"].as_i64() >= Some(3), "{status}");
    let last = agent.catch_up(&etcd);
    agent.stop();
    let listed = sandbox.run(&["backup", "list", &url]);
    assert!(listed.succeeds().contains("missing"), "{listed:?}");
    let target = sandbox.path("target").display().to_string();
    let words = ["backup", "restore", &url, "--data-dir", &target, "--to-revision"];
    sandbox
        .run(&[&words[..], &[&forgotten.to_string()]].concat())
        .fails(3, &[&forgotten.to_string()]);
    sandbox
        .run(&[&words[..], &[&last.to_string()]].concat())
        .succeeds();
}
