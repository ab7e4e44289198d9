//! `quorate snapshot status|verify|hash|get|keys|diff|defrag` on what real members left, as an operator uses them.

use std::path::Path;

use quorate_testkit::{minor, versions};
use serde_json::Value;

use crate::etcd::{Etcd, newest, snapshot_tool};
use crate::sandbox::Sandbox;

const CONFIG_MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"app","namespace":"shop"},"data":{"n":"1.50"}}"#;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

/// A Pod as an API server stores it.
fn pod() -> Vec<u8> {
    let message = |number: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).unwrap();
        [&[number << 3 | 2, length], content].concat()
    };
    let type_meta = message(1, &[message(1, b"v1"), message(2, b"Pod")].concat());
    let meta = message(1, &[message(1, b"web-0"), message(3, b"shop")].concat());
    let spec = message(2, b"\xff\0\xfe");
    [b"k8s\0", &type_meta[..], &message(2, &[meta, spec].concat())].concat()
}

/// Revisions: 2 a=1, 3 pod, 4 config map, 5 a=2, 6 b, 7 config map deleted, 8 b deleted.
fn history(etcd: &Etcd) {
    etcd.ctl(&["put", "a", "1"]);
    etcd.put("/registry/pods/shop/web-0", &pod());
    etcd.put("/registry/configmaps/shop/app", CONFIG_MAP.as_bytes());
    etcd.ctl(&["put", "a", "2"]);
    etcd.ctl(&["put", "b", ""]);
    etcd.ctl(&["del", "/registry/configmaps/shop/app"]);
    etcd.ctl(&["del", "b"]);
}

/// A snapshot with that history, by the newest version; and its sandbox.
fn saved() -> Sandbox {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    history(&etcd);
    sandbox
        .run(&["snapshot", "save", "etcd.db", "--endpoints", &etcd.url])
        .succeeds();
    sandbox
}

#[test]
fn numbers_are_those_of_etcd() {
    for version in versions() {
        let sandbox = Sandbox::new();
        let etcd = Etcd::start(&version, &sandbox.path("etcd"));
        history(&etcd);
        let saved = sandbox.run(&[
            "snapshot",
            "save",
            "etcd.db",
            "--endpoints",
            &etcd.url,
            "-o",
            "json",
        ]);
        assert_eq!(json(saved.succeeds())["revision"], 8, "{version}");

        let ours = json(
            sandbox
                .run(&["snapshot", "status", "etcd.db", "-o", "json"])
                .succeeds(),
        );
        let tool = snapshot_tool(&version);
        let theirs = std::process::Command::new(tool)
            .args(["snapshot", "status", "-w", "json"])
            .arg(sandbox.path("etcd.db"))
            .output()
            .unwrap();
        let theirs = json(&String::from_utf8(theirs.stdout).unwrap());
        for field in ["hash", "revision", "totalSize"] {
            assert_eq!(ours[field], theirs[field], "{field} of {version}");
        }
        if minor(&version) >= 6 {
            assert_eq!(ours["totalKey"], theirs["totalKey"], "{version}");
            assert_eq!(ours["version"], theirs["version"], "{version}");
        } else {
            assert_eq!(
                (&ours["totalKey"], &ours["rows"]),
                (&Value::from(2), &theirs["totalKey"]),
                "{version}"
            );
            let page = sandbox.run(&["snapshot", "status", "etcd.db"]);
            assert!(page.succeeds().contains("unknown (before 3.6)"), "{page:?}");
        }

        let asked = json(&etcd.ctl(&["endpoint", "hashkv", "-w", "json"]));
        let member = &asked[0]["HashKV"];
        let hash = json(
            sandbox
                .run(&["snapshot", "hash", "etcd.db", "-o", "json"])
                .succeeds(),
        );
        assert_eq!(hash["hash"], member["hash"], "{version}");
        assert_eq!(hash["compactRevision"], member["compact_revision"], "{version}");
        let verdict = json(
            sandbox
                .run(&["snapshot", "verify", "etcd.db", "-o", "json"])
                .succeeds(),
        );
        assert_eq!(
            (&verdict["intact"], &verdict["hashKv"]),
            (&Value::from(true), &hash["hash"]),
            "{version}"
        );

        // The same from the stopped member itself; while it runs it is left alone.
        let data_dir = etcd.data_dir.to_str().unwrap().to_owned();
        for command in ["status", "verify", "hash", "keys", "defrag"] {
            let refused = sandbox.run(&["snapshot", command, &data_dir]);
            refused.fails(3, &["is in use", "Stop the etcd"]);
        }
        etcd.stop();
        let stopped = json(
            sandbox
                .run(&["snapshot", "hash", &data_dir, "-o", "json"])
                .succeeds(),
        );
        assert_eq!(stopped, hash, "{version}");
        let before = json(
            sandbox
                .run(&["snapshot", "verify", &data_dir, "-o", "json"])
                .succeeds(),
        );
        assert_eq!(before["member"]["log"], "is intact", "{version}: {before}");
        assert!(
            before["member"]["lastIndex"].as_u64() > Some(7),
            "{version}: {before}"
        );
        let shrunk = json(
            sandbox
                .run(&["snapshot", "defrag", &data_dir, "-o", "json"])
                .succeeds(),
        );
        assert!(
            shrunk["after"].as_u64() < shrunk["before"].as_u64(),
            "{version}: {shrunk}"
        );
        let after = json(
            sandbox
                .run(&["snapshot", "verify", &data_dir, "-o", "json"])
                .succeeds(),
        );
        assert_eq!(
            (&before["hash"], &before["hashKv"]),
            (&after["hash"], &after["hashKv"]),
            "{version}"
        );
        let again = Etcd::start_restored(&version, Path::new(&data_dir));
        assert_eq!(again.ctl(&["get", "a", "--print-value-only"]), "2\n", "{version}");
    }
}

#[test]
fn one_key_comes_back_as_it_was() {
    let sandbox = saved();
    let get = |more: &[&str]| {
        let all: Vec<&str> = ["snapshot", "get", "etcd.db"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        sandbox.run(&all)
    };
    assert_eq!(get(&["a"]).succeeds(), "2");
    assert_eq!(get(&["a", "--rev", "4"]).succeeds(), "1");
    assert_eq!(get(&["b", "--rev", "6"]).succeeds(), "");
    assert_eq!(get(&["61", "--hex", "-o", "hex"]).succeeds(), "32\n");

    let map = "/registry/configmaps/shop/app";
    get(&[map]).fails(
        1,
        &[
            "there is no key /registry/configmaps/shop/app at revision 8",
            "deleted at revision 7",
            "`--rev 6`",
        ],
    );
    assert_eq!(get(&[map, "--rev", "6"]).succeeds(), CONFIG_MAP);
    let pretty = get(&[map, "--rev", "6", "-o", "json"]);
    assert!(
        pretty.succeeds().starts_with("{\n  \"kind\": \"ConfigMap\",\n"),
        "{pretty:?}"
    );
    assert_eq!(json(&pretty.out), json(CONFIG_MAP));
    get(&[map, "--rev", "3"]).fails(1, &["written later, at revision 4"]);
    get(&["never"]).fails(1, &["Nothing in the file mentions it"]);
    get(&["a", "--rev", "9"]).fails(3, &["revision 9", "1 to 8"]);
    get(&["a", "--rev", "0"]).fails(2, &["expected a number from 1 on"]);
    get(&[""]).fails(2, &["the key is empty"]);
    get(&["zz", "--hex"]).fails(2, &["hexadecimal"]);
    get(&["a", "b", "--prefix"]).fails(2, &[]);

    // Not text: into a file, and back through etcdctl, byte for byte.
    let key = "/registry/pods/shop/web-0";
    assert_eq!(get(&[key, "--output-file", "pod"]).succeeds(), "");
    assert_eq!(std::fs::read(sandbox.path("pod")).unwrap(), pod());
    let described = json(get(&[key, "-o", "json"]).succeeds());
    assert_eq!(
        (&described["kind"], &described["name"]),
        (&Value::from("Pod"), &Value::from("web-0"))
    );
    let etcd = Etcd::start(&newest(), &sandbox.path("other"));
    etcd.put(key, &std::fs::read(sandbox.path("pod")).unwrap());
    sandbox
        .run(&["snapshot", "save", "other.db", "--endpoints", &etcd.url])
        .succeeds();
    let raw = sandbox
        .command(&["snapshot", "get", "other.db", key])
        .output()
        .unwrap();
    assert_eq!(raw.stdout, pod());
    get(&["a", "--output-file", "no/such"]).fails(1, &["cannot write no/such"]);
}

#[test]
fn several_keys_and_what_they_are() {
    let sandbox = saved();
    let run = |words: &[&str]| {
        let all: Vec<&str> = ["snapshot"].iter().chain(words).copied().collect();
        sandbox.run(&all)
    };
    assert_eq!(
        run(&["get", "etcd.db", "a", "c", "--rev", "6"]).succeeds(),
        "a\n2\nb\n\n"
    );
    let found = lines(run(&["get", "etcd.db", "", "--prefix", "--rev", "6", "-o", "json"]).succeeds());
    let keys: Vec<&str> = found.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!(
        keys,
        [
            "/registry/configmaps/shop/app",
            "/registry/pods/shop/web-0",
            "a",
            "b"
        ]
    );
    assert_eq!(found[0]["value"], json(CONFIG_MAP));
    assert_eq!(
        (&found[2]["value"], &found[2]["modRevision"]),
        (&Value::from("2"), &Value::from(5))
    );

    let listed = run(&["keys", "etcd.db", "/registry/", "--prefix", "--rev", "6"]);
    let table = "\
REVISION  VERSION  BYTES  KIND       NAMESPACE  NAME   KEY
       4        1    103  ConfigMap  shop       app    /registry/configmaps/shop/app
       3        1     37  Pod        shop       web-0  /registry/pods/shop/web-0\n";
    assert_eq!(
        (listed.succeeds(), listed.err.as_str()),
        (table, "2 keys at revision 6\n")
    );
    let limited = run(&["keys", "etcd.db", "--limit", "1"]);
    assert_eq!(
        (limited.succeeds().lines().count(), limited.err.as_str()),
        (2, "1 of 2 keys at revision 8\n")
    );
    let named = lines(run(&["keys", "etcd.db", "-o", "json"]).succeeds());
    assert_eq!(
        (&named[0]["kind"], &named[0]["namespace"]),
        (&Value::from("Pod"), &Value::from("shop"))
    );
    assert_eq!(run(&["keys", "etcd.db", "none"]).succeeds().lines().count(), 0);
    assert_eq!(
        run(&["keys", "etcd.db", "a", "--from-key", "-o", "json"])
            .succeeds()
            .lines()
            .count(),
        1
    );
    run(&["keys", "etcd.db", "--prefix"]).fails(2, &["<KEY>"]);
    run(&["keys", "nothing.db"]).fails(1, &["cannot read nothing.db", "No such file"]);
    run(&["keys", "."]).fails(1, &["without a database", "--data-dir"]);

    let told = run(&["diff", "etcd.db", "--from", "3"]);
    let table = "\
CHANGE   BEFORE   AFTER  KEY
changed       2       5  a
0 added, 1 changed, 0 deleted, 1 the same (revision 3 to 8)\n";
    assert_eq!(told.succeeds(), table);
    let back = lines(run(&["diff", "etcd.db", "--from", "6", "--to", "3", "-o", "json"]).succeeds());
    let changes: Vec<(&str, &str)> = back[..3]
        .iter()
        .map(|line| (line["change"].as_str().unwrap(), line["key"].as_str().unwrap()))
        .collect();
    let expected = [
        ("deleted", "/registry/configmaps/shop/app"),
        ("deleted", "b"),
        ("changed", "a"),
    ];
    assert_eq!(changes, expected);
    assert_eq!(back[3]["totals"]["deleted"], 2);
    let few = run(&["diff", "etcd.db", "--from", "3", "--prefix", "/registry/"]);
    assert_eq!(
        few.succeeds(),
        "0 added, 0 changed, 0 deleted, 1 the same (revision 3 to 8)\n"
    );
    assert_eq!(
        run(&["diff", "etcd.db", "etcd.db"]).succeeds(),
        "0 added, 0 changed, 0 deleted, 2 the same (revision 8 to 8)\n"
    );
    run(&["diff", "etcd.db"]).fails(2, &["--from"]);
}

#[test]
fn damage_has_a_place() {
    let sandbox = saved();
    let mut bytes = std::fs::read(sandbox.path("etcd.db")).unwrap();
    // A byte of a value: only the digest can tell.
    let at = bytes.windows(5).position(|five| five == b"web-0").unwrap();
    bytes[at] ^= 1;
    std::fs::write(sandbox.path("etcd.db"), &bytes).unwrap();
    let verdict = sandbox.run(&["snapshot", "verify", "etcd.db", "-o", "json"]);
    verdict.fails(1, &["etcd.db is damaged"]);
    assert_eq!(json(&verdict.out)["intact"], false, "{verdict:?}");
    // A page that is not there.
    std::fs::write(sandbox.path("cut.db"), &bytes[..8192]).unwrap();
    for command in ["status", "verify", "hash", "keys", "defrag"] {
        sandbox
            .run(&["snapshot", command, "cut.db"])
            .fails(1, &["cut.db is damaged: "]);
    }
    assert_eq!(std::fs::metadata(sandbox.path("cut.db")).unwrap().len(), 8192);
    std::fs::write(sandbox.path("text"), "not a database").unwrap();
    sandbox
        .run(&["snapshot", "get", "text", "a"])
        .fails(1, &["text is damaged", "no etcd database"]);
}
