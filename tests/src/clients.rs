//! Clients that never stop: each puts, swaps and reads through members in turn, and records every answer.
//!
//! Never: more than a bounded rate, or traffic to anything but the endpoints of the cluster under test.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_client::{CasResult, Consistency, Endpoint, Error, KeyValue, Outcome, Timeouts, Tls};
use tokio::task::JoinSet;

use crate::history::{Answer, Ask, Entry, Found, History};

/// For a single question that must be answered: a busy machine may take longer than the product waits.
pub const PATIENT: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    request: Duration::from_secs(30),
    stream_idle: Duration::from_secs(30),
};
/// How many keys they share.
const KEYS: u64 = 8;
/// How often the last read of a key is tried.
const FINAL_READS: usize = 140;
/// The pause between two questions of one client.
const PAUSE: Duration = Duration::from_millis(15);

pub struct Clients {
    pub history: Arc<History>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
    ask: Asker,
}

/// Whom they ask: members come and go, and with them their addresses.
struct Targets {
    tls: Option<Tls>,
    endpoints: Vec<(String, Endpoint)>,
}

impl Targets {
    /// From now on these; those that were there before keep their connection, unless they are to be asked otherwise.
    fn point_at(&mut self, urls: &[String], tls: Option<&Tls>) {
        if self.tls.as_ref() != tls {
            self.tls = tls.cloned();
            self.endpoints.clear();
        }
        let timeouts = Timeouts {
            connect: Duration::from_millis(500),
            // Two that are lost one after the other are no gap of five seconds.
            request: Duration::from_secs(2),
            ..Timeouts::default()
        };
        let made = |url: &String| {
            let kept = self.endpoints.iter().find(|(u, _)| u == url);
            let endpoint = kept.map(|(_, e)| e.clone()).unwrap_or_else(|| {
                Endpoint::connect_lazy(url, self.tls.as_ref(), timeouts).expect("a valid endpoint")
            });
            (url.clone(), endpoint)
        };
        self.endpoints = urls.iter().map(made).collect();
    }
}

/// What one client needs to ask.
#[derive(Clone)]
struct Asker {
    targets: Arc<Mutex<Targets>>,
    history: Arc<History>,
    next_value: Arc<AtomicU64>,
}

impl Clients {
    /// Starts `count` clients on all of `urls`; members that do not exist yet simply do not answer.
    pub fn start(count: usize, urls: &[String], tls: Option<&Tls>) -> Clients {
        let mut targets = Targets {
            tls: tls.cloned(),
            endpoints: Vec::new(),
        };
        targets.point_at(urls, tls);
        let history = Arc::new(History::default());
        let ask = Asker {
            targets: Arc::new(Mutex::new(targets)),
            history: history.clone(),
            next_value: Arc::new(AtomicU64::new(1)),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for number in 0..count {
            let (ask, stop) = (ask.clone(), stop.clone());
            tasks.spawn(async move {
                let mut rng = fastrand::Rng::with_seed(number as u64);
                let mut at = number;
                while !stop.load(Ordering::Relaxed) {
                    if !ask.once(&mut rng, at).await {
                        at += 1;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Clients {
            history,
            stop,
            tasks,
            ask,
        }
    }

    /// From now on they ask these, and no others.
    pub fn point_at(&self, urls: &[String], tls: Option<&Tls>) {
        let mut targets = self
            .ask
            .targets
            .lock()
            .expect("no client panics while it chooses");
        targets.point_at(urls, tls);
    }

    /// Stops them, reads every key once more, and gives the whole record.
    pub async fn finish(mut self) -> Vec<Entry> {
        self.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
        for key in 0..KEYS {
            let mut answered = false;
            for at in 0..FINAL_READS {
                answered = self.ask.read(&key_name(key), at).await;
                if answered {
                    break;
                }
            }
            assert!(
                answered,
                "the cluster does not serve {} at the end",
                key_name(key)
            );
        }
        self.history.entries()
    }
}

fn key_name(key: u64) -> String {
    format!("torture/{key}")
}

fn decode(kv: &KeyValue) -> Found {
    let text = std::str::from_utf8(&kv.value).unwrap_or_default();
    Found {
        value: text.parse().unwrap_or(0),
        revision: kv.mod_revision,
        version: kv.version,
    }
}

fn failed(error: &Error) -> Answer {
    match error.outcome() {
        Outcome::NotDone => Answer::Refused,
        Outcome::Unknown => Answer::Unknown,
    }
}

impl Asker {
    fn endpoint(&self, at: usize) -> Endpoint {
        let targets = self.targets.lock().expect("no client panics while it chooses");
        targets.endpoints[at % targets.endpoints.len()].1.clone()
    }

    /// One question; false if this endpoint gave no proper answer.
    async fn once(&self, rng: &mut fastrand::Rng, at: usize) -> bool {
        let key = key_name(rng.u64(..KEYS));
        match rng.u8(..10) {
            0..4 => self.put(&key, at).await,
            4..6 => self.swap(&key, at).await,
            _ => self.read(&key, at).await,
        }
    }

    fn note(&self, key: &str, asked: Duration, ask: Ask, answer: Answer) -> bool {
        let proper = !matches!(answer, Answer::Unknown | Answer::Refused);
        self.history.record(Entry {
            asked,
            answered: self.history.now(),
            key: key.to_owned(),
            ask,
            answer,
        });
        proper
    }

    async fn put(&self, key: &str, at: usize) -> bool {
        let value = self.next_value.fetch_add(1, Ordering::Relaxed);
        let asked = self.history.now();
        let answer = match self
            .endpoint(at)
            .put(key.as_bytes(), value.to_string().as_bytes())
            .await
        {
            Ok(revision) => Answer::Written(revision),
            Err(error) => failed(&error),
        };
        self.note(key, asked, Ask::Put(value), answer)
    }

    /// Reads, then swaps on what it read.
    async fn swap(&self, key: &str, at: usize) -> bool {
        let Ok(current) = self
            .endpoint(at)
            .get(key.as_bytes(), Consistency::Linearizable)
            .await
        else {
            return false;
        };
        let expected = current.map_or(0, |kv| kv.mod_revision);
        let value = self.next_value.fetch_add(1, Ordering::Relaxed);
        let asked = self.history.now();
        let bytes = value.to_string();
        let answer = match self
            .endpoint(at)
            .compare_and_swap(key.as_bytes(), expected, bytes.as_bytes())
            .await
        {
            Ok(CasResult::Swapped { revision }) => Answer::Written(revision),
            Ok(CasResult::Conflict { .. }) => Answer::Declined,
            Err(error) => failed(&error),
        };
        self.note(key, asked, Ask::Swap { expected, value }, answer)
    }

    async fn read(&self, key: &str, at: usize) -> bool {
        let asked = self.history.now();
        let answer = match self
            .endpoint(at)
            .get(key.as_bytes(), Consistency::Linearizable)
            .await
        {
            Ok(found) => Answer::Found(found.as_ref().map(decode)),
            Err(error) => failed(&error),
        };
        self.note(key, asked, Ask::Read, answer)
    }
}
