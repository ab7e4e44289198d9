//! Random work without a pause: puts, deletions of one key and of many, transactions, leases that run out or are revoked,
//! users and roles, compactions. Members may come and go meanwhile: what fails is tried elsewhere, or let be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use quorate_testkit::Client;
use quorate_wire::etcdserverpb::request_op::Request as Op;
use quorate_wire::etcdserverpb::{
    AuthRoleAddRequest, AuthRoleAddResponse, CompactionRequest, CompactionResponse, DeleteRangeRequest,
    DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    PutRequest, PutResponse, RequestOp, TxnRequest, TxnResponse,
};

use super::trio::Trio;

/// Keys that are written to.
const KEYS: usize = 200;

pub struct Work {
    stop: Arc<AtomicBool>,
    /// The last revision that was answered for.
    pub revision: Arc<AtomicI64>,
    /// History may be compacted up to there.
    pub may_compact: Arc<AtomicI64>,
    /// Calls that were answered.
    pub done: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Work {
    /// Begins, by chance of this seed.
    pub fn begin(trio: &Arc<Trio>, seed: u64) -> Work {
        let work = Work {
            stop: Arc::default(),
            revision: Arc::default(),
            may_compact: Arc::default(),
            done: Arc::default(),
            thread: None,
        };
        let mut worker = Worker {
            trio: Arc::clone(trio),
            chance: fastrand::Rng::with_seed(seed),
            revision: Arc::clone(&work.revision),
            may_compact: Arc::clone(&work.may_compact),
            leases: Vec::new(),
            compacted: 0,
            roles: 0,
        };
        let (stop, done) = (Arc::clone(&work.stop), Arc::clone(&work.done));
        let thread = std::thread::spawn(move || {
            let mut at = 0;
            let mut client = worker.trio.client(at);
            while !stop.load(Ordering::Relaxed) {
                match worker.step(&client) {
                    Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                    Err(_) => {
                        at += 1;
                        client = worker.trio.client(at);
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            }
        });
        Work {
            thread: Some(thread),
            ..work
        }
    }

    pub fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the work did not panic");
        }
    }
}

struct Worker {
    trio: Arc<Trio>,
    chance: fastrand::Rng,
    revision: Arc<AtomicI64>,
    may_compact: Arc<AtomicI64>,
    leases: Vec<i64>,
    compacted: i64,
    roles: u32,
}

type Failed = Box<dyn std::error::Error>;

impl Worker {
    fn key(&mut self) -> Vec<u8> {
        format!("/key/{:04}", self.chance.usize(..KEYS)).into_bytes()
    }

    fn put(&mut self) -> PutRequest {
        let length = match self.chance.u32(..20) {
            0 => 20_000,
            1 => 0,
            _ => self.chance.usize(..300),
        };
        let lease = match self.chance.u32(..4) {
            0 => self.chance.choice(&self.leases).copied().unwrap_or(0),
            _ => 0,
        };
        PutRequest {
            key: self.key(),
            value: std::iter::repeat_with(|| self.chance.u8(..))
                .take(length)
                .collect(),
            lease,
            ..PutRequest::default()
        }
    }

    fn saw(&self, header: Option<quorate_wire::etcdserverpb::ResponseHeader>) {
        self.revision
            .fetch_max(header.map_or(0, |header| header.revision), Ordering::Relaxed);
    }

    fn step(&mut self, client: &Client) -> Result<(), Failed> {
        match self.chance.u32(..1000) {
            0..600 => {
                let response: PutResponse = client.try_call("KV/Put", self.put())?;
                self.saw(response.header);
            }
            600..720 => {
                let request = DeleteRangeRequest {
                    key: self.key(),
                    ..DeleteRangeRequest::default()
                };
                let response: DeleteRangeResponse = client.try_call("KV/DeleteRange", request)?;
                self.saw(response.header);
            }
            720..730 => {
                let (from, to) = (self.key(), self.key());
                let request = DeleteRangeRequest {
                    key: from.clone().min(to.clone()),
                    range_end: from.max(to),
                    ..DeleteRangeRequest::default()
                };
                let response: DeleteRangeResponse = client.try_call("KV/DeleteRange", request)?;
                self.saw(response.header);
            }
            730..940 => {
                let count = self.chance.usize(1..20);
                let mut puts: Vec<PutRequest> = (0..count).map(|_| self.put()).collect();
                puts.sort_by(|a, b| a.key.cmp(&b.key));
                puts.dedup_by(|a, b| a.key == b.key);
                self.chance.shuffle(&mut puts);
                let operation = |put| RequestOp {
                    request: Some(Op::RequestPut(put)),
                };
                let request = TxnRequest {
                    success: puts.into_iter().map(operation).collect(),
                    ..TxnRequest::default()
                };
                let response: TxnResponse = client.try_call("KV/Txn", request)?;
                self.saw(response.header);
            }
            940..970 => {
                let request = LeaseGrantRequest {
                    ttl: self.chance.i64(2..60),
                    id: self.chance.i64(1..i64::MAX),
                };
                let id = request.id;
                let _: LeaseGrantResponse = client.try_call("Lease/LeaseGrant", request)?;
                self.leases.push(id);
                if self.leases.len() > 20 {
                    self.leases.remove(0);
                }
            }
            970..985 if !self.leases.is_empty() => {
                let id = self.leases.swap_remove(self.chance.usize(..self.leases.len()));
                let _: LeaseRevokeResponse =
                    client.try_call("Lease/LeaseRevoke", LeaseRevokeRequest { id })?;
            }
            985..986 => {
                self.roles += 1;
                let name = format!("role-{}", self.roles);
                let _: AuthRoleAddResponse = client.try_call("Auth/RoleAdd", AuthRoleAddRequest { name })?;
            }
            986..992 => {
                let revision = self.may_compact.load(Ordering::Relaxed);
                if revision > self.compacted {
                    let request = CompactionRequest {
                        revision,
                        physical: false,
                    };
                    let _: CompactionResponse = client.try_call("KV/Compact", request)?;
                    self.compacted = revision;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
