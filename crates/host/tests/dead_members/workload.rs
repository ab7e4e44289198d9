//! What happens to a store before its member dies: puts, deletions, transactions in transactions, leases, compactions.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use quorate_testkit::{Client, User};
use quorate_wire::authpb::{Permission, permission};
use quorate_wire::etcdserverpb::alarm_request::AlarmAction;
use quorate_wire::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_wire::etcdserverpb::request_op::Request;
use quorate_wire::etcdserverpb::*;

use super::member::Member;

/// How many keys there are.
const KEYS: u32 = 40;
const LEASES: i64 = 8;
/// How long all operations of a run may take.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Plain,
    /// Authentication is enabled, and users and roles change.
    Auth,
    /// An alarm is raised, ended, and raised again: puts are refused while they are applied.
    Alarm,
}

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
    pub fn before(&self, etcd: &Member) {
        if self.mode == Mode::Auth {
            let client = etcd.client();
            add_user(&client, "root");
            add_role(&client, "root");
            grant_role(&client, "root", "root");
            add_user(&client, "some");
            add_role(&client, "half");
        }
    }

    /// What only the tail of the log tells.
    pub fn amid(&self, etcd: &mut Member, version: &str) {
        let client = etcd.client();
        match self.mode {
            Mode::Plain => {}
            Mode::Auth => {
                let half = Permission {
                    perm_type: permission::Type::Readwrite.into(),
                    key: b"k/".to_vec(),
                    range_end: b"k/20".to_vec(),
                };
                let request = AuthRoleGrantPermissionRequest {
                    name: "half".into(),
                    perm: Some(half),
                };
                let _: AuthRoleGrantPermissionResponse = client.call("Auth/RoleGrantPermission", request);
                grant_role(&client, "some", "half");
                // 3.4 makes the hash of a password while it applies the entry: each time another one.
                if !version.starts_with("3.4.") {
                    add_user(&client, "late");
                }
                let _: AuthEnableResponse = client.call("Auth/AuthEnable", AuthEnableRequest {});
                etcd.set_user(User {
                    name: "root".into(),
                    password: "root".into(),
                });
                add_role(&etcd.client(), "later");
            }
            Mode::Alarm => {
                let alarm = |action: AlarmAction| {
                    let request = AlarmRequest {
                        action: action.into(),
                        member_id: 12345,
                        alarm: AlarmType::Nospace.into(),
                    };
                    let _: AlarmResponse = client.call("Maintenance/Alarm", request);
                };
                alarm(AlarmAction::Activate);
                let full = PutRequest {
                    key: b"k/full".to_vec(),
                    ..PutRequest::default()
                };
                let refused = client.try_call::<_, PutResponse>("KV/Put", full).unwrap_err();
                assert!(refused.message().contains("database space exceeded"), "{refused}");
                alarm(AlarmAction::Deactivate);
                // And one that stays: to its end the member refuses puts, and deletes.
                alarm(AlarmAction::Activate);
            }
        }
    }

    /// Runs some operations, one after the other.
    pub fn run(&mut self, etcd: &Member, random: &mut fastrand::Rng, operations: std::ops::Range<u32>) {
        let client = etcd.client();
        for _ in 0..random.u32(operations) {
            operation(random, self.cuts.then(|| client.revision())).send(&client);
            self.done += 1;
        }
    }

    /// Runs operations side by side, and kills etcd amid them after about so many.
    pub fn run_and_kill(
        &mut self,
        etcd: &mut Member,
        random: &mut fastrand::Rng,
        operations: std::ops::Range<u32>,
    ) {
        self.amid_which(etcd, random, operations, |etcd| etcd.kill());
    }

    /// Runs operations side by side, and does something to etcd amid them.
    pub fn amid_which<E: AsRef<Member>>(
        &mut self,
        etcd: &mut E,
        random: &mut fastrand::Rng,
        operations: std::ops::Range<u32>,
        act: impl FnOnce(&mut E),
    ) {
        let (wanted, began) = (random.u32(operations), std::time::Instant::now());
        let clients = [etcd.as_ref().client(), etcd.as_ref().client()];
        let (done, over) = (AtomicU32::new(0), AtomicBool::new(false));
        let (seeds, before, cuts) = ([random.u64(..), random.u64(..)], self.done, self.cuts);
        std::thread::scope(|scope| {
            for (seed, client) in seeds.into_iter().zip(clients) {
                let (done, over) = (&done, &over);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    while !over.load(Ordering::Relaxed) {
                        // About what the revision is; etcd refuses what it is not.
                        let revision = i64::from(before + done.load(Ordering::Relaxed)) / 2;
                        operation(&mut random, cuts.then_some(revision)).send(&client);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            while done.load(Ordering::Relaxed) < wanted && began.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            act(etcd);
            over.store(true, Ordering::Relaxed);
        });
        let done = done.load(Ordering::Relaxed);
        assert!(done >= wanted, "{done} of {wanted} operations in {PATIENCE:?}");
    }
}

fn add_user(client: &Client, name: &str) {
    let request = AuthUserAddRequest {
        name: name.into(),
        password: name.into(),
        ..AuthUserAddRequest::default()
    };
    let _: AuthUserAddResponse = client.call("Auth/UserAdd", request);
}

fn add_role(client: &Client, name: &str) {
    let request = AuthRoleAddRequest { name: name.into() };
    let _: AuthRoleAddResponse = client.call("Auth/RoleAdd", request);
}

fn grant_role(client: &Client, user: &str, role: &str) {
    let request = AuthUserGrantRoleRequest {
        user: user.into(),
        role: role.into(),
    };
    let _: AuthUserGrantRoleResponse = client.call("Auth/UserGrantRole", request);
}

/// One request of any kind.
enum Operation {
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn(TxnRequest),
    Grant(LeaseGrantRequest),
    Revoke(LeaseRevokeRequest),
    Compact(CompactionRequest),
    Alarms,
}

impl Operation {
    /// Sends it. Refusals are part of the history; so is the end of the member.
    fn send(self, client: &Client) {
        fn send<A: prost::Message + Default + 'static>(
            client: &Client,
            method: &str,
            request: impl prost::Message + 'static,
        ) {
            let _ = client.try_call::<_, A>(method, request);
        }
        match self {
            Operation::Put(put) => send::<PutResponse>(client, "KV/Put", put),
            Operation::Delete(delete) => send::<DeleteRangeResponse>(client, "KV/DeleteRange", delete),
            Operation::Txn(txn) => send::<TxnResponse>(client, "KV/Txn", txn),
            Operation::Grant(grant) => send::<LeaseGrantResponse>(client, "Lease/LeaseGrant", grant),
            Operation::Revoke(revoke) => send::<LeaseRevokeResponse>(client, "Lease/LeaseRevoke", revoke),
            Operation::Compact(compact) => send::<CompactionResponse>(client, "KV/Compact", compact),
            Operation::Alarms => send::<AlarmResponse>(client, "Maintenance/Alarm", AlarmRequest::default()),
        }
    }
}

/// An operation; compactions and ended leases only if the revision is known.
fn operation(random: &mut fastrand::Rng, revision: Option<i64>) -> Operation {
    match (random.u8(..100), revision) {
        (40..=49, _) => Operation::Delete(DeleteRangeRequest {
            key: key(random),
            ..DeleteRangeRequest::default()
        }),
        (50..=56, _) => Operation::Delete(delete_span(random)),
        (57..=79, _) => Operation::Txn(txn(random, 2)),
        (80..=88, _) => Operation::Grant(LeaseGrantRequest {
            id: random.i64(1..=LEASES),
            ttl: random.i64(600..90_000),
        }),
        (89..=93, Some(_)) => Operation::Revoke(LeaseRevokeRequest {
            id: random.i64(1..=LEASES),
        }),
        (94..=96, Some(revision)) => Operation::Compact(CompactionRequest {
            revision: (revision - random.i64(0..30)).max(0),
            physical: random.bool(),
        }),
        (97.., _) => Operation::Alarms,
        _ => Operation::Put(put(random, true)),
    }
}

/// A put; one that `may_rely` on the key may keep its value or its lease.
fn put(random: &mut fastrand::Rng, may_rely: bool) -> PutRequest {
    let mut put = PutRequest {
        key: key(random),
        ..PutRequest::default()
    };
    match random.u8(..10) {
        0 if may_rely => put.ignore_value = true,
        _ => put.value = value(random),
    }
    match random.u8(..10) {
        0 if may_rely => put.ignore_lease = true,
        // Some of these leases are not there.
        1..=3 => put.lease = random.i64(1..=LEASES),
        _ => {}
    }
    put.prev_kv = random.u8(..8) == 0;
    put
}

/// A transaction. One that deletes a key and then relies on it would make etcd panic, so each does only one of both.
fn txn(random: &mut fastrand::Rng, depth: u8) -> TxnRequest {
    let relies = random.bool();
    txn_that(random, relies, depth)
}

fn txn_that(random: &mut fastrand::Rng, relies: bool, depth: u8) -> TxnRequest {
    let [compares, successes, failures] = [2, 4, 3].map(|most| random.usize(..=most));
    let compare = (0..compares).map(|_| compare(random)).collect();
    let mut requests = |count| (0..count).map(|_| request(random, relies, depth)).collect();
    let (success, failure) = (requests(successes), requests(failures));
    TxnRequest {
        compare,
        success,
        failure,
    }
}

fn request(random: &mut fastrand::Rng, relies: bool, depth: u8) -> RequestOp {
    let request = match random.u8(..10) {
        0..=4 => Request::RequestPut(put(random, relies)),
        5 if !relies => Request::RequestDeleteRange(DeleteRangeRequest {
            key: key(random),
            prev_kv: random.bool(),
            ..DeleteRangeRequest::default()
        }),
        6 if !relies => Request::RequestDeleteRange(delete_span(random)),
        7 | 8 if depth > 0 => Request::RequestTxn(txn_that(random, relies, depth - 1)),
        _ => {
            let (key, range_end) = span(random);
            Request::RequestRange(RangeRequest {
                key,
                range_end,
                ..RangeRequest::default()
            })
        }
    };
    RequestOp {
        request: Some(request),
    }
}

fn compare(random: &mut fastrand::Rng) -> Compare {
    let results = [
        CompareResult::Equal,
        CompareResult::Greater,
        CompareResult::Less,
        CompareResult::NotEqual,
    ];
    let result = results[random.usize(..4)];
    let (key, range_end) = match random.u8(..4) {
        0 => span(random),
        _ => (key(random), Vec::new()),
    };
    let (target, union) = match random.u8(..5) {
        0 => (CompareTarget::Version, TargetUnion::Version(random.i64(0..4))),
        1 => (
            CompareTarget::Create,
            TargetUnion::CreateRevision(random.i64(0..300)),
        ),
        2 => (CompareTarget::Mod, TargetUnion::ModRevision(random.i64(0..300))),
        3 => (CompareTarget::Lease, TargetUnion::Lease(random.i64(0..=LEASES))),
        _ => (CompareTarget::Value, TargetUnion::Value(value(random))),
    };
    Compare {
        result: result.into(),
        target: target.into(),
        key,
        range_end,
        target_union: Some(union),
    }
}

/// A range of keys: some, or all from one on.
fn span(random: &mut fastrand::Rng) -> (Vec<u8>, Vec<u8>) {
    let (from, to) = (random.u32(..KEYS), random.u32(..KEYS));
    let end = match random.u8(..6) {
        0 => vec![0],
        _ => name(to),
    };
    (name(from), end)
}

fn delete_span(random: &mut fastrand::Rng) -> DeleteRangeRequest {
    let (key, range_end) = span(random);
    DeleteRangeRequest {
        key,
        range_end,
        ..DeleteRangeRequest::default()
    }
}

fn key(random: &mut fastrand::Rng) -> Vec<u8> {
    name(random.u32(..KEYS))
}

fn name(number: u32) -> Vec<u8> {
    format!("k/{number:02}").into_bytes()
}

fn value(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = match random.u8(..20) {
        0 => 0,
        1 => random.usize(..20_000),
        2 => random.usize(..300),
        _ => random.usize(..3),
    };
    (0..length).map(|_| random.u8(b'a'..=b'd')).collect()
}
