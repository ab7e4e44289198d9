//! What a pass asks for and does not do itself.
//!
//! In: requests of [`super::reconcile`], one after the other. Out: their answers. The operator drives a pass with the API
//! server and the members ([`super::live`]), the simulator with models of both: the order of requests is the same code.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use quorate_api::crd::{ClusterStatus, EtcdCluster, EtcdPeer, PeerStatus};
use quorate_client::{Address, Answers};
use quorate_core::guard::Guards;
use quorate_core::model::{Observed, Ordinal, Spec, StepResult, Token};
use quorate_core::{Memory, Plan, Step};

use super::build::BuildContext;
use super::observe::Objects;
use super::observe::gather::MemberObjects;
use super::upkeep::ClusterObjects;
use crate::requests::api_errors::RequestError;
use crate::requests::apply::Applied;
use crate::requests::effect::{ClusterEvent, Effect};
use crate::tls::secure::TlsState;

/// What the watches have of one cluster when a pass begins.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub resource: Option<Arc<EtcdCluster>>,
    pub seen: MemberObjects,
    pub whole: ClusterObjects,
}

pub trait Driver: Send {
    fn now(&self) -> Timestamp;

    /// All of them, but in a simulation of what each is for.
    fn guards(&self) -> Guards {
        Guards::all()
    }

    /// Does the Lease outlive one more request?
    fn covers(&self) -> bool;

    /// A token that no other bootstrap has had.
    fn fresh_token(&mut self) -> Token;

    /// Is there an EtcdCluster of that name? `None` where nobody watches.
    fn cluster_exists(&self, _namespace: &str, _name: &str) -> Option<bool> {
        None
    }

    /// Certificates, for a cluster that speaks TLS.
    fn secure<'a>(
        &'a mut self,
        context: &'a BuildContext<'a>,
        objects: &'a Objects,
        memory: &'a Memory,
    ) -> BoxFuture<'a, TlsState>;

    /// Logs in with what is in this Secret, where etcd asks for a user. Out: why that cannot be.
    fn log_in<'a>(&'a mut self, secret: Option<&'a str>) -> BoxFuture<'a, Option<String>>;

    /// Asks the members at these addresses how they are.
    fn look<'a>(&'a mut self, addresses: &'a BTreeMap<Ordinal, Address>) -> BoxFuture<'a, Answers>;

    /// Asks etcd for a step; `None` if Kubernetes is to be asked.
    fn change<'a>(&'a mut self, step: &'a Step, observed: &'a Observed) -> BoxFuture<'a, Option<StepResult>>;

    /// Replaces the status under the resourceVersion of `resource`. Out: the new resourceVersion.
    fn store_status<'a>(
        &'a mut self,
        resource: &'a EtcdCluster,
        status: ClusterStatus,
    ) -> BoxFuture<'a, Result<Option<String>, RequestError>>;

    fn store_peer_status<'a>(
        &'a mut self,
        peer: &'a EtcdPeer,
        status: PeerStatus,
    ) -> BoxFuture<'a, Result<(), RequestError>>;

    fn apply<'a>(&'a mut self, effect: &'a Effect) -> BoxFuture<'a, Result<Applied, RequestError>>;

    /// An event on `resource`. Best effort: nothing depends on it.
    fn record_event<'a>(&'a mut self, resource: &'a EtcdCluster, news: &'a ClusterEvent)
    -> BoxFuture<'a, ()>;

    /// A plan was made; for metrics.
    fn decided(&mut self, spec: &Spec, observed: &Observed, plan: &Plan);

    /// No plan could be made; for metrics.
    fn held(&mut self, reason: &'static str);
}
