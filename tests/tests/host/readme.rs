//! The README's commands, run in order on a real cluster, and the lines it shows held against what is really printed.

use std::process::{Child, Command, Stdio};

use quorate_testkit::{DefaultPorts, await_end};
use quorate_tests::cluster::{PATIENCE, binary};
use quorate_tests::etcd::{self, ClusterSlot, await_that};

/// A command of the README and the lines it shows below it.
struct Shown {
    command: Vec<String>,
    lines: Vec<String>,
}

fn shown() -> Vec<Shown> {
    let text = include_str!("../../../README.md");
    let mut all: Vec<Shown> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line.strip_prefix("$ ")) {
            (false, _) => inside = line == "```console",
            (true, _) if line == "```" => inside = false,
            (true, Some(command)) => all.push(Shown {
                command: words(command),
                lines: Vec::new(),
            }),
            (true, None) if !line.trim().is_empty() => {
                all.last_mut()
                    .expect("a command before its output")
                    .lines
                    .push(line.to_owned());
            }
            (true, None) => {}
        }
    }
    all
}

/// Splits at blanks outside double quotes.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('"').enumerate();
    parts
        .flat_map(|(n, part)| match n % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

/// What differs from run to run (ids, ports, sizes, versions, times) does not count.
fn shape(line: &str) -> String {
    let word = |w: &str| {
        if w.chars().any(|c| c.is_ascii_digit()) {
            "#".to_owned()
        } else {
            w.to_owned()
        }
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process};
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// Runs a command of the tour, which must succeed and print each of these lines.
fn run_shown(run: &mut Command, command: &[String], lines: &[String]) -> Result<(), String> {
    let output = run.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {why}"));
    }
    let printed: Vec<String> = text.lines().map(shape).collect();
    let missing = lines.iter().find(|line| !printed.contains(&shape(line)));
    missing.map_or(Ok(()), |line| {
        Err(format!("{command:?} does not print {line:?}, but:\n{text}"))
    })
}

#[test]
fn the_tour_is_true() {
    let (_ports, _slot) = (DefaultPorts::acquire(), ClusterSlot::acquire());
    // Its members are one version for all of the tour, so that roles and health are all that may differ.
    let root = tempfile::tempdir().expect("a temporary directory");
    let quorate = |args: &[String]| {
        let mut command = Command::new(binary());
        command
            .args(args)
            .env("QUORATE_ROOT", root.path())
            .env("QUORATE_CACHE", etcd::cache())
            .stdin(Stdio::null());
        command
    };
    let log = tempfile::NamedTempFile::new().expect("a log");
    let printed = log.reopen().expect("another handle");
    let mut up = Up(quorate(&["up".to_owned()])
        .stdout(printed.try_clone().expect("another handle"))
        .stderr(printed)
        .spawn()
        .expect("it starts"));
    let tour = shown();
    assert!(tour.len() >= 6, "the README shows {} commands", tour.len());
    for (number, Shown { command, lines }) in tour.into_iter().enumerate() {
        assert_eq!(command[0], "quorate");
        let run = || {
            run_shown(&mut quorate(&command[1..]), &command, &lines).map_err(|why| {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                format!("{why}\n`quorate up` printed:\n{log}")
            })
        };
        if number == 0 {
            // What it shows is true once the members have started.
            await_that("the first lines of the tour are printed", PATIENCE, run);
        } else {
            run().unwrap_or_else(|why| panic!("{why}"));
        }
    }
    assert!(
        await_end("the end of `quorate up`", PATIENCE, &mut up.0).success(),
        "`quorate down` ends `quorate up` cleanly"
    );
}
