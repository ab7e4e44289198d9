//! An operator that is killed each time it has told of something it did: between one step of a change and the next.
//!
//! In: a change that was just asked for. Out: the kills, each with what was told last. Never: a kill that is counted
//! although the change was over.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cluster::{KubeCluster, text};
use super::operator::Then;

/// A change goes on only while an operator lives, and some of them wait until a Lease ends.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks: steps follow each other quickly.
const PAUSE: Duration = Duration::from_millis(50);

/// Watches the events of a cluster from before a change on.
pub struct Kills<'a> {
    cluster: &'a KubeCluster<'a>,
    known: BTreeSet<String>,
    then: Then,
}

impl<'a> Kills<'a> {
    /// What was told so far does not count.
    pub fn on(cluster: &'a KubeCluster<'a>) -> Kills<'a> {
        let known = told(cluster).into_iter().map(|(id, _)| id).collect();
        Kills {
            cluster,
            known,
            then: Then::Restart,
        }
    }

    /// Kills the operator at every kind of event that was not told of before in this change, until all is as wanted.
    /// Gives the kinds at which one died that had not finished.
    pub fn through(&mut self, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let began = Instant::now();
        let bed = self.cluster.namespace.bed();
        let mut kinds = BTreeSet::new();
        let mut killed = Vec::new();
        loop {
            assert!(
                began.elapsed() < PATIENCE,
                "not as wanted after {PATIENCE:?}, operators killed at {killed:?}\n{}",
                self.cluster.namespace.picture()
            );
            let fresh = told(self.cluster)
                .into_iter()
                .filter(|(id, _)| !self.known.contains(id));
            let fresh: Vec<(String, String)> = fresh.collect();
            let last = fresh
                .iter()
                .map(|(_, kind)| kind.clone())
                .rfind(|kind| !kinds.contains(kind));
            kinds.extend(fresh.iter().map(|(_, kind)| kind.clone()));
            self.known.extend(fresh.into_iter().map(|(id, _)| id));
            if let Some(kind) = last {
                let victim = bed.kill_operator_then(self.then);
                // What it left behind: it had not come to the end.
                let in_the_middle = !wanted(&self.cluster.get());
                println!(
                    "{victim} killed at {kind}, {:?} follows, in the middle: {in_the_middle}",
                    self.then
                );
                self.then = if self.then == Then::Restart {
                    Then::Replace
                } else {
                    Then::Restart
                };
                if in_the_middle {
                    killed.push(kind);
                }
                continue;
            }
            if wanted(&self.cluster.get()) {
                return killed;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// What the operator told of this cluster, oldest first: which event, and of what kind.
fn told(cluster: &KubeCluster<'_>) -> Vec<(String, String)> {
    let about = format!(
        "involvedObject.kind=EtcdCluster,involvedObject.name={}",
        cluster.name
    );
    let mut events = cluster.namespace.items(&["events", "--field-selector", &about]);
    events.sort_by_key(|e| text(&e["metadata"]["creationTimestamp"]));
    let all = events.iter().map(|e| {
        let id = format!("{} {}", text(&e["metadata"]["uid"]), e["series"]["count"]);
        (id, text(&e["reason"]))
    });
    all.collect()
}
