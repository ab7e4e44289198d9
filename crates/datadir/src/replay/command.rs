//! An entry of the log as a command: what it asks of the store, or that this is not exactly known here.
//!
//! In: an entry as it stands in the log. Out: a [`Command`]. Never: a command whose bytes were not understood to the
//! last: what a newer etcd added to a request could mean anything.

use prost::Message;
use quorate_wire::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, InternalRaftRequest, LeaseGrantRequest, PutRequest, TxnRequest,
};
use quorate_wire::raftpb::{ConfChange, ConfChangeType};

use super::v2;
use crate::wal::{Entry, EntryKind};

/// A request of the version 2 API that does more than to read.
pub(crate) const V2: &str = "version 2 request";
/// A change of several members at once.
pub(crate) const MEMBERS_TWO: &str = "member change, second form";
/// A downgrade begun or ended.
pub(crate) const DOWNGRADE: &str = "downgrade";

/// What an entry asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    /// Nothing that changes the store: a new leader's first entry, or a read.
    Nothing(&'static str),
    Put(PutRequest),
    DeleteRange(DeleteRangeRequest),
    Txn(TxnRequest),
    Compaction(CompactionRequest),
    LeaseGrant(LeaseGrantRequest),
    /// The lease to end.
    LeaseRevoke(i64),
    /// The version that the whole cluster is at least.
    ClusterVersion(String),
    /// A member's name and client URLs.
    Attributes(Attributes),
    Member(ConfChange),
    /// A kind whose effect is not exactly known here.
    Other(&'static str),
}

/// A member says how it is called and where its clients reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) member: u64,
    pub(crate) name: String,
    pub(crate) client_urls: Vec<String>,
}

impl Command {
    /// What `entry` asks for.
    pub(crate) fn of(entry: &Entry<'_>) -> Command {
        match entry.kind {
            EntryKind::Normal if entry.data.is_empty() => Command::Nothing("no-op"),
            EntryKind::Normal => request(entry.data),
            EntryKind::ConfChange => member(entry.data),
            EntryKind::ConfChangeV2 => Command::Other(MEMBERS_TWO),
        }
    }

    /// Its kind, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Command::Nothing(kind) | Command::Other(kind) => kind,
            Command::Put(_) => "put",
            Command::DeleteRange(_) => "delete",
            Command::Txn(_) => "txn",
            Command::Compaction(_) => "compaction",
            Command::LeaseGrant(_) => "lease grant",
            Command::LeaseRevoke(_) => "lease revoke",
            Command::ClusterVersion(_) => "cluster version",
            Command::Attributes(_) => "member attributes",
            Command::Member(change) => match change.r#type() {
                ConfChangeType::ConfChangeAddNode => "member add",
                ConfChangeType::ConfChangeRemoveNode => "member remove",
                ConfChangeType::ConfChangeUpdateNode => "member update",
                ConfChangeType::ConfChangeAddLearnerNode => "learner add",
            },
        }
    }
}

fn member(data: &[u8]) -> Command {
    match ConfChange::decode(data) {
        Ok(change)
            if change.encoded_len() == data.len()
                && ConfChangeType::try_from(change.r#type.unwrap_or(0)).is_ok() =>
        {
            Command::Member(change)
        }
        _ => Command::Other("unreadable member change"),
    }
}

fn request(data: &[u8]) -> Command {
    if let Some(command) = v2::read(data) {
        return command;
    }
    let Ok(request) = InternalRaftRequest::decode(data) else {
        return Command::Other("unreadable request");
    };
    // Every byte belongs to a field that is known here, or the length would differ.
    if request.encoded_len() != data.len() {
        return Command::Other("request with unknown fields");
    }
    one(request).unwrap_or(Command::Other("request of several kinds, or of none"))
}

/// The one thing that `request` asks for; etcd itself would look at the first of several.
fn one(request: InternalRaftRequest) -> Option<Command> {
    let InternalRaftRequest {
        id: _,
        header: _,
        range,
        put,
        delete_range,
        txn,
        compaction,
        lease_grant,
        lease_revoke,
        alarm,
        lease_checkpoint,
        auth_enable,
        auth_disable,
        authenticate,
        auth_status,
        auth_user_add,
        auth_user_delete,
        auth_user_get,
        auth_user_change_password,
        auth_user_grant_role,
        auth_user_revoke_role,
        auth_user_list,
        auth_role_list,
        auth_role_add,
        auth_role_delete,
        auth_role_get,
        auth_role_grant_permission,
        auth_role_revoke_permission,
        cluster_version_set,
        cluster_member_attr_set,
        downgrade_info_set,
        downgrade_version_test,
    } = request;
    let other = |kind: &'static str| Command::Other(kind);
    let attributes = cluster_member_attr_set.map(|set| {
        let attributes = set.member_attributes.unwrap_or_default();
        Command::Attributes(Attributes {
            member: set.member_id,
            name: attributes.name,
            client_urls: attributes.client_urls,
        })
    });
    // Asking for alarms goes through the log; only raising and ending them changes something.
    let alarm = alarm.map(|alarm| match alarm.action {
        0 => Command::Nothing("alarm list"),
        _ => Command::Other("alarm"),
    });
    let asked = [
        range.map(|_| Command::Nothing("range")),
        put.map(Command::Put),
        delete_range.map(Command::DeleteRange),
        txn.map(Command::Txn),
        compaction.map(Command::Compaction),
        lease_grant.map(Command::LeaseGrant),
        lease_revoke.map(|revoke| Command::LeaseRevoke(revoke.id)),
        alarm,
        lease_checkpoint.map(|_| other("lease checkpoint")),
        auth_enable.map(|_| other("auth enable")),
        auth_disable.map(|_| other("auth disable")),
        authenticate.map(|_| other("authenticate")),
        auth_status.map(|_| Command::Nothing("auth status")),
        auth_user_add.map(|_| other("user add")),
        auth_user_delete.map(|_| other("user delete")),
        auth_user_get.map(|_| Command::Nothing("user get")),
        auth_user_change_password.map(|_| other("user password")),
        auth_user_grant_role.map(|_| other("user grant")),
        auth_user_revoke_role.map(|_| other("user revoke")),
        auth_user_list.map(|_| Command::Nothing("user list")),
        auth_role_list.map(|_| Command::Nothing("role list")),
        auth_role_add.map(|_| other("role add")),
        auth_role_delete.map(|_| other("role delete")),
        auth_role_get.map(|_| Command::Nothing("role get")),
        auth_role_grant_permission.map(|_| other("role grant")),
        auth_role_revoke_permission.map(|_| other("role revoke")),
        cluster_version_set.map(|set| Command::ClusterVersion(set.ver)),
        attributes,
        downgrade_info_set.map(|_| other(DOWNGRADE)),
        downgrade_version_test.map(|_| other("downgrade test")),
    ];
    let mut asked = asked.into_iter().flatten();
    match (asked.next(), asked.next()) {
        (Some(command), None) => Some(command),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use quorate_wire::etcdserverpb::{AlarmRequest, RequestHeader};

    use super::*;

    fn read(request: &InternalRaftRequest) -> Command {
        let data = request.encode_to_vec();
        Command::of(&Entry {
            index: 1,
            term: 1,
            kind: EntryKind::Normal,
            data: &data,
        })
    }

    #[test]
    fn one_request_is_one_command() {
        let put = PutRequest {
            key: b"a".into(),
            ..Default::default()
        };
        let mut request = InternalRaftRequest {
            id: 7,
            put: Some(put.clone()),
            header: Some(RequestHeader {
                id: 7,
                username: "root".into(),
                auth_revision: 3,
            }),
            ..Default::default()
        };
        assert_eq!(read(&request), Command::Put(put));
        request.lease_revoke = Some(quorate_wire::etcdserverpb::LeaseRevokeRequest { id: 1 });
        assert!(matches!(read(&request), Command::Other(_)), "two at once");
        assert!(matches!(
            read(&InternalRaftRequest {
                id: 7,
                ..Default::default()
            }),
            Command::Other(_)
        ));
    }

    #[test]
    fn what_is_not_understood_to_the_last_byte_is_other() {
        let request = InternalRaftRequest {
            put: Some(PutRequest {
                key: b"a".into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let mut data = request.encode_to_vec();
        let entry = |data: &[u8]| {
            Command::of(&Entry {
                index: 1,
                term: 1,
                kind: EntryKind::Normal,
                data,
            })
        };
        assert_eq!(entry(&data).kind(), "put");
        data.extend([0xf8, 0x7f, 1]);
        assert_eq!(entry(&data), Command::Other("request with unknown fields"));
        assert_eq!(
            entry(&data[..data.len() - 1]),
            Command::Other("unreadable request")
        );
        // An unknown field inside the put.
        assert_eq!(
            entry(&[0x22, 6, 0x0a, 1, b'a', 0xf8, 0x07, 1]),
            Command::Other("request with unknown fields")
        );
    }

    #[test]
    fn reads_change_nothing() {
        let alarm = |action| {
            read(&InternalRaftRequest {
                alarm: Some(AlarmRequest {
                    action,
                    member_id: 0,
                    alarm: 0,
                }),
                ..Default::default()
            })
        };
        assert_eq!(alarm(0), Command::Nothing("alarm list"));
        assert_eq!(alarm(1), Command::Other("alarm"));
        assert_eq!(alarm(2), Command::Other("alarm"));
        assert_eq!(
            Command::of(&Entry {
                index: 3,
                term: 2,
                kind: EntryKind::Normal,
                data: &[]
            }),
            Command::Nothing("no-op")
        );
    }

    #[test]
    fn member_changes_are_told_apart() {
        let of = |kind, data: &[u8]| {
            Command::of(&Entry {
                index: 1,
                term: 1,
                kind,
                data,
            })
            .kind()
        };
        for (kind, name) in [
            (0, "member add"),
            (1, "member remove"),
            (2, "member update"),
            (3, "learner add"),
        ] {
            assert_eq!(of(EntryKind::ConfChange, &[8, 0, 16, kind, 24, 5]), name);
        }
        assert_eq!(
            of(EntryKind::ConfChange, &[8, 0, 16, 9, 24, 5]),
            "unreadable member change"
        );
        assert_eq!(of(EntryKind::ConfChange, &[0xff]), "unreadable member change");
        assert_eq!(of(EntryKind::ConfChangeV2, &[]), "member change, second form");
    }
}
