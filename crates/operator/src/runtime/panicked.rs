//! A pass that panicked, shown to people: in the status, an event and the metrics. The other clusters go on.
//!
//! In: the cluster whose pass panicked. Out: a status that says so. Never: the panic's message in it, which could hold what
//! only some may read; that goes to the log.

use kube::ResourceExt;
use quorate_core::reason::StatusReason;

use crate::cluster::live::{ClusterCache, Shared};
use crate::cluster::status::held;
use crate::names::Names;
use crate::requests::api_errors::EFFECT_LIMIT;
use crate::requests::effect::ClusterEvent;

/// The reason in the conditions, the event and the metrics.
pub(crate) const REASON: &str = StatusReason::PassPanicked.name();
const TEXT: &str = "a pass over this cluster panicked, which is a bug in quorate; the operator's log has the details. The \
                    members run on, nothing else is done about them, and the pass is tried again";

impl Shared {
    /// Shows that the last pass over `names` panicked. Out: what the next pass begins with, for nothing that the last one had
    /// can be relied on.
    pub(crate) async fn show_panic(&self, names: &Names) -> ClusterCache {
        self.metrics.panicked(names);
        let mut kept = ClusterCache::default();
        let Some(resource) = self.watches.cluster(names) else {
            return kept;
        };
        self.metrics.held(names, REASON);
        let last = resource.status.clone().unwrap_or_default();
        let generation = resource.metadata.generation;
        let next = held(&last, (REASON, TEXT), generation, jiff::Timestamp::now());
        // The same is no news, however often it happens.
        if next == last || !self.tenure.covers(EFFECT_LIMIT) {
            return kept;
        }
        match self.store_status(&resource, next).await {
            Ok(written) => kept.pass.wrote_over(&resource, written),
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
        let news = ClusterEvent::warning(REASON, ("EtcdCluster", &resource.name_any()), TEXT.to_owned());
        self.reporter.publish(&resource, &news).await;
        kept
    }
}
