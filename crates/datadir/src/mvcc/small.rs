//! Rows of the buckets beside `key`: leases, alarms, members, users and roles, the numbers in `meta`.
//!
//! In: a row. Out: what it says, or that it is not what etcd writes there. Never: a row of an unknown bucket refused:
//! a newer etcd may have more of them.

use prost::Message;
use quorate_wire::{authpb, etcdserverpb, leasepb};

use super::buckets::{bucket, meta};
use super::row::Revision;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub id: i64,
    /// How long it lives after a renewal, in seconds.
    pub ttl: i64,
}

impl Lease {
    /// Reads a row of the bucket `lease`.
    pub fn read(key: &[u8], value: &[u8]) -> Result<Lease, &'static str> {
        let id = key.try_into().map_err(|_| "its key is not the id of a lease")?;
        let id = i64::from_be_bytes(id);
        let lease = exact::<leasepb::Lease>(value).ok_or("its value is not a lease")?;
        if lease.id != id || lease.ttl < 0 {
            return Err("its value is another lease than its key says");
        }
        Ok(Lease { id, ttl: lease.ttl })
    }
}

/// The row of a lease in the bucket `lease`: its key, and its value.
pub(crate) fn lease_row(lease: Lease) -> ([u8; 8], Vec<u8>) {
    let value = leasepb::Lease {
        id: lease.id,
        ttl: lease.ttl,
        remaining_ttl: 0,
    };
    (lease.id.to_be_bytes(), value.encode_to_vec())
}

/// Is this row what etcd writes into bucket `name`?
pub(crate) fn check(name: &[u8], key: &[u8], value: &[u8]) -> Result<(), &'static str> {
    match name {
        bucket::LEASE => Lease::read(key, value).map(drop),
        bucket::ALARM => {
            let alarm = exact::<etcdserverpb::AlarmMember>(key).ok_or("its key is not an alarm")?;
            if value.is_empty() && alarm.alarm != 0 {
                Ok(())
            } else {
                Err("it is not an alarm")
            }
        }
        bucket::MEMBERS => {
            let id = member(key)?;
            let read: serde_json::Value =
                serde_json::from_slice(value).map_err(|_| "its value is not a member")?;
            if read.get("id").and_then(serde_json::Value::as_u64) == Some(id) {
                Ok(())
            } else {
                Err("its value is another member than its key says")
            }
        }
        bucket::MEMBERS_REMOVED => {
            member(key)?;
            if value == b"removed" {
                Ok(())
            } else {
                Err("it does not say that the member was removed")
            }
        }
        b"authUsers" => match exact::<authpb::User>(value) {
            Some(user) if user.name == key => Ok(()),
            _ => Err("its value is not the user its key says"),
        },
        b"authRoles" => match exact::<authpb::Role>(value) {
            Some(role) if role.name == key => Ok(()),
            _ => Err("its value is not the role its key says"),
        },
        bucket::META => match key {
            meta::CONSISTENT_INDEX | meta::TERM if value.len() != 8 => {
                Err("it is not a number of eight bytes")
            }
            meta::SCHEDULED_COMPACTION | meta::FINISHED_COMPACTION if Revision::read(value).is_none() => {
                Err("it is not a revision")
            }
            _ => Ok(()),
        },
        b"auth" => match (key, value) {
            (b"authEnabled", [0 | 1]) => Ok(()),
            (b"authEnabled", _) => Err("it is neither on nor off"),
            (b"authRevision", value) if value.len() != 8 => Err("it is not a number of eight bytes"),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn member(key: &[u8]) -> Result<u64, &'static str> {
    let text = std::str::from_utf8(key).map_err(|_| "its key is not a member's id")?;
    u64::from_str_radix(text, 16).map_err(|_| "its key is not a member's id")
}

/// A message whose bytes are those an encoder writes.
fn exact<M: Message + Default>(bytes: &[u8]) -> Option<M> {
    let read = M::decode(bytes).ok()?;
    (read.encode_to_vec() == bytes).then_some(read)
}
