//! The Kubernetes ground in figures: `make bench-kube`. Printed; never a verdict.

use std::time::{Duration, Instant};

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{KubeCluster, manifest};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::until;
use rustix::process::Pid;

const ROUNDS: usize = 3;
const IDLE_CLUSTERS: usize = 100;
/// How long the operator is watched doing nothing.
const IDLE: Duration = Duration::from_secs(60);

fn main() {
    let version = etcd::newest("3.6");
    println!("etcd {version}, Kubernetes on one node of this machine\n");
    time_to_three(&version);
    idle(&version);
}

fn time_to_three(version: &str) {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let namespace = Namespace::new("bench");
        let began = Instant::now();
        let cluster = namespace.create("c", &manifest("c", 3, version));
        cluster.await_ready(3, version);
        times.push(began.elapsed());
    }
    times.sort();
    let median = times[times.len() / 2].as_secs_f64();
    println!("manifest to three members Ready, images present: {median:.1} s (target: at most 30)");
    println!("figures: three_ready_s={median:.1}");
}

/// Many clusters that want nothing: paused, so that this machine need not run three hundred members.
fn idle(version: &str) {
    let namespace = Namespace::new("bench");
    let all: Vec<String> = (0..IDLE_CLUSTERS)
        .map(|n| parked(&format!("c{n}"), version))
        .collect();
    namespace.apply(&all.join("---\n"));
    let last = KubeCluster::of(&namespace, &format!("c{}", IDLE_CLUSTERS - 1));
    last.wait_for("seen by the operator", |c| !c["status"]["conditions"].is_null());
    let bed = Bed::get();
    let (pod, pids) = bed.acting_operator();
    let seen = until(Duration::from_secs(60), || {
        let clusters = bed.figures(&pod, "quorate_cluster_wanted_members");
        (clusters.len() >= IDLE_CLUSTERS).then_some(())
    });
    assert!(seen.is_some(), "the operator does not know all clusters");
    // Idle means having been so for a while.
    std::thread::sleep(Duration::from_secs(20));
    let before = bed.figures(&pod, "quorate_api_requests_total");
    std::thread::sleep(IDLE);
    let after = bed.figures(&pod, "quorate_api_requests_total");
    let rss = rss_mib(pids[0]);
    println!("operator with {IDLE_CLUSTERS} idle clusters: {rss:.1} MiB RSS (target: at most 40)");
    println!("figures: idle_clusters={IDLE_CLUSTERS}; operator_rss_mib={rss:.1}");
    println!("its requests to the API server in {} s:", IDLE.as_secs());
    for (labels, count) in &after {
        let earlier = before.iter().find(|(l, _)| l == labels).map_or(0.0, |(_, c)| *c);
        if *count > earlier {
            println!("  {labels} {}", count - earlier);
        }
    }
}

fn parked(name: &str, version: &str) -> String {
    manifest(name, 3, version).replace("spec:\n", "spec:\n  paused: true\n")
}

/// The resident memory of a process.
fn rss_mib(pid: Pid) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("it runs");
    let line = status
        .lines()
        .find(|l| l.starts_with("VmRSS:"))
        .expect("the kernel says");
    let kb = line
        .split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse::<f64>().ok());
    kb.expect("a number") / 1024.0
}
