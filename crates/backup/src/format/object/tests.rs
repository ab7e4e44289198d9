//! Objects in a directory: written, read frame by frame, damaged.

use super::*;
use crate::{Error, Store, StoreOptions, StoreUrl};

async fn store(directory: &tempfile::TempDir) -> Store {
    let url = StoreUrl::parse(&format!("file://{}", directory.path().display())).unwrap();
    Store::open(&url, &StoreOptions::default()).await.unwrap()
}

fn plain(number: u32) -> Vec<u8> {
    format!("frame {number} ")
        .repeat(300 + number as usize)
        .into_bytes()
}

async fn write(store: &Store, key: Option<&Key>, frames: u32) -> Facts {
    let (mut object, first) = Assembler::new("t/00000001/full/x.full", Kind::Full, key).unwrap();
    let mut upload = store.upload("t/00000001/full/x.full").await.unwrap();
    upload.write(first).await.unwrap();
    let packer = object.packer();
    for number in 0..frames {
        let frame = pack(&packer, number, u64::from(number) * 10, &plain(number)).unwrap();
        upload.write(object.add(frame).unwrap()).await.unwrap();
    }
    let (last, facts) = object.finish();
    upload.write(last).await.unwrap();
    assert_eq!(upload.finish().await.unwrap(), facts.stored_bytes);
    facts
}

async fn read_all(store: &Store, facts: &Facts, key: Option<&Key>) -> Result<Vec<Vec<u8>>, Error> {
    let object = open(store, facts, key).await?;
    let mut frames = Vec::new();
    for number in 0..object.frames() {
        frames.push(object.frame(number).await?);
    }
    Ok(frames)
}

#[tokio::test]
async fn frames_come_back_alone_and_together() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let key = Key::new([3; 32]);
    // The index of the last one is longer than what is read of an object's end at once.
    for (key, count) in [(None, 0), (None, 1), (Some(&key), 20), (Some(&key), 1500)] {
        let facts = write(&store, key, count).await;
        rehash(&store, &facts, |_| {}).await.unwrap();
        let object = open(&store, &facts, key).await.unwrap();
        assert_eq!((object.kind(), object.frames()), (Kind::Full, count));
        for number in (0..count).step_by(7) {
            assert_eq!(object.frame(number).await.unwrap(), plain(number));
            assert_eq!(
                (object.first(number), object.plain_bytes(number)),
                (u64::from(number) * 10, plain(number).len() as u64)
            );
        }
        if count > 3 {
            let several = object.fetch_many(1..4).await.unwrap();
            assert_eq!(object.unpack(3, &several[2]).unwrap(), plain(3));
            let told = object.unpack(2, &several[2]).unwrap_err().to_string();
            assert!(
                told.contains("frame 2: its bytes are not those that were written"),
                "{told}"
            );
        }
        assert_eq!(facts.key.as_ref(), key.map(Key::id));
    }
}

#[tokio::test]
async fn another_key_is_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let facts = write(&store, Some(&Key::new([3; 32])), 2).await;
    for key in [None, Some(Key::new([4; 32]))] {
        let told = read_all(&store, &facts, key.as_ref()).await.unwrap_err();
        assert!(
            matches!(&told, Error::Refused { what, .. } if what.contains("is encrypted with key")),
            "{told}"
        );
    }
}

/// Every seventh bit, so that each place in a byte has its turn; `QUORATE_FULL=1` every one.
#[tokio::test]
async fn any_changed_bit_is_seen() {
    let every = if quorate_testkit::in_full() { 1 } else { 7 };
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    for key in [None, Some(Key::new([3; 32]))] {
        let facts = write(&store, key.as_ref(), 3).await;
        let path = directory.path().join(&facts.object);
        let sound = std::fs::read(&path).unwrap();
        for bit in (0..sound.len() * 8).step_by(every) {
            let mut changed = sound.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &changed).unwrap();
            assert!(read_all(&store, &facts, key.as_ref()).await.is_err(), "bit {bit}");
            assert!(rehash(&store, &facts, |_| {}).await.is_err(), "bit {bit}");
        }
        for length in [0, 1, 40, 95, 96, sound.len() - 1] {
            std::fs::write(&path, &sound[..length]).unwrap();
            assert!(
                read_all(&store, &facts, key.as_ref()).await.is_err(),
                "{length} bytes"
            );
            assert!(rehash(&store, &facts, |_| {}).await.is_err(), "{length} bytes");
        }
    }
}
