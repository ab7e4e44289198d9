//! Leases granted and revoked.
//!
//! In: a grant or a revocation. Out: the lease's row, and the deletion of its keys as one revision, in their order.

use prost::Message;
use quorate_wire::etcdserverpb::LeaseGrantRequest;
use quorate_wire::leasepb;

use super::Stop;
use super::keyspace::{Change, Row};
use super::store::{Lease, Store};

/// The longest time to live that etcd grants, in seconds.
const TTL_MAX: i64 = 9_000_000_000;

/// The shortest time to live that etcd grants with its default election timeout, in seconds: three halves of it,
/// rounded up. A member with a longer one raises short leases further, which its log does not tell.
pub const MIN_TTL_BY_DEFAULT: i64 = 2;

fn check(id: i64) -> Result<(), Stop> {
    if id < 0 || id == i64::MAX {
        // Up to 3.4.19 and 3.5.2 a restart forgets such a lease.
        return Err(Stop::because(format!("it names lease {id:x}")));
    }
    Ok(())
}

/// Grants a lease, unless there is one of that id.
pub(crate) fn grant(store: &mut Store, request: &LeaseGrantRequest) -> Result<Vec<Row>, Stop> {
    check(request.id)?;
    if request.id != 0 && request.ttl <= TTL_MAX && !store.leases.contains_key(&request.id) {
        let row = leasepb::Lease {
            id: request.id,
            ttl: request.ttl.max(MIN_TTL_BY_DEFAULT),
            remaining_ttl: 0,
        };
        store.write("lease", &request.id.to_be_bytes(), row.encode_to_vec());
        store.leases.insert(request.id, Lease::default());
    }
    Ok(Vec::new())
}

/// Revokes a lease, and deletes what is attached to it.
pub(crate) fn revoke(store: &mut Store, id: i64) -> Result<Vec<Row>, Stop> {
    check(id)?;
    let Some(lease) = store.leases.remove(&id) else {
        return Ok(Vec::new());
    };
    let mut change = Change::begin(store)?;
    for key in lease.keys {
        change.delete(key);
    }
    let rows = change.end();
    store.delete("lease", &id.to_be_bytes());
    Ok(rows)
}
