//! What is wrong is named, with what was expected and what to do; and nothing is changed.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::sandbox::{Sandbox, leave_status, manifest};

/// Runs a manifest that is to be refused before anything is made.
fn refused(text: &str, parts: &[&str]) {
    let sandbox = Sandbox::new();
    let etcd = sandbox.etcd("etcd", "3.6.1");
    let file = sandbox.file("cluster.yaml", text);
    let run = sandbox.run(&["up", "-f", &file, "--etcd", &etcd]);
    run.fails(2, parts);
    assert!(
        run.err.contains("cluster.yaml:"),
        "the file and the line are named: {run:?}"
    );
    assert!(sandbox.is_untouched());
}

#[test]
fn a_field_that_does_not_exist() {
    let text = manifest().replace("  replicas: 3", "  replicas: 3\n  replica: 3");
    refused(&text, &["spec.replica", "Did you mean replicas?"]);
}

#[test]
fn versions_that_are_none_or_not_run() {
    refused(
        &manifest().replace("version: 3.6.1", "version: latest"),
        &["spec.version", "latest", "three numbers"],
    );
    refused(
        &manifest().replace("version: 3.6.1", "version: 3.2.9"),
        &["spec.version", "3.2.9", "from 3.4 to 3.7"],
    );
    refused(
        &manifest().replace("version: 3.6.1", "version: 3.5.1"),
        &["spec.version", "corrupt", "3.5.3 or newer"],
    );
}

#[test]
fn no_replicas() {
    let text = manifest().replace("replicas: 3", "replicas: 0");
    refused(&text, &["spec.replicas: found 0", "at least 1", "quorate down"]);
}

#[test]
fn more_members_than_etcd_is_made_for_are_asked_about() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("cluster.yaml", &manifest().replace("replicas: 3", "replicas: 99"));
    let asks = "99 members are more than etcd is made for: each write waits for 50 of them";
    let up = |more: &[&str]| sandbox.run(&[&["up", "-f", &file, "--etcd", "missing"][..], more].concat());
    up(&[]).fails(3, &[asks, "--yes"]);
    assert!(sandbox.is_untouched());
    let agreed = up(&["--yes"]);
    assert!(
        !agreed.err.contains(asks) && agreed.err.contains("missing"),
        "{agreed:?}"
    );
}

#[test]
fn a_cluster_that_has_many_members_already_is_not_asked_about_again() {
    let sandbox = Sandbox::new();
    let file = sandbox.file(
        "root/cluster.yaml",
        &manifest().replace("replicas: 3", "replicas: 11"),
    );
    let asks = "11 members are more than etcd is made for";
    let up = || sandbox.run(&["up", "-f", &file, "--etcd", "missing"]);
    let with_status = |replicas| {
        let status = quorate_host::Status {
            spec: quorate_host::Wanted {
                replicas,
                ..Default::default()
            },
            ..Default::default()
        };
        let path = std::path::Path::new(&file).with_file_name("status.json");
        std::fs::write(path, serde_json::to_vec(&status).unwrap()).unwrap();
    };
    with_status(3);
    up().fails(3, &[asks, "--yes"]);
    with_status(11);
    let again = up();
    assert!(
        !again.err.contains(asks) && again.err.contains("missing"),
        "{again:?}"
    );
}

#[test]
fn no_storage() {
    let all = manifest();
    let (before, rest) = all.split_once("  storage:\n").unwrap();
    let after = rest.split_once("storage: 8Gi\n").unwrap().1;
    refused(
        &format!("{before}{after}"),
        &["spec.storage", "volumeClaimTemplate", "8Gi"],
    );
}

#[test]
fn a_file_that_is_no_yaml_or_something_else() {
    refused("kind: EtcdCluster\n\tspec: x\n", &["YAML", "indent with spaces"]);
    refused("apiVersion: v1\nkind: Pod\n", &["kind", "EtcdCluster"]);
}

#[test]
fn a_manifest_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    let missing = sandbox.run(&["up", "-f", "missing.yaml"]);
    missing.fails(
        2,
        &["cannot read the manifest missing.yaml", "No such file", "-f"],
    );
    let directory = sandbox.run(&["up", "-f", "."]);
    directory.fails(2, &["cannot read the manifest", "directory"]);
    let path = sandbox.file("secret.yaml", &manifest());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_err() {
        // The superuser reads everything.
        sandbox
            .run(&["up", "-f", &path])
            .fails(2, &["secret.yaml", "Permission denied"]);
    }
    assert!(sandbox.is_untouched());
}

#[test]
fn a_root_that_cannot_be_one() {
    let sandbox = Sandbox::new();
    let etcd = sandbox.etcd("etcd", "3.6.1");
    let root = format!("{}/root", sandbox.file("file", ""));
    let run = sandbox.run(&["up", "--root", &root, "--etcd", &etcd]);
    run.fails(2, &[&root, "Not a directory", "this user can write", "--root"]);
    let file = sandbox.file("cluster.yaml", &manifest());
    sandbox
        .run(&["up", "--root", &root, "-f", &file, "--etcd", &etcd])
        .fails(2, &[&root, "Not a directory"]);
    let read_only = sandbox.run(&["up", "--root", "/proc/quorate", "--etcd", &etcd]);
    read_only.fails(2, &["/proc/quorate", "this user can write"]);
}

#[test]
fn a_port_in_use() {
    let sandbox = Sandbox::new();
    let etcd = sandbox.etcd("etcd", "3.6.1");
    let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let text = manifest().replace("spec:\n", &format!("spec:\n  host:\n    clientPort: {port}\n"));
    let text = text.replace("replicas: 3", "replicas: 1");
    let file = sandbox.file("cluster.yaml", &text);
    for _ in 0..2 {
        let run = sandbox.run(&["up", "-f", &file, "--etcd", &etcd]);
        let pid = format!("(pid {})", std::process::id());
        let parts = [
            "cannot be started",
            &port.to_string(),
            &pid,
            "stop that process",
            "spec.host.clientPort",
        ];
        run.fails(3, &parts);
        assert!(
            sandbox.is_untouched(),
            "nothing is made for a cluster that cannot begin"
        );
    }
}

#[test]
fn an_etcd_that_is_none() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("cluster.yaml", &manifest());
    for (etcd, why) in [
        ("/bin/true", "not etcd"),
        ("/nowhere/etcd", "not there"),
        ("cluster.yaml", "not executable"),
    ] {
        let run = sandbox.run(&["up", "-f", &file, "--etcd", etcd]);
        run.fails(2, &[etcd, why, "--etcd"]);
        sandbox
            .run(&["up", "--etcd", etcd])
            .fails(2, &[etcd, why, "--etcd"]);
    }
    assert!(sandbox.is_untouched());
}

#[test]
fn no_etcd_of_that_version() {
    let sandbox = Sandbox::new();
    let other = sandbox.etcd("other", "3.7.0");
    let cached = sandbox.etcd("cache/etcd/3.5.35/etcd", "3.5.35");
    let file = sandbox.file("cluster.yaml", &manifest());
    let run = sandbox.run(&["up", "-f", &file, "--etcd", &other]);
    let bin = sandbox.root().join("bin/etcd-3.6.1");
    run.fails(
        2,
        &[
            "etcd 3.6.1 was not found",
            &other,
            "etcd 3.7.0",
            &cached,
            "etcd 3.5.35",
            bin.to_str().unwrap(),
        ],
    );
    assert!(sandbox.is_untouched());
}

#[test]
fn no_etcd_at_all() {
    let sandbox = Sandbox::new();
    let run = sandbox.run(&["up"]);
    run.fails(
        2,
        &[
            "no etcd that quorate supports was found",
            "no-bin/etcd: not there",
            "--etcd PATH",
        ],
    );
    assert!(sandbox.is_untouched());
}

#[test]
fn numbers_of_members_that_cannot_be() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["scale", "0"])
        .fails(2, &["at least 1 member", "quorate down"]);
    sandbox.run(&["scale", "-1"]).fails(2, &["at least 1 member"]);
    sandbox
        .run(&["scale", "many"])
        .fails(2, &["expected a number of members"]);
    sandbox.run(&["scale", "99999999999"]).fails(2, &["cannot exist"]);
}

#[test]
fn versions_that_the_data_cannot_reach() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("root/cluster.yaml", &manifest());
    leave_status(&sandbox.root(), "3.6.1");
    let refused = sandbox.run(&["upgrade", "3.5.35"]);
    refused.fails(
        3,
        &[
            "from 3.6.1",
            "to 3.5.35",
            "newer version",
            "Nothing was changed",
            "VersionPath",
        ],
    );
    sandbox.run(&["upgrade", "v3.7.0"]).fails(2, &["Write 3.7.0"]);
    sandbox
        .run(&["upgrade", "3.7.0"])
        .fails(2, &["etcd 3.7.0 was not found", "Nothing was changed"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), manifest());
    sandbox.etcd("root/bin/etcd-3.7.0", "3.7.0");
    let done = sandbox.run(&["upgrade", "3.7.0"]);
    assert!(
        done.succeeds().contains("takes effect at the next `quorate up"),
        "{done:?}"
    );
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        manifest().replace("version: 3.6.1", "version: 3.7.0")
    );
}

#[test]
fn a_manifest_broken_by_hand_is_not_edited() {
    let sandbox = Sandbox::new();
    let broken = manifest().replace("spec:\n", "spec:\n  colour: blue\n");
    let file = sandbox.file("root/cluster.yaml", &broken);
    sandbox
        .run(&["scale", "5"])
        .fails(2, &["cluster.yaml:", "spec.colour"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), broken);
}

#[test]
fn changes_without_a_supervisor() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("root/cluster.yaml", &manifest());
    sandbox
        .run(&["scale", "5", "--wait"])
        .fails(1, &["no supervisor runs", "Nothing was changed"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), manifest());
    let even = sandbox.run(&["scale", "4"]);
    assert!(
        even.succeeds()
            .contains("No supervisor runs: this takes effect at the next"),
        "{even:?}"
    );
    assert!(
        even.err
            .starts_with("warning: spec.replicas: 4 members survive no more losses than 3"),
        "{even:?}"
    );
    assert!(
        sandbox
            .run(&["redeploy", "--reason", "kernel"])
            .succeeds()
            .contains("one at a time")
    );
    sandbox
        .run(&["redeploy", "--reason", "kernel"])
        .fails(2, &["\"kernel\"", "give another"]);
    sandbox
        .run(&["redeploy", "--reason", " "])
        .fails(2, &["--reason is empty"]);
    let changed = std::fs::read_to_string(&file).unwrap();
    assert!(
        changed.contains("  replicas: 4\n") && changed.contains("forceRedeploymentReason: \"kernel\"\n"),
        "{changed}"
    );
}

#[test]
fn a_cluster_whose_manifest_is_gone_is_not_made_up_anew() {
    let sandbox = Sandbox::new();
    sandbox.etcd("cache/etcd/3.6.1/etcd", "3.6.1");
    sandbox.file("root/journal.json", "{}");
    let run = sandbox.run(&["up"]);
    run.fails(2, &["its manifest is gone", "-f cluster.yaml"]);
    assert!(!sandbox.root().join("cluster.yaml").exists());
}
