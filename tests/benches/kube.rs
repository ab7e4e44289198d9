//! The Kubernetes ground in figures: `make bench-kube`. Printed; never a verdict.

use std::time::{Duration, Instant};

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::manifest;
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::operator::Then;
use quorate_tests::kube::until;
use rustix::process::Pid;

const ROUNDS: usize = 3;
/// More clusters than any one of which this machine could run the members.
const IDLE_CLUSTERS: [usize; 2] = [100, 1000];
/// How many are applied at a time.
const APPLIED: usize = 100;
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

/// Many clusters that want nothing: paused, so that this machine need not run three thousand members. The operator reads,
/// judges and reports them as any other.
fn idle(version: &str) {
    let namespace = Namespace::new("bench");
    let mut made = 0;
    for clusters in IDLE_CLUSTERS {
        while made < clusters {
            let all: Vec<String> = (made..clusters.min(made + APPLIED))
                .map(|n| parked(&format!("c{n}"), version))
                .collect();
            namespace.apply(&all.join("---\n"));
            made += all.len();
        }
        println!("\n{clusters} clusters, paused, without members");
        at_rest(clusters);
        restarted(clusters);
    }
}

/// Waits until an operator has observed all clusters; which one it is.
fn observed(clusters: usize) -> (String, Vec<Pid>) {
    let bed = Bed::get();
    let seen = until(Duration::from_secs(300), || {
        let (pod, pids) = bed.acting_operator();
        let known = bed.try_figures(&pod, "quorate_cluster_wanted_members").ok()?;
        (known.len() >= clusters).then_some((pod, pids))
    });
    seen.unwrap_or_else(|| panic!("the operator does not know all {clusters} clusters"))
}

fn at_rest(clusters: usize) {
    let bed = Bed::get();
    let (pod, pids) = observed(clusters);
    // Idle means having been so for a while.
    std::thread::sleep(Duration::from_secs(20));
    let before = bed.figures(&pod, "quorate_api_requests_total");
    std::thread::sleep(IDLE);
    let after = bed.figures(&pod, "quorate_api_requests_total");
    let rss = rss_mib(pids[0]);
    println!("operator: {rss:.1} MiB RSS");
    println!("its requests to the API server in {} s:", IDLE.as_secs());
    let mut all = 0.0;
    for (labels, count) in &after {
        let earlier = before.iter().find(|(l, _)| l == labels).map_or(0.0, |(_, c)| *c);
        if *count > earlier {
            println!("  {labels} {}", count - earlier);
            all += count - earlier;
        }
    }
    println!("figures: idle_clusters={clusters}; operator_rss_mib={rss:.1}; requests_a_minute={all}");
}

/// From the death of the operator's process to the moment at which the next one has observed every cluster.
fn restarted(clusters: usize) {
    let bed = Bed::get();
    let began = Instant::now();
    bed.kill_operator_then(Then::Restart);
    let (_, pids) = observed(clusters);
    let seconds = began.elapsed().as_secs_f64();
    let rss = rss_mib(pids[0]);
    println!("killed and started again, all observed after {seconds:.1} s, with {rss:.1} MiB RSS");
    println!("figures: idle_clusters={clusters}; observed_s={seconds:.1}; restarted_rss_mib={rss:.1}");
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
