//! Logs made by hand: cut, flipped, torn.

use std::fs;

use super::super::encode::Encoder;
use super::*;
use proptest::prelude::*;

/// A record that owns its data.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owned(Position, String, Vec<u8>);

/// All records of a log of these segments, and its end.
fn read_all(segments: &[&[u8]]) -> (Vec<Owned>, End) {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), segments);
    read_dir(dir.path())
}

fn read_dir(dir: &Path) -> (Vec<Owned>, End) {
    let mut reader = Reader::open(dir).unwrap();
    let mut records = Vec::new();
    while let Some(Found { position, record }) = reader.read_next().unwrap() {
        let data = match record {
            Record::Entry(entry) => entry.data.to_vec(),
            _ => Vec::new(),
        };
        records.push(Owned(position, format!("{record:?}"), data));
    }
    (records, reader.end().unwrap().clone())
}

/// Writes segments named as if each began with the next ten entries.
pub(crate) fn put(dir: &Path, segments: &[&[u8]]) {
    for (sequence, bytes) in (0..).zip(segments) {
        let name = SegmentName {
            sequence,
            first_index: sequence * 10,
        };
        fs::write(dir.join(name.to_string()), bytes).unwrap();
    }
}

/// Two segments: members, requests of several sizes, an overwritten entry, snapshots.
fn two_segments() -> [Vec<u8>; 2] {
    two_segments_with(&[7; 600])
}

fn two_segments_with(request: &[u8]) -> [Vec<u8>; 2] {
    let first = Encoder::first_segment(7, 8)
        .entry(1, 1, b"one")
        .entry(1, 2, request)
        .state(2, 7, 2)
        .entry(2, 3, b"")
        .state(2, 7, 3)
        .snapshot(2, 1);
    let second = Encoder::segment(first.chain(), 7, 8)
        .state(2, 7, 3)
        .entry(2, 4, b"stale")
        .entry(3, 4, b"four")
        .state(3, 9, 4);
    [first.into_bytes(), second.into_bytes()]
}

#[test]
fn records_come_in_order_with_their_positions() {
    let [first, second] = two_segments();
    let padded = [&second[..], &[0; 5000]].concat();
    let (records, end) = read_all(&[&first, &padded]);
    assert_eq!(end, End::Clean);
    assert_eq!(read_all(&[&first, &second]), (records.clone(), End::Clean));
    let kinds: Vec<_> = records
        .iter()
        .map(|owned| owned.1.split('(').next().unwrap())
        .collect();
    let expected =
        "Metadata Snapshot Entry Entry State Entry State Snapshot Metadata State Entry Entry State";
    assert_eq!(kinds.join(" "), expected);
    assert!(records.is_sorted_by_key(|owned| owned.0));
    assert_eq!(records[3].2, [7; 600]);
    assert_eq!(records[11].2, b"four");
    let place = Position {
        segment: 0,
        offset: 16,
    };
    assert_eq!(records[0].0, place);
    // The first records are read again from their positions.
    for (at, owned) in records.iter().enumerate() {
        assert!(owned.0.offset % 8 == 0 && owned.0.segment == usize::from(at > 7));
    }
}

#[test]
fn every_cut_of_the_last_segment_is_what_etcd_would_cut() {
    let [first, second] = two_segments();
    let (whole, _) = read_all(&[&first, &second]);
    let starts: Vec<u64> = {
        let mut starts = vec![0, 16];
        starts.extend(
            whole
                .iter()
                .filter(|owned| owned.0.segment == 1)
                .map(|owned| owned.0.offset),
        );
        starts
    };
    for length in 0..second.len() {
        let (records, end) = read_all(&[&first, &second[..length]]);
        assert!(whole.starts_with(&records), "{length}");
        let length = length as u64;
        let begun = *starts.iter().rfind(|start| **start <= length).unwrap();
        match end {
            End::Clean => {
                assert!(begun == length || second[usize::try_from(begun).unwrap()..].starts_with(&[0]))
            }
            End::Torn { offset, bytes, .. } => {
                assert_eq!(offset, begun);
                assert!(bytes > 0 && offset + bytes <= length);
            }
            End::Damaged { .. } => panic!("{length}: {end:?}"),
        }
    }
    // With nothing before it, a cut in the head leaves a log of no one.
    for length in 0..first.len() {
        let (_, end) = read_all(&[&first[..length]]);
        let nobody = length < 16 + 8 + 16;
        assert_eq!(matches!(end, End::Damaged { .. }), nobody, "{length}: {end:?}");
    }
    // In a segment that another follows, every cut is damage.
    for length in 0..first.len() {
        let (_, end) = read_all(&[&first[..length], &second]);
        assert!(matches!(end, End::Damaged { .. }), "{length}: {end:?}");
    }
}

/// Every flipped bit is found, or is of no consequence: then it is in a frame's padding, and the records are the same.
#[test]
fn every_flipped_bit_is_found() {
    let [first, second] = two_segments_with(b"request");
    let (whole, _) = read_all(&[&first, &second]);
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &[&first, &second]);
    let mut harmless = 0;
    for (segment, bytes) in [&first, &second].into_iter().enumerate() {
        let name = Reader::open(dir.path()).unwrap().segments()[segment].to_string();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(dir.path().join(&name), flipped).unwrap();
            let (records, end) = read_dir(dir.path());
            if end == End::Clean {
                assert_eq!(records, whole, "segment {segment}, bit {bit}");
                harmless += 1;
                continue;
            }
            assert!(
                whole.starts_with(&records),
                "segment {segment}, bit {bit}: {records:?}"
            );
            if let End::Torn { path, .. } = &end {
                assert!(segment == 1 && path.ends_with(SEGMENT_ONE), "bit {bit}: {end:?}");
            }
        }
        fs::write(dir.path().join(&name), bytes).unwrap();
    }
    let padding: usize = [&first, &second]
        .into_iter()
        .map(|bytes| padding_bits(bytes))
        .sum();
    assert_eq!(harmless, padding);
}

const SEGMENT_ONE: &str = "0000000000000001-000000000000000a.wal";

fn padding_bits(mut bytes: &[u8]) -> usize {
    let mut bits = 0;
    while let Some((field, rest)) = bytes.split_first_chunk::<8>() {
        let length = Length::of(u64::from_le_bytes(*field)).unwrap();
        bits += usize::try_from(length.padding).unwrap() * 8;
        bytes = &rest[usize::try_from(length.body()).unwrap()..];
    }
    bits
}

#[test]
fn a_write_of_which_a_sector_is_missing_is_torn_only_at_the_end() {
    let [first, second] = two_segments();
    let before = Encoder::segment(0, 7, 8).snapshot(0, 0).len();
    let log = Encoder::first_segment(7, 8).entry(1, 1, &[7; 2000]).into_bytes();
    let mut torn = log.clone();
    torn[1024..1536].fill(0);
    let (records, end) = read_all(&[&torn]);
    assert_eq!(records.len(), 2);
    let End::Torn { offset, bytes, .. } = end else {
        panic!("{end:?}");
    };
    let lost = log.iter().rposition(|byte| *byte != 0).unwrap() + 1 - before;
    assert_eq!((offset, bytes), (before as u64, lost as u64));
    // Not a whole sector, or not the last segment: something else than a power cut did it.
    let mut damaged = log.clone();
    damaged[1025..1536].fill(0);
    assert!(matches!(read_all(&[&damaged]).1, End::Damaged { offset, .. } if offset == before as u64));
    let follower = Encoder::segment(0, 7, 8).into_bytes();
    assert!(
        matches!(read_all(&[&torn, &follower]).1, End::Damaged { offset, .. } if offset == before as u64)
    );
    // Something behind zeros was not finished either.
    let hole = [&second[..], &[0; 600], &[1]].concat();
    let (_, end) = read_all(&[&first, &hole]);
    assert!(
        matches!(end, End::Torn { offset, bytes: 601, .. } if offset == second.len() as u64),
        "{end:?}"
    );
}

#[test]
fn segments_of_others_and_missing_ones_are_damage() {
    let [first, second] = two_segments();
    let why = |segments: &[&[u8]]| match read_all(segments).1 {
        End::Damaged { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&[]), "there is no log in it");
    let chain = {
        let mut reader_chain = 0;
        let mut rest = &first[..];
        while let Ok((record, after)) = frame::next(rest) {
            (reader_chain, rest) = (record.crc, after);
        }
        reader_chain
    };
    let foreign = Encoder::segment(chain, 7, 9).into_bytes();
    assert!(why(&[&first, &foreign]).contains("another member"));
    let unchained = Encoder::segment(chain ^ 1, 7, 8).into_bytes();
    assert!(why(&[&first, &unchained]).contains("segment before it left"));
    assert!(why(&[&second]).contains("none before it left"));
    assert!(why(&[&first, b"", &second]).contains("no head"));
    let backwards = Encoder::first_segment(7, 8)
        .state(3, 7, 0)
        .state(2, 7, 0)
        .into_bytes();
    assert!(why(&[&backwards]).contains("older term"));

    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &[&first, &second, &second]);
    fs::remove_file(dir.path().join(SEGMENT_ONE)).unwrap();
    let mut reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.read_next().unwrap(), None);
    assert!(matches!(reader.end(), Some(End::Damaged { why, .. }) if why.contains("missing")));
}

#[test]
fn a_length_is_not_believed_before_memory_is_taken() {
    let head = Encoder::first_segment(7, 8).into_bytes();
    for length in [1 << 20, 1 << 40, (1 << 56) - 8] {
        let field = u64::to_le_bytes(length);
        let (records, end) = read_all(&[&[&head[..], &field, &[1; 64]].concat()]);
        assert_eq!(records.len(), 2);
        assert!(matches!(end, End::Torn { bytes: 72, .. }), "{end:?}");
    }
    // A file that long is possible, a record is not.
    let dir = tempfile::tempdir().unwrap();
    put(
        dir.path(),
        &[&[&head[..], &u64::to_le_bytes(RECORD_BYTES_MAX + 8)].concat()],
    );
    let path = dir.path().join("0000000000000000-0000000000000000.wal");
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(RECORD_BYTES_MAX * 2)
        .unwrap();
    let mut reader = Reader::open(dir.path()).unwrap();
    while reader.read_next().unwrap().is_some() {}
    assert!(matches!(reader.end(), Some(End::Damaged { why, .. }) if why.contains("longer than any")));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), headed: bool) {
        let head = if headed { Encoder::first_segment(7, 8).into_bytes() } else { Vec::new() };
        let (records, _) = read_all(&[&[head, bytes].concat()]);
        prop_assert!(records.len() < 40);
    }

    #[test]
    fn any_change_of_a_log_is_read_without_a_panic(
        changes in proptest::collection::vec((0usize..2, any::<usize>(), any::<u8>()), 1..8),
        cut in any::<usize>(),
    ) {
        let mut segments = two_segments();
        for (segment, place, byte) in changes {
            let length = segments[segment].len();
            segments[segment][place % length] = byte;
        }
        let cut = cut % (segments[1].len() + 1);
        read_all(&[&segments[0], &segments[1][..cut]]);
    }
}
