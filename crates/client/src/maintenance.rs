//! One member's own state: status, alarms, hashes, defragmentation.
//!
//! In: nothing but the endpoint. Out: plain data. Status answers without a quorum; alarms do not, because
//! etcd sends even the question through consensus.

use quorate_wire::etcdserverpb::alarm_request::AlarmAction;
use quorate_wire::etcdserverpb::{
    AlarmRequest, AlarmType, DefragmentRequest, HashKvRequest, StatusRequest, StatusResponse,
};

use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::stub::maintenance_client::MaintenanceClient;

/// One member's state, as it sees itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub cluster_id: u64,
    pub member_id: u64,
    /// The revision of its store.
    pub revision: i64,
    /// The term it is in.
    pub raft_term: u64,
    /// The leader it knows of.
    pub leader: Option<u64>,
    /// The version it runs.
    pub version: String,
    /// The size of its database file, in bytes.
    pub db_size: u64,
    /// The part of that which is in use, in bytes.
    pub db_size_in_use: u64,
    /// The quota on that, in bytes; told since 3.6.
    pub db_size_quota: Option<u64>,
    /// The last committed index it knows of.
    pub raft_index: u64,
    /// The last index it has applied.
    pub raft_applied_index: u64,
    /// Whether it only follows, without a vote.
    pub is_learner: bool,
    /// What it complains of: alarms, a missing leader.
    pub errors: Vec<String>,
    /// The version of its stored data; told since 3.6.
    pub storage_version: Option<String>,
    /// The version a downgrade under way leads to; told since 3.6.
    pub downgrade_target: Option<String>,
}

/// An alarm, and the member it was raised for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Alarm {
    pub member_id: u64,
    pub kind: AlarmKind,
}

/// What an alarm says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlarmKind {
    /// The database is at its quota.
    NoSpace,
    /// The member's data differs from the others'.
    Corrupt,
    /// A kind this client does not know.
    Unknown(i32),
}

impl From<i32> for AlarmKind {
    fn from(code: i32) -> Self {
        match AlarmType::try_from(code) {
            Ok(AlarmType::Nospace) => AlarmKind::NoSpace,
            Ok(AlarmType::Corrupt) => AlarmKind::Corrupt,
            Ok(AlarmType::None) | Err(_) => AlarmKind::Unknown(code),
        }
    }
}

impl From<AlarmKind> for i32 {
    fn from(kind: AlarmKind) -> i32 {
        match kind {
            AlarmKind::NoSpace => AlarmType::Nospace.into(),
            AlarmKind::Corrupt => AlarmType::Corrupt.into(),
            AlarmKind::Unknown(code) => code,
        }
    }
}

/// A hash over all keys up to a revision; equal revisions must give equal hashes on all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKv {
    pub hash: u32,
    /// The member's current revision.
    pub revision: i64,
    /// The revision it is compacted to; hashes compare only where this is equal.
    pub compact_revision: i64,
    /// The revision that was hashed; told since 3.6.
    pub hash_revision: Option<i64>,
}

fn bytes(size: i64) -> u64 {
    u64::try_from(size).unwrap_or(0)
}

fn told(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl Endpoint {
    /// Asks the member how it is. Needs no quorum.
    pub async fn status(&self) -> Result<Status, Error> {
        let send = |channel, request| async move { MaintenanceClient::new(channel).status(request).await };
        let mut response: StatusResponse = self.call(Operation::Status, StatusRequest {}, send).await?;
        let header = self.header(Operation::Status, response.header.take())?;
        Ok(Status {
            cluster_id: header.cluster_id,
            member_id: header.member_id,
            revision: header.revision,
            raft_term: response.raft_term,
            leader: (response.leader != 0).then_some(response.leader),
            version: response.version,
            db_size: bytes(response.db_size),
            db_size_in_use: bytes(response.db_size_in_use),
            db_size_quota: (response.db_size_quota > 0).then(|| bytes(response.db_size_quota)),
            raft_index: response.raft_index,
            raft_applied_index: response.raft_applied_index,
            is_learner: response.is_learner,
            errors: response.errors,
            storage_version: told(response.storage_version),
            downgrade_target: response
                .downgrade_info
                .filter(|info| info.enabled)
                .and_then(|info| told(info.target_version)),
        })
    }

    /// The raised alarms. Needs a quorum; [`Status::errors`] shows them without.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, Error> {
        let request = AlarmRequest {
            action: AlarmAction::Get.into(),
            ..AlarmRequest::default()
        };
        let send = |channel, request| async move { MaintenanceClient::new(channel).alarm(request).await };
        let response = self.call(Operation::Alarms, request, send).await?;
        let alarm = |raised: quorate_wire::etcdserverpb::AlarmMember| Alarm {
            member_id: raised.member_id,
            kind: raised.alarm.into(),
        };
        Ok(response.alarms.into_iter().map(alarm).collect())
    }

    pub async fn disarm(&self, alarm: Alarm) -> Result<(), Error> {
        let request = AlarmRequest {
            action: AlarmAction::Deactivate.into(),
            member_id: alarm.member_id,
            alarm: alarm.kind.into(),
        };
        let send = |channel, request| async move { MaintenanceClient::new(channel).alarm(request).await };
        self.call(Operation::Disarm, request, send).await.map(|_| ())
    }

    /// Hashes the member's keys up to a revision; 0 means all.
    pub async fn hash_kv(&self, revision: i64) -> Result<HashKv, Error> {
        let send = |channel, request| async move { MaintenanceClient::new(channel).hash_kv(request).await };
        let response = self
            .call(Operation::HashKv, HashKvRequest { revision }, send)
            .await?;
        let header = self.header(Operation::HashKv, response.header)?;
        Ok(HashKv {
            hash: response.hash,
            revision: header.revision,
            compact_revision: response.compact_revision,
            hash_revision: (response.hash_revision > 0).then_some(response.hash_revision),
        })
    }

    /// Rewrites the member's database file without its free pages. The member serves nothing meanwhile, so
    /// bound this generously with [`Endpoint::within`].
    pub async fn defragment(&self) -> Result<(), Error> {
        let send =
            |channel, request| async move { MaintenanceClient::new(channel).defragment(request).await };
        self.call(Operation::Defragment, DefragmentRequest {}, send)
            .await
            .map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarm_kinds_survive_the_wire() {
        for code in 0..5 {
            assert_eq!(i32::from(AlarmKind::from(code)), code);
        }
        assert_eq!(AlarmKind::from(1), AlarmKind::NoSpace);
        assert_eq!(AlarmKind::from(2), AlarmKind::Corrupt);
    }
}
