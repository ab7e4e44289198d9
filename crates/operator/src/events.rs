//! Events: one for every operation that changed something, on the EtcdCluster it happened to.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Client, Resource};
use quorate_api::crd::EtcdCluster;

use crate::effect::News;

/// No event is waited for longer.
const LIMIT: Duration = Duration::from_secs(2);

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
        let about = cluster.object_ref(&());
        let told = tokio::time::timeout(LIMIT, self.0.publish(&event, &about)).await;
        let why = match told {
            Ok(Ok(())) => return,
            Ok(Err(kube::Error::Api(status))) => status.message,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", LIMIT.as_secs()),
        };
        log_line(&format!("event {} could not be stored: {why}", news.reason));
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
