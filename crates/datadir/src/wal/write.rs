//! The log of a member that was restored from a snapshot and never ran.
//!
//! ```text
//! crc 0 | metadata | snapshot {0, 0} | an entry for each member, by id: it was added | hard state | snapshot {n, 1}
//! ```
//!
//! The bytes are those that etcd's own tool of the same minor writes; only the preallocated zeros after them are left
//! out. etcd goes on from a short file as from a long one, and a member that is restored a second time, or never
//! started, takes 64 MB less. 3.4 does not say who votes in its last record, and 3.7 leaves out numbers that are zero.
//!
//! In: who the members are. Out: a durable segment. Never: a log put where there is one.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use prost::Message as _;
use quorate_wire::etcdserverpb;
use quorate_wire::raftpb::{ConfChange, ConfChangeType, ConfState, Entry, EntryType, HardState};
use quorate_wire::walpb::Snapshot;

use super::encode::Encoder;
use super::frame::{TYPE_ENTRY, TYPE_METADATA, TYPE_SNAPSHOT, TYPE_STATE};
use super::segments::{self, SegmentName};
use crate::files::durable::{self, Draft};
use crate::{Error, Roster, Target};

/// The term of all that is in the log of a restored member.
pub(crate) const RESTORED_TERM: u64 = 1;

/// Writes the log of the restored member `me` into `wal_dir`, which is made if need be.
pub fn write_restored(wal_dir: &Path, me: u64, roster: &Roster, target: Target) -> Result<(), Error> {
    if !roster.members.iter().any(|member| member.id == me) {
        return Err(Error::refused(
            format!("{me:x} is no member of the cluster {:x}", roster.cluster_id),
            "write the log of one of its members",
        ));
    }
    let listed = segments::names(wal_dir).map_err(|source| Error::List {
        path: wal_dir.to_owned(),
        source,
    })?;
    let name = SegmentName {
        sequence: 0,
        first_index: 0,
    };
    if let Some(there) = listed.first() {
        let target = wal_dir.join(there.to_string());
        return Err(Error::TargetExists { target });
    }
    make_directory(wal_dir).map_err(Error::write(wal_dir))?;
    let path = wal_dir.join(name.to_string());
    let put = || -> io::Result<()> {
        let draft = Draft::of(&path)?;
        io::Write::write_all(&mut draft.file(), &restored(me, roster, target))?;
        draft.publish()
    };
    put().map_err(Error::write(&path))
}

/// Makes a directory for this user alone, and those that it is in; their names survive a power cut.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.is_dir())
        .collect();
    for path in missing.into_iter().rev() {
        fs::DirBuilder::new().mode(0o700).create(path)?;
        durable::sync_directory(durable::parent(path))?;
    }
    Ok(())
}

/// Who votes in the cluster that is restored.
pub(crate) fn conf_state(roster: &Roster, target: Target) -> ConfState {
    ConfState {
        voters: roster.members.iter().map(|member| member.id).collect(),
        auto_leave: (target < Target::V3_7).then_some(false),
        ..ConfState::default()
    }
}

/// The bytes of the segment.
fn restored(me: u64, roster: &Roster, target: Target) -> Vec<u8> {
    let mut log = Encoder::after(0);
    let metadata = etcdserverpb::Metadata {
        node_id: Some(me),
        cluster_id: Some(roster.cluster_id),
    };
    log.add(TYPE_METADATA, &metadata.encode_to_vec());
    let empty = Snapshot {
        index: Some(0),
        term: Some(0),
        conf_state: None,
    };
    log.add(TYPE_SNAPSHOT, &empty.encode_to_vec());
    for (index, member) in (1..).zip(&roster.members) {
        let change = ConfChange {
            id: (target < Target::V3_7).then_some(0),
            r#type: Some(ConfChangeType::ConfChangeAddNode.into()),
            node_id: Some(member.id),
            context: Some(member.json().into_bytes()),
        };
        let entry = Entry {
            r#type: Some(EntryType::EntryConfChange.into()),
            term: Some(RESTORED_TERM),
            index: Some(index),
            data: Some(change.encode_to_vec()),
        };
        log.add(TYPE_ENTRY, &entry.encode_to_vec());
    }
    let last = roster.members.len() as u64;
    let state = HardState {
        term: Some(RESTORED_TERM),
        vote: roster.members.first().map(|member| member.id),
        commit: Some(last),
    };
    log.add(TYPE_STATE, &state.encode_to_vec());
    let snapshot = Snapshot {
        index: Some(last),
        term: Some(RESTORED_TERM),
        conf_state: (target > Target::V3_4).then(|| conf_state(roster, target)),
    };
    log.add(TYPE_SNAPSHOT, &snapshot.encode_to_vec());
    log.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::{End, EntryKind, Log, SnapshotMark};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_log_is_written_once_and_can_be_read() {
        let roster = Roster::parse("a=http://a:1,b=http://b:1,c=http://c:1", "t").unwrap();
        let me = roster.members[1].id;
        for target in [Target::V3_4, Target::V3_5, Target::V3_6, Target::V3_7] {
            let dir = tempfile::tempdir().unwrap();
            let wal = dir.path().join("member/wal");
            write_restored(&wal, me, &roster, target).unwrap();
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            let segment = wal.join("0000000000000000-0000000000000000.wal");
            assert_eq!((mode(&wal), mode(&segment)), (0o700, 0o600));
            assert_eq!(wal.read_dir().unwrap().count(), 1, "no temporary file is left");

            let log = Log::read(&wal).unwrap();
            assert_eq!(*log.end(), End::Clean);
            let metadata = log.metadata().unwrap();
            assert_eq!((metadata.member_id, metadata.cluster_id), (me, roster.cluster_id));
            assert_eq!((log.last_index(), log.last_term(), log.state().commit), (3, 1, 3));
            assert_eq!(log.state().vote, roster.members[0].id);
            assert_eq!(log.snapshot(), Some(SnapshotMark { index: 3, term: 1 }));
            let mut entries = log.entries(1).unwrap();
            for member in &roster.members {
                let entry = entries.read_next().unwrap().unwrap();
                assert_eq!(entry.kind, EntryKind::ConfChange);
                let change = ConfChange::decode(entry.data).unwrap();
                assert_eq!(change.node_id, Some(member.id));
                assert_eq!(change.context.unwrap(), member.json().as_bytes());
            }
            assert_eq!(entries.read_next().unwrap(), None);

            let error = write_restored(&wal, me, &roster, target).unwrap_err();
            assert!(
                matches!(&error, Error::TargetExists { target } if *target == segment),
                "{error}"
            );
        }
        let error = write_restored(Path::new("/nowhere"), 1, &roster, Target::V3_6).unwrap_err();
        assert!(error.to_string().contains("1 is no member"), "{error}");
    }
}
