//! What Prometheus scrapes: metrics of each cluster as of its last pass, and of the operator itself.
//!
//! In: what a pass saw and came to. Out: text in Prometheus' format. Never: metrics of a cluster that is gone; a label
//! that users choose freely, but for the names of their clusters.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::model::{Observed, Spec};
use quorate_core::{Plan, model::StepKind};

use crate::names::Names;
use crate::runtime::request_counter::RequestLabels;

/// A figure: its name, what it means, and where it is taken from.
type Figure = (&'static str, &'static str, fn(&Cluster) -> f64);
/// Reasons: what they are called, what they mean, and where they are taken from.
type Reasons = (&'static str, &'static str, fn(&Cluster) -> &Vec<&'static str>);

/// The metrics of one cluster.
#[derive(Clone, Debug, Default)]
struct Cluster {
    wanted: u32,
    voters: usize,
    healthy: usize,
    learners: usize,
    quorate: bool,
    /// Nobody is asked how the members are.
    held: bool,
    ready: bool,
    database_bytes: u64,
    waits: Vec<&'static str>,
    blocks: Vec<&'static str>,
    steps: BTreeMap<StepKind, u64>,
    passes: u64,
    failures: u64,
    panics: u64,
    seconds: f64,
}

#[derive(Debug, Default)]
pub struct Metrics {
    clusters: Mutex<BTreeMap<Names, Cluster>>,
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Names, Cluster>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a pass saw and plans.
    pub fn seen(&self, names: &Names, spec: &Spec, observed: &Observed, plan: &Plan) {
        let statuses = || observed.slots.values().filter_map(|s| s.status.as_ref());
        let members = observed.quorum.iter().flat_map(|q| &q.members);
        let (learners, voters): (Vec<_>, Vec<_>) = members.partition(|m| m.learner);
        let well = |id| statuses().any(|s| s.member == id && s.healthy);
        let healthy = voters.iter().filter(|m| well(m.id)).count();
        let mut all = self.lock();
        let cluster = all.entry(names.clone()).or_default();
        cluster.wanted = spec.replicas;
        // What nobody was asked is not shown, as for one that is held.
        cluster.held = observed.unasked;
        cluster.quorate = observed.quorum.is_some();
        cluster.voters = voters.len();
        cluster.learners = learners.len();
        cluster.healthy = healthy;
        cluster.database_bytes = statuses().map(|s| s.db_size).max().unwrap_or(0);
        cluster.waits = plan.waits.iter().map(|w| w.reason.name()).collect();
        cluster.blocks = plan.blocks.iter().map(|b| b.reason.name()).collect();
        let idle = plan.steps.is_empty() && plan.waits.is_empty() && plan.blocks.is_empty();
        cluster.ready = idle && healthy == spec.replicas as usize;
        for step in &plan.steps {
            *cluster.steps.entry(step.kind()).or_default() += 1;
        }
    }

    pub fn passed(&self, names: &Names, took: Duration, failed: bool) {
        let mut all = self.lock();
        let cluster = all.entry(names.clone()).or_default();
        cluster.passes += 1;
        cluster.failures += u64::from(failed);
        cluster.seconds += took.as_secs_f64();
    }

    /// A pass has panicked.
    pub fn panicked(&self, names: &Names) {
        self.lock().entry(names.clone()).or_default().panics += 1;
    }

    /// A cluster is left as it is until people have mended something: what was seen of it before is not shown.
    pub fn held(&self, names: &Names, reason: &'static str) {
        let mut all = self.lock();
        let cluster = all.entry(names.clone()).or_default();
        (cluster.ready, cluster.held) = (false, true);
        cluster.waits.clear();
        cluster.blocks = vec![reason];
    }

    /// Another operator looks after the clusters now: what is known here is of the past.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// A cluster is gone.
    pub fn forget(&self, names: &Names) {
        self.lock().remove(names);
    }

    pub fn text(&self, leads: bool, requests: &BTreeMap<RequestLabels, u64>) -> String {
        let all = self.lock();
        let mut page = Page::default();
        page.family(
            "quorate_leader",
            "gauge",
            "Whether this operator holds the Lease and acts.",
        );
        page.sample("quorate_leader", "", f64::from(u8::from(leads)));
        let name = "quorate_api_requests_total";
        page.family(
            name,
            "counter",
            "Requests to the API server, by verb and resource.",
        );
        for ((verb, resource), count) in requests {
            let labels = format!("verb=\"{verb}\",resource=\"{resource}\"");
            page.sample(name, &labels, *count as f64);
        }
        let gauges: [Figure; 7] = [
            ("wanted_members", "Members that are wanted.", |c| {
                f64::from(c.wanted)
            }),
            ("voters", "Members that vote.", |c| c.voters as f64),
            ("learners", "Members that do not vote yet.", |c| c.learners as f64),
            ("healthy_voters", "Voters that serve.", |c| c.healthy as f64),
            ("quorate", "Whether a quorum answers.", |c| {
                f64::from(u8::from(c.quorate))
            }),
            ("ready", "1 if the cluster matches its spec.", |c| {
                f64::from(u8::from(c.ready))
            }),
            (
                "database_bytes",
                "The size of the largest member's database file.",
                |c| c.database_bytes as f64,
            ),
        ];
        for (name, help, value) in gauges {
            let name = format!("quorate_cluster_{name}");
            page.family(&name, "gauge", help);
            let known = |c: &Cluster| !c.held || name == "quorate_cluster_ready";
            all.iter()
                .filter(|(_, c)| known(c))
                .for_each(|(names, c)| page.sample(&name, &labels(names), value(c)));
        }
        let reasons: [Reasons; 2] = [
            ("waits", "Waits in the current plan, by reason.", |c| &c.waits),
            ("blocks", "Blocks in the current plan, by reason.", |c| &c.blocks),
        ];
        for (name, help, of) in reasons {
            let name = format!("quorate_cluster_{name}");
            page.family(&name, "gauge", help);
            for (names, cluster) in all.iter() {
                let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
                of(cluster)
                    .iter()
                    .for_each(|reason| *counts.entry(reason).or_default() += 1);
                for (reason, count) in counts {
                    let labels = format!("{},reason=\"{reason}\"", labels(names));
                    page.sample(&name, &labels, f64::from(count));
                }
            }
        }
        let name = "quorate_cluster_steps_total";
        page.family(name, "counter", "Steps that were planned and asked for, by kind.");
        for (names, cluster) in all.iter() {
            for (kind, count) in &cluster.steps {
                page.sample(
                    name,
                    &format!("{},step=\"{kind:?}\"", labels(names)),
                    *count as f64,
                );
            }
        }
        let counters: [Figure; 4] = [
            ("passes_total", "Passes over the cluster.", |c| c.passes as f64),
            ("pass_failures_total", "Passes that failed.", |c| {
                c.failures as f64
            }),
            (
                "pass_panics_total",
                "Passes that panicked, which is a bug.",
                |c| c.panics as f64,
            ),
            ("pass_seconds_total", "Time spent in passes.", |c| c.seconds),
        ];
        for (name, help, value) in counters {
            let name = format!("quorate_cluster_{name}");
            page.family(&name, "counter", help);
            all.iter()
                .for_each(|(names, c)| page.sample(&name, &labels(names), value(c)));
        }
        page.0
    }
}

fn labels(names: &Names) -> String {
    // Names of Kubernetes objects have nothing in them that would need a backslash.
    format!("namespace=\"{}\",cluster=\"{}\"", names.namespace, names.cluster)
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            _ => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::model::{Time, Token, Version};

    #[test]
    fn a_cluster_that_is_held_is_not_ready_and_says_why() {
        let (metrics, names) = (Metrics::default(), Names::of("n", "c"));
        let ready = Cluster {
            ready: true,
            quorate: true,
            waits: vec!["Preparing"],
            ..Cluster::default()
        };
        metrics.lock().insert(names.clone(), ready);
        metrics.held(&names, "Invalid");
        let text = metrics.text(true, &BTreeMap::new());
        for line in [
            "quorate_cluster_ready{namespace=\"n\",cluster=\"c\"} 0",
            "quorate_cluster_blocks{namespace=\"n\",cluster=\"c\",reason=\"Invalid\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("Preparing"));
        assert!(
            !text.contains("quorate_cluster_quorate{"),
            "nobody knows:\n{text}"
        );
        metrics.clear();
        assert!(!metrics.text(false, &BTreeMap::new()).contains("cluster=\"c\""));
    }

    #[test]
    fn a_cluster_shows_until_it_is_gone() {
        let metrics = Metrics::default();
        let names = Names::of("n", "c");
        let spec = Spec {
            name: "c".to_owned(),
            replicas: 3,
            version: Version::new(3, 6, 1),
            config: String::new(),
            paused: false,
            frozen: None,
            accept_rolled_back: None,
            storage: None,
            manifest: None,
            fallback: None,
            own_configs: BTreeMap::new(),
            own_fallbacks: BTreeMap::new(),
        };
        let observed = Observed {
            login_refused: None,
            unasked: false,
            at: Time(0),
            fresh_token: Token(String::new()),
            slots: BTreeMap::new(),
            quorum: None,
            last: None,
            lost_ca: Default::default(),
        };
        metrics.seen(&names, &spec, &observed, &Plan::default());
        metrics.passed(&names, Duration::from_millis(500), true);
        metrics.panicked(&names);
        let text = metrics.text(true, &[(("get", "leases".to_owned()), 7)].into());
        for line in [
            "quorate_leader 1",
            "quorate_api_requests_total{verb=\"get\",resource=\"leases\"} 7",
            "quorate_cluster_wanted_members{namespace=\"n\",cluster=\"c\"} 3",
            "quorate_cluster_ready{namespace=\"n\",cluster=\"c\"} 0",
            "quorate_cluster_pass_failures_total{namespace=\"n\",cluster=\"c\"} 1",
            "quorate_cluster_pass_panics_total{namespace=\"n\",cluster=\"c\"} 1",
            "quorate_cluster_pass_seconds_total{namespace=\"n\",cluster=\"c\"} 0.5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        metrics.forget(&names);
        assert!(!metrics.text(false, &BTreeMap::new()).contains("cluster=\"c\""));
    }
}
