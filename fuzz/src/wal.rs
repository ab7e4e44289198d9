//! A segment of a log, the only one of its member.

use std::path::Path;

use quorate_datadir::wal::{End, Log, Reader};
use quorate_datadir::{Error, inspect, look, replay};

use super::{scratch, told, varint};

const SEGMENT: &str = "data/member/wal/0000000000000000-0000000000000000.wal";
const TYPE_CRC: u64 = 4;

/// Reads bytes as a log: every record, the entries that count, and what etcd would make of them.
pub fn wal(bytes: &[u8]) -> bool {
    let as_is = read(bytes);
    match sealed(bytes) {
        Some(sealed) if sealed != bytes => read(&sealed) | as_is,
        _ => as_is,
    }
}

fn read(bytes: &[u8]) -> bool {
    let segment = scratch::file(SEGMENT, bytes);
    let wal = segment.parent().expect("it is in a directory");
    let data_dir = wal.ancestors().nth(2).expect("and that is in others");
    let _ = (told(look(data_dir)), told(replay(data_dir)));
    let records = told(records(wal));
    let inspected = told(inspect(data_dir));
    let Some(log) = told(Log::read(wal)) else {
        return false;
    };
    let entries = entries(&log);
    let (records, end) = records.expect("what was read once can be read again");
    assert!(entries <= records, "{entries} entries in {records} records");
    // Both may stop at the same place for different reasons, but none goes on where the other found the end.
    if *log.end() == End::Clean {
        assert_eq!(end, End::Clean);
    }
    assert_eq!(inspected.map(|it| it.last_index), Some(log.last_index()));
    *log.end() == End::Clean && records > 0
}

fn records(wal: &Path) -> Result<(u64, End), Error> {
    let mut reader = Reader::open(wal)?;
    let mut count = 0;
    while reader.read_next()?.is_some() {
        count += 1;
    }
    let end = reader.end().expect("it was read to its end").clone();
    Ok((count, end))
}

/// The entries are those that were counted when the log was read: they follow one another up to the last.
fn entries(log: &Log) -> u64 {
    let Some(first) = log.first_index() else {
        return 0;
    };
    let Some(mut entries) = told(log.entries(first)) else {
        return 0;
    };
    let mut count = 0;
    while let Some(entry) = entries.read_next().expect("an entry of a log that was read") {
        assert_eq!(entry.index, first + count);
        count += 1;
    }
    count
}

/// The same records with checksums that follow from one another; what is behind the last record stays.
fn sealed(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut sealed, mut chain) = (Vec::new(), 0);
    while let Some((record, rest)) = frame(bytes) {
        let (kind, data) = fields(record)?;
        match kind {
            TYPE_CRC => {}
            _ => chain = crc32c::crc32c_append(chain, data),
        }
        put_record(kind, chain, data, &mut sealed);
        bytes = rest;
    }
    sealed.extend_from_slice(bytes);
    Some(sealed)
}

fn frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (field, rest) = bytes.split_first_chunk::<8>()?;
    let field = u64::from_le_bytes(*field);
    let length = usize::try_from(field & 0x00ff_ffff_ffff_ffff).ok()?;
    if field == 0 || length == 0 {
        return None;
    }
    let padding = if field >> 63 == 1 {
        (field >> 56 & 7) as usize
    } else {
        0
    };
    let (record, rest) = rest.split_at_checked(length)?;
    Some((record, rest.get(padding..)?))
}

/// The type and the data of a record, whatever its checksum.
fn fields(mut record: &[u8]) -> Option<(u64, &[u8])> {
    let (mut kind, mut data) = (0, &[][..]);
    while let Some((tag, rest)) = record.split_first() {
        let (value, rest) = varint::read(rest)?;
        record = rest;
        match tag {
            0x08 => kind = value,
            0x10 => {}
            0x1a => (data, record) = rest.split_at_checked(usize::try_from(value).ok()?)?,
            _ => return None,
        }
    }
    Some((kind, data))
}

fn put_record(kind: u64, crc: u32, data: &[u8], to: &mut Vec<u8>) {
    let mut record = vec![0x08];
    varint::write(kind, &mut record);
    record.push(0x10);
    varint::write(crc.into(), &mut record);
    if !data.is_empty() {
        record.push(0x1a);
        varint::write(data.len() as u64, &mut record);
        record.extend_from_slice(data);
    }
    let padding = (8 - record.len() % 8) % 8;
    let mut field = record.len() as u64;
    if padding > 0 {
        field |= (0x80 | padding as u64) << 56;
    }
    to.extend_from_slice(&field.to_le_bytes());
    to.extend_from_slice(&record);
    to.extend_from_slice(&[0; 8][..padding]);
}
