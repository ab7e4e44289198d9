//! What is written is what is read, whatever it is; and every page of it is in its place.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::Error;

type Buckets = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

fn temporary() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    (dir, path)
}

fn write(buckets: &Buckets, page_size: u32, path: &std::path::Path) {
    let file = std::fs::File::create_new(path).unwrap();
    let mut writer = BoltWriter::new(file, path, page_size).unwrap();
    for (name, rows) in buckets {
        writer.begin(name).unwrap();
        for (key, value) in rows {
            writer.put(key, value).unwrap();
        }
    }
    writer.finish().unwrap();
}

/// All rows, with every page met once.
fn read(path: &std::path::Path, free: bool) -> Buckets {
    let bolt = Bolt::open(path).unwrap();
    let mut map = PageMap::new(bolt.high_water());
    if bolt.meta.freelist != NO_FREELIST {
        assert!(map.mark(bolt.meta.freelist));
    }
    let mut root = bolt.root();
    let mut found = Buckets::new();
    while let Some(row) = root.next_marking(&mut map).unwrap() {
        let bucket = Bucket::of(row.value).unwrap();
        found.insert(row.key.to_vec(), BTreeMap::new());
        let name = row.key.to_vec();
        let mut rows = Rows::new(&bolt, bucket);
        while let Some(row) = rows.next_marking(&mut map).unwrap() {
            found
                .get_mut(&name)
                .unwrap()
                .insert(row.key.to_vec(), row.value.to_vec());
        }
    }
    if !free {
        assert_eq!(map.first_unmarked(), None, "a page belongs to nothing");
    }
    found
}

fn numbered(count: u64, value: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..count)
        .map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; value]))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows_come_back(
        buckets in btree_map(vec(any::<u8>(), 1..12), btree_map(vec(any::<u8>(), 1..200), vec(any::<u8>(), 0..900), 0..60), 0..4),
        page_size in prop_oneof![Just(1024u32), Just(4096)],
    ) {
        let (_dir, path) = temporary();
        write(&buckets, page_size, &path);
        prop_assert_eq!(read(&path, false), buckets);
    }

    #[test]
    fn rows_are_found_by_key(rows in btree_map(vec(any::<u8>(), 1..6), vec(any::<u8>(), 0..300), 1..200), key in vec(any::<u8>(), 1..6)) {
        let (_dir, path) = temporary();
        write(&Buckets::from([(b"b".to_vec(), rows.clone())]), 1024, &path);
        let bolt = Bolt::open(&path).unwrap();
        let mut cursor = bolt.bucket(b"b").unwrap().unwrap();
        cursor.seek(&key).unwrap();
        let mut expected = rows.range(key.clone()..);
        while let Some((key, value)) = cursor.next().unwrap() {
            prop_assert_eq!(expected.next(), Some((&key.to_vec(), &value.to_vec())));
        }
        prop_assert_eq!(expected.next(), None);
        prop_assert_eq!(bolt.value(b"b", &key).unwrap(), rows.get(&key).cloned());
        cursor.seek_last().unwrap();
        let last = cursor.next().unwrap().map(|(key, _)| key.to_vec());
        prop_assert_eq!(last.as_ref(), rows.keys().next_back());
    }

    #[test]
    fn rows_are_put_behind_the_last(before in 0u64..3000, after in 0u64..3000, size in 0usize..400) {
        let (_dir, path) = temporary();
        let others = BTreeMap::from([(b"x".to_vec(), b"y".to_vec())]);
        let mut expected = Buckets::from([(b"key".to_vec(), numbered(before, size)), (b"other".to_vec(), others)]);
        write(&expected, 4096, &path);
        let bolt = Bolt::open(&path).unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut edit = Edit::new(&bolt, file, &path).unwrap();
        let mut key = edit.append(b"key").unwrap();
        for n in before..before + after {
            key.put(&n.to_be_bytes(), &vec![n as u8; size]).unwrap();
        }
        key.end().unwrap();
        let small = BTreeMap::from([(b"1".to_vec(), b"one".to_vec())]);
        edit.replace(b"members", &small).unwrap();
        edit.finish().unwrap();
        expected.insert(b"key".to_vec(), numbered(before + after, size));
        expected.insert(b"members".to_vec(), small);
        prop_assert_eq!(read(&path, true), expected);
    }
}

/// Cut off anywhere, and something put behind or nothing: every page holds together, and no branch has a lonely child.
#[test]
fn rows_are_put_behind_a_cut() {
    for (count, value) in [(0_u64, 40), (1, 40), (30, 400), (900, 400), (5000, 10)] {
        let (_dir, whole) = temporary();
        write(
            &Buckets::from([(b"key".to_vec(), numbered(count, value))]),
            1024,
            &whole,
        );
        let step = (count / 130).max(1);
        let ends = (0..=count).step_by(usize::try_from(step).unwrap());
        for (end, more) in ends.flat_map(|end| [(end, 0), (end, 1 + end % 50)]) {
            let (_dir, path) = temporary();
            std::fs::copy(&whole, &path).unwrap();
            let bolt = Bolt::open(&path).unwrap();
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            let mut edit = Edit::new(&bolt, file, &path).unwrap();
            let mut key = edit.append_at(b"key", Some(&end.to_be_bytes())).unwrap();
            for n in end..end + more {
                key.put(&n.to_be_bytes(), &vec![n as u8; value]).unwrap();
            }
            key.end().unwrap();
            edit.finish().unwrap();
            let expected = Buckets::from([(b"key".to_vec(), numbered(end + more, value))]);
            assert_eq!(
                read(&path, true),
                expected,
                "{count} rows cut at {end}, {more} more"
            );
        }
    }
}

#[test]
fn deep_trees_have_no_lonely_child() {
    // Around every number of leaves at which a level is just full.
    for count in (0..40).chain(780..900) {
        let (_dir, path) = temporary();
        let expected = Buckets::from([(b"key".to_vec(), numbered(count, 400))]);
        write(&expected, 1024, &path);
        assert_eq!(read(&path, false), expected, "{count} rows");
    }
}

#[test]
fn rows_out_of_order_are_refused() {
    let (_dir, path) = temporary();
    let file = std::fs::File::create_new(&path).unwrap();
    let mut writer = BoltWriter::new(file, &path, 4096).unwrap();
    assert!(writer.put(b"a", b"").is_err(), "in no bucket");
    writer.begin(b"key").unwrap();
    writer.put(b"b", b"").unwrap();
    for key in [&b"b"[..], b"a", b"", &[1; 32769]] {
        assert!(writer.put(key, b"").is_err());
    }
    writer.begin(b"a").unwrap();
    assert!(writer.finish().is_err(), "buckets out of order");
}

/// Every bit of a file with every kind of page, flipped: what is read is an error or rows, never a panic or a hang.
#[test]
fn any_bit_may_flip() {
    let (_dir, path) = temporary();
    let buckets = Buckets::from([
        (b"key".to_vec(), numbered(60, 120)),
        (b"small".to_vec(), numbered(3, 4)),
    ]);
    write(&buckets, 1024, &path);
    let whole = std::fs::read(&path).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let (mut errors, mut rows) = (0, 0);
    for bit in 0..whole.len() * 8 {
        let (at, byte) = (bit / 8, whole[bit / 8]);
        file.write_all_at(&[byte ^ (1 << (bit % 8))], at as u64).unwrap();
        match count(&path) {
            Ok(found) => rows += found,
            Err(_) => errors += 1,
        }
        file.write_all_at(&[byte], at as u64).unwrap();
    }
    assert!(errors > 1000 && rows > 1000, "{errors} errors, {rows} rows");
}

fn count(path: &std::path::Path) -> Result<u64, Error> {
    let bolt = Bolt::open(path)?;
    let mut count = 0;
    for (_, bucket) in bolt.buckets()? {
        let mut rows = Rows::new(&bolt, bucket);
        while rows.next()?.is_some() {
            count += 1;
        }
    }
    Ok(count)
}

#[test]
fn rows_read_ahead_are_the_same_and_end_where_they_should() {
    let (_dir, path) = temporary();
    let mut rows = numbered(3_000, 500);
    // One that is larger than a batch, and than what a batch is kept for.
    rows.insert(1_500u64.to_be_bytes().to_vec(), vec![7; 2 << 20]);
    write(&Buckets::from([(b"key".to_vec(), rows.clone())]), 4096, &path);
    let bolt = Bolt::open(&path).unwrap();
    let all = || bolt.bucket(b"key").unwrap().unwrap();
    let mut found = BTreeMap::new();
    ahead(all(), |row| {
        assert!(!row.bucket);
        found.insert(row.key.to_vec(), row.value.to_vec());
        Ok(Then::GoOn)
    })
    .unwrap();
    assert!(found == rows);

    let mut count = 0;
    ahead(all(), |_| {
        count += 1;
        Ok(if count == 10 { Then::Stop } else { Then::GoOn })
    })
    .unwrap();
    assert_eq!(count, 10);
    assert!(matches!(
        ahead(all(), |_| Err(Error::Cancelled)),
        Err(Error::Cancelled)
    ));

    // Damage behind the rows that were taken already.
    let mut bytes = std::fs::read(&path).unwrap();
    let last = 2_999u64.to_be_bytes();
    let has_last = |page: &[u8]| page[8] == 2 && page.windows(8).any(|bytes| bytes == last);
    let last_leaf = bytes.chunks(4096).rposition(has_last).unwrap();
    bytes[last_leaf * 4096] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let bolt = Bolt::open(&path).unwrap();
    let mut count = 0;
    let damaged = ahead(bolt.bucket(b"key").unwrap().unwrap(), |_| {
        count += 1;
        Ok(Then::GoOn)
    });
    assert!(matches!(damaged, Err(Error::Damaged { .. })), "{damaged:?}");
    assert!((2_900..3_000).contains(&count), "{count}");
}
