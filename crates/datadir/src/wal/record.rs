//! What the records of a log say, by their types.
//!
//! The log's checksums hold for the data of a record, not for its type: a flipped bit there makes one kind of record
//! look like another. So each kind is held to what etcd never writes otherwise: a hard state has a term and no fourth
//! field, an entry has a term, an index and a known type, and a change of members says which.
//!
//! In: a record whose checksum holds. Out: [`Record`], data borrowed. Never: one kind taken for another after a flip
//! of one bit.

use super::field::{Broken, Field, for_each};
use super::frame::{RawRecord, TYPE_CRC, TYPE_ENTRY, TYPE_METADATA, TYPE_SNAPSHOT, TYPE_STATE};

/// A record of a log, other than its checksum records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// Whose log it is; at the head of each segment.
    Metadata(Metadata),
    /// A raft entry. A later one of the same or a lower index overwrites it and all that follow it.
    Entry(Entry<'a>),
    /// The raft hard state from here on.
    State(HardState),
    /// A raft snapshot was taken, or received, before this was written.
    Snapshot(SnapshotMark),
}

/// Whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    pub member_id: u64,
    pub cluster_id: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What its data is.
    pub kind: EntryKind,
    /// The term of the leader that made it.
    pub term: u64,
    /// Its place in the raft log.
    pub index: u64,
    /// A request, or a change of members. Empty where a new leader announces itself.
    pub data: &'a [u8],
}

/// What an entry's data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    Normal,
    /// A change of members.
    ConfChange,
    /// Changes of members, in the newer form.
    ConfChangeV2,
}

/// A raft hard state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HardState {
    /// The newest term this member knows of.
    pub term: u64,
    /// Who it voted for in that term; 0 for no one.
    pub vote: u64,
    /// The last entry it knows to be committed.
    pub commit: u64,
}

/// A raft snapshot as the log tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotMark {
    /// The last entry in it.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
}

pub(crate) fn typed(raw: RawRecord<'_>) -> Result<Record<'_>, Broken> {
    match raw.kind {
        TYPE_METADATA => metadata(raw.data).map(Record::Metadata),
        TYPE_ENTRY => entry(raw.data).map(Record::Entry),
        TYPE_STATE => state(raw.data).map(Record::State),
        TYPE_SNAPSHOT => snapshot(raw.data).map(Record::Snapshot),
        TYPE_CRC => Err("a checksum record stands where none belongs"),
        _ => Err("a record is of a type that is not known"),
    }
}

/// Whose log it is, as a metadata record says.
pub(crate) fn metadata(data: &[u8]) -> Result<Metadata, Broken> {
    let (mut member_id, mut cluster_id) = (0, 0);
    for_each(data, |field| {
        match field {
            Field::Varint(1, id) => member_id = id,
            Field::Varint(2, id) => cluster_id = id,
            // Later versions of etcd may say more.
            Field::Varint(..) | Field::Bytes(..) => {}
        }
        Ok(())
    })?;
    if member_id == 0 || cluster_id == 0 {
        return Err("it does not say whose log it is");
    }
    Ok(Metadata {
        member_id,
        cluster_id,
    })
}

fn entry(data: &[u8]) -> Result<Entry<'_>, Broken> {
    let (mut kind, mut term, mut index, mut request) = (0, 0, 0, &[][..]);
    for_each(data, |field| {
        match field {
            Field::Varint(1, value) => kind = value,
            Field::Varint(2, value) => term = value,
            Field::Varint(3, value) => index = value,
            Field::Bytes(4, value) => request = value,
            // Later versions of etcd may say more.
            Field::Varint(..) | Field::Bytes(..) => {}
        }
        Ok(())
    })?;
    let kind = match kind {
        0 => EntryKind::Normal,
        1 => EntryKind::ConfChange,
        2 => EntryKind::ConfChangeV2,
        _ => return Err("an entry is of a type that is not known"),
    };
    if term == 0 || index == 0 {
        return Err("an entry has no term or no index");
    }
    if kind != EntryKind::Normal && request.is_empty() {
        return Err("a change of members does not say which");
    }
    Ok(Entry {
        kind,
        term,
        index,
        data: request,
    })
}

fn state(data: &[u8]) -> Result<HardState, Broken> {
    let mut state = HardState::default();
    for_each(data, |field| {
        match field {
            Field::Varint(1, value) => state.term = value,
            Field::Varint(2, value) => state.vote = value,
            Field::Varint(3, value) => state.commit = value,
            _ => return Err("a hard state holds a field that hard states do not have"),
        }
        Ok(())
    })?;
    if state.term == 0 {
        return Err("a hard state has no term");
    }
    Ok(state)
}

fn snapshot(data: &[u8]) -> Result<SnapshotMark, Broken> {
    let mut mark = SnapshotMark { index: 0, term: 0 };
    for_each(data, |field| {
        match field {
            Field::Varint(1, value) => mark.index = value,
            Field::Varint(2, value) => mark.term = value,
            // From 3.5 on, who votes; later versions of etcd may say more.
            Field::Varint(..) | Field::Bytes(..) => {}
        }
        Ok(())
    })?;
    Ok(mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(kind: i64, data: &[u8]) -> Result<Record<'_>, Broken> {
        typed(RawRecord { kind, crc: 0, data })
    }

    #[test]
    fn every_kind_is_read() {
        let of_3_6 = [8, 0, 16, 2, 24, 9, 34, 1, 7];
        let of_3_7 = [16, 2, 24, 9, 34, 1, 7];
        for data in [&of_3_6[..], &of_3_7] {
            let expected = Entry {
                kind: EntryKind::Normal,
                term: 2,
                index: 9,
                data: &[7],
            };
            assert_eq!(read(2, data), Ok(Record::Entry(expected)));
        }
        let state = HardState {
            term: 2,
            vote: 3,
            commit: 4,
        };
        assert_eq!(read(3, &[8, 2, 16, 3, 24, 4]), Ok(Record::State(state)));
        let mark = SnapshotMark { index: 5, term: 6 };
        assert_eq!(read(5, &[8, 5, 16, 6, 26, 2, 8, 1]), Ok(Record::Snapshot(mark)));
        assert_eq!(
            read(5, &[]),
            Ok(Record::Snapshot(SnapshotMark { index: 0, term: 0 }))
        );
    }

    #[test]
    fn one_kind_is_not_taken_for_another() {
        let announcement = [8, 0, 16, 2, 24, 9];
        let request = [8, 0, 16, 2, 24, 9, 34, 1, 7];
        for entry in [&announcement[..], &announcement[2..], &request] {
            assert!(read(2, entry).is_ok());
            assert!(read(3, entry).is_err(), "{entry:?}");
        }
        for term in 1..20 {
            let state = [8, term, 16, 3, 24, 4];
            assert!(read(3, &state).is_ok());
            assert!(read(2, &state).is_err(), "{state:?}");
        }
        for kind in [0, 4, 6, 7, -1] {
            assert!(read(kind, &request).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_data_is_judged_without_a_panic(kind in 0i64..7, data: Vec<u8>) {
            let _ = read(kind, &data);
        }
    }
}
