use std::collections::BTreeMap;

use futures::future::{BoxFuture, ready};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Status;
use quorate_api::crd::{ClusterStatus, EtcdPeer, PeerStatus};
use quorate_client::{Address, Answers, Tls};
use quorate_core::model::{MemberId, Ordinal, Token};
use serde_json::json;

use super::*;
use crate::cluster::observe::gather::MemberObjects;
use crate::cluster::observe::pod_state::tests::{at_the_gate, data, pod as pod_with, report};
use crate::cluster::record::VolumeRecord;
use crate::names::VOLUME_ANNOTATION;
use crate::requests::apply::Applied;
use crate::requests::effect::{ClusterEvent, Effect, Object};
use crate::tls::Material;

/// Answers a pass from memory, and writes down what was asked, in order. Nothing that is asked for ever comes to be.
#[derive(Default)]
struct Recording {
    asked: Vec<String>,
    /// The status as last written, and how often it became another.
    status: Option<ClusterStatus>,
    versions: u32,
    /// The Secret that is to be written, if the cluster speaks TLS.
    secret: Option<Secret>,
    secrets_refused: bool,
    /// The EtcdCluster is not what was read any more.
    status_refused: bool,
    tls: Option<Box<Material>>,
    /// What there is instead of that.
    lacks: Option<Lacks>,
    paused: bool,
    seen: MemberObjects,
}

#[derive(Clone, Copy)]
enum Lacks {
    FirstSecrets,
    UsersSecret,
}

fn refusal(doing: &Effect, code: u16) -> RequestError {
    let status = Status::failure("exceeded quota: secrets", "Forbidden").with_code(code);
    RequestError::Api {
        doing: doing.to_string(),
        source: Box::new(kube::Error::Api(Box::new(status))),
    }
}

impl Driver for Recording {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_767_225_600).unwrap()
    }

    fn covers(&self) -> bool {
        true
    }

    fn fresh_token(&mut self) -> Token {
        Token("token".to_owned())
    }

    fn secure<'a>(
        &'a mut self,
        _: &'a BuildContext<'a>,
        _: &'a Objects,
        _: &'a Memory,
    ) -> BoxFuture<'a, TlsState> {
        let writes = |secret: &Secret| Effect::Create(Object::Secret(Box::new(secret.clone())));
        let requests = Requests {
            effects: self.secret.iter().map(writes).collect(),
            news: Vec::new(),
        };
        let material = self.tls.clone().expect("a cluster that speaks TLS");
        Box::pin(ready(match self.lacks {
            None => TlsState::Ready(material, requests),
            Some(Lacks::FirstSecrets) => TlsState::Pending(requests),
            Some(Lacks::UsersSecret) => TlsState::Blocked("Secret \"mine\" is not there".to_owned()),
        }))
    }

    fn log_in<'a>(&'a mut self, _: Option<&'a str>) -> BoxFuture<'a, Option<String>> {
        Box::pin(ready(None))
    }

    fn look<'a>(&'a mut self, _: &'a BTreeMap<Ordinal, Address>) -> BoxFuture<'a, Answers> {
        Box::pin(ready(Answers::default()))
    }

    fn change<'a>(&'a mut self, _: &'a Step, _: &'a Observed) -> BoxFuture<'a, Option<StepResult>> {
        Box::pin(ready(None))
    }

    fn store_status<'a>(
        &'a mut self,
        _: &'a EtcdCluster,
        status: ClusterStatus,
    ) -> BoxFuture<'a, Result<Option<String>, RequestError>> {
        if self.status_refused {
            return Box::pin(ready(Err(RequestError::Slow {
                doing: "store the status".to_owned(),
            })));
        }
        let same = self.status.as_ref() == Some(&status);
        self.asked
            .push(if same { "the same status" } else { "a status" }.to_owned());
        self.versions += u32::from(!same);
        self.status = Some(status);
        Box::pin(ready(Ok(Some(self.versions.to_string()))))
    }

    fn store_peer_status<'a>(
        &'a mut self,
        _: &'a EtcdPeer,
        _: PeerStatus,
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        Box::pin(ready(Ok(())))
    }

    fn apply<'a>(&'a mut self, effect: &'a Effect) -> BoxFuture<'a, Result<Applied, RequestError>> {
        self.asked.push(effect.to_string());
        let refused = self.secrets_refused && matches!(effect, Effect::Create(Object::Secret(_)));
        Box::pin(ready(match refused {
            true => Err(refusal(effect, 403)),
            false => Ok(Applied::Changed),
        }))
    }

    fn record_event<'a>(&'a mut self, _: &'a EtcdCluster, news: &'a ClusterEvent) -> BoxFuture<'a, ()> {
        if news.warning {
            self.asked.push(format!("event {}", news.reason));
        }
        Box::pin(ready(()))
    }

    fn decided(&mut self, _: &Spec, _: &Observed, _: &Plan) {}

    fn held(&mut self, _: &'static str) {}
}

impl Recording {
    /// One pass over the cluster as its status was last written: what was asked.
    async fn pass(&mut self, kept: &mut PassCache) -> (Result<Option<Duration>, RequestError>, Vec<String>) {
        let tls = self.tls.is_some().then(|| json!({}));
        let resource = json!({
            "apiVersion": "etcd.improbable.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {
                "name": "c", "namespace": "n", "uid": "u", "resourceVersion": self.versions.to_string(), "generation": 1,
            },
            "spec": {
                "replicas": 3,
                "version": "3.6.1",
                "paused": self.paused,
                "tls": tls,
                "storage": {"volumeClaimTemplate": {
                    "storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}},
                }},
            },
            "status": self.status,
        });
        let view = View {
            resource: Some(Arc::new(serde_json::from_value(resource).unwrap())),
            seen: self.seen.clone(),
            ..View::default()
        };
        let names = Names::of("n", "c");
        let result = pass(self, (&names, &Images::default()), view, kept).await;
        (result, std::mem::take(&mut self.asked))
    }

    fn condition(&self, kind: &str) -> Condition {
        let status = self.status.as_ref().expect("it was written");
        let found = status.conditions.iter().find(|c| c.type_ == kind);
        found.unwrap_or_else(|| panic!("no {kind}")).clone()
    }

    /// With certificates, of which one is yet to be written.
    fn with_a_secret_to_write() -> Recording {
        let now = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        let ca = quorate_pki::Ca::make("c", Duration::from_secs(3600), now).unwrap();
        let named = ObjectMeta {
            name: Some("c-ca".to_owned()),
            ..ObjectMeta::default()
        };
        Recording {
            secret: Some(Secret {
                metadata: named,
                ..Secret::default()
            }),
            tls: Some(Box::new(Material {
                tls: Tls::from_pem(ca.pem().cert.clone(), None).unwrap(),
                trusted: "a".to_owned(),
                proof: None,
                lost_ca: false,
                advice: None,
            })),
            ..Recording::default()
        }
    }
}

/// The API server refuses it if the EtcdCluster is not the one that was read any more, and then nothing is done.
#[tokio::test]
async fn a_status_that_says_the_same_is_written_before_an_effect_all_the_same() {
    let (mut driver, mut kept) = (Recording::default(), PassCache::default());
    for _ in 0..5 {
        driver.pass(&mut kept).await.0.unwrap();
    }
    let (_, asked) = driver.pass(&mut kept).await;
    assert!(asked.iter().any(|a| a == "create EtcdPeer c-0"), "{asked:?}");
    assert_eq!(asked[0], "the same status", "{asked:?}");
}

#[tokio::test]
async fn a_secret_that_is_refused_is_reported_and_does_not_end_the_pass() {
    let (mut driver, mut kept) = (Recording::with_a_secret_to_write(), PassCache::default());
    for _ in 0..5 {
        driver.pass(&mut kept).await.0.unwrap();
    }
    driver.secrets_refused = true;
    for round in 0..3 {
        let (result, asked) = driver.pass(&mut kept).await;
        let reported = result.unwrap_err().message();
        assert_eq!(reported, "create Secret c-ca: exceeded quota: secrets");
        assert!(kept.has_shown(), "the members' health is not unknown for that");
        let place = |what: &str| asked.iter().position(|a| a == what);
        assert!(
            place("create Secret c-ca").is_some(),
            "it is tried again: {asked:?}"
        );
        let upkeep = place("create Service c-client");
        assert!(upkeep > place("create Secret c-ca"), "{asked:?}");
        // A step, too, in the pass that learns of it. After that no cluster is begun; members of one are healed.
        let peer = place("create EtcdPeer c-1");
        assert_eq!(peer > upkeep, round == 0, "{asked:?}");
        let warned: Vec<&String> = asked.iter().filter(|a| a.starts_with("event ")).collect();
        let expected: &[&str] = match round {
            0 => &["event RequestRefused"],
            1 => &["event Certificates"],
            _ => &[],
        };
        assert_eq!(warned, expected, "{asked:?}");
    }
    let status = driver.status.clone().unwrap();
    let blocked = status.conditions.iter().find(|c| c.type_ == "Blocked").unwrap();
    assert_eq!((&*blocked.status, &*blocked.reason), ("True", "Certificates"));
    assert!(blocked.message.contains("exceeded quota"), "{}", blocked.message);
    driver.secrets_refused = false;
    driver.pass(&mut kept).await.0.unwrap();
    driver.secret = None; // It has been written.
    for _ in 0..2 {
        driver.pass(&mut kept).await.0.unwrap();
    }
    let status = driver.status.unwrap();
    let blocked = status.conditions.iter().find(|c| c.type_ == "Blocked").unwrap();
    assert_eq!(&*blocked.status, "False", "{}", blocked.message);
}

#[tokio::test]
async fn the_first_secrets_are_not_written_before_the_memory_is() {
    let (mut driver, mut kept) = (Recording::with_a_secret_to_write(), PassCache::default());
    driver.lacks = Some(Lacks::FirstSecrets);
    driver.status_refused = true;
    let (result, asked) = driver.pass(&mut kept).await;
    assert!(result.is_err());
    assert!(
        asked.is_empty(),
        "for an EtcdCluster that may be another by now: {asked:?}"
    );
    driver.status_refused = false;
    kept = PassCache::default(); // Another pass would report the refusal first.
    for status in ["a status", "the same status"] {
        let (result, asked) = driver.pass(&mut kept).await;
        result.unwrap();
        assert_eq!(asked, [status, "create Secret c-ca"]);
    }
    let ready = driver.condition("Ready");
    assert_eq!((&*ready.status, &*ready.reason), ("False", "Preparing"));
    assert_eq!(driver.condition("Quorate").status, "Unknown");
}

#[tokio::test]
async fn while_it_is_paused_no_certificates_are_said_to_be_made() {
    let (mut driver, mut kept) = (Recording::with_a_secret_to_write(), PassCache::default());
    (driver.lacks, driver.paused) = (Some(Lacks::FirstSecrets), true);
    let (result, asked) = driver.pass(&mut kept).await;
    assert_eq!(
        (result.unwrap(), asked),
        (Some(AT_REST), vec!["a status".to_owned()])
    );
    for (kind, status) in [("Ready", "False"), ("Progressing", "False")] {
        let shown = driver.condition(kind);
        assert_eq!((&*shown.status, &*shown.reason), (status, "Paused"), "{kind}");
    }
}

/// A cluster that serves, of which this process has not seen any certificate. Its only member waits to be started.
fn taken_up() -> Recording {
    let url = quorate_core::model::PeerUrl("https://c-0.c.n.svc:2380".to_owned());
    let slot = quorate_core::memory::Slot {
        mark: quorate_core::memory::Mark::Started,
        member: Some(MemberId(0xa)),
        voter: true,
        version: Some("3.6.1".parse().unwrap()),
        ..Default::default()
    };
    let memory = Memory {
        bootstrap: Some(quorate_core::memory::Bootstrap {
            token: Token("t".to_owned()),
            members: [(Ordinal(0), url)].into(),
        }),
        cluster: Some(quorate_core::model::ClusterId(0xc)),
        slots: [(Ordinal(0), slot)].into(),
        ..Memory::default()
    };
    let peer = json!({
        "apiVersion": "etcd.improbable.io/v1alpha1",
        "kind": "EtcdPeer",
        "metadata": {"name": "c-0", "uid": "p", "ownerReferences": [
            {"apiVersion": "v1", "kind": "EtcdCluster", "name": "c", "uid": "u", "controller": true},
        ]},
        "spec": {"clusterName": "c", "version": "3.6.1", "start": {"generation": 0, "config": "config-0"}},
    });
    let claim = json!({
        "metadata": {"name": "c-0", "uid": "claim-1", "annotations": {
            VOLUME_ANNOTATION: VolumeRecord::of(&memory, Ordinal(0), "volume-1").text(),
        }},
    });
    let healthy = json!({"id": "a", "name": "c-0", "healthy": true, "leader": true});
    let status = json!({
        "memory": serde_json::to_string(&memory).unwrap(), "members": [healthy], "readyReplicas": 1,
        "conditions": [{
            "type": "Quorate", "status": "True", "reason": "Serving", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    Recording {
        status: Some(serde_json::from_value(status).unwrap()),
        seen: MemberObjects {
            peers: vec![Arc::new(serde_json::from_value(peer).unwrap())],
            claims: vec![Arc::new(serde_json::from_value(claim).unwrap())],
            pods: vec![Arc::new(pod_with(at_the_gate(&report(
                data(),
                Some(("3.6.1", "config-before")),
            ))))],
            ..MemberObjects::default()
        },
        lacks: Some(Lacks::UsersSecret),
        ..Recording::with_a_secret_to_write()
    }
}

#[tokio::test]
async fn an_operator_that_never_saw_the_users_secret_heals_without_it_and_says_that_health_is_unknown() {
    let (mut driver, mut kept) = (taken_up(), PassCache::default());
    let (result, asked) = driver.pass(&mut kept).await;
    result.unwrap();
    assert!(kept.has_decided(), "a plan was made");
    assert_eq!(asked.first().map(String::as_str), Some("a status"), "{asked:?}");
    assert!(
        asked.iter().any(|a| a == "annotate Pod c-0-abcde"),
        "it is started: {asked:?}"
    );
    let changes = |a: &&String| a.contains("EtcdPeer") || a.contains("ReplicaSet") || a.contains("Budget");
    assert_eq!(
        asked.iter().find(changes),
        None,
        "nothing else is done to members"
    );
    let blocked = driver.condition("Blocked");
    assert_eq!((&*blocked.status, &*blocked.reason), ("True", "Certificates"));
    assert!(
        blocked
            .message
            .starts_with("Secret \"mine\" is not there; until then"),
        "{}",
        blocked.message
    );
    for (kind, status) in [("Quorate", "Unknown"), ("Ready", "False")] {
        let condition = driver.condition(kind);
        assert_eq!((&*condition.status, &*condition.reason), (status, "Certificates"));
    }
    let status = driver.status.unwrap();
    let member = &status.members[0];
    assert_eq!(
        (status.ready_replicas, member.healthy, member.leader),
        (None, None, None)
    );
}

#[tokio::test]
async fn while_lost_secrets_are_refused_members_are_healed_without_them() {
    let (mut driver, mut kept) = (taken_up(), PassCache::default());
    (driver.lacks, driver.secrets_refused) = (Some(Lacks::FirstSecrets), true);
    for round in 0..3 {
        let (result, asked) = driver.pass(&mut kept).await;
        assert_eq!(
            result.unwrap_err().message(),
            "create Secret c-ca: exceeded quota: secrets"
        );
        let healed = asked.iter().any(|a| a == "annotate Pod c-0-abcde");
        // In the pass that learns of it they may come within a moment.
        assert_eq!(healed, round > 0, "{asked:?}");
        assert_eq!(kept.has_decided(), round > 0, "a plan was made");
    }
    let blocked = driver.condition("Blocked");
    assert_eq!((&*blocked.status, &*blocked.reason), ("True", "Certificates"));
    assert!(blocked.message.contains("exceeded quota"), "{}", blocked.message);
    assert_eq!(driver.condition("Quorate").status, "Unknown");
    // Nothing is asked for then; that does not mean that they were written.
    driver.paused = true;
    for _ in 0..2 {
        driver.pass(&mut kept).await.0.unwrap();
        assert!(kept.has_decided());
        let blocked = driver.condition("Blocked");
        assert!(blocked.message.contains("exceeded quota"), "{}", blocked.message);
    }
}

#[tokio::test]
async fn nothing_is_begun_without_the_users_secret() {
    let (mut driver, mut kept) = (taken_up(), PassCache::default());
    (driver.status, driver.seen) = (None, MemberObjects::default());
    let (result, asked) = driver.pass(&mut kept).await;
    result.unwrap();
    assert_eq!(asked, ["a status", "event Certificates"]);
    assert!(!kept.has_decided());
    assert_eq!(driver.condition("Quorate").status, "Unknown");
}

#[test]
fn nobody_is_restarted_while_certificates_cannot_be_written() {
    let effect = Effect::Create(Object::Secret(Box::default()));
    let wanted = Requests {
        effects: vec![effect.clone()],
        news: Vec::new(),
    };
    let mut kept = PassCache::default();
    kept.could_not_write_secrets(&refusal(&effect, 409), "c");
    assert_eq!(kept.until_written(&wanted), None, "the next try heals a conflict");
    kept.could_not_write_secrets(&refusal(&effect, 409), "c");
    let frozen = kept.until_written(&wanted).expect("it did not");
    assert_eq!(frozen.reason, BlockReason::Certificates);
    assert_eq!(
        kept.until_written(&Requests::default()),
        None,
        "nothing is to be written"
    );
    assert_eq!(kept.until_written(&wanted), None, "they had been written");
    kept.could_not_write_secrets(&refusal(&effect, 403), "c");
    assert!(kept.until_written(&wanted).is_some());
    // And in the pass that learns of it.
    let ordinal = Ordinal(0);
    let moves = Step::MoveLeader {
        from: MemberId(1),
        to: MemberId(2),
    };
    assert!(disturbs_one_that_runs(&moves));
    assert!(!disturbs_one_that_runs(&Step::Withdraw { ordinal }));
}

#[test]
fn what_disturbs_members_is_not_done_on_an_old_view() {
    let observed = Observed {
        login_refused: None,
        unasked: false,
        at: Time(1_000),
        fresh_token: Token(String::new()),
        slots: Default::default(),
        quorum: None,
        last: None,
        lost_ca: Default::default(),
    };
    let moves = Step::MoveLeader {
        from: MemberId(1),
        to: MemberId(2),
    };
    assert!(!is_stale(&moves, &observed, Time(6_000)));
    assert!(is_stale(&moves, &observed, Time(6_001)));
    let withdraws = Step::Withdraw { ordinal: Ordinal(0) };
    assert!(is_stale(&withdraws, &observed, Time(6_001)));
    let harmless = Step::DropAside {
        ordinal: Ordinal(0),
        keep: 2,
    };
    assert!(!is_stale(&harmless, &observed, Time(60_000)));
}
