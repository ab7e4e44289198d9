//! The operator itself: watches, the Lease, and a bounded number of passes at a time.
//!
//! In: options. Out: nothing; it runs until SIGTERM. Members do not notice whether it runs.
//! Never: two passes over one cluster at once; a pass without the Lease; an error that stops the others.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cluster::build::Images;
use crate::cluster::live::{ClusterCache, Shared};
use crate::names::Names;
use crate::requests::api_errors::RequestError;
use crate::requests::events::EventRecorder;
use crate::runtime::health::Health;
use crate::runtime::lease::{Candidate, Heartbeat};
use crate::runtime::passes::{Passes, caught};
use crate::runtime::request_counter::RequestCounter;
use crate::runtime::schedule::{Ending, Schedule};
use crate::runtime::serve::Served;
use crate::runtime::unfinished::{PANICKED, TIMED_OUT};
use crate::runtime::wakeups::Wakeups;
use crate::runtime::watch;
use crate::runtime::work::{WorkKey, WorkKind};
use crate::tls::secure::CertificateSettings;
use crate::webhook;

/// Passes at the same time.
const PASSES_MAX: usize = 8;
/// The longest that the work says nothing of itself.
const TICK: Duration = Duration::from_secs(10);
/// Connections to members that stay open between passes. A connection takes as much memory as all that is known of its
/// cluster; those beyond are opened for each pass.
const CONNECTIONS_MAX: usize = 100;
/// No pass takes longer. Whatever it waits for has a limit of its own; this is for what nobody thought of.
const PASS_LIMIT: Duration = Duration::from_secs(120);

/// What an operator needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its own namespace, where the Lease is.
    pub namespace: String,
    /// What it is called among several.
    pub identity: String,
    /// The only namespace it looks after; all, if none is named.
    pub watch: Option<String>,
    pub images: Images,
    /// Where metrics and readiness are served.
    pub listen: SocketAddr,
    /// Where admission reviews are served; nowhere, if `None`.
    pub webhook: Option<SocketAddr>,
    /// What certificates are made with.
    pub certificates: CertificateSettings,
}

/// Why an operator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum CannotRun {
    /// The address is taken, or not one of this machine.
    #[error("cannot listen at {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// Nothing says where the API server is.
    #[error("there is neither a service account nor a usable kubeconfig to reach the API server with")]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// What says so cannot be used.
    #[error("no client of the API server can be made")]
    Client(#[source] Box<kube::Error>),
    /// A task panicked that all clusters need: the Lease, a watch, or what is served.
    #[error("a task that all clusters need has panicked; the operator must be started again")]
    Panicked,
}

/// What is not up while the webhook has no certificate.
const WEBHOOK: &str = "the certificate of the webhook";

/// Runs until `stop` ends.
pub async fn run(options: Options, stop: impl Future<Output = ()>) -> Result<(), CannotRun> {
    let listener = bind(options.listen).await?;
    let webhook = match options.webhook {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let requests = RequestCounter::default();
    let config = Config::infer().await;
    let client = config.map_err(|error| CannotRun::Config(Box::new(error)));
    let client = requests
        .client(client?)
        .map_err(|error| CannotRun::Client(Box::new(error)))?;
    let mut background = JoinSet::new();
    let wakeups = Arc::new(Wakeups::default());
    let health = Health::default();
    let watches = watch::start(
        &client,
        options.watch.as_deref(),
        &wakeups,
        &health,
        &mut background,
    );
    let (pulse, identity) = (Heartbeat::default(), options.identity.clone());
    let candidate = Candidate::new(client.clone(), &options.namespace, identity, pulse.clone());
    if let Some(listener) = webhook {
        let duties = webhook::keep::Duties {
            namespace: options.namespace.clone(),
            tenure: candidate.tenure(),
            lifetimes: options.certificates.lifetimes.clone(),
        };
        let mut shown = webhook::keep::start(&client, duties, &mut background);
        background.spawn(webhook::serving::run(listener, shown.clone()));
        let health = health.clone();
        health.expect(WEBHOOK);
        // It is ready once it has a certificate. Clusters do not wait for that.
        background.spawn(async move {
            if shown.wait_for(Option::is_some).await.is_ok() {
                health.well(WEBHOOK, true);
            }
        });
    }
    let shared = Shared {
        client: client.clone(),
        watches,
        images: Arc::new(options.images),
        certificates: Arc::new(options.certificates),
        tenure: candidate.tenure(),
        reporter: EventRecorder::new(client.clone(), options.identity.clone()),
        metrics: Arc::default(),
    };
    let served = Served {
        metrics: shared.metrics.clone(),
        tenure: shared.tenure.clone(),
        requests,
        health,
    };
    background.spawn(served.run(listener));
    background.spawn(candidate.run());
    let work = async {
        shared.watches.ready().await;
        tracing::info!("all watches are in sync");
        Work::new(shared.clone(), wakeups, pulse).go_on().await;
    };
    let result = tokio::select! {
        () = work => Ok(()),
        () = stop => Ok(()),
        () = panicked(&mut background) => Err(CannotRun::Panicked),
    };
    background.shutdown().await;
    Candidate::give_back(client, &options.namespace, &options.identity).await;
    result
}

/// Ends when a background task panics: without it the operator would only seem to run. One that ends has done its work.
async fn panicked(background: &mut JoinSet<()>) {
    while let Some(ended) = background.join_next().await {
        if ended.is_err_and(|error| error.is_panic()) {
            return;
        }
    }
    std::future::pending().await
}

async fn bind(address: SocketAddr) -> Result<TcpListener, CannotRun> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| CannotRun::Listen { address, source })
}

struct Work {
    shared: Shared,
    wakeups: Arc<Wakeups>,
    pulse: Heartbeat,
    schedule: Schedule,
    /// Kept between passes; not of those under way.
    kept: BTreeMap<WorkKey, ClusterCache>,
    passes: Passes<(ClusterCache, Ending)>,
}

impl Work {
    fn new(shared: Shared, wakeups: Arc<Wakeups>, pulse: Heartbeat) -> Work {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        for key in shared.watches.worked_on() {
            schedule.wake(key, now);
        }
        Work {
            shared,
            wakeups,
            pulse,
            schedule,
            kept: BTreeMap::new(),
            passes: Passes::default(),
        }
    }

    async fn go_on(&mut self) {
        loop {
            self.pulse.beat();
            self.begin_passes();
            let room = self.passes.count() < PASSES_MAX;
            let next = self.schedule.next_due().filter(|_| room);
            let tick = Instant::now() + TICK;
            let next = next.map_or(tick, |next| next.min(tick));
            tokio::select! {
                woken = self.wakeups.next() => {
                    let now = Instant::now();
                    woken.into_iter().for_each(|key| self.schedule.wake(key, now));
                }
                Some((key, came_to)) = self.passes.ended() => self.end(key, came_to),
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    fn begin_passes(&mut self) {
        if !self.shared.tenure.holds() {
            // Looked at again when there is a Lease; a moment later is soon enough.
            self.shared.metrics.clear();
            self.schedule.put_off(Instant::now() + Duration::from_millis(500));
            return;
        }
        while self.passes.count() < PASSES_MAX {
            let Some(key) = self.schedule.begin(Instant::now()) else {
                return;
            };
            let kept = self.kept.remove(&key).unwrap_or_default();
            let pass = match key.kind {
                WorkKind::Cluster => pass(self.shared.clone(), key.names(), kept, PASS_LIMIT),
            };
            self.passes.begin(key, pass);
        }
    }

    fn end(&mut self, key: WorkKey, came_to: Option<(ClusterCache, Ending)>) {
        let (mut kept, ending) = came_to.unwrap_or((ClusterCache::default(), Ending::Failed));
        if ending != Ending::Gone {
            let open = self.kept.values().map(ClusterCache::connections).sum::<usize>();
            if open + kept.connections() > CONNECTIONS_MAX {
                kept.disconnect();
            }
            self.kept.insert(key.clone(), kept);
        }
        self.schedule.end(key, ending, Instant::now());
    }
}

/// One pass over a cluster, which takes at most `limit`, and how it ended.
async fn pass(
    shared: Shared,
    names: Names,
    mut kept: ClusterCache,
    limit: Duration,
) -> (ClusterCache, Ending) {
    let began = Instant::now();
    let result = caught(tokio::time::timeout(limit, shared.pass(&names, &mut kept))).await;
    let Names { namespace, cluster } = &names;
    let ending = match result {
        Ok(Ok(Ok(None))) => {
            shared.metrics.forget(&names);
            return (kept, Ending::Gone);
        }
        Ok(Ok(Ok(Some(pause)))) => {
            shared.metrics.passed(&names, began.elapsed(), false);
            return (kept, Ending::Well(pause));
        }
        Ok(Ok(Err(failed @ RequestError::Some(_)))) => {
            log_failed(&names, &failed);
            Ending::Partly
        }
        Ok(Ok(Err(failed))) => {
            log_failed(&names, &failed);
            shared.show_failure(&names, &failed, &mut kept).await;
            Ending::Failed
        }
        Ok(Err(_)) => {
            let (reason, limit) = (TIMED_OUT, limit.as_secs());
            tracing::error!(namespace, cluster, reason, "the pass timed out after {limit} s");
            shared.show_timeout(&names, &mut kept).await;
            Ending::Failed
        }
        Err(message) => {
            let reason = PANICKED;
            tracing::error!(namespace, cluster, reason, "the pass panicked: {message}");
            kept = shared.show_panic(&names).await;
            Ending::Failed
        }
    };
    shared.metrics.passed(&names, began.elapsed(), true);
    (kept, ending)
}

/// A line for each request that failed.
fn log_failed(names: &Names, failed: &RequestError) {
    let Names { namespace, cluster } = names;
    match failed {
        RequestError::Some(all) => all.iter().for_each(|failed| log_failed(names, failed)),
        one => tracing::warn!(
            namespace,
            cluster,
            reason = one.reason(),
            "request failed: {}",
            one.message()
        ),
    }
}

#[cfg(test)]
mod tests;
