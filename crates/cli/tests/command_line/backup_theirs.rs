//! `quorate backup …` on archives that a real etcdbrctl wrote.

use std::path::Path;

use quorate_testkit::{Client, EtcdbrArchive, EtcdbrWriter, Server, Start, binary};
use serde_json::Value;

use crate::sandbox::{Run, Sandbox};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// An etcd of the minor that etcdbrctl replays with, and etcdbrctl beside it.
struct Theirs {
    server: Server,
    client: Client,
    archive: EtcdbrArchive,
    sandbox: Sandbox,
}

impl Theirs {
    fn start() -> Theirs {
        let sandbox = Sandbox::new();
        let server = Start::new(&quorate_testkit::newest("3.5"), &sandbox.path("etcd"))
            .flag("--unsafe-no-fsync")
            .serve();
        std::fs::create_dir(sandbox.path("theirs")).unwrap();
        Theirs {
            client: server.client(),
            server,
            archive: EtcdbrArchive::below(&sandbox.path("theirs")),
            sandbox,
        }
    }

    fn url(&self) -> String {
        url(&self.archive.root())
    }

    /// The etcd that wrote it, for `--etcd`.
    fn etcd(&self) -> String {
        binary(self.server.version(), "etcd").display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.sandbox.path(name).display().to_string()
    }

    /// `quorate backup` with these words.
    fn run(&self, words: &[&str]) -> Run {
        self.sandbox.run(&[&["backup"], words].concat())
    }

    /// The same for programs.
    fn json(&self, words: &[&str]) -> Value {
        json(self.run(&[words, &["-o", "json"]].concat()).succeeds())
    }

    /// What etcd itself says of the keys at a revision.
    fn hash(&self, revision: i64) -> Value {
        let words = ["endpoint", "hashkv", "-w", "json", "--rev", &revision.to_string()];
        json(&self.server.etcdctl(None, &words))[0]["HashKV"]["hash"].clone()
    }

    /// A directory has the keys that etcd had.
    fn check(&self, dir: &str, revision: i64) {
        let words = [
            "snapshot",
            "hash",
            dir,
            "--rev",
            &revision.to_string(),
            "-o",
            "json",
        ];
        let made = json(self.sandbox.run(&words).succeeds());
        assert_eq!(made["hash"], self.hash(revision), "{dir} at {revision}");
    }

    /// Puts keys, and waits until they are in the archive; the revision.
    fn puts(&self, writer: &mut EtcdbrWriter, prefix: &str, count: u32) -> i64 {
        let put = |number| {
            let key = format!("{prefix}/{number:03}");
            self.client.put(key.as_bytes(), key.as_bytes())
        };
        let last = (0..count).map(put).last().unwrap();
        writer.await_revision(last);
        last
    }

    /// The names of its deltas, in order.
    fn deltas(&self) -> Vec<String> {
        let listed = self.json(&["list", &self.url()]);
        let deltas = listed["deltas"].as_array().unwrap().iter();
        deltas
            .map(|delta| delta["object"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[test]
fn an_archive_of_etcdbrctl_is_used_as_it_lies_there() {
    let theirs = Theirs::start();
    let archive = theirs.url();
    let before = theirs.client.put(b"app/first", b"one");
    let mut writer = theirs.archive.write(&theirs.server, &[]);
    writer.await_revision(before);
    theirs.client.grant(7, 100_000);
    theirs.client.put_with_lease(b"app/leased", b"x", 7);
    let good = theirs.puts(&mut writer, "app", 40);

    // Into an archive of ours; the writer goes on meanwhile.
    let ours = url(&theirs.sandbox.path("ours"));
    let copied = theirs.json(&["copy", &archive, &ours]);
    assert_eq!(
        [&copied["fulls"], &copied["revision"], &copied["leases"]],
        [1, good, 1]
    );
    theirs.client.delete(b"app/010", b"app/030");
    let last = theirs.client.put(b"other", b"two");
    writer.stop_at(last);

    // What is there.
    let listed = theirs.json(&["list", &archive]);
    assert_eq!(
        [&listed["writtenBy"], &listed["missing"]],
        [&Value::from("etcdbrctl"), &Value::Null]
    );
    assert_eq!([&listed["reaches"], &listed["fulls"][0]["to"]], [last, before]);
    let deltas = theirs.deltas();
    assert!(deltas.len() >= 2, "{listed}");
    let page = theirs.run(&["list", &archive]);
    for part in [
        "written by etcdbrctl",
        "REVISIONS",
        "v2/Full-",
        &format!("revision {last}"),
    ] {
        assert!(page.succeeds().contains(part), "{page:?}");
    }
    assert!(!page.out.contains(&deltas[0]), "{page:?}");
    let page = theirs.run(&["list", &archive, "--deltas"]);
    assert!(page.succeeds().contains(&deltas[0]), "{page:?}");

    // Would it restore? Up to a real etcd that says the same.
    let read = theirs.json(&["verify", &archive, "--level", "read"]);
    assert_eq!(
        [&read["fulls"], &read["deltas"], &read["rebuilt"]],
        [&Value::from(1), &Value::from(deltas.len()), &Value::Null]
    );
    let etcd = theirs.etcd();
    for (level, served) in [("rebuilt", false), ("served", true)] {
        let proven = theirs.json(&["verify", &archive, "--level", level, "--etcd", &etcd]);
        let rebuilt = &proven["rebuilt"];
        assert_eq!(
            [&rebuilt["revision"], &rebuilt["hash"]["hash"], &rebuilt["served"]],
            [&Value::from(last), &theirs.hash(last), &Value::from(served)]
        );
        assert_eq!(proven["findings"], Value::Array(Vec::new()));
    }
    let page = theirs.run(&["verify", &archive, "--level", "served", "--etcd", &etcd]);
    for part in ["1 full", "HashKV", "a real etcd says the same"] {
        assert!(page.succeeds().contains(part), "{page:?}");
    }

    // The revision before the mistake, for two members; the plan first.
    let (members, to) = (theirs.path("members"), good.to_string());
    let cluster = "a=http://127.0.0.1:1,b=http://127.0.0.1:2";
    let wanted = ["restore", &archive, "--data-dir", &members, "--to-revision", &to];
    let wanted = [&wanted[..], &["--every-member", "--initial-cluster", cluster]].concat();
    let planned = theirs.run(&[&wanted[..], &["--dry-run"]].concat());
    for part in ["v2/Full-", "those of the full", "dry run"] {
        assert!(planned.succeeds().contains(part), "{planned:?}");
    }
    let planned = theirs.json(&[&wanted[..], &["--dry-run"]].concat());
    assert_eq!(planned["revision"], good);
    assert!(!theirs.sandbox.path("members").exists());
    let restored = theirs.run(&[&wanted[..], &["-o", "json"]].concat());
    assert!(
        restored.err.contains("deltas speak of leases (1)"),
        "{restored:?}"
    );
    let restored = json(restored.succeeds());
    assert_eq!(
        [
            &restored["revision"],
            &restored["leases"][0],
            &restored["members"][1]["name"]
        ],
        [&Value::from(good), &Value::from("7"), &Value::from("b")]
    );
    assert_eq!(restored["plan"]["full"], listed["fulls"][0]["object"]);
    for member in ["members/a", "members/b"] {
        theirs.check(&theirs.path(member), good);
    }
    let end = theirs.path("end");
    let page = theirs.run(&["restore", &archive, "--data-dir", &end]);
    for part in ["restored", "default (", &format!("revision  {last}"), "etcd 3.5"] {
        assert!(page.succeeds().contains(part), "{page:?}");
    }
    theirs.check(&end, last);

    // Copied again it goes on behind what is there, and then there is nothing left.
    let copied = theirs.json(&["copy", &archive, &ours]);
    assert_eq!([&copied["fulls"], &copied["revision"]], [0, last]);
    assert!(copied["rows"].as_u64() > Some(0), "{copied}");
    let page = theirs.run(&["copy", &archive, &ours]);
    assert!(page.succeeds().contains("0, 0 changes"), "{page:?}");
    let proven = theirs.json(&["verify", &ours, "--level", "served", "--etcd", &etcd]);
    assert_eq!(
        [&proven["proof"]["level"], &proven["proof"]["revision"]],
        [&Value::from("served"), &Value::from(last)]
    );
    for (name, revision) in [("ours-good", good), ("ours-end", last), ("ours-full", before)] {
        let (dir, to) = (theirs.path(name), revision.to_string());
        let restored = theirs.json(&[
            "restore",
            &ours,
            "--data-dir",
            &dir,
            "--to-revision",
            &to,
            "--yes",
        ]);
        assert_eq!(restored["revision"], revision);
        theirs.check(&dir, revision);
    }

    // One more full, which is used from then on.
    let compacted = theirs.json(&["compact", &archive]);
    assert_eq!(
        [&compacted["revision"], &compacted["from"], &compacted["wasThere"]],
        [
            &Value::from(last),
            &listed["fulls"][0]["object"],
            &Value::from(false)
        ]
    );
    let page = theirs.run(&["compact", &archive]);
    assert!(page.succeeds().contains("was there"), "{page:?}");
    let again = theirs.path("again");
    let restored = theirs.json(&["restore", &archive, "--data-dir", &again]);
    assert_eq!(
        [&restored["plan"]["full"], &restored["revision"]],
        [&compacted["object"], &Value::from(last)]
    );
    // All of its history is compacted: what is left are the keys of the end.
    let same = theirs.sandbox.run(&["snapshot", "diff", &end, &again]);
    assert!(
        same.succeeds()
            .contains("0 added, 0 changed, 0 deleted, 23 the same"),
        "{same:?}"
    );
}

#[test]
fn what_is_wrong_with_an_archive_of_etcdbrctl_is_said() {
    let theirs = Theirs::start();
    let archive = theirs.url();
    let before = theirs.client.put(b"first", b"one");
    let mut writer = theirs.archive.write(&theirs.server, &[]);
    writer.await_revision(before);
    let first = theirs.puts(&mut writer, "one", 5);
    theirs.puts(&mut writer, "two", 5);
    let last = theirs.puts(&mut writer, "three", 5);
    writer.stop_at(last);
    let deltas = theirs.deltas();
    let (read, target) = (["verify", &archive, "--level", "read"], theirs.path("target"));
    let restore = ["restore", &archive, "--data-dir", &target];

    // What makes no sense for it.
    for (words, part) in [
        (
            &["compact", &archive, "--keep-history"][..],
            "without its history",
        ),
        (&["compact", &archive, "--timeline", "1"], "has no timelines"),
        (&["list", &archive, "--timeline", "1"], "has no timelines"),
        (&["verify", &archive, "--timeline", "1"], "has no timelines"),
        (&["verify", &archive, "--every-full"], "not held against"),
        (&[&restore[..], &["--timeline", "1"]].concat(), "has no timelines"),
    ] {
        theirs.run(words).fails(2, &[part]);
    }
    let served = ["verify", &archive, "--level", "served"];
    theirs.run(&served).fails(3, &["etcd", "--level rebuilt"]);
    let wrong = theirs.sandbox.etcd("other-etcd", "3.4.0");
    let run = theirs.run(&[&served[..], &["--etcd", &wrong]].concat());
    run.fails(3, &["other-etcd", "--level rebuilt"]);
    theirs
        .run(&[&restore[..], &["--to-revision", &(last + 1).to_string()]].concat())
        .fails(3, &[&format!("{last} can be reached"), "--to-revision"]);
    theirs
        .run(&[&restore[..], &["--to-time", "2001-01-01T00:00:00Z"]].concat())
        .fails(3, &["no full to begin with", "not older than its oldest full"]);
    // Behind the end of the archive nothing is known: that has to be agreed to.
    let late = [&restore[..], &["--to-time", "2099-01-01T00:00:00Z"]].concat();
    let known = format!("what is known of 2099-01-01T00:00:00Z is revision {last}");
    theirs.run(&late).fails(3, &[&known, "--yes"]);
    let planned = theirs.run(&[&late[..], &["--dry-run"]].concat());
    for part in ["needs --yes: ", &known, "With --yes"] {
        assert!(planned.succeeds().contains(part), "{planned:?}");
    }
    assert!(!theirs.sandbox.path("target").exists());
    let agreed = theirs.path("agreed");
    let words = [
        "restore",
        &archive,
        "--data-dir",
        &agreed,
        "--to-time",
        "2099-01-01T00:00:00Z",
    ];
    let restored = theirs.json(&[&words[..], &["--yes"]].concat());
    assert_eq!(restored["revision"], last);
    assert_eq!(
        restored["plan"]["consents"].as_array().map(Vec::len),
        Some(1),
        "{restored}"
    );
    // An archive of ours that is another cluster's does not take it.
    let other = url(&theirs.sandbox.path("other"));
    let endpoints = theirs.server.addresses().client.clone();
    theirs.run(&["now", &other, "--endpoints", &endpoints]).succeeds();
    theirs
        .run(&["copy", &archive, &other])
        .fails(3, &["the history of another cluster", "archive of its own"]);

    // A delta with the content of another one: whole, and not what its name says.
    let object = |name: &String| theirs.archive.root().join(name);
    let whole = std::fs::read(object(&deltas[1])).unwrap();
    std::fs::copy(object(&deltas[0]), object(&deltas[1])).unwrap();
    let run = theirs.run(&read);
    run.fails(1, &["1 thing is not as it should be"]);
    assert!(
        run.out.contains(&deltas[1]) && run.out.contains("its name says"),
        "{run:?}"
    );
    theirs
        .run(&restore)
        .fails(3, &[&deltas[1], &format!("--to-revision {first}")]);
    // One with a bit flipped.
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    std::fs::write(object(&deltas[1]), &flipped).unwrap();
    let run = theirs.run(&["verify", &archive, "-o", "json"]);
    run.fails(1, &["2 things are not as they should be"]);
    assert_eq!(json(&run.out)["findings"][0]["object"], deltas[1].as_str());
    theirs
        .run(&restore)
        .fails(3, &[&deltas[1], &format!("--to-revision {first}")]);
    theirs.run(&["compact", &archive]).fails(3, &[&deltas[1]]);

    // And none at all: a hole, that is seen before anything is fetched.
    std::fs::remove_file(object(&deltas[1])).unwrap();
    let page = theirs.run(&["list", &archive]);
    assert!(page.succeeds().contains("are missing"), "{page:?}");
    let listed = theirs.json(&["list", &archive]);
    assert_eq!([&listed["reaches"], &listed["missing"][0]], [first, first + 1]);
    let run = theirs.run(&["verify", &archive]);
    run.fails(1, &["1 thing is not as it should be", "--dry-run"]);
    assert!(run.out.contains("are missing"), "{run:?}");
    let reached = format!("--to-revision {first}");
    for more in [&["--dry-run"][..], &[]] {
        theirs
            .run(&[&restore[..], more].concat())
            .fails(3, &[&format!("revisions {} to", first + 1), &reached]);
    }
    theirs.run(&["compact", &archive]).fails(3, &["are missing"]);
    assert!(!theirs.sandbox.path("target").exists());
    theirs
        .run(&[&restore[..], &["--to-revision", &first.to_string()]].concat())
        .succeeds();
    theirs.check(&target, first);
    // What is there is nobody's to write over.
    theirs
        .run(&[&restore[..], &["--to-revision", &first.to_string()]].concat())
        .fails(3, &["target"]);
    // Copied, it reaches as far; what is copied is whole.
    let copy = url(&theirs.sandbox.path("copy"));
    let all = format!("p to revision {first} all of it is converted");
    for _ in 0..2 {
        theirs
            .run(&["copy", &archive, &copy])
            .fails(3, &["are missing", &all]);
    }
    let proven = theirs.json(&["verify", &copy]);
    assert_eq!(proven["proof"]["revision"], first);
    let copied = theirs.path("copied");
    let restored = theirs.json(&["restore", &copy, "--data-dir", &copied, "--yes"]);
    assert_eq!(restored["revision"], first);
    theirs.check(&copied, first);
}
