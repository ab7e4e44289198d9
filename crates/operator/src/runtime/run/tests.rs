use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;

use kube::Client;
use kube::client::Body;
use quorate_core::model::Ordinal;
use serde_json::{Value, json};

use super::*;
use crate::requests::api_errors::EFFECT_LIMIT;
use crate::runtime::lease::Leadership;

/// How a status that is to be written is answered.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Never,
    Refused(u16),
}

/// An API server that has one EtcdCluster, which no operator of this release can read.
#[derive(Clone)]
struct Server {
    /// To the first statuses that are to be written; those that follow are.
    answers: Arc<Mutex<VecDeque<Answer>>>,
    written: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    fn that(answers: impl IntoIterator<Item = Answer>) -> Server {
        Server {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            written: Arc::default(),
        }
    }

    fn cluster() -> Value {
        let healthy = json!({"name": "c-0", "id": "1", "healthy": true, "leader": true});
        json!({
            "apiVersion": "etcd.improbable.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 1},
            "spec": {
                "replicas": 1,
                "version": "3.6.1",
                "storage": {"volumeClaimTemplate": {
                    "storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}},
                }},
            },
            "status": {
                "replicas": 1,
                "readyReplicas": 1,
                "clusterVersion": "3.6.0",
                "members": [healthy],
                "memory": "of a later release",
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "AsWanted", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        })
    }

    async fn answer(self, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let (code, answer) = if parts.method == http::Method::GET {
            if query.contains("watch=") {
                std::future::pending::<()>().await;
            }
            let is_cluster = path.ends_with("/etcdclusters");
            let items: Vec<Value> = is_cluster.then(Server::cluster).into_iter().collect();
            let metadata = json!({"resourceVersion": "1"});
            (
                200,
                json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}),
            )
        } else if path.ends_with("/status") {
            let next = self.answers.lock().unwrap().pop_front();
            match next {
                Some(Answer::Never) => std::future::pending().await,
                Some(Answer::Refused(code)) => (code, refusal(code)),
                None => {
                    let sent = body.collect_bytes().await.unwrap();
                    let mut sent: Value = serde_json::from_slice(&sent).unwrap();
                    sent["metadata"]["resourceVersion"] = "2".into();
                    self.written.lock().unwrap().push(sent.clone());
                    (200, sent)
                }
            }
        } else {
            (500, refusal(500))
        };
        let body = Body::from(answer.to_string().into_bytes());
        Ok(http::Response::builder().status(code).body(body).unwrap())
    }
}

fn refusal(code: u16) -> Value {
    json!({"kind": "Status", "status": "Failure", "message": "no such field", "code": code})
}

/// What passes over the cluster of this server share, for as long as the tasks live.
async fn shared(server: &Server, tasks: &mut JoinSet<()>) -> Shared {
    let service = tower::service_fn({
        let server = server.clone();
        move |request| server.clone().answer(request)
    });
    let client = Client::new(service, "n");
    let watches = watch::start(&client, None, &Arc::default(), &Health::default(), tasks);
    watches.ready().await;
    Shared {
        client: client.clone(),
        watches,
        images: Arc::default(),
        certificates: Arc::default(),
        tenure: Leadership::just_gained(),
        reporter: EventRecorder::new(client, "o".to_owned()),
        metrics: Arc::default(),
    }
}

/// One pass over the cluster of this server: how it ended, the status that was written last, and the metrics.
async fn passed(server: Server, limit: Duration) -> (Ending, Option<Value>, String) {
    let mut tasks = JoinSet::new();
    let shared = shared(&server, &mut tasks).await;
    let metrics = shared.metrics.clone();
    let names = Names::of("n", "c");
    let (_, ending) = pass(shared, names, ClusterCache::default(), limit).await;
    let written = server.written.lock().unwrap().pop();
    let status = written.map(|written| written["status"].clone());
    (ending, status, metrics.text(true, &BTreeMap::new()))
}

fn condition(status: &Value, kind: &str) -> (String, String) {
    let all = status["conditions"].as_array().unwrap();
    let found = all.iter().find(|c| c["type"] == kind).unwrap();
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

fn assert_unknown(status: &Value, metrics: &str, reason: &str) {
    assert_eq!(
        condition(status, "Ready"),
        ("False".to_owned(), reason.to_owned())
    );
    assert_eq!(
        condition(status, "Quorate"),
        ("Unknown".to_owned(), reason.to_owned())
    );
    assert!(status.get("readyReplicas").is_none_or(Value::is_null), "{status}");
    assert!(
        !status["members"][0]["healthy"].as_bool().unwrap_or(false),
        "{status}"
    );
    assert_eq!(status["memory"], "of a later release", "it is kept");
    let line = format!("quorate_cluster_blocks{{namespace=\"n\",cluster=\"c\",reason=\"{reason}\"}} 1");
    assert!(metrics.lines().any(|l| l == line), "{line} is not in {metrics}");
}

#[tokio::test]
async fn a_pass_that_does_not_end_leaves_no_status_that_says_ready() {
    let server = Server::that([Answer::Never]);
    // Long enough to come to the status, shorter than one request is waited for.
    let (ending, status, metrics) = passed(server, EFFECT_LIMIT / 3).await;
    let status = status.expect("a status");
    assert_eq!(ending, Ending::Failed);
    assert_unknown(&status, &metrics, "PassTimedOut");
    assert_eq!(
        condition(&status, "Blocked"),
        ("True".to_owned(), "PassTimedOut".to_owned())
    );
}

#[tokio::test]
async fn a_pass_whose_status_is_refused_leaves_no_status_that_says_ready() {
    let server = Server::that([Answer::Refused(422)]);
    let (ending, status, metrics) = passed(server, PASS_LIMIT).await;
    assert_eq!(ending, Ending::Failed);
    assert_unknown(&status.expect("a status"), &metrics, "RequestRefused");
}

#[tokio::test]
async fn a_conflict_that_the_next_pass_heals_is_not_shown() {
    let (ending, status, _) = passed(Server::that([Answer::Refused(409)]), PASS_LIMIT).await;
    assert_eq!((ending, status), (Ending::Failed, None));
}

#[tokio::test]
async fn connections_of_many_clusters_are_closed_between_passes() {
    let mut tasks = JoinSet::new();
    let shared = shared(&Server::that([]), &mut tasks).await;
    let mut work = Work::new(shared, Arc::default(), Heartbeat::default());
    let members = |n: usize| (0..n as u32).map(|n| (Ordinal(n), "http://127.0.0.1:1".to_owned().into()));
    for (name, count) in [("a", CONNECTIONS_MAX - 2), ("b", 3), ("c", 2), ("d", 1)] {
        let mut kept = ClusterCache::default();
        kept.look(&members(count).collect()).await;
        let came_to = Some((kept, Ending::Well(Duration::ZERO)));
        work.end(WorkKey::cluster("n", name), came_to);
    }
    let open = work.kept.values().map(ClusterCache::connections);
    assert_eq!(open.collect::<Vec<_>>(), [CONNECTIONS_MAX - 2, 0, 2, 0]);
    // Those that were closed are opened by the next look.
    let mut kept = work.kept.remove(&WorkKey::cluster("n", "b")).unwrap();
    kept.look(&members(3).collect()).await;
    assert_eq!(kept.connections(), 3);
}
