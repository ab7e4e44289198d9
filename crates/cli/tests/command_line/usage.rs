//! The command line itself, and commands where there is no cluster.

use crate::sandbox::{Sandbox, leave_status, told};

const COMMANDS: [&str; 16] = [
    "up",
    "status",
    "healthcheck",
    "logs",
    "scale",
    "upgrade",
    "redeploy",
    "certs",
    "snapshot",
    "down",
    "explain",
    "backup",
    "install",
    "operator",
    "prepare",
    "version",
];

#[test]
fn help_is_short_and_offers_only_what_exists() {
    let sandbox = Sandbox::new();
    let help = sandbox.run(&["--help"]);
    for command in COMMANDS {
        assert!(
            help.succeeds().contains(&format!("\n  {command} ")),
            "{command} is not in {help:?}"
        );
        let own = sandbox.run(&[command, "--help"]);
        let about = own.succeeds().lines().next().unwrap_or_default();
        assert!(!about.is_empty() && about.len() <= 100, "one line: {own:?}");
        assert!(own.out.lines().count() <= 30, "short: {own:?}");
        assert!(own.out.contains(&format!("Usage: quorate {command}")), "{own:?}");
        let asked = sandbox.run(&["help", command]);
        // Not all of it is the same: the operator's help names its process.
        assert_eq!(asked.succeeds().lines().next(), Some(about), "{asked:?}");
        assert!(
            asked.out.contains(&format!("Usage: quorate {command}")),
            "{asked:?}"
        );
    }
    assert_eq!(sandbox.run(&["help"]).succeeds(), help.out);
    assert_eq!(
        sandbox.run(&["help", "backup", "run"]).succeeds(),
        sandbox.run(&["backup", "run", "--help"]).succeeds()
    );
    sandbox.run(&["help", "fly"]).fails(2, &["fly"]);
    assert!(
        help.out
            .contains("Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 refused for safety.")
    );
    for hidden in ["launch-member", "launch-in-pod", "systemd", "webhook"] {
        assert!(!help.out.contains(hidden), "{hidden} in {help:?}");
    }
    assert!(sandbox.is_untouched());
}

#[test]
fn nothing_asked_is_answered_with_help() {
    let run = Sandbox::new().run(&[]);
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("Usage: quorate") && !run.err.contains("launch-member"),
        "{run:?}"
    );
}

#[test]
fn usage_errors_exit_2() {
    let sandbox = Sandbox::new();
    for wrong in [
        &["up", "--runner", "systemd"][..],
        &["status", "-o", "xml"],
        &["scale"],
        &["scale", "3", "--timeout", "5m"],
        &["scale", "3", "--wait", "--timeout", "soon"],
        &["redeploy"],
        &["install", "--replicas", "0"],
        &["install", "--namespace", "Not_A_Name"],
        &["install", "--image", ""],
        &["fly"],
    ] {
        sandbox.run(wrong).fails(2, &[]);
    }
}

#[test]
fn versions() {
    let sandbox = Sandbox::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        sandbox.run(&["--version"]).succeeds(),
        format!("quorate {version}\n")
    );
    assert_eq!(
        sandbox.run(&["version"]).succeeds(),
        format!("quorate {version}, runs etcd 3.4 to 3.7\n")
    );
}

#[test]
fn where_there_is_no_cluster_it_is_said_how_to_start_one() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    for command in [
        &["status"][..],
        &["status", "--watch"],
        &["status", "-o", "json"],
        &["logs", "x"],
        &["scale", "3"],
    ] {
        sandbox.run(command).fails(
            1,
            &["there is no cluster under", root.to_str().unwrap(), "`quorate up"],
        );
    }
    let down = sandbox.run(&["down"]);
    assert!(down.succeeds().starts_with("Nothing runs under"), "{down:?}");
    assert!(sandbox.is_untouched());
}

#[test]
fn logs_of_a_cluster_that_is_down() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.root()).unwrap();
    leave_status(&sandbox.root(), "3.6.1");
    sandbox.file("root/logs/etcd-7.log", "a former member\n");
    assert_eq!(
        sandbox.run(&["logs", "etcd-0", "--lines", "2"]).succeeds(),
        "two\nthree\n"
    );
    assert_eq!(sandbox.run(&["logs", "etcd-7"]).succeeds(), "a former member\n");
    sandbox
        .run(&["logs", "../x"])
        .fails(2, &["no member \"../x\"", "Its members are etcd-0, etcd-7."]);
    let status = sandbox.run(&["status"]);
    assert!(
        status.succeeds().contains("is stopped\nNothing runs"),
        "{status:?}"
    );
    assert!(status.out.contains("etcd-0  -   voter  stopped"), "{status:?}");
}

/// A script that keeps the output must learn that it did not get it; who closed a pipe knows.
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.root()).unwrap();
    leave_status(&sandbox.root(), "3.6.1");
    for command in [
        &["status"][..],
        &["status", "-o", "json"],
        &["logs", "etcd-0"],
        &["explain"],
        &["explain", "NoQuorum"],
        &["install"],
        &["version"],
    ] {
        let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = told(sandbox.command(command).stdout(full()).output().unwrap());
        run.fails(1, &["cannot write the output", "No space left"]);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let unread = told(sandbox.command(command).stdout(writer).output().unwrap());
        assert_eq!((unread.code, unread.err.as_str()), (0, ""), "{command:?}");
    }
}
