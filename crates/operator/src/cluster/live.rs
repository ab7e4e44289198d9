//! A pass driven by the API server and the members: every request of the operator is made here.
//!
//! In: requests of [`super::reconcile`]. Out: their answers. Never: a request that could outlast the Lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt};
use quorate_api::crd::{ClusterStatus, EtcdCluster, EtcdPeer, PeerStatus};
use quorate_client::{Address, Answers, Members};
use quorate_core::model::{Observed, Ordinal, Spec, StepResult, Token};
use quorate_core::{Memory, Plan, Step};
use serde_json::json;

use super::build::{BuildContext, Images};
use super::driver::{Driver, View};
use super::observe::Objects;
use super::{login, reconcile};
use crate::names::Names;
use crate::requests::api_errors::{EFFECT_LIMIT, RequestError, in_time};
use crate::requests::apply::{Applied, FIELD_MANAGER, apply, as_manager, is, plain};
use crate::requests::effect::{ClusterEvent, Effect};
use crate::requests::events::EventRecorder;
use crate::runtime::lease::Leadership;
use crate::runtime::metrics::Metrics;
use crate::runtime::watch::Watches;
use crate::tls::follow::Followed;
use crate::tls::secure::{self, TlsState};

/// What all passes share.
#[derive(Clone)]
pub struct Shared {
    pub client: Client,
    pub watches: Watches,
    pub images: Arc<Images>,
    /// Whether it may act.
    pub tenure: Leadership,
    pub reporter: EventRecorder,
    pub metrics: Arc<Metrics>,
    /// What certificates are made with.
    pub certificates: Arc<secure::CertificateSettings>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

/// What is kept of one cluster between passes, in this process only. Nothing in it is needed to go on.
#[derive(Debug, Default)]
pub struct ClusterCache {
    pub(crate) pass: reconcile::PassCache,
    members: Members,
    certificates: secure::TlsCache,
    login: Option<Followed>,
}

impl ClusterCache {
    /// Connections to members that stay open until the next pass.
    pub fn connections(&self) -> usize {
        self.members.connections()
    }

    /// Closes them: the next pass opens others.
    pub fn disconnect(&mut self) {
        self.members.disconnect();
    }

    #[cfg(test)]
    pub(crate) async fn look(&mut self, addresses: &BTreeMap<Ordinal, Address>) -> Answers {
        self.members.look(addresses).await
    }
}

impl Shared {
    /// One pass over `names`. `None`: the cluster is gone.
    pub async fn pass(
        &self,
        names: &Names,
        kept: &mut ClusterCache,
    ) -> Result<Option<Duration>, RequestError> {
        let view = View {
            resource: self.watches.cluster(names),
            seen: self.watches.seen(names),
            whole: self.watches.whole(names),
        };
        let mut driver = Live {
            shared: self,
            names,
            members: &mut kept.members,
            certificates: &mut kept.certificates,
            login: &mut kept.login,
        };
        reconcile::pass(&mut driver, (names, &self.images), view, &mut kept.pass).await
    }

    /// Replaces the status of an EtcdCluster under the resourceVersion that was read. Out: the new resourceVersion.
    pub(crate) async fn store_status(
        &self,
        resource: &EtcdCluster,
        status: ClusterStatus,
    ) -> Result<Option<String>, RequestError> {
        let namespace = resource.namespace().unwrap_or_default();
        let clusters: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &namespace,
            &ApiResource::erase::<EtcdCluster>(&()),
        );
        let mut next = resource.clone();
        next.status = Some(status);
        let (name, params) = (resource.name_any(), as_manager());
        let written = async { clusters.replace_status(&name, &params, &plain(&next)?).await };
        let written = in_time("store the status of the EtcdCluster", written).await?;
        Ok(written.resource_version())
    }
}

struct Live<'a> {
    shared: &'a Shared,
    names: &'a Names,
    members: &'a mut Members,
    certificates: &'a mut secure::TlsCache,
    login: &'a mut Option<Followed>,
}

impl Driver for Live<'_> {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn covers(&self) -> bool {
        self.shared.tenure.covers(EFFECT_LIMIT)
    }

    fn cluster_exists(&self, namespace: &str, name: &str) -> Option<bool> {
        // Others may not be watched.
        let watched = namespace == self.names.namespace;
        let names = Names::of(namespace, name);
        watched.then(|| self.shared.watches.has_cluster(&names))
    }

    fn fresh_token(&mut self) -> Token {
        let Names {
            namespace, cluster, ..
        } = self.names;
        Token(format!("{namespace}-{cluster}-{:016x}", fastrand::u64(..)))
    }

    fn secure<'a>(
        &'a mut self,
        context: &'a BuildContext<'a>,
        objects: &'a Objects,
        memory: &'a Memory,
    ) -> BoxFuture<'a, TlsState> {
        Box::pin(async move {
            let secured = self.shared.secure(context, objects, memory, self.certificates);
            let secured = secured.await;
            if let TlsState::Ready(material, _) | TlsState::Frozen(material, _) = &secured {
                self.members.renew(Some(material.tls.clone()));
            }
            secured
        })
    }

    fn log_in<'a>(&'a mut self, secret: Option<&'a str>) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let Some(name) = secret else {
                *self.login = None;
                self.members.log_in(None);
                return None;
            };
            let followed = match self.login.take() {
                Some(followed) if followed.is_of(&[name]) => followed,
                _ => Followed::begin(&self.shared.client, &self.names.namespace, &[name]),
            };
            let followed = self.login.insert(followed);
            let known = tokio::time::timeout(EFFECT_LIMIT, followed.ready()).await;
            let read = login::credentials(name, followed.get(name).as_deref());
            let why = read.as_ref().err().filter(|_| known.is_ok()).cloned();
            self.members.log_in(read.ok());
            why
        })
    }

    fn look<'a>(&'a mut self, addresses: &'a BTreeMap<Ordinal, Address>) -> BoxFuture<'a, Answers> {
        self.members.keep_only(|ordinal| addresses.contains_key(&ordinal));
        Box::pin(self.members.look(addresses))
    }

    fn change<'a>(&'a mut self, step: &'a Step, observed: &'a Observed) -> BoxFuture<'a, Option<StepResult>> {
        Box::pin(self.members.execute(step, observed))
    }

    fn store_status<'a>(
        &'a mut self,
        resource: &'a EtcdCluster,
        status: ClusterStatus,
    ) -> BoxFuture<'a, Result<Option<String>, RequestError>> {
        Box::pin(self.shared.store_status(resource, status))
    }

    fn store_peer_status<'a>(
        &'a mut self,
        peer: &'a EtcdPeer,
        status: PeerStatus,
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        let client = self.shared.client.clone();
        let resource = ApiResource::erase::<EtcdPeer>(&());
        let peers: Api<DynamicObject> = Api::namespaced_with(client, &self.names.namespace, &resource);
        let patch = Patch::Merge(json!({"metadata": {"uid": peer.uid()}, "status": status}));
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let written = async move {
            match peers.patch_status(&peer.name_any(), &params, &patch).await {
                // It is gone, or another is there.
                Err(error) if is(&error, 404) || is(&error, 409) => Ok(()),
                other => other.map(drop),
            }
        };
        Box::pin(in_time("store the status of an EtcdPeer", written))
    }

    fn apply<'a>(&'a mut self, effect: &'a Effect) -> BoxFuture<'a, Result<Applied, RequestError>> {
        Box::pin(async move {
            let Names { namespace, cluster } = self.names;
            let asked = apply(&self.shared.client, namespace, effect);
            let did = in_time(effect.to_string(), asked).await?;
            let found_so = did == Applied::Unchanged;
            tracing::debug!(namespace, cluster, found_so, "request: {effect}");
            Ok(did)
        })
    }

    fn record_event<'a>(
        &'a mut self,
        resource: &'a EtcdCluster,
        news: &'a ClusterEvent,
    ) -> BoxFuture<'a, ()> {
        let Names { namespace, cluster } = self.names;
        let (reason, (kind, object)) = (news.reason, &news.about);
        if news.warning {
            tracing::warn!(namespace, cluster, reason, kind, object, "{}", news.message);
        } else {
            tracing::info!(namespace, cluster, reason, kind, object, "{}", news.message);
        }
        self.shared.reporter.publish(resource, news);
        Box::pin(std::future::ready(()))
    }

    fn decided(&mut self, spec: &Spec, observed: &Observed, plan: &Plan) {
        self.shared.metrics.seen(self.names, spec, observed, plan);
    }

    fn held(&mut self, reason: &'static str) {
        self.shared.metrics.held(self.names, reason);
    }
}
