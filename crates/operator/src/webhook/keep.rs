//! Keeps the webhook's Secret and both configurations right, and has the certificate shown that is in the Secret.
//!
//! In: watches on these three objects, the Lease, the time. Out: requests where something is wrong with them, and the
//! certificate to serve with. It sleeps until one of them changes or a certificate's time has come; it asks for nothing.
//! Who holds the Lease writes. One exception: a pod that finds nothing to serve with makes it, so that a pod of a new
//! version gets ready while one of an older version, which knows no webhook, still holds the Lease. Of several that
//! write, one succeeds: the version that was seen goes along.
//! Never: a certificate taken away from a pod that serves because its Secret is gone.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use quorate_pki::PairPem;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_rustls::rustls::ServerConfig;

use super::certificate::{Judged, WebhookCert, served};
use super::configuration::{Configuration, trusting};
use super::serving::{Shown, showing};
use super::{CONFIGURATION, SERVICE};
use crate::requests::apply::{FIELD_MANAGER, apply, is};
use crate::requests::effect::Effect;
use crate::runtime::lease::Leadership;
use crate::runtime::watch::{events, trim};
use crate::tls::Lifetimes;

/// How long a request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// What is to be done is looked at again after this by one that may not do it: it may hold the Lease by then.
const WITHOUT_LEASE: Duration = Duration::from_secs(1);
/// A watch reports what became of a write; if it does not, it is looked at again after this.
const UNHEARD: Duration = Duration::from_secs(5);
/// The longest pause after failures in a row.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Judged again after this, whatever the clock has done. No request is made for it.
const JUDGE_EVERY: Duration = Duration::from_secs(3600);

/// What a keeper needs to know.
#[derive(Debug)]
pub struct Duties {
    pub namespace: String,
    /// Until when it may act.
    pub tenure: Leadership,
    /// How long certificates live.
    pub lifetimes: Lifetimes,
}

struct Keep {
    duties: Duties,
    client: Client,
    secret: Store<Secret>,
    mutating: Store<MutatingWebhookConfiguration>,
    validating: Store<ValidatingWebhookConfiguration>,
    changed: Arc<Notify>,
    show: watch::Sender<Option<Arc<ServerConfig>>>,
    pem: Option<PairPem>,
}

/// One thing to do.
enum Task {
    Secret(Effect),
    Mutating(Value),
    Validating(Value),
}

/// Starts to keep them. Out: what to serve with.
pub fn start(client: &Client, duties: Duties, tasks: &mut JoinSet<()>) -> Shown {
    let changed = Arc::new(Notify::new());
    let (show, shown) = watch::channel(None);
    let keep = Keep {
        secret: watch_one(client, Some(&duties.namespace), SERVICE, &changed, tasks),
        mutating: watch_one(client, None, CONFIGURATION, &changed, tasks),
        validating: watch_one(client, None, CONFIGURATION, &changed, tasks),
        client: client.clone(),
        duties,
        changed,
        show,
        pem: None,
    };
    tasks.spawn(keep.run());
    shown
}

/// Knows one object. Everything that happens to it is reported, also that it was gone when the watch came back.
fn watch_one<K>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
    changed: &Arc<Notify>,
    tasks: &mut JoinSet<()>,
) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let (store, writer) = reflector::store();
    let stream = events::watch::<K, K>(client, namespace, config, trim::any, events::object).reflect(writer);
    let changed = changed.clone();
    tasks.spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.next().await {
            // Errors are retried by the watch itself, with growing pauses; meanwhile the object stays as it was.
            if let Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) = event {
                changed.notify_one();
            }
        }
    });
    store
}

fn only<K>(store: &Store<K>) -> Option<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.state().into_iter().next()
}

impl Keep {
    async fn run(mut self) {
        // A writer is only dropped when its watch has ended, and then the operator ends too.
        let _ = self.secret.wait_until_ready().await;
        let mut failures = 0u32;
        loop {
            let pause = match self.round().await {
                Ok(pause) => {
                    failures = 0;
                    pause
                }
                Err(why) => {
                    failures = failures.saturating_add(1);
                    tracing::warn!(failures, "webhook: {why}");
                    let pause = Duration::from_millis(250) * 2u32.saturating_pow(failures.min(8));
                    pause.min(BACKOFF_MAX)
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Looks, and does the first thing there is to do. Out: when to look again, if nothing is heard.
    async fn round(&mut self) -> Result<Duration, String> {
        let secret = only(&self.secret);
        if let Some(pem) = secret.as_deref().and_then(served) {
            self.present(pem);
        }
        let now = SystemTime::now();
        let keeper = WebhookCert {
            namespace: &self.duties.namespace,
            lifetimes: &self.duties.lifetimes,
            now,
        };
        let judged = keeper.judge(secret.as_deref(), |bundle| self.distrusting(bundle).is_none())?;
        let until = judged.good_until;
        let may = |task: &Task| {
            let needed = self.pem.is_none() && matches!(task, Task::Secret(_));
            needed || self.duties.tenure.covers(REQUEST_LIMIT)
        };
        match self.task(judged) {
            Some(task) if !may(&task) => Ok(WITHOUT_LEASE),
            Some(task) => self.perform(task).await.map(|()| UNHEARD),
            None => {
                let left = until.and_then(|until| until.duration_since(now).ok());
                // A little later than due, so that it is due when it is looked at.
                let pause = left
                    .unwrap_or_default()
                    .saturating_add(Duration::from_millis(100));
                Ok(pause.min(JUDGE_EVERY))
            }
        }
    }

    /// Shows another certificate from now on; one that cannot be shown is left to be recreated.
    fn present(&mut self, pem: PairPem) {
        if self.pem.as_ref() == Some(&pem) {
            return;
        }
        match showing(&pem) {
            Ok(config) => {
                self.show.send_replace(Some(Arc::new(config)));
                self.pem = Some(pem);
            }
            Err(why) => tracing::warn!("webhook: Secret {SERVICE:?} cannot be served with: {why}"),
        }
    }

    fn task(&self, judged: Judged) -> Option<Task> {
        let trust = || self.distrusting(&judged.bundle?);
        judged.change.map(Task::Secret).or_else(trust)
    }

    /// The first configuration that does not trust `bundle`. One that is not there, or not known yet, is not asked for.
    fn distrusting(&self, bundle: &[u8]) -> Option<Task> {
        let first = only(&self.mutating).and_then(|seen| trusting(&*seen, bundle));
        first.map(Task::Mutating).or_else(|| {
            let last = only(&self.validating).and_then(|seen| trusting(&*seen, bundle));
            last.map(Task::Validating)
        })
    }

    async fn perform(&self, task: Task) -> Result<(), String> {
        let done = match &task {
            Task::Secret(effect) => {
                let asked = apply(&self.client, &self.duties.namespace, effect);
                let done = tokio::time::timeout(REQUEST_LIMIT, asked).await;
                (effect.to_string(), done.map(|done| done.map(|_| ())))
            }
            Task::Mutating(change) => {
                let asked = self.merge::<MutatingWebhookConfiguration>(change);
                let what = format!("set whom MutatingWebhookConfiguration {CONFIGURATION} trusts");
                (what, tokio::time::timeout(REQUEST_LIMIT, asked).await)
            }
            Task::Validating(change) => {
                let asked = self.merge::<ValidatingWebhookConfiguration>(change);
                let what = format!("set whom ValidatingWebhookConfiguration {CONFIGURATION} trusts");
                (what, tokio::time::timeout(REQUEST_LIMIT, asked).await)
            }
        };
        match done {
            (what, Ok(Ok(()))) => {
                tracing::info!("webhook: {what}");
                Ok(())
            }
            // Someone else was quicker, and the watch is about to tell.
            (_, Ok(Err(error))) if is(&error, 409) || is(&error, 404) => Ok(()),
            (what, Ok(Err(error))) => Err(format!("cannot {what}: {error}")),
            (what, Err(_)) => Err(format!("cannot {what}: no answer within {REQUEST_LIMIT:?}")),
        }
    }

    async fn merge<K>(&self, change: &Value) -> Result<(), kube::Error>
    where
        K: Configuration + Resource<DynamicType = ()>,
    {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::erase::<K>(&()));
        let patch = Patch::Strategic(change);
        api.patch(CONFIGURATION, &params, &patch).await.map(drop)
    }
}
