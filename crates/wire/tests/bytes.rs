//! Exact bytes of the messages that lie on disk, worked out by hand from field numbers and wire types.

use prost::Message as _;
use quorate_wire::etcdserverpb::{
    InternalRaftRequest, Metadata, PutRequest, RequestHeader, SnapshotResponse,
};
use quorate_wire::raftpb::{ConfState, Entry, EntryType, HardState};
use quorate_wire::{snappb, walpb};

#[test]
fn zero_scalars_are_written_where_present() {
    let state = HardState {
        term: Some(0),
        vote: Some(0),
        commit: Some(0),
    };
    assert_eq!(state.encode_to_vec(), [0x08, 0, 0x10, 0, 0x18, 0]);
    assert_eq!(HardState::default().encode_to_vec(), []);
    let joint = ConfState {
        voters: vec![1],
        auto_leave: Some(false),
        ..ConfState::default()
    };
    assert_eq!(joint.encode_to_vec(), [0x08, 1, 0x28, 0]);
}

#[test]
fn fields_are_written_in_the_order_of_their_numbers() {
    let entry = Entry {
        r#type: Some(EntryType::EntryNormal.into()),
        term: Some(2),
        index: Some(300),
        data: Some(vec![7]),
    };
    assert_eq!(
        entry.encode_to_vec(),
        [0x08, 0, 0x10, 2, 0x18, 0xac, 2, 0x22, 1, 7]
    );
    let metadata = Metadata {
        node_id: Some(1),
        cluster_id: Some(2),
    };
    assert_eq!(metadata.encode_to_vec(), [0x08, 1, 0x10, 2]);
    let record = walpb::Record {
        r#type: Some(4),
        crc: Some(5),
        data: None,
    };
    assert_eq!(record.encode_to_vec(), [0x08, 4, 0x10, 5]);
    let shell = snappb::Snapshot {
        crc: Some(5),
        data: Some(vec![]),
    };
    assert_eq!(shell.encode_to_vec(), [0x08, 5, 0x12, 0]);
    let place = walpb::Snapshot {
        index: Some(0),
        term: Some(0),
        conf_state: None,
    };
    assert_eq!(place.encode_to_vec(), [0x08, 0, 0x10, 0]);
}

#[test]
fn several_voters_are_written_one_by_one() {
    let state = ConfState {
        voters: vec![1, 2],
        ..ConfState::default()
    };
    assert_eq!(state.encode_to_vec(), [0x08, 1, 0x08, 2]);
}

#[test]
fn request_headers_lie_at_field_one_hundred() {
    let request = InternalRaftRequest {
        header: Some(RequestHeader {
            id: 9,
            ..RequestHeader::default()
        }),
        put: Some(PutRequest {
            key: b"k".to_vec(),
            ..PutRequest::default()
        }),
        ..InternalRaftRequest::default()
    };
    let bytes = request.encode_to_vec();
    assert_eq!(bytes, [0x22, 3, 0x0a, 1, b'k', 0xa2, 0x06, 2, 0x08, 9]);
    assert_eq!(InternalRaftRequest::decode(bytes.as_slice()).unwrap(), request);
}

#[test]
fn fields_of_newer_etcds_are_known_and_of_the_newest_ignored() {
    let bytes = [0x10, 1, 0x1a, 1, 7, 0x22, 3, b'3', b'.', b'6', 0x98, 0x06, 1];
    let piece = SnapshotResponse::decode(bytes.as_slice()).unwrap();
    assert_eq!(
        (piece.remaining_bytes, piece.blob.as_ref(), piece.version.as_str()),
        (1, [7].as_slice(), "3.6")
    );
}
