//! A database or a snapshot.

use std::path::Path;

use quorate_datadir::bolt::Bolt;
use quorate_datadir::{Error, Progress, Source, defrag, hash_kv, status, verify};

use super::{scratch, told};

/// Reads bytes as a database: every row of every bucket, status, verification, and a defragmented copy.
pub fn bolt(bytes: &[u8]) -> bool {
    let as_is = read(bytes);
    match sealed(bytes) {
        Some(sealed) => read(&sealed) | as_is,
        None => as_is,
    }
}

fn read(bytes: &[u8]) -> bool {
    let path = scratch::file("bolt", bytes);
    let rows = told(Bolt::open(&path).and_then(|bolt| all_rows(&bolt)));
    let Some(source) = told(Source::open(&path)) else {
        return false;
    };
    let progress = Progress::new();
    let numbers = told(status(&source, &progress));
    let hash = told(hash_kv(&source, 0, None, &progress));
    let Some(verdict) = told(verify(&source, &progress)) else {
        return false;
    };
    // Intact is what every other reader can read.
    let rows = rows.expect("rows of what is intact");
    let numbers = numbers.expect("the status of what is intact");
    assert_eq!((numbers.rows, numbers.hash), (rows, verdict.hash));
    assert_eq!(hash, Some(verdict.hash_kv));
    drop(source);
    defragmented(&path, &progress, &verdict.hash_kv);
    true
}

fn defragmented(path: &Path, progress: &Progress, before: &quorate_datadir::HashKv) {
    defrag(path, progress).expect("what is intact can be written anew");
    let source = Source::open(path).expect("our own file");
    let again = verify(&source, progress).expect("our own file is intact");
    assert_eq!(&again.hash_kv, before);
}

/// Reads every row, then some of them by key. How many there are.
fn all_rows(bolt: &Bolt) -> Result<u64, Error> {
    let mut count = 0;
    for (name, _) in bolt.buckets()? {
        let Some(mut rows) = bolt.bucket(&name)? else {
            continue;
        };
        let (mut keys, mut last) = (Vec::new(), None);
        while let Some((key, value)) = rows.next()? {
            count += 1;
            if keys.len() < 4 {
                keys.push((key.to_vec(), value.to_vec()));
            }
            last = Some((key.to_vec(), value.to_vec()));
        }
        keys.extend(last.clone());
        for (key, value) in keys {
            assert_eq!(bolt.value(&name, &key)?.as_ref(), Some(&value));
        }
        rows.seek_last()?;
        let found = rows.next()?.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(found, last);
    }
    Ok(count)
}

/// The bytes with right checksums in both meta pages, and without the hash behind a snapshot; none if that is what they
/// are.
fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let page_size = u32::from_le_bytes(*bytes.get(24..)?.first_chunk()?);
    let mut sealed = bytes.to_vec();
    if bytes.len() % 512 == 32 {
        sealed.truncate(bytes.len() - 32);
    }
    for page in [0, usize::try_from(page_size).ok()?] {
        let meta = page.checked_add(16)?;
        let Some(body) = sealed.get(meta..meta.checked_add(56)?) else {
            continue;
        };
        let sum = fnv1a(body);
        if let Some(place) = sealed.get_mut(meta + 56..meta + 64) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    }
    (sealed != bytes).then_some(sealed)
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
