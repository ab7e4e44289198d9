//! A pass driven by the simulator: its requests lie on a desk until the world answers them.
//!
//! In: requests of the operator's pass. Out: answers, when the world gives them. Never: an answer to another request.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::core::Status;
use quorate_api::crd::{ClusterStatus, EtcdCluster, EtcdPeer, PeerStatus};
use quorate_client::{Address, Answers, Port};
use quorate_core::guard::Guards;
use quorate_core::model::{Observed, Ordinal, Spec, StepResult, Time, Token};
use quorate_core::reason::BlockReason;
use quorate_core::{Memory, Plan, Step};
use quorate_operator::cluster::build::BuildContext;
use quorate_operator::cluster::driver::Driver;
use quorate_operator::cluster::observe::Objects as Members;
use quorate_operator::requests::api_errors::RequestError;
use quorate_operator::requests::apply::Applied;
use quorate_operator::requests::effect::{ClusterEvent, Effect};
use quorate_operator::tls::cas::Cas;
use quorate_operator::tls::secure::{self, TlsState};
use quorate_pki::PairPem;

use crate::checkers::ignored_alarm;
use crate::kube::api::{ApiError, Objects};
use crate::kube::tls::{self, Test};

#[derive(Clone, Debug)]
pub(in crate::kube) enum Request {
    /// From now on it trusts these CAs and shows this.
    Connect(Vec<u8>, PairPem),
    Prove(BTreeMap<Ordinal, Address>, Vec<(Port, Test)>),
    Look(BTreeMap<Ordinal, Address>),
    Change(Box<Step>, Box<Observed>),
    Status(Box<EtcdCluster>),
    Peer(Box<EtcdPeer>),
    Effect(Box<Effect>),
}

#[derive(Debug)]
pub(in crate::kube) enum Answer {
    Connected,
    Proven(BTreeSet<Ordinal>),
    Look(Answers),
    Change(Option<StepResult>),
    Status(Result<Option<String>, RequestError>),
    Peer(Result<(), RequestError>),
    Effect(Result<Applied, RequestError>),
}

/// What a request of the API server came to, as the operator sees it.
pub(in crate::kube) fn failed(error: ApiError) -> RequestError {
    let doing = "ask the API server".to_owned();
    let code = match error {
        ApiError::Away => return RequestError::Slow { doing },
        ApiError::NotFound => 404,
        ApiError::Conflict => 409,
        ApiError::Forbidden => 403,
    };
    let status = Status::failure(&format!("{error:?}"), "").with_code(code);
    RequestError::Api {
        doing,
        source: Box::new(kube::Error::Api(Box::new(status))),
    }
}

#[derive(Debug, Default)]
struct QueueState {
    now: Time,
    covers: bool,
    tokens: u64,
    request: Option<Request>,
    answer: Option<Answer>,
    /// What was planned, and the alarm that it passes over.
    decided: Option<(Plan, Option<String>)>,
    held: Option<&'static str>,
}

/// The world's side of the desk.
#[derive(Clone, Debug)]
pub(in crate::kube) struct RequestQueue(Arc<Mutex<QueueState>>);

impl RequestQueue {
    pub(in crate::kube) fn new(number: u64) -> RequestQueue {
        let papers = QueueState {
            tokens: number,
            ..QueueState::default()
        };
        RequestQueue(Arc::new(Mutex::new(papers)))
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is `now`; does the Lease outlive one more request?
    pub(in crate::kube) fn turn(&self, now: Time, covers: bool) {
        let mut papers = self.lock();
        (papers.now, papers.covers) = (now, covers);
    }

    pub(in crate::kube) fn answer(&self, answer: Answer) {
        self.lock().answer = Some(answer);
    }

    pub(in crate::kube) fn request(&self) -> Option<Request> {
        self.lock().request.take()
    }

    /// The plan that was made, once, and what is wrong with it if it passes over an alarm.
    pub(in crate::kube) fn decided(&self) -> Option<(Plan, Option<String>)> {
        self.lock().decided.take()
    }

    /// Why none was made, once.
    pub(in crate::kube) fn held(&self) -> Option<&'static str> {
        self.lock().held.take()
    }
}

/// The pass's side of the desk.
#[derive(Debug)]
pub(in crate::kube) struct SimDriver {
    desk: RequestQueue,
    /// As its watch has them.
    secrets: Objects<Secret>,
    pub(in crate::kube) certificates: secure::TlsCache,
    pub(in crate::kube) guards: Guards,
}

impl SimDriver {
    pub(in crate::kube) fn new(
        desk: &RequestQueue,
        secrets: Objects<Secret>,
        certificates: secure::TlsCache,
    ) -> SimDriver {
        SimDriver {
            desk: desk.clone(),
            secrets,
            certificates,
            guards: Guards::all(),
        }
    }

    /// Lays down a request, and waits for an answer that `read` can read.
    fn ask<'a, T: 'a>(
        &'a mut self,
        request: Request,
        read: impl Fn(Answer) -> Option<T> + Send + 'a,
    ) -> BoxFuture<'a, T> {
        self.desk.lock().request = Some(request);
        Box::pin(poll_fn(move |_| {
            match self.desk.lock().answer.take().and_then(&read) {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Pending,
            }
        }))
    }
}

impl Driver for SimDriver {
    fn guards(&self) -> Guards {
        self.guards
    }

    fn now(&self) -> Timestamp {
        let now = i64::try_from(self.desk.lock().now.0).unwrap_or(0);
        Timestamp::from_millisecond(now).unwrap_or_default()
    }

    fn covers(&self) -> bool {
        self.desk.lock().covers
    }

    fn fresh_token(&mut self) -> Token {
        Token(format!("token-{}", self.desk.lock().tokens))
    }

    fn secure<'a>(
        &'a mut self,
        context: &'a BuildContext<'a>,
        objects: &'a Members,
        memory: &'a Memory,
    ) -> BoxFuture<'a, TlsState> {
        Box::pin(async move {
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(self.desk.lock().now.0);
            let kept = &mut self.certificates;
            let secured = kept.judge(&tls::settings(), context, objects, memory, &self.secrets, now);
            let (material, requests) = match kept.or_last(Ok(secured)) {
                TlsState::Ready(material, requests) => (material, requests),
                other => return other,
            };
            if let Some((trusts, shows)) = tls::connects(&self.secrets, context.names) {
                self.ask(Request::Connect(trusts, shows), |_| Some(())).await;
            }
            let open = self.certificates.unproven(objects, &material);
            let cas = self.secrets.get(&context.names.ca_secret());
            let tests = cas
                .and_then(|secret| Cas::read(secret).ok())
                .map(|cas| tls::tests(&cas));
            let tests = tests.unwrap_or_default();
            if !open.is_empty() && !tests.is_empty() {
                let mut addresses = objects.addresses(context.names, Port::Client, true);
                addresses.retain(|ordinal, _| open.contains(ordinal));
                let read = |answer| match answer {
                    Answer::Proven(proven) => Some(proven),
                    _ => None,
                };
                let proven = self.ask(Request::Prove(addresses, tests), read).await;
                self.certificates.have_proven(proven);
            }
            TlsState::Ready(material, requests)
        })
    }

    fn log_in<'a>(&'a mut self, _: Option<&'a str>) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    fn look<'a>(&'a mut self, addresses: &'a BTreeMap<Ordinal, Address>) -> BoxFuture<'a, Answers> {
        self.ask(Request::Look(addresses.clone()), |answer| match answer {
            Answer::Look(answers) => Some(answers),
            _ => None,
        })
    }

    fn change<'a>(&'a mut self, step: &'a Step, seen: &'a Observed) -> BoxFuture<'a, Option<StepResult>> {
        let request = Request::Change(Box::new(step.clone()), Box::new(seen.clone()));
        self.ask(request, |answer| match answer {
            Answer::Change(result) => Some(result),
            _ => None,
        })
    }

    fn store_status<'a>(
        &'a mut self,
        resource: &'a EtcdCluster,
        status: ClusterStatus,
    ) -> BoxFuture<'a, Result<Option<String>, RequestError>> {
        let mut next = resource.clone();
        next.status = Some(status);
        self.ask(Request::Status(Box::new(next)), |answer| match answer {
            Answer::Status(result) => Some(result),
            _ => None,
        })
    }

    fn store_peer_status<'a>(
        &'a mut self,
        peer: &'a EtcdPeer,
        status: PeerStatus,
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        let mut next = peer.clone();
        next.status = Some(status);
        self.ask(Request::Peer(Box::new(next)), |answer| match answer {
            Answer::Peer(result) => Some(result),
            _ => None,
        })
    }

    fn apply<'a>(&'a mut self, effect: &'a Effect) -> BoxFuture<'a, Result<Applied, RequestError>> {
        self.ask(Request::Effect(Box::new(effect.clone())), |answer| match answer {
            Answer::Effect(result) => Some(result),
            _ => None,
        })
    }

    fn record_event<'a>(&'a mut self, _: &'a EtcdCluster, _: &'a ClusterEvent) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn decided(&mut self, _: &Spec, seen: &Observed, plan: &Plan) {
        if seen.unasked {
            self.held(BlockReason::Certificates.name());
        }
        self.desk.lock().decided = Some((plan.clone(), ignored_alarm(seen, plan)));
    }

    fn held(&mut self, reason: &'static str) {
        self.desk.lock().held = Some(reason);
    }
}
