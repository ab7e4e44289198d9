//! Events: one for every operation that changed something, and for what people must hear of, on the EtcdCluster it
//! happened to.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Client, Resource};
use quorate_api::crd::EtcdCluster;
use quorate_core::model::{MemberId, Ordinal, Spec};
use quorate_core::reason::EventReason;
use quorate_core::transitions::{Transitions, slot_of};
use quorate_core::{Memory, Plan, Step};
use tokio::sync::mpsc;

use crate::cluster::log;
use crate::names::Names;
use crate::requests::effect::ClusterEvent;

/// So many wait until the API server has stored those before; with more than these it has been away for long.
const QUEUE: usize = 1024;
/// The API server may be busy, or restarted meanwhile.
const TRIES: u32 = 5;
/// A try may take so long.
const LIMIT: Duration = Duration::from_secs(10);
/// Before the second try; twice as long before each after it.
const PAUSE: Duration = Duration::from_secs(1);

/// Events on their way to the API server, one after the other, beside the passes.
#[derive(Clone)]
pub struct EventRecorder(mpsc::Sender<Outgoing>);

struct Outgoing {
    about: ObjectReference,
    event: Event,
}

impl std::fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventRecorder")
    }
}

impl EventRecorder {
    /// Reports as `instance` of the operator, until the last of its copies is dropped.
    pub fn new(client: Client, instance: String) -> EventRecorder {
        let reporter = kube::runtime::events::Reporter {
            controller: "quorate".to_owned(),
            instance: Some(instance),
        };
        let (queue, outgoing) = mpsc::channel(QUEUE);
        tokio::spawn(store_all(Recorder::new(client, reporter), outgoing));
        EventRecorder(queue)
    }

    /// Has an event stored. Best effort: nothing depends on it.
    pub fn publish(&self, cluster: &EtcdCluster, news: &ClusterEvent) {
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
        if let Err(refused) = self.0.try_send(Outgoing { about, event }) {
            let why = format!("{QUEUE} others wait");
            log_lost(&refused.into_inner(), &why);
        }
    }
}

async fn store_all(recorder: Recorder, mut outgoing: mpsc::Receiver<Outgoing>) {
    while let Some(next) = outgoing.recv().await {
        if let Err(why) = store(&recorder, &next).await {
            log_lost(&next, &why);
        }
    }
}

/// Tries again where that may help. An event whose answer got lost may be there twice then.
async fn store(recorder: &Recorder, next: &Outgoing) -> Result<(), String> {
    let mut pause = PAUSE;
    for tried in 1.. {
        let stored = tokio::time::timeout(LIMIT, recorder.publish(&next.event, &next.about)).await;
        let (why, refused) = match stored {
            Ok(Ok(())) => break,
            Ok(Err(kube::Error::Api(status))) => (status.message, status.code < 500 && status.code != 429),
            Ok(Err(error)) => (error.to_string(), false),
            Err(_) => (format!("no answer within {} s", LIMIT.as_secs()), false),
        };
        if refused || tried == TRIES {
            return Err(why);
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Ok(())
}

fn log_lost(Outgoing { about, event }: &Outgoing, why: &str) {
    let (namespace, cluster) = (about.namespace.as_deref(), about.name.as_deref());
    tracing::warn!(
        namespace,
        cluster,
        reason = event.reason,
        "event not stored: {why}"
    );
}

/// A Warning for each thing that has come to stop the plan, or to keep clients from being served; `reported` is what was reported
/// of before. Other waits, and what is over, are logged only.
pub(crate) fn new_warnings(names: &Names, plan: &Plan, reported: &mut Transitions) -> Vec<ClusterEvent> {
    let mut all = Vec::new();
    for change in reported.changes(plan) {
        log::change(names, &change);
        if change.began && change.warns {
            let member = change.member.map(|o| names.member(o).to_string());
            let about = match &member {
                Some(member) => ("EtcdPeer", member.as_str()),
                None => ("EtcdCluster", names.cluster.as_str()),
            };
            all.push(ClusterEvent::warning(change.reason, about, change.detail));
        }
    }
    all
}

/// What to tell of a step that etcd has done.
pub(crate) fn done_by_etcd(
    names: &Names,
    step: &Step,
    (spec, plan): (&Spec, &Plan),
    memory: &Memory,
) -> Option<ClusterEvent> {
    let by_id = |id: MemberId| slot_of(id, memory).map_or(id.to_string(), |o| names.member(o).to_string());
    let name = |o: Ordinal| names.member(o).to_string();
    let (reason, name, message) = match step {
        Step::AddLearner { ordinal, .. } => {
            let name = name(*ordinal);
            let message = format!("Added a new member with name {name:?}");
            ("MemberAdded", name, message)
        }
        Step::Promote { ordinal, .. } => {
            let name = name(*ordinal);
            let message = format!("Member {name:?} has caught up and votes");
            ("MemberPromoted", name, message)
        }
        Step::Remove { member, .. } => {
            return Some(removed(&by_id(*member), slot_of(*member, memory), spec, plan));
        }
        Step::MoveLeader { from, to } => {
            let (from, to) = (by_id(*from), by_id(*to));
            let message = format!("Moved leadership from {from:?} to {to:?}");
            ("LeaderMoved", to, message)
        }
        _ => return None,
    };
    Some(ClusterEvent::done(reason, ("EtcdPeer", &name), message))
}

/// A member that is wanted is removed because it was lost: a Warning, with what the plan says of it.
fn removed(name: &str, ordinal: Option<Ordinal>, spec: &Spec, plan: &Plan) -> ClusterEvent {
    let about = ("EtcdPeer", name);
    let Some(ordinal) = ordinal.filter(|o| spec.wants(*o)) else {
        let message = format!("Removed a member with name {name:?}, which is not wanted any more");
        return ClusterEvent::done(EventReason::MemberRemoved.name(), about, message);
    };
    let blocks = plan.blocks.iter().map(|b| (b.member, &b.detail));
    let mut reported = blocks.chain(plan.waits.iter().map(|w| (w.member, &w.detail)));
    let why = reported.find(|(member, _)| *member == Some(ordinal));
    let why = why.map_or(String::new(), |(_, detail)| format!(": {detail}"));
    let message = format!("Removed a member with name {name:?}, which is replaced{why}");
    ClusterEvent::warning(EventReason::MemberRemoved.name(), about, message)
}

fn related(cluster: &EtcdCluster, news: &ClusterEvent) -> ObjectReference {
    let (kind, name) = &news.about;
    ObjectReference {
        kind: Some((*kind).to_owned()),
        name: Some(name.clone()),
        namespace: cluster.metadata.namespace.clone(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use kube::client::Body;
    use quorate_core::plan::{Block, BlockReason};
    use quorate_core::reason::explain;
    use serde_json::{Value, json};

    use super::*;

    /// Asks for two events of an API server that answers the first requests with these codes, and gives what it stored.
    async fn stored(codes: &'static [u16]) -> Vec<String> {
        let (done, mut all) = mpsc::unbounded_channel();
        let asked = Arc::new(AtomicU32::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (done, asked) = (done.clone(), asked.clone());
            async move {
                let nth = asked.fetch_add(1, Ordering::Relaxed) as usize;
                let sent = request.into_body().collect_bytes().await.unwrap();
                let sent: Value = serde_json::from_slice(&sent).unwrap();
                let (code, answer) = match codes.get(nth) {
                    Some(code) => (
                        *code,
                        json!({"kind": "Status", "status": "Failure", "code": code}),
                    ),
                    None => {
                        done.send(sent["reason"].as_str().unwrap().to_owned()).unwrap();
                        (201, sent)
                    }
                };
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        let recorder = EventRecorder::new(Client::new(service, "n"), "o".to_owned());
        let cluster = json!({
            "apiVersion": "etcd.improbable.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {},
        });
        let cluster: EtcdCluster = serde_json::from_value(cluster).unwrap();
        for reason in ["First", "Second"] {
            recorder.publish(
                &cluster,
                &ClusterEvent::done(reason, ("EtcdPeer", "c-0"), "done".to_owned()),
            );
        }
        drop(recorder);
        let mut reasons = Vec::new();
        while let Some(reason) = all.recv().await {
            reasons.push(reason);
        }
        reasons
    }

    #[tokio::test]
    async fn an_event_is_stored_although_the_api_server_fails_at_first() {
        assert_eq!(stored(&[500]).await, ["First", "Second"]);
        assert_eq!(
            stored(&[403]).await,
            ["Second"],
            "what is refused holds up nobody"
        );
    }

    /// A Warning is there to be looked up. Reasons that are written out where one is made have a page as those of core do.
    #[test]
    fn every_warning_has_a_page() {
        fn sources(dir: &Path, all: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => sources(&path, all),
                    false => all.push(path),
                }
            }
        }
        let mut all = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
        let make = ["ClusterEvent::", "warning("].concat();
        let mut made = 0;
        for path in all {
            let text = fs::read_to_string(&path).unwrap();
            for reason in text.split(&make).skip(1) {
                made += 1;
                let written = reason.trim_start().strip_prefix('"');
                if let Some((name, _)) = written.and_then(|rest| rest.split_once('"')) {
                    assert!(explain(name).is_some(), "{}: {name}", path.display());
                }
            }
            let by_hand = ["warning", ": true"].concat();
            let makes_it = path.ends_with("requests/effect.rs");
            assert!(makes_it || !text.contains(&by_hand), "{}", path.display());
        }
        assert!(made > 5, "{made}");
    }

    #[test]
    fn what_stops_a_plan_is_reported_once_for_as_long_as_it_does() {
        let names = Names::of("n", "c");
        let block = |reason, member| Block {
            reason,
            member,
            detail: "in words".to_owned(),
        };
        let stopped = Plan {
            blocks: vec![
                block(BlockReason::ForeignData, Some(Ordinal(1))),
                block(BlockReason::QuorumLost, None),
            ],
            ..Plan::default()
        };
        let mut reported = Transitions::default();
        let news = new_warnings(&names, &stopped, &mut reported);
        let shown: Vec<_> = news
            .iter()
            .map(|n| (n.reason, n.about.1.as_str(), n.warning))
            .collect();
        assert_eq!(shown, [("ForeignData", "c-1", true), ("QuorumLost", "c", true)]);
        assert!(new_warnings(&names, &stopped, &mut reported).is_empty());
        assert!(new_warnings(&names, &Plan::default(), &mut reported).is_empty());
        assert_eq!(
            new_warnings(&names, &stopped, &mut reported).len(),
            2,
            "it is back"
        );
    }
}
