//! Everything the operator knows of the API server: kept up to date by watches, never asked for in a pass.
//!
//! In: a client. Out: the objects of any one cluster, and which cluster something happened to. Never: objects that are
//! not ours (all but the resources themselves are chosen by label).

pub mod events;
mod kept;
mod known;
pub mod trim;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource, ResourceExt};
use quorate_api::crd::{EtcdCluster, EtcdPeer};
use quorate_pod::contract::CLUSTER_LABEL;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::cluster::observe::gather::MemberObjects;
use crate::cluster::upkeep::ClusterObjects;
use crate::names::{APP_LABEL, LEFT_BEHIND_LABEL, Names};
use crate::runtime::health::Health;
use crate::runtime::wakeups::Wakeups;
use crate::runtime::watch::kept::Kept;
use crate::runtime::watch::known::{Known, known};
use crate::runtime::work::WorkKey;

#[derive(Clone)]
pub struct Watches {
    clusters: Known<EtcdCluster>,
    peers: Known<EtcdPeer>,
    pods: Known<Pod>,
    claims: Known<PersistentVolumeClaim>,
    sets: Known<ReplicaSet>,
    services: Known<Service>,
    budgets: Known<PodDisruptionBudget>,
    secrets: Known<Secret>,
}

impl Debug for Watches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watches")
    }
}

/// Starts the watches. Each object that has passes of its own is woken when something happens to it or to what is its.
pub fn start(
    client: &Client,
    namespace: Option<&str>,
    woken: &Arc<Wakeups>,
    health: &Health,
    tasks: &mut JoinSet<()>,
) -> Watches {
    let mut start = Start {
        client,
        namespace,
        woken,
        health,
        tasks,
    };
    Watches {
        clusters: start.watch(trim::cluster, |c: &EtcdCluster| {
            Some(WorkKey::cluster(&c.namespace()?, &c.name_any()))
        }),
        peers: start.watch(trim::peer, |p: &EtcdPeer| {
            Some(WorkKey::cluster(&p.namespace()?, &p.spec.cluster_name))
        }),
        pods: start.watch_labelled(trim::PAGE, trim::pod),
        claims: start.watch_labelled(trim::PAGE, trim::labelled),
        sets: start.watch_labelled(trim::PAGE, trim::set),
        services: start.watch_labelled(trim::PAGE, trim::labelled),
        budgets: start.watch_labelled(trim::PAGE, trim::labelled),
        secrets: start.watch_labelled(trim::SECRETS_PAGE, trim::secret),
    }
}

/// The cluster that an object belongs to by its label.
fn labelled<K: ResourceExt>(object: &K) -> Option<WorkKey> {
    let cluster = object.labels().get(CLUSTER_LABEL)?;
    Some(WorkKey::cluster(&object.namespace()?, cluster))
}

/// A kind of object that can be watched.
trait WatchedKind:
    Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> WatchedKind for K where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

struct Start<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    woken: &'a Arc<Wakeups>,
    health: &'a Health,
    tasks: &'a mut JoinSet<()>,
}

impl Start<'_> {
    /// All objects of a kind.
    fn watch<K: WatchedKind>(
        &mut self,
        trim: fn(&mut DynamicObject),
        wakes: fn(&K) -> Option<WorkKey>,
    ) -> Known<K> {
        let config = watcher::Config::default().page_size(trim::PAGE);
        self.watch_trimmed(config, trim, wakes)
    }

    /// Those of a kind that are ours by their labels.
    fn watch_labelled<K: WatchedKind>(&mut self, page: u32, trim: fn(&mut DynamicObject)) -> Known<K> {
        let ((app, etcd), (_, left_behind)) = (APP_LABEL, LEFT_BEHIND_LABEL);
        let labels = format!("{app} in ({etcd},{left_behind}),{CLUSTER_LABEL}");
        let config = watcher::Config::default().labels(&labels).page_size(page);
        self.watch_trimmed(config, trim, labelled)
    }

    fn watch_trimmed<K: WatchedKind>(
        &mut self,
        config: watcher::Config,
        trim: fn(&mut DynamicObject),
        wakes: fn(&K) -> Option<WorkKey>,
    ) -> Known<K> {
        let (known, mut learner) = known(wakes);
        let (client, namespace) = (self.client.clone(), self.namespace.map(str::to_owned));
        let (woken, health) = (self.woken.clone(), self.health.clone());
        let resource = K::plural(&());
        health.expect(&resource);
        self.tasks.spawn(async move {
            let begin = || {
                events::watch::<K, _>(&client, namespace.as_deref(), config.clone(), trim, Kept::of).boxed()
            };
            let mut stream = begin();
            // Errors are retried by the watch itself, with growing pauses; meanwhile what is known stays as it was.
            while let Some(event) = stream.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        if let Some(line) = health.failed(&resource, &error.to_string()) {
                            tracing::warn!(resource = &*resource, "{line}");
                        }
                        continue;
                    }
                };
                // At its beginning it is about to ask, and knows nothing yet.
                if !matches!(event, Event::Init)
                    && let Some(line) = health.well(&resource, matches!(event, Event::InitDone))
                {
                    tracing::info!(resource = &*resource, "{line}");
                }
                for key in learner.learn(event) {
                    woken.wake(key);
                }
                if learner.has_room_again() {
                    stream = begin();
                }
            }
        });
        known
    }
}

impl Watches {
    /// Waits until every watch has seen everything there is.
    pub async fn ready(&self) {
        self.clusters.ready().await;
        self.peers.ready().await;
        self.pods.ready().await;
        self.claims.ready().await;
        self.sets.ready().await;
        self.services.ready().await;
        self.budgets.ready().await;
        self.secrets.ready().await;
    }

    /// All objects that have passes of their own.
    pub fn worked_on(&self) -> Vec<WorkKey> {
        self.clusters.keys()
    }

    pub fn cluster(&self, names: &Names) -> Option<Arc<EtcdCluster>> {
        self.clusters
            .get(&WorkKey::of(names), &names.cluster)
            .map(Arc::new)
    }

    pub fn has_cluster(&self, names: &Names) -> bool {
        self.clusters.has(&WorkKey::of(names), &names.cluster)
    }

    /// The objects of the cluster as a whole.
    pub fn whole(&self, names: &Names) -> ClusterObjects {
        let key = WorkKey::of(names);
        ClusterObjects {
            services: self.services.under(&key),
            budget: self.budgets.get(&key, &names.cluster),
        }
    }

    /// The Secrets of a cluster whose certificates quorate makes, by name.
    pub fn secrets(&self, names: &Names) -> BTreeMap<String, Arc<Secret>> {
        let secrets = self.secrets.under(&WorkKey::of(names)).into_iter();
        secrets.map(|(name, secret)| (name, Arc::new(secret))).collect()
    }

    /// The objects of its members.
    pub fn seen(&self, names: &Names) -> MemberObjects {
        let key = WorkKey::of(names);
        MemberObjects {
            peers: self.peers.under(&key).into_values().map(Arc::new).collect(),
            claims: self.claims.under(&key).into_values().map(Arc::new).collect(),
            sets: self.sets.under(&key).into_values().map(Arc::new).collect(),
            pods: self.pods.under(&key).into_values().map(Arc::new).collect(),
        }
    }
}
