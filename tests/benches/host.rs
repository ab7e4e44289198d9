//! The host ground in figures: `make bench`. Ratios and sizes, printed; never a verdict.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quorate_client::{Endpoint, Timeouts, Tls};
use quorate_host::Status;
use quorate_tests::cluster::{Cluster, binary, is_ready, kill_member};
use quorate_tests::etcd;
use quorate_tests::torture::Torture;

const ROUNDS: usize = 5;

fn main() {
    let version = etcd::newest("3.6");
    println!(
        "etcd {version}, {} cpus\n",
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    size();
    time_to_three(&version);
    idle(&version);
    gaps(&version);
}

fn size() {
    let bytes = std::fs::metadata(binary()).expect("the binary is there").len();
    println!(
        "release binary: {:.1} MB (target: at most 25)",
        bytes as f64 / 1e6
    );
    println!("figures: binary_mb={:.1}", bytes as f64 / 1e6);
}

fn rss_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status
        .lines()
        .find(|l| l.starts_with("VmRSS:"))
        .expect("the kernel says");
    line.split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse::<f64>().ok())
        .expect("a number")
        / 1024.0
}

fn idle(version: &str) {
    let mut cluster = Cluster::new(3, version);
    cluster.up();
    let status = cluster.await_ready(3, version);
    // Idle means having been so for a while.
    std::thread::sleep(Duration::from_secs(20));
    let rss = rss_mib(status.supervisor.pid);
    println!("supervisor, idle with three members: {rss:.1} MiB RSS (target: at most 15)");
    println!("figures: idle_supervisor_rss_mib={rss:.1}");
    cluster.stop();
}

/// From command to three healthy members, against the same three etcd started by hand.
fn time_to_three(version: &str) {
    let (mut ours, mut hand) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut cluster = Cluster::new(3, version);
        let urls = cluster.client_urls(3);
        let began = Instant::now();
        cluster.up();
        let certs = cluster.root().join("pki/client.crt");
        while !certs.exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        cluster.await_status("a status", |s| s.certs.is_some());
        let tls = cluster.tls();
        await_healthy(&urls, &tls);
        ours.push(began.elapsed());
        let status = cluster.await_ready(3, version);
        let commands: Vec<Vec<String>> = status
            .members
            .iter()
            .map(|m| command_line(m.pid.expect("it runs")))
            .collect();
        cluster.stop();
        hand.push(by_hand(&status, &commands, &urls, &tls));
    }
    let (ours, hand) = (median(ours), median(hand));
    println!(
        "command to three healthy members: {:.2} s; the same three by hand: {:.2} s; difference {:+.2} s (target: at most +1), ratio {:.2}",
        ours.as_secs_f64(),
        hand.as_secs_f64(),
        ours.as_secs_f64() - hand.as_secs_f64(),
        ours.as_secs_f64() / hand.as_secs_f64()
    );
    println!(
        "figures: three_healthy_s={:.2}; by_hand_s={:.2}",
        ours.as_secs_f64(),
        hand.as_secs_f64()
    );
}

fn command_line(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    bytes
        .split(|b| *b == 0)
        .filter(|a| !a.is_empty())
        .map(|a| String::from_utf8_lossy(a).into_owned())
        .collect()
}

fn by_hand(status: &Status, commands: &[Vec<String>], urls: &[String], tls: &Tls) -> Duration {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let began = Instant::now();
    let mut children: Vec<Child> = Vec::new();
    for (member, argv) in status.members.iter().zip(commands) {
        let data = scratch.path().join(&member.name);
        children.push(start(argv, &member.data_dir, &data));
    }
    await_healthy(urls, tls);
    let took = began.elapsed();
    for child in &mut children {
        kill_member(child.id());
        child.wait().expect("our own child");
    }
    took
}

fn start(argv: &[String], old: &Path, new: &Path) -> Child {
    let (old, new) = (old.to_string_lossy(), new.to_string_lossy());
    let args = argv[1..].iter().map(|a| a.replace(&*old, &new));
    Command::new(&argv[0])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd starts")
}

fn await_healthy(urls: &[String], tls: &Tls) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let timeouts = Timeouts {
            request: Duration::from_millis(500),
            ..Timeouts::default()
        };
        for url in urls {
            let endpoint = Endpoint::connect_lazy(url, Some(tls), timeouts).expect("a valid endpoint");
            while endpoint.linearizable_read().await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// How long writes pause during each planned operation.
fn gaps(version: &str) {
    println!("\nlongest write gap per planned operation (aim: at most 3 s):");
    let old = etcd::newest("3.5");
    let mut cluster = Cluster::new(1, &old);
    cluster.up();
    cluster.await_ready(1, &old);
    let torture = Torture::start(&cluster);
    for replicas in [3, 5, 3] {
        torture.during(&format!("scale to {replicas}"), || {
            cluster.must(&["scale", &replicas.to_string()]);
            cluster.await_ready(replicas, &old);
        });
    }
    torture.during(&format!("upgrade {old} to {version}"), || {
        cluster.must(&["upgrade", version]);
        cluster.await_ready(3, version);
    });
    torture.during("redeploy", || {
        let before = cluster.await_ready(3, version);
        cluster.must(&["redeploy", "--reason", "bench"]);
        let restarted = |s: &Status| s.members.iter().zip(&before.members).all(|(a, b)| a.pid != b.pid);
        cluster.await_status("all restarted", |s| restarted(s) && is_ready(s, 3, version));
    });
    torture.verdict();
    cluster.stop();
}
