//! The Kubernetes ground in figures: `make bench-kube`. Printed; never a verdict.

use std::time::{Duration, Instant};

use quorate_tests::etcd;
use quorate_tests::kube::bed::{Bed, OPERATOR_NAMESPACE};
use quorate_tests::kube::cluster::{KubeCluster, manifest};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::{said, until};

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
    println!(
        "manifest to three members Ready, images present: {:.1} s (target: at most 30)",
        times[times.len() / 2].as_secs_f64()
    );
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
    let pod = leader(bed);
    let seen = until(Duration::from_secs(60), || {
        let clusters = figures(bed, &pod, "quorate_cluster_wanted_members");
        (clusters.len() >= IDLE_CLUSTERS).then_some(())
    });
    assert!(seen.is_some(), "the operator does not know all clusters");
    // Idle means having been so for a while.
    std::thread::sleep(Duration::from_secs(20));
    let before = figures(bed, &pod, "quorate_api_requests_total");
    std::thread::sleep(IDLE);
    let after = figures(bed, &pod, "quorate_api_requests_total");
    println!(
        "operator with {IDLE_CLUSTERS} idle clusters: {:.1} MiB RSS (target: at most 40)",
        rss_mib(&pod)
    );
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

/// The operator's pod that holds the Lease.
fn leader(bed: &Bed) -> String {
    let holder = bed.must(&[
        "-n",
        OPERATOR_NAMESPACE,
        "get",
        "lease",
        "quorate-operator",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ]);
    holder.trim().to_owned()
}

/// The samples of a figure: labels and value.
fn figures(bed: &Bed, pod: &str, name: &str) -> Vec<(String, f64)> {
    let path = format!("/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{pod}:8080/proxy/metrics");
    let output = bed.kubectl(&["get", "--raw", &path]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let samples = text.lines().filter_map(|line| {
        let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        Some((labels.to_owned(), value.parse().ok()?))
    });
    samples.collect()
}

/// The resident memory of the process whose pod is called so.
fn rss_mib(pod: &str) -> f64 {
    let wanted = format!("POD_NAME={pod}");
    let all = std::fs::read_dir("/proc").expect("there is a /proc");
    let pids = all
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.into_iter().find(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|v| v == wanted.as_bytes())
    });
    let pid = pid.expect("the operator runs on this machine");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
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
