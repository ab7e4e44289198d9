//! The agent under load: its memory, and how far behind it falls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quorate_client::{Endpoint, Keys, Op, Timeouts, Txn};
use quorate_testkit::Start;
use quorate_tests::measure::{Watched, noise};

use crate::tools::{Agent, Ours};
use crate::{list, mib};

const VALUE: usize = 1024;
const KEYS: u64 = 100_000;
const MILLION: usize = 1_000_000;

/// What is written meanwhile.
#[derive(Clone, Copy)]
enum Load {
    /// Ten thousand keys each second, in transactions of 64.
    Steady,
    /// Single puts, as many as there can be.
    Single,
    /// A million keys, deleted by one request.
    Deletion,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::Steady => "10,000 keys/s of 1 KiB in transactions of 64",
            Load::Single => "single puts of 1 KiB, as many as there can be",
            Load::Deletion => "a million keys in transactions of 10,000, then one deletion of all",
        }
    }

    /// Writes. The last revision, and how many keys were written or deleted.
    async fn write(self, endpoint: &Endpoint, seconds: u64) -> (i64, u64) {
        match self {
            Load::Steady => rate(endpoint, seconds, 4, 64, Some(10_000)).await,
            Load::Single => rate(endpoint, seconds, 256, 1, None).await,
            Load::Deletion => {
                for piece in 0..MILLION / 10_000 {
                    let put = |n| Op::Put {
                        key: format!("million/{piece:04}/{n:06}").into(),
                        value: b"v".to_vec(),
                        lease: 0,
                    };
                    let then = (0..10_000).map(put).collect();
                    let txn = Txn {
                        then,
                        ..Txn::default()
                    };
                    endpoint.txn(txn).await.expect("a transaction");
                }
                // etcd is busy with it for longer than it lets its own requests take.
                let _ = endpoint.delete_range(Keys::prefix(b"million/")).await;
                let deadline = Instant::now() + Duration::from_secs(120);
                loop {
                    match endpoint.put(b"after", b"").await {
                        Ok(revision) => return (revision, 2 * MILLION as u64),
                        Err(error) => assert!(Instant::now() < deadline, "{}", error.chain()),
                    }
                }
            }
        }
    }
}

async fn rate(
    endpoint: &Endpoint,
    seconds: u64,
    writers: u64,
    puts: u64,
    keys_a_second: Option<u64>,
) -> (i64, u64) {
    let began = Instant::now();
    let mut writing = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let endpoint = endpoint.clone();
        writing.spawn(async move {
            let (mut revision, mut written) = (0, 0);
            while began.elapsed() < Duration::from_secs(seconds) {
                if let Some(rate) = keys_a_second {
                    let due = Duration::from_secs_f64((written * writers) as f64 / rate as f64);
                    tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
                }
                let put = |n: u64| Op::Put {
                    key: format!("key/{writer}/{:08}", n % KEYS).into(),
                    value: noise(n ^ (writer << 40), VALUE),
                    lease: 0,
                };
                let txn = Txn {
                    then: (written..written + puts).map(put).collect(),
                    ..Txn::default()
                };
                revision = endpoint.txn(txn).await.expect("a transaction").revision;
                written += puts;
            }
            (revision, written)
        });
    }
    let (mut last, mut all) = (0, 0);
    while let Some(Ok((revision, written))) = writing.join_next().await {
        (last, all) = (last.max(revision), all + written);
    }
    (last, all)
}

/// How long the oldest event that was not in the archive had waited, at most, in seconds.
fn oldest(file: PathBuf, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<f64> {
    std::thread::spawn(move || {
        let mut most: f64 = 0.0;
        while !stop.load(Ordering::Relaxed) {
            let text = std::fs::read(&file).unwrap_or_default();
            let shown: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            let since = shown["oldestUnflushed"]
                .as_str()
                .and_then(|text| text.parse().ok());
            if let Some(since) = since {
                most = most.max(jiff::Timestamp::now().duration_since(since).as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        most
    })
}

/// Every load, each on an etcd of its own.
pub fn all(version: &str) {
    let seconds = list("QUORATE_BENCH_SECONDS", "30").first().copied().unwrap_or(30);
    println!(
        "\nthe agent under load (targets: RssAnon 64 MiB, an event waits no longer than its period of 20 s)"
    );
    for load in [Load::Steady, Load::Single, Load::Deletion] {
        let root = tempfile::Builder::new().prefix("bench-agent-").tempdir();
        let root = root.expect("a directory");
        one(load, version, seconds, root.path());
    }
}

fn one(load: Load, version: &str, seconds: u64, root: &Path) {
    let server = Start::new(version, &root.join("data"))
        .flag("--quota-backend-bytes=8589934592")
        .flag("--max-txn-ops=20000")
        .serve();
    let ours = Ours::at(&root.join("archive"));
    let status = root.join("status.json");
    let agent = Agent::start_with(&ours, &server, &[format!("--status-file={}", status.display())]);
    let memory = Watched::start(agent.pid());
    let stop = Arc::new(AtomicBool::new(false));
    let waited = oldest(status, Arc::clone(&stop));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let endpoint = Endpoint::connect_lazy(&server.addresses().client, None, Timeouts::default());
    let endpoint = endpoint.expect("a URL").within(Duration::from_secs(60));
    let began = Instant::now();
    let (last, keys) = runtime.block_on(load.write(&endpoint, seconds));
    let wrote = began.elapsed().as_secs_f64();
    agent.stop_at(last);
    stop.store(true, Ordering::Relaxed);
    println!(
        "  {}: {:.0} keys/s for {wrote:.0} s; RssAnon {:.1} MiB, the oldest event waited {:.1} s",
        load.name(),
        keys as f64 / wrote,
        mib(memory.most()),
        waited.join().unwrap_or(0.0),
    );
    server.stop();
}
