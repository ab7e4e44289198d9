//! What happens to a store before its member dies: puts, deletions, transactions in transactions, leases, compactions.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::{Value, json};

use super::etcd::Etcd;

/// How many keys there are.
const KEYS: u32 = 40;
/// How many leases.
const LEASES: i64 = 8;

/// What else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Plain,
    /// Authentication is enabled, and users and roles change.
    Auth,
    /// An alarm is raised, ended, and raised again: puts are refused while they are applied.
    Alarm,
}

/// A workload.
pub struct Workload {
    mode: Mode,
    /// Compactions and ended leases have the database written, and so cut the tail of the log short.
    cuts: bool,
    done: u32,
}

impl Workload {
    pub fn new(mode: Mode, cuts: bool) -> Workload {
        Workload { mode, cuts, done: 0 }
    }

    /// What a member's first run leaves.
    pub fn before(&self, etcd: &Etcd) {
        if self.mode == Mode::Auth {
            for (path, body) in [
                ("/v3/auth/user/add", json!({"name": "root", "password": "root"})),
                ("/v3/auth/role/add", json!({"name": "root"})),
                ("/v3/auth/user/grant", json!({"user": "root", "role": "root"})),
                ("/v3/auth/user/add", json!({"name": "some", "password": "some"})),
                ("/v3/auth/role/add", json!({"name": "half"})),
            ] {
                etcd.ask(path, &body);
            }
        }
    }

    /// What only the tail of the log tells.
    pub fn amid(&self, etcd: &mut Etcd, version: &str) {
        match self.mode {
            Mode::Plain => {}
            Mode::Auth => {
                let half =
                    json!({"permType": "READWRITE", "key": base64(b"k/"), "range_end": base64(b"k/20")});
                for (path, body) in [
                    ("/v3/auth/role/grant", json!({"name": "half", "perm": half})),
                    ("/v3/auth/user/grant", json!({"user": "some", "role": "half"})),
                ] {
                    etcd.ask(path, &body);
                }
                // 3.4 makes the hash of a password while it applies the entry: each time another one.
                if !version.starts_with("3.4.") {
                    etcd.ask("/v3/auth/user/add", &json!({"name": "late", "password": "late"}));
                }
                etcd.ask("/v3/auth/enable", &json!({}));
                etcd.log_in("root", "root");
                etcd.ask("/v3/auth/role/add", &json!({"name": "later"}));
            }
            Mode::Alarm => {
                let alarm = |action: &str| json!({"action": action, "memberID": "12345", "alarm": "NOSPACE"});
                etcd.ask("/v3/maintenance/alarm", &alarm("ACTIVATE"));
                let refused = etcd
                    .try_ask("/v3/kv/put", &json!({"key": base64(b"k/full"), "value": ""}))
                    .unwrap();
                assert!(
                    refused.to_string().contains("database space exceeded"),
                    "{refused}"
                );
                etcd.ask("/v3/maintenance/alarm", &alarm("DEACTIVATE"));
                // And one that stays: to its end the member refuses puts, and deletes.
                etcd.ask("/v3/maintenance/alarm", &alarm("ACTIVATE"));
            }
        }
    }

    /// Runs some operations, one after the other.
    pub fn run(&mut self, etcd: &Etcd, random: &mut fastrand::Rng, operations: std::ops::Range<u32>) {
        for _ in 0..random.u32(operations) {
            let (path, body) = operation(random, self.cuts.then(|| revision(etcd)));
            etcd.try_ask(path, &body);
            self.done += 1;
        }
    }

    /// Runs operations side by side, and kills etcd amid them after about so many.
    pub fn run_and_kill(
        &mut self,
        etcd: &mut Etcd,
        random: &mut fastrand::Rng,
        operations: std::ops::Range<u32>,
    ) {
        self.amid_which(etcd, random, operations, |etcd| etcd.kill());
    }

    /// Runs operations side by side, and does something to etcd amid them.
    pub fn amid_which<E: AsRef<Etcd>>(
        &mut self,
        etcd: &mut E,
        random: &mut fastrand::Rng,
        operations: std::ops::Range<u32>,
        act: impl FnOnce(&mut E),
    ) {
        let wanted = random.u32(operations);
        let asking = etcd.as_ref().asking();
        let (done, over) = (AtomicU32::new(0), AtomicBool::new(false));
        let (seeds, before, cuts) = ([random.u64(..), random.u64(..)], self.done, self.cuts);
        std::thread::scope(|scope| {
            for seed in seeds {
                let (done, over, asking) = (&done, &over, &asking);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    while !over.load(Ordering::Relaxed) {
                        // About what the revision is; etcd refuses what it is not.
                        let revision = i64::from(before + done.load(Ordering::Relaxed)) / 2;
                        let (path, body) = operation(&mut random, cuts.then_some(revision));
                        asking.try_ask(path, &body);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
            while done.load(Ordering::Relaxed) < wanted && std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
            act(etcd);
            over.store(true, Ordering::Relaxed);
        });
        assert!(done.load(Ordering::Relaxed) >= wanted, "etcd is too slow");
    }
}

fn revision(etcd: &Etcd) -> i64 {
    let answer = etcd.try_ask("/v3/kv/range", &json!({"key": "AA==", "count_only": true}));
    let revision = answer.and_then(|answer| {
        answer["header"]["revision"]
            .as_str()
            .and_then(|text| text.parse().ok())
    });
    revision.unwrap_or(1)
}

/// An operation; compactions and ended leases only if the revision is known.
fn operation(random: &mut fastrand::Rng, revision: Option<i64>) -> (&'static str, Value) {
    match (random.u8(..100), revision) {
        (40..=49, _) => ("/v3/kv/deleterange", json!({"key": key(random)})),
        (50..=56, _) => ("/v3/kv/deleterange", span(random)),
        (57..=79, _) => ("/v3/kv/txn", txn(random, 2)),
        (80..=88, _) => {
            let id = random.i64(1..=LEASES).to_string();
            (
                "/v3/lease/grant",
                json!({"ID": id, "TTL": random.u32(600..90_000)}),
            )
        }
        (89..=93, Some(_)) => (
            "/v3/lease/revoke",
            json!({"ID": random.i64(1..=LEASES).to_string()}),
        ),
        (94..=96, Some(revision)) => {
            let at = (revision - random.i64(0..30)).max(0).to_string();
            (
                "/v3/kv/compaction",
                json!({"revision": at, "physical": random.bool()}),
            )
        }
        (97.., _) => ("/v3/maintenance/alarm", json!({"action": "GET"})),
        _ => ("/v3/kv/put", put(random)),
    }
}

fn put(random: &mut fastrand::Rng) -> Value {
    put_that(random, true)
}

/// A put; one that `may_rely` on the key may keep its value or its lease.
fn put_that(random: &mut fastrand::Rng, may_rely: bool) -> Value {
    let mut put = json!({"key": key(random)});
    match random.u8(..10) {
        0 if may_rely => put["ignore_value"] = true.into(),
        _ => put["value"] = value(random),
    }
    match random.u8(..10) {
        0 if may_rely => put["ignore_lease"] = true.into(),
        // Some of these leases are not there.
        1..=3 => put["lease"] = random.i64(1..=LEASES).to_string().into(),
        _ => {}
    }
    if random.u8(..8) == 0 {
        put["prev_kv"] = true.into();
    }
    put
}

/// A transaction. One that deletes a key and then relies on it would make etcd panic, so each does only one of both.
fn txn(random: &mut fastrand::Rng, depth: u8) -> Value {
    let relies = random.bool();
    txn_that(random, relies, depth)
}

fn txn_that(random: &mut fastrand::Rng, relies: bool, depth: u8) -> Value {
    let [compares, successes, failures] = [2, 4, 3].map(|most| random.usize(..=most));
    let compare: Vec<Value> = (0..compares).map(|_| compare(random)).collect();
    let mut requests = |count| -> Vec<Value> { (0..count).map(|_| request(random, relies, depth)).collect() };
    let (success, failure) = (requests(successes), requests(failures));
    json!({"compare": compare, "success": success, "failure": failure})
}

fn request(random: &mut fastrand::Rng, relies: bool, depth: u8) -> Value {
    match random.u8(..10) {
        0..=4 => json!({"requestPut": put_that(random, relies)}),
        5 if !relies => json!({"requestDeleteRange": {"key": key(random), "prev_kv": random.bool()}}),
        6 if !relies => json!({"requestDeleteRange": span(random)}),
        7 | 8 if depth > 0 => json!({"requestTxn": txn_that(random, relies, depth - 1)}),
        _ => json!({"requestRange": span(random)}),
    }
}

fn compare(random: &mut fastrand::Rng) -> Value {
    let result = ["EQUAL", "GREATER", "LESS", "NOT_EQUAL"][random.usize(..4)];
    let mut compare = if random.u8(..4) == 0 {
        span(random)
    } else {
        json!({"key": key(random)})
    };
    compare["result"] = result.into();
    let (target, name) = match random.u8(..5) {
        0 => ("VERSION", "version"),
        1 => ("CREATE", "create_revision"),
        2 => ("MOD", "mod_revision"),
        3 => ("LEASE", "lease"),
        _ => ("VALUE", "value"),
    };
    compare["target"] = target.into();
    compare[name] = match name {
        "value" => value(random),
        "version" => random.i64(0..4).to_string().into(),
        "lease" => random.i64(0..=LEASES).to_string().into(),
        _ => random.i64(0..300).to_string().into(),
    };
    compare
}

/// A range of keys: some, or all from one on.
fn span(random: &mut fastrand::Rng) -> Value {
    let (from, to) = (random.u32(..KEYS), random.u32(..KEYS));
    let end = if random.u8(..6) == 0 {
        base64(&[0])
    } else {
        base64(name(to).as_bytes())
    };
    json!({"key": base64(name(from).as_bytes()), "range_end": end})
}

fn key(random: &mut fastrand::Rng) -> Value {
    base64(name(random.u32(..KEYS)).as_bytes()).into()
}

fn name(number: u32) -> String {
    format!("k/{number:02}")
}

fn value(random: &mut fastrand::Rng) -> Value {
    let length = match random.u8(..20) {
        0 => 0,
        1 => random.usize(..20_000),
        2 => random.usize(..300),
        _ => random.usize(..3),
    };
    let bytes: Vec<u8> = (0..length).map(|_| random.u8(b'a'..=b'd')).collect();
    base64(&bytes).into()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { digit.into() } else { '=' });
        }
    }
    text
}
