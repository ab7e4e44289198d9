//! The operator as a process among others: which of its pods acts, what it did, and its sudden end.
//!
//! In: the Lease, the pods, the metrics. Out: a process that is gone, with nothing said to it and nothing given back.
//! Never: a polite stop. Deleting a pod sends SIGTERM first, however forcibly it is deleted, and the operator would hand
//! its Lease over; so the process is killed by the machine.

use std::time::Duration;

use rustix::process::Pid;
use serde_json::Value;

use super::bed::{Bed, OPERATOR_NAMESPACE};
use super::cluster::text;
use super::{process, said, until};

const CONTAINER: &str = "operator";
const PODS: &str = "app.kubernetes.io/name=quorate-operator";
const LEASE: &str = "quorate-operator";
/// A Lease ends, another pod sees that it did, and takes it.
const TAKEN_OVER: Duration = Duration::from_secs(90);

/// What follows on the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Its container is started again, in the same pod, which still holds the Lease.
    Restart,
    /// Its pod is lost as well, as with its node: another one waits until the Lease ends.
    Replace,
}

impl Bed {
    /// The operator's pods that are not on their way out.
    pub fn operators(&self) -> Vec<Value> {
        let list = self.json(&["-n", OPERATOR_NAMESPACE, "pods", "-l", PODS]);
        let mut pods = list
            .and_then(|l| l["items"].as_array().cloned())
            .unwrap_or_default();
        pods.retain(|p| p["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// The pod named in the Lease, whether it still lives or not.
    pub fn lease_holder(&self) -> String {
        let lease = self.json(&["-n", OPERATOR_NAMESPACE, "lease", LEASE]);
        lease
            .map(|l| l["spec"]["holderIdentity"].clone())
            .and_then(|h| h.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// The operator that acts: the pod that holds the Lease, with its processes.
    pub fn acting_operator(&self) -> (String, Vec<Pid>) {
        let found = until(TAKEN_OVER, || {
            let holder = self.lease_holder();
            let pods = self.operators();
            let pod = pods.iter().find(|p| text(&p["metadata"]["name"]) == holder)?;
            let pids = process::of_container(pod, CONTAINER);
            (!pids.is_empty()).then_some((holder, pids))
        });
        found.unwrap_or_else(|| {
            panic!(
                "no operator holds the Lease within {TAKEN_OVER:?}: it names {:?}\n{}",
                self.lease_holder(),
                self.operator_log(40)
            )
        })
    }

    /// Kills the operator that acts, by SIGKILL, and its pod is lost as well.
    pub fn kill_operator(&self) {
        self.kill_operator_then(Then::Replace);
    }

    /// Kills the operator that acts, by SIGKILL, and gives the name of its pod.
    pub fn kill_operator_then(&self, then: Then) -> String {
        let (pod, pids) = self.acting_operator();
        process::kill(&pids);
        if then == Then::Replace {
            self.lose_operator(&pod);
        }
        pod
    }

    /// Deletes the pod of an operator whose process was killed.
    pub fn lose_operator(&self, pod: &str) {
        let force = ["--grace-period=0", "--force", "--ignore-not-found"];
        self.must(&[&["-n", OPERATOR_NAMESPACE, "delete", "pod", pod], &force[..]].concat());
    }

    /// The samples of one of an operator's figures: labels and value.
    pub fn figures(&self, pod: &str, name: &str) -> Vec<(String, f64)> {
        self.try_figures(pod, name).unwrap_or_else(|why| panic!("{why}"))
    }

    /// The same of an operator that may not answer just now.
    pub fn try_figures(&self, pod: &str, name: &str) -> Result<Vec<(String, f64)>, String> {
        let path = format!("/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{pod}:8080/proxy/metrics");
        let output = self.kubectl(&["get", "--raw", &path]);
        if !output.status.success() {
            return Err(said(&output));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let samples = text.lines().filter_map(|line| {
            let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
            Some((labels.to_owned(), value.parse().ok()?))
        });
        Ok(samples.collect())
    }

    /// All that the operators' present processes have said.
    pub fn whole_operator_log(&self) -> String {
        let logs = self.operators().into_iter().map(|pod| {
            let name = text(&pod["metadata"]["name"]);
            self.must(&["-n", OPERATOR_NAMESPACE, "logs", &name])
        });
        logs.collect()
    }
}
