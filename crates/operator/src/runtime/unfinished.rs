//! A pass that showed nothing: it panicked, took too long, or its status was refused. Shown to people in the status, an
//! event and the metrics. The other clusters go on.
//!
//! In: the cluster whose pass came to nothing. Out: a status that says so. Never: the panic's message in it, which could hold
//! what only some may read; that goes to the log. Nor a status of before that still says that all is well.

use kube::ResourceExt;
use quorate_api::crd::{ClusterStatus, EtcdCluster};
use quorate_core::reason::StatusReason;

use crate::cluster::live::{ClusterCache, Shared};
use crate::cluster::status::{held, refused};
use crate::names::Names;
use crate::requests::api_errors::{EFFECT_LIMIT, RequestError};
use crate::requests::effect::ClusterEvent;

/// The reason in the conditions, the event and the metrics.
pub(crate) const PANICKED: &str = StatusReason::PassPanicked.name();
const PANICKED_TEXT: &str = "a pass over this cluster panicked, which is a bug in quorate; the operator's log has the \
                             details. The members run on, nothing else is done about them, and the pass is tried again";
pub(crate) const TIMED_OUT: &str = StatusReason::PassTimedOut.name();
const TIMED_OUT_TEXT: &str = "a pass over this cluster did not end in time and was given up. The members run on, and the \
                              pass is tried again";

impl Shared {
    /// Shows that the last pass over `names` panicked. Out: what the next pass begins with, for nothing that the last one had
    /// can be relied on.
    pub(crate) async fn show_panic(&self, names: &Names) -> ClusterCache {
        self.metrics.panicked(names);
        let mut kept = ClusterCache::default();
        self.show_held(names, (PANICKED, PANICKED_TEXT), &mut kept).await;
        kept
    }

    /// Shows that the last pass over `names` was given up.
    pub(crate) async fn show_timeout(&self, names: &Names, kept: &mut ClusterCache) {
        self.show_held(names, (TIMED_OUT, TIMED_OUT_TEXT), kept).await;
    }

    /// Shows that the last pass over `names` failed before it had shown anything: what it had to show may be what was
    /// refused. The pass itself has made an event of it.
    pub(crate) async fn show_failure(&self, names: &Names, failed: &RequestError, kept: &mut ClusterCache) {
        if kept.pass.has_shown() {
            return;
        }
        let Some((reason, text)) = kept.pass.shown_trouble() else {
            return; // The next try heals it.
        };
        let Some(resource) = self.watches.cluster(names) else {
            return;
        };
        if !kept.pass.has_decided() {
            self.metrics.held(names, reason);
        }
        // Who does not answer writes no other status, either.
        if failed.is_refusal() {
            let last = resource.status.clone().unwrap_or_default();
            let generation = resource.metadata.generation;
            let next = refused(&last, (reason, text), generation, jiff::Timestamp::now());
            self.show(names, &resource, next, kept).await;
        }
    }

    async fn show_held(&self, names: &Names, (reason, text): (&'static str, &str), kept: &mut ClusterCache) {
        let Some(resource) = self.watches.cluster(names) else {
            return;
        };
        self.metrics.held(names, reason);
        let last = resource.status.clone().unwrap_or_default();
        let generation = resource.metadata.generation;
        let next = held(&last, (reason, text), generation, jiff::Timestamp::now());
        if self.show(names, &resource, next, kept).await {
            let news = ClusterEvent::warning(reason, ("EtcdCluster", &resource.name_any()), text.to_owned());
            self.reporter.publish(&resource, &news);
        }
    }

    /// Writes a status. False if that is no news, however often it happens, or another may hold the Lease.
    async fn show(
        &self,
        names: &Names,
        resource: &EtcdCluster,
        next: ClusterStatus,
        kept: &mut ClusterCache,
    ) -> bool {
        if resource.status.as_ref() == Some(&next) || !self.tenure.covers(EFFECT_LIMIT) {
            return false;
        }
        match self.store_status(resource, next).await {
            Ok(written) => kept.pass.wrote_over(resource, written),
            Err(failed) => {
                let Names { namespace, cluster } = names;
                tracing::warn!(
                    namespace,
                    cluster,
                    reason = failed.reason(),
                    "{}",
                    failed.message()
                );
            }
        }
        true
    }
}
