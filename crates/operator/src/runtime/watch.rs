//! Everything the operator knows of the API server: kept up to date by watches, never asked for in a pass.
//!
//! In: a client. Out: the objects of any one cluster, and which cluster something happened to. Never: objects that are
//! not ours (all but the resources themselves are chosen by label).

pub mod events;
pub mod trim;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, ObjectRef, Store};
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
use crate::runtime::work::WorkKey;

#[derive(Clone)]
pub struct Watches {
    clusters: Store<EtcdCluster>,
    peers: Store<EtcdPeer>,
    pods: Store<Pod>,
    claims: Store<PersistentVolumeClaim>,
    sets: Store<ReplicaSet>,
    services: Store<Service>,
    budgets: Store<PodDisruptionBudget>,
    secrets: Store<Secret>,
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
        clusters: start.watch(|c: &EtcdCluster| Some(WorkKey::cluster(&c.namespace()?, &c.name_any()))),
        peers: start.watch(|p: &EtcdPeer| Some(WorkKey::cluster(&p.namespace()?, &p.spec.cluster_name))),
        pods: start.watch_labelled(None, trim::pod),
        claims: start.watch_labelled(None, trim::labelled),
        sets: start.watch_labelled(None, trim::set),
        services: start.watch_labelled(None, trim::labelled),
        budgets: start.watch_labelled(None, trim::labelled),
        secrets: start.watch_labelled(Some(trim::SECRETS_PAGE), trim::secret),
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
    fn watch<K: WatchedKind>(&mut self, wakes: fn(&K) -> Option<WorkKey>) -> Store<K> {
        self.watch_trimmed(watcher::Config::default(), trim::any, wakes)
    }

    /// Those of a kind that are ours by their labels.
    fn watch_labelled<K: WatchedKind>(
        &mut self,
        page: Option<u32>,
        trim: fn(&mut DynamicObject),
    ) -> Store<K> {
        let ((app, etcd), (_, left_behind)) = (APP_LABEL, LEFT_BEHIND_LABEL);
        let labels = format!("{app} in ({etcd},{left_behind}),{CLUSTER_LABEL}");
        let mut config = watcher::Config::default().labels(&labels);
        if let Some(page) = page {
            config = config.page_size(page);
        }
        self.watch_trimmed(config, trim, labelled)
    }

    fn watch_trimmed<K: WatchedKind>(
        &mut self,
        config: watcher::Config,
        trim: fn(&mut DynamicObject),
        wakes: fn(&K) -> Option<WorkKey>,
    ) -> Store<K> {
        let (store, writer) = reflector::store();
        let stream = events::watch::<K>(self.client, self.namespace, config, trim).reflect(writer);
        let (woken, health) = (self.woken.clone(), self.health.clone());
        let resource = K::plural(&());
        health.expect(&resource);
        self.tasks.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            // Errors are retried by the watch itself, with growing pauses; meanwhile the store stays as it was.
            while let Some(event) = stream.next().await {
                match &event {
                    Err(error) => {
                        if let Some(line) = health.failed(&resource, &error.to_string()) {
                            tracing::warn!(resource = &*resource, "{line}");
                        }
                    }
                    // It is about to ask, and knows nothing yet.
                    Ok(Event::Init) => {}
                    Ok(event) => {
                        if let Some(line) = health.well(&resource, matches!(event, Event::InitDone)) {
                            tracing::info!(resource = &*resource, "{line}");
                        }
                    }
                }
                let Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) = event
                else {
                    continue;
                };
                if let Some(key) = wakes(&object) {
                    woken.wake(key);
                }
            }
        });
        store
    }
}

impl Watches {
    /// Waits until every watch has seen everything there is.
    pub async fn ready(&self) {
        // An error says that the writer is gone. It goes with its task, which ends with the operator alone.
        let _ = self.clusters.wait_until_ready().await;
        let _ = self.peers.wait_until_ready().await;
        let _ = self.pods.wait_until_ready().await;
        let _ = self.claims.wait_until_ready().await;
        let _ = self.sets.wait_until_ready().await;
        let _ = self.services.wait_until_ready().await;
        let _ = self.budgets.wait_until_ready().await;
        let _ = self.secrets.wait_until_ready().await;
    }

    /// All objects that have passes of their own.
    pub fn worked_on(&self) -> Vec<WorkKey> {
        let clusters = self.clusters.state();
        let keys = clusters
            .iter()
            .filter_map(|c| Some(WorkKey::cluster(&c.namespace()?, &c.name_any())));
        keys.collect()
    }

    pub fn cluster(&self, names: &Names) -> Option<Arc<EtcdCluster>> {
        self.clusters
            .get(&ObjectRef::new(&names.cluster).within(&names.namespace))
    }

    /// The EtcdPeers of a cluster.
    fn peers(&self, names: &Names) -> Vec<Arc<EtcdPeer>> {
        let own = |p: &EtcdPeer| p.spec.cluster_name == names.cluster && is_in(p, names);
        self.peers.state_filter(own)
    }

    /// The objects of the cluster as a whole.
    pub fn whole(&self, names: &Names) -> ClusterObjects {
        let services = self.services.state_filter(|s| belongs(s, names));
        let services = services.iter().map(|s| (s.name_any(), (**s).clone()));
        let budget = ObjectRef::new(&names.cluster).within(&names.namespace);
        ClusterObjects {
            services: services.collect(),
            budget: self.budgets.get(&budget).map(|b| (*b).clone()),
        }
    }

    /// The Secrets of a cluster whose certificates quorate makes, by name.
    pub fn secrets(&self, names: &Names) -> BTreeMap<String, Arc<Secret>> {
        let secrets = self.secrets.state_filter(|s| belongs(s, names));
        secrets.into_iter().map(|s| (s.name_any(), s)).collect()
    }

    /// The objects of its members.
    pub fn seen(&self, names: &Names) -> MemberObjects {
        MemberObjects {
            peers: self.peers(names),
            claims: self.claims.state_filter(|c| belongs(c, names)),
            sets: self.sets.state_filter(|s| belongs(s, names)),
            pods: self.pods.state_filter(|p| belongs(p, names)),
        }
    }
}

fn is_in<K: ResourceExt>(object: &K, names: &Names) -> bool {
    object.namespace().as_deref() == Some(&names.namespace)
}

fn belongs<K: ResourceExt>(object: &K, names: &Names) -> bool {
    is_in(object, names) && object.labels().get(CLUSTER_LABEL) == Some(&names.cluster)
}
