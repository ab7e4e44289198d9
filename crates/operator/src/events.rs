//! Events: one for every operation that changed something, on the EtcdCluster it happened to.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Client, Resource};
use quorate_api::crd::EtcdCluster;

use crate::effect::News;

/// Where events go.
#[derive(Clone)]
pub struct Reporter(Recorder);

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reporter")
    }
}

impl Reporter {
    /// Reports as `instance` of the operator.
    pub fn new(client: Client, instance: String) -> Reporter {
        let reporter = kube::runtime::events::Reporter {
            controller: "quorate".to_owned(),
            instance: Some(instance),
        };
        Reporter(Recorder::new(client, reporter))
    }

    /// Tells. Best effort: nothing depends on it.
    pub async fn tell(&self, cluster: &EtcdCluster, news: &News) {
        let event = Event {
            type_: if news.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: news.reason.to_owned(),
            note: Some(news.message.clone()),
            action: news.reason.to_owned(),
            secondary: Some(related(cluster, news)),
        };
        if let Err(error) = self.0.publish(&event, &cluster.object_ref(&())).await {
            log_line(&format!("event {} could not be stored: {error}", news.reason));
        }
    }
}

fn related(cluster: &EtcdCluster, news: &News) -> ObjectReference {
    let (kind, name) = &news.about;
    ObjectReference {
        kind: Some((*kind).to_owned()),
        name: Some(name.clone()),
        namespace: cluster.metadata.namespace.clone(),
        ..ObjectReference::default()
    }
}

/// One line on standard error.
pub fn log_line(text: &str) {
    eprintln!(
        "{} {text}",
        jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
    );
}
