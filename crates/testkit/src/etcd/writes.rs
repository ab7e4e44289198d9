//! What each workload writes. Everything is chosen by fixed seeds: each version is asked the same.

use quorate_wire::authpb::{Permission, UserAddOptions, permission};
use quorate_wire::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_wire::etcdserverpb::request_op::Request as Op;
use quorate_wire::etcdserverpb::{
    AuthEnableRequest, AuthEnableResponse, AuthRoleAddRequest, AuthRoleAddResponse,
    AuthRoleGrantPermissionRequest, AuthRoleGrantPermissionResponse, AuthUserAddRequest, AuthUserAddResponse,
    AuthUserGrantRoleRequest, AuthUserGrantRoleResponse, CompactionRequest, CompactionResponse, Compare,
    DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, PutRequest, PutResponse, RangeRequest,
    RangeResponse, RequestOp, TxnRequest, TxnResponse,
};

use super::client::{Client, User};
use super::workload::Workload;

impl Workload {
    /// Does it. Where it switches authentication on, the user that may still do everything.
    pub fn run(self, client: &mut Client) -> Option<User> {
        match self {
            Workload::Empty => {}
            Workload::Puts => puts(client, 3000, 1),
            Workload::Leases => leases(client),
            Workload::Txns => txns(client),
            Workload::Compacted => compacted(client),
            Workload::Auth => return Some(auth(client)),
            Workload::Large => large(client),
            Workload::Small(keys) => small(client, keys),
            Workload::RangeDelete => range_delete(client),
        }
        None
    }
}

impl Client {
    /// The value of a key, if it is there.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let request = RangeRequest {
            key: key.to_vec(),
            ..RangeRequest::default()
        };
        let response: RangeResponse = self.call("KV/Range", request);
        response.kvs.into_iter().next().map(|pair| pair.value)
    }

    /// The current revision, by a read that needs a quorum.
    pub fn revision(&self) -> i64 {
        let request = RangeRequest {
            key: vec![0],
            count_only: true,
            ..RangeRequest::default()
        };
        let response: RangeResponse = self.call("KV/Range", request);
        response.header.expect("a header").revision
    }

    /// Puts one key; the revision.
    pub fn put(&self, key: &[u8], value: &[u8]) -> i64 {
        self.put_with_lease(key, value, 0)
    }

    /// Puts one key; the revision, or how it failed.
    pub fn try_put(&self, key: &[u8], value: &[u8]) -> Result<i64, tonic::Status> {
        let response: PutResponse = self.try_call("KV/Put", put(key, value, 0))?;
        Ok(response.header.expect("a header").revision)
    }

    /// Puts one key bound to a lease; the revision.
    pub fn put_with_lease(&self, key: &[u8], value: &[u8], lease: i64) -> i64 {
        let response: PutResponse = self.call("KV/Put", put(key, value, lease));
        response.header.expect("a header").revision
    }

    /// Deletes `[key, end)`, or one key if `end` is empty; the revision.
    pub fn delete(&self, key: &[u8], end: &[u8]) -> i64 {
        let response: DeleteRangeResponse = self.call("KV/DeleteRange", delete(key, end));
        response.header.expect("a header").revision
    }

    /// One transaction; the revision.
    pub fn txn(&self, request: TxnRequest) -> i64 {
        let response: TxnResponse = self.call("KV/Txn", request);
        response.header.expect("a header").revision
    }

    /// Compacts, and waits until it is done on disk.
    pub fn compact(&self, revision: i64) {
        let request = CompactionRequest {
            revision,
            physical: true,
        };
        let _: CompactionResponse = self.call("KV/Compact", request);
    }

    /// Grants the lease of this id.
    pub fn grant(&self, id: i64, seconds: i64) {
        let request = LeaseGrantRequest { ttl: seconds, id };
        let response: LeaseGrantResponse = self.call("Lease/LeaseGrant", request);
        assert_eq!(response.error, "");
    }

    /// Makes a lease live on for as long as it was granted.
    pub fn keep_alive(&self, id: i64) {
        // The stream of one request has one answer.
        let response: LeaseKeepAliveResponse =
            self.call("Lease/LeaseKeepAlive", LeaseKeepAliveRequest { id });
        assert!(response.ttl > 0, "lease {id:x} is gone");
    }

    /// Revokes a lease, and with it its keys.
    pub fn revoke(&self, id: i64) {
        let _: LeaseRevokeResponse = self.call("Lease/LeaseRevoke", LeaseRevokeRequest { id });
    }

    /// Revokes a lease, unless it has run out by now.
    pub fn try_revoke(&self, id: i64) -> Result<(), tonic::Status> {
        let ended: Result<LeaseRevokeResponse, tonic::Status> =
            self.try_call("Lease/LeaseRevoke", LeaseRevokeRequest { id });
        ended.map(|_| ()).or_else(|status| match status.code() {
            tonic::Code::NotFound => Ok(()),
            _ => Err(status),
        })
    }
}

fn put(key: &[u8], value: &[u8], lease: i64) -> PutRequest {
    PutRequest {
        key: key.to_vec(),
        value: value.to_vec(),
        lease,
        ..PutRequest::default()
    }
}

fn delete(key: &[u8], end: &[u8]) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key.to_vec(),
        range_end: end.to_vec(),
        ..DeleteRangeRequest::default()
    }
}

fn put_op(key: &[u8], value: &[u8]) -> RequestOp {
    op(Op::RequestPut(put(key, value, 0)))
}

fn delete_op(key: &[u8], end: &[u8]) -> RequestOp {
    op(Op::RequestDeleteRange(delete(key, end)))
}

fn op(request: Op) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

/// Keys as people name them, and some that only programs would.
fn key(rng: &mut fastrand::Rng, keys: u32) -> Vec<u8> {
    let number = rng.u32(..keys);
    match number % 20 {
        0 => vec![0, (number >> 8) as u8, number as u8],
        1 => vec![0xff, 0xff, (number >> 8) as u8, number as u8],
        _ => format!("/registry/things/namespace-{}/thing-{number}", number % 7).into_bytes(),
    }
}

fn value(rng: &mut fastrand::Rng, most: usize) -> Vec<u8> {
    let length = rng.usize(..=most);
    std::iter::repeat_with(|| rng.u8(..)).take(length).collect()
}

fn puts(client: &Client, count: u32, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..count {
        let key = key(&mut rng, count / 4);
        if rng.u8(..10) == 0 {
            client.delete(&key, b"");
        } else {
            client.put(&key, &value(&mut rng, 600));
        }
    }
}

fn leases(client: &Client) {
    for lease in 1..=60 {
        client.grant(lease * 1000 + 7, 3600 + lease);
    }
    client.grant(i64::MAX, 5000);
    for number in 0..300_i64 {
        let lease = (number % 50 + 1) * 1000 + 7;
        client.put_with_lease(format!("leased/{number}").as_bytes(), b"x", lease);
    }
    client.put_with_lease(b"leased/last", b"x", i64::MAX);
    // Bound to another, to none, and gone with its lease.
    client.put_with_lease(b"leased/0", b"y", 2007);
    client.put(b"leased/1", b"y");
    for lease in 40..45 {
        client.revoke(lease * 1000 + 7);
    }
}

fn txns(client: &Client) {
    let mut rng = fastrand::Rng::with_seed(2);
    client.put(b"txn/flag", b"1");
    for round in 0..200_u32 {
        let distinct = |index: u32| format!("txn/{}/{index}", round % 20).into_bytes();
        let mut success: Vec<RequestOp> = (0..rng.u32(1..30))
            .map(|index| put_op(&distinct(index), &value(&mut rng, 100)))
            .collect();
        // The keys of another round, so that no key is changed twice in one transaction.
        let other = format!("txn/{}/", (round + 1) % 20);
        if round % 3 == 0 {
            success.push(delete_op(other.as_bytes(), format!("{other}5").as_bytes()));
        }
        let inner = TxnRequest {
            compare: vec![compare_version(b"txn/flag", i64::from(round % 2))],
            success: vec![put_op(b"txn/inner", &round.to_be_bytes())],
            failure: vec![delete_op(b"txn/inner", b""), put_op(b"txn/outer", b"")],
        };
        success.push(op(Op::RequestTxn(inner)));
        let failure = vec![put_op(b"txn/never", b"x"), delete_op(b"txn/not-there", b"")];
        let expected = if round % 5 == 0 { 2 } else { 1 };
        client.txn(TxnRequest {
            compare: vec![compare_version(b"txn/flag", expected)],
            success,
            failure,
        });
    }
}

fn compare_version(key: &[u8], version: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Version.into(),
        key: key.to_vec(),
        target_union: Some(TargetUnion::Version(version)),
        ..Compare::default()
    }
}

fn compacted(client: &Client) {
    puts(client, 500, 3);
    let revision = client.put(b"compacted/a", b"1");
    client.compact(revision);
    puts(client, 300, 4);
    client.put(b"compacted/a", b"2");
    client.put(b"compacted/b", b"2");
    let deletion = client.delete(b"compacted/a", b"");
    puts(client, 100, 5);
    client.compact(deletion);
    client.put(b"compacted/a", b"3");
    client.delete(b"compacted/b", b"");
    puts(client, 200, 6);
}

fn auth(client: &mut Client) -> User {
    let user = |name: &str, password: &str| User {
        name: name.to_owned(),
        password: password.to_owned(),
    };
    puts(client, 50, 7);
    let root = user("root", "a password of root");
    for user in [&root, &user("reader", "1"), &user("writer", "2")] {
        add_user(client, user, false);
    }
    add_user(client, &user("certificate", ""), true);
    for (role, holder) in [("root", "root"), ("read", "reader"), ("write", "writer")] {
        let _: AuthRoleAddResponse = client.call("Auth/RoleAdd", AuthRoleAddRequest { name: role.into() });
        let grant = AuthUserGrantRoleRequest {
            user: holder.into(),
            role: role.into(),
        };
        let _: AuthUserGrantRoleResponse = client.call("Auth/UserGrantRole", grant);
    }
    let permissions = [
        (
            "read",
            permission::Type::Read,
            &b"/registry/"[..],
            &b"/registry0"[..],
        ),
        ("write", permission::Type::Write, b"/registry/", b"/registry0"),
        ("write", permission::Type::Readwrite, b"one", b""),
        ("write", permission::Type::Read, b"from", b"\0"),
    ];
    for (role, kind, key, end) in permissions {
        let grant = AuthRoleGrantPermissionRequest {
            name: role.into(),
            perm: Some(Permission {
                perm_type: kind.into(),
                key: key.to_vec(),
                range_end: end.to_vec(),
            }),
        };
        let _: AuthRoleGrantPermissionResponse = client.call("Auth/RoleGrantPermission", grant);
    }
    let _: AuthEnableResponse = client.call("Auth/AuthEnable", AuthEnableRequest {});
    client.log_in(&root);
    puts(client, 50, 8);
    root
}

fn add_user(client: &Client, user: &User, no_password: bool) {
    let request = AuthUserAddRequest {
        name: user.name.clone(),
        password: user.password.clone(),
        options: Some(UserAddOptions { no_password }),
        ..AuthUserAddRequest::default()
    };
    let _: AuthUserAddResponse = client.call("Auth/UserAdd", request);
}

fn large(client: &Client) {
    let mut rng = fastrand::Rng::with_seed(9);
    for number in 0..12_u32 {
        let length = (1 << 20) + rng.usize(..400_000);
        let value: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(length).collect();
        client.put(format!("large/{}", number % 9).as_bytes(), &value);
        client.put(&[b'k'; 5000], &value[..number as usize * 2500]);
        client.put(&[&[b'l'; 20_000][..], &[number as u8]].concat(), b"");
    }
    client.delete(b"large/3", b"");
}

fn small(client: &Client, keys: u32) {
    for batch in (0..keys).step_by(100) {
        let success = (batch..keys.min(batch + 100))
            .map(|number| put_op(format!("small/{number:08}").as_bytes(), &number.to_le_bytes()))
            .collect();
        client.txn(TxnRequest {
            success,
            ..TxnRequest::default()
        });
    }
}

fn range_delete(client: &Client) {
    small(client, 20_000);
    client.put(b"other", b"stays");
    client.delete(b"small/00001000", b"small/00018000");
    client.put(b"small/00005000", b"again");
}
