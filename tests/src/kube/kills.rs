//! An operator that is killed each time it has reported something it did: between one step of a change and the next.
//!
//! In: a change that is about to be asked for. Out: the kinds of steps after which one died. Never: a kill that is counted
//! although the change was over, or that met an operator which did not act.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::Value;

use super::cluster::KubeCluster;
use super::operator::Then;
use super::process;

/// A change goes on only while an operator lives, and some of them wait until a Lease ends.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a watch may take to begin.
const BEGINS: Duration = Duration::from_secs(60);
/// Between two looks at the cluster.
const PAUSE: Duration = Duration::from_millis(300);
/// Between two looks for a process.
const SOON: Duration = Duration::from_millis(20);
/// Which event it is, how often it was reported, and of what kind it is.
const LINE: &str = "jsonpath={.metadata.uid} {.series.count}|{.reason}{\"\\n\"}";

/// Watches the events of a cluster from before a change on, with its finger on the operator that acts.
pub struct Kills<'a> {
    cluster: &'a KubeCluster<'a>,
    watch: Child,
    lines: Receiver<String>,
    known: BTreeSet<String>,
    acting: (String, Vec<Pid>),
    then: Then,
}

impl<'a> Kills<'a> {
    /// Begins to watch. What was reported so far does not count.
    pub fn on(cluster: &'a KubeCluster<'a>) -> Kills<'a> {
        let bed = cluster.namespace.bed();
        let about = format!(
            "involvedObject.kind=EtcdCluster,involvedObject.name={}",
            cluster.name
        );
        let get = [
            "-n",
            &cluster.namespace.name,
            "get",
            "events",
            "--field-selector",
            &about,
        ];
        let before = cluster.namespace.must(&[&get[2..], &["-o", &of_list()]].concat());
        let known = before.lines().map(str::to_owned).collect();
        let mut watch = bed
            .command([&get[..], &["--watch", "-o", LINE]].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl can be run");
        let printed = BufReader::new(watch.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in printed.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut kills = Kills {
            cluster,
            watch,
            lines,
            known,
            acting: bed.acting_operator(),
            then: Then::Restart,
        };
        // A cluster that serves has events, so that something comes at once.
        let first = kills.lines.recv_timeout(BEGINS);
        let first = first.expect("a watch begins with what there is");
        kills.known.insert(first);
        kills
    }

    /// Kills the operator at every kind of event that was not reported before in this change, until all is as wanted.
    /// Gives the kinds at which one died that had not finished.
    pub fn through(mut self, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let began = Instant::now();
        let mut kinds = BTreeSet::new();
        let mut killed = Vec::new();
        loop {
            assert!(
                began.elapsed() < PATIENCE,
                "not as wanted after {PATIENCE:?}, operators killed at {killed:?}\n{}",
                self.cluster.namespace.picture()
            );
            let Ok(line) = self.lines.recv_timeout(PAUSE) else {
                if wanted(&self.cluster.get()) {
                    return killed;
                }
                continue;
            };
            // Nothing is asked in between: the next step is only moments away.
            let fresh = self.known.insert(line.clone());
            let kind = line.split_once('|').map_or("", |(_, kind)| kind).to_owned();
            if fresh && kinds.insert(kind.clone()) && self.kill(&kind, &wanted) {
                killed.push(kind);
            }
        }
    }

    /// Kills the operator that acts; whether it died in the middle of the change.
    fn kill(&mut self, kind: &str, wanted: &impl Fn(&Value) -> bool) -> bool {
        let bed = self.cluster.namespace.bed();
        let (victim, pids) = &self.acting;
        process::kill(pids);
        assert_eq!(
            bed.lease_holder(),
            *victim,
            "the one that was killed held the Lease"
        );
        // What it left behind says that it had not come to the end.
        let in_the_middle = !wanted(&self.cluster.get());
        println!(
            "{victim} killed at {kind}, {:?} follows, in the middle: {in_the_middle}",
            self.then
        );
        let victim = victim.clone();
        match self.then {
            Then::Restart => {
                // The next one acts as soon as it runs, and is to be met before it has done much.
                let began = Instant::now();
                let mut pids = process::of_pod_called(&victim);
                while pids.is_empty() {
                    assert!(began.elapsed() < PATIENCE, "{victim} is not started again");
                    std::thread::sleep(SOON);
                    pids = process::of_pod_called(&victim);
                }
                self.acting = (victim, pids);
                self.then = Then::Replace;
            }
            Then::Replace => {
                bed.lose_operator(&victim);
                self.acting = bed.acting_operator();
                self.then = Then::Restart;
            }
        }
        in_the_middle
    }
}

impl Drop for Kills<'_> {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.watch.kill();
        let _ = self.watch.wait();
    }
}

/// The same lines, of a list.
fn of_list() -> String {
    let inner = LINE.strip_prefix("jsonpath=").unwrap_or(LINE);
    format!("jsonpath={{range .items[*]}}{inner}{{end}}")
}
