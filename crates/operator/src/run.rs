//! The operator itself: watches, the Lease, and a bounded number of passes at a time.
//!
//! In: options. Out: nothing; it runs until it is told to stop. Members do not notice whether it runs.
//! Never: two passes over one cluster at once; a pass without the Lease; an error that stops the others.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Config;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::build::Images;
use crate::events::{Reporter, log_line};
use crate::lease::Candidate;
use crate::names::Names;
use crate::reconcile::{Failed, Kept, Shared};
use crate::requests::Requests;
use crate::serve::Served;
use crate::tls::secure::Settings;
use crate::wakeups::Wakeups;
use crate::watch;
use crate::webhook;

/// Passes at the same time.
const PASSES_MAX: usize = 8;
/// The longest pause after failures in a row.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// What an operator needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its own namespace, where the Lease is.
    pub namespace: String,
    /// What it is called among several.
    pub identity: String,
    /// The only namespace it looks after; all, if none is named.
    pub watch: Option<String>,
    /// Where images come from.
    pub images: Images,
    /// Where metrics and readiness are served.
    pub listen: SocketAddr,
    /// Where admission reviews are served; nowhere, if not told.
    pub webhook: Option<SocketAddr>,
    /// What certificates are made with.
    pub certificates: Settings,
}

/// Why an operator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum CannotRun {
    /// The address is taken, or not one of this machine.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Nothing says where the API server is.
    #[error("there is neither a service account nor a usable kubeconfig to reach the API server with")]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// What says so cannot be used.
    #[error("no client of the API server can be made")]
    Client(#[source] Box<kube::Error>),
}

/// Runs until `stop` ends.
pub async fn run(options: Options, stop: impl Future<Output = ()>) -> Result<(), CannotRun> {
    let listener = bind(options.listen).await?;
    let webhook = match options.webhook {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let requests = Requests::default();
    let config = Config::infer().await;
    let client = config.map_err(|error| CannotRun::Config(Box::new(error)));
    let client = requests
        .client(client?)
        .map_err(|error| CannotRun::Client(Box::new(error)))?;
    let mut background = JoinSet::new();
    let wakeups = Arc::new(Wakeups::default());
    let watches = watch::start(&client, options.watch.as_deref(), &wakeups, &mut background);
    let candidate = Candidate::new(client.clone(), &options.namespace, options.identity.clone());
    let shown = webhook.map(|listener| {
        let duties = webhook::keep::Duties {
            namespace: options.namespace.clone(),
            tenure: candidate.tenure(),
            lifetimes: options.certificates.lifetimes.clone(),
        };
        let shown = webhook::keep::start(&client, duties, &mut background);
        background.spawn(webhook::serving::run(listener, shown.clone()));
        shown
    });
    let shared = Shared {
        client: client.clone(),
        watches,
        images: Arc::new(options.images),
        certificates: Arc::new(options.certificates),
        tenure: candidate.tenure(),
        reporter: Reporter::new(client.clone(), options.identity.clone()),
        figures: Arc::default(),
    };
    let ready = Arc::new(AtomicBool::new(false));
    let served = Served {
        figures: shared.figures.clone(),
        tenure: shared.tenure.clone(),
        requests,
        ready: ready.clone(),
    };
    background.spawn(served.run(listener));
    background.spawn(candidate.run());
    let work = async {
        shared.watches.ready().await;
        log_line("all watches are up");
        let get_ready = async {
            if let Some(mut shown) = shown {
                // What keeps it ends only with the operator.
                let _ = shown.wait_for(Option::is_some).await;
            }
            ready.store(true, Ordering::Relaxed);
        };
        // Clusters do not wait for the webhook.
        let mut work = Work::new(shared.clone(), wakeups);
        tokio::join!(work.go_on(), get_ready);
    };
    tokio::select! {
        () = work => {}
        () = stop => {}
    }
    background.shutdown().await;
    Candidate::give_back(client, &options.namespace, &options.identity).await;
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<TcpListener, CannotRun> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| CannotRun::Listen { address, source })
}

struct Work {
    shared: Shared,
    wakeups: Arc<Wakeups>,
    /// When each cluster is to be looked at next; not those under way.
    due: BTreeMap<Names, Instant>,
    /// Kept between passes; not of those under way.
    kept: BTreeMap<Names, (Kept, u32)>,
    /// Clusters that were woken while a pass over them was under way.
    again: BTreeSet<Names>,
    passes: JoinSet<Ended>,
    under_way: BTreeSet<Names>,
}

struct Ended {
    names: Names,
    kept: Kept,
    failures: u32,
    result: Result<Option<Duration>, Failed>,
}

impl Work {
    fn new(shared: Shared, wakeups: Arc<Wakeups>) -> Work {
        let now = Instant::now();
        let due = shared
            .watches
            .clusters()
            .into_iter()
            .map(|names| (names, now))
            .collect();
        Work {
            shared,
            wakeups,
            due,
            kept: BTreeMap::new(),
            again: Default::default(),
            passes: JoinSet::new(),
            under_way: Default::default(),
        }
    }

    async fn go_on(&mut self) {
        loop {
            self.begin_passes();
            let room = self.passes.len() < PASSES_MAX;
            let next = self.due.values().min().copied().filter(|_| room);
            let next = next.unwrap_or_else(|| Instant::now() + Duration::from_secs(60));
            tokio::select! {
                woken = self.wakeups.next() => self.wake(woken),
                Some(Ok(ended)) = self.passes.join_next() => self.end(ended),
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    fn wake(&mut self, woken: BTreeSet<Names>) {
        for names in woken {
            if self.under_way.contains(&names) {
                self.again.insert(names);
            } else {
                self.due.insert(names, Instant::now());
            }
        }
    }

    fn begin_passes(&mut self) {
        if !self.shared.tenure.holds() {
            // Looked at again when there is a Lease; a moment later is soon enough.
            let later = Instant::now() + Duration::from_millis(500);
            self.due.values_mut().for_each(|due| *due = (*due).max(later));
            return;
        }
        while self.passes.len() < PASSES_MAX {
            let now = Instant::now();
            let Some(names) = self
                .due
                .iter()
                .find(|(_, due)| **due <= now)
                .map(|(n, _)| n.clone())
            else {
                return;
            };
            self.due.remove(&names);
            self.under_way.insert(names.clone());
            let (mut kept, failures) = self.kept.remove(&names).unwrap_or_default();
            let shared = self.shared.clone();
            self.passes.spawn(async move {
                let began = Instant::now();
                let result = shared.pass(&names, &mut kept).await;
                match &result {
                    Ok(None) => shared.figures.forget(&names),
                    other => shared.figures.passed(&names, began.elapsed(), other.is_err()),
                }
                Ended {
                    names,
                    kept,
                    failures,
                    result,
                }
            });
        }
    }

    fn end(&mut self, ended: Ended) {
        let Ended {
            names,
            kept,
            failures,
            result,
        } = ended;
        self.under_way.remove(&names);
        let again = self.again.remove(&names);
        let (pause, failures) = match result {
            Ok(None) if !again => return,
            Ok(None) => (Duration::ZERO, 0),
            Ok(Some(pause)) => (pause, 0),
            Err(error) => {
                let failures = failures.saturating_add(1);
                let pause = Duration::from_millis(250) * 2u32.saturating_pow(failures.min(8));
                log_line(&format!(
                    "{}/{}: {}",
                    names.namespace,
                    names.cluster,
                    chain(&error)
                ));
                (pause.min(BACKOFF_MAX), failures)
            }
        };
        let pause = if again && failures == 0 {
            Duration::ZERO
        } else {
            pause
        };
        self.due.insert(names.clone(), Instant::now() + pause);
        self.kept.insert(names, (kept, failures));
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
