//! A new full in one of etcdbrctl's archives, made of an older one and the deltas after it.
//!
//! In: a store, a directory to work in. Out: one more object as etcdbrctl would have named and written it, which both tools
//! take from then on: put together, found right, uploaded, read back. What it was made of stays; etcdbrctl's own rules
//! throw it away in time.
//! Never: an object of theirs changed or deleted; a full that cannot be read back.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use quorate_datadir::{Progress, write_snapshot};
use serde::Serialize;
use tokio::sync::mpsc;

use super::fetch::StoreObjects;
use super::list::Object;
use super::name::{Compression, Kind, Name};
use super::restore::{Way, blocking, carry_out};
use super::rows::Open;
use super::verify::look;
use crate::maintain::compact::Workshop;
use crate::restore::fetch::told;
use crate::restore::plan::To;
use crate::restore::suffice;
use crate::{Deleted, Error, Store};

const PIECE: usize = 1 << 20;
/// Pieces that wait to be uploaded.
const WAITING: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compacted {
    pub object: String,
    pub revision: i64,
    /// It was there already: nothing was made.
    pub was_there: bool,
    /// The full it was made of.
    pub from: String,
    pub deltas: usize,
    /// Its bytes as it lies there.
    pub bytes: u64,
    /// What was passed over, and why.
    pub passed_over: Vec<(String, String)>,
}

/// Makes it. History is compacted up to the end, as etcdbrctl does it.
pub async fn compact(
    store: &Store,
    scratch: &Path,
    progress: &Arc<Progress>,
    now: Timestamp,
) -> Result<Compacted, Error> {
    let way = Way::find(store, To::End).await?;
    if way.plan().deltas.is_empty() {
        let base = &way.plan().base;
        return Ok(Compacted {
            object: base.key.clone(),
            revision: base.name.last,
            was_there: true,
            from: base.key.clone(),
            deltas: 0,
            bytes: base.size,
            passed_over: Vec::new(),
        });
    }
    let workshop = Workshop::in_dir(scratch, "compact")?;
    // It is there twice. What is compressed becomes larger; by how much shows when it is there.
    suffice([(workshop.path(), way.fetch_bytes().saturating_mul(2))])?;
    let (file, at) = (workshop.path().join("full.db"), way.revision());
    let (way, made) = carry_out(way, progress, &mut |_| {}, || {
        let file = file.clone();
        Box::new(move |mut assembly, progress| {
            assembly.compact = Some(at);
            write_snapshot(assembly, &file, progress)
        })
    })
    .await?;
    let name = Name {
        kind: Kind::Full,
        start: 0,
        last: made.made.revision,
        created: now.as_second(),
        compression: Compression::Gzip,
        is_final: way.plan().base.name.is_final,
    };
    // Where the address was given with its `v2`, names stand alone.
    let key = match way.plan().base.key.contains('/') {
        true => format!("v2/{name}"),
        false => name.to_string(),
    };
    let size = upload(store, &key, &file, progress).await?;
    let object = Object { key, name, size };
    read_back(store, &object).await?;
    Ok(Compacted {
        object: object.key,
        revision: name.last,
        was_there: false,
        from: way.plan().base.key.clone(),
        deltas: way.plan().deltas.len(),
        bytes: size,
        passed_over: way
            .passed_over()
            .map(|(object, why)| (object.to_owned(), why.to_owned()))
            .collect(),
    })
}

/// Reads what was uploaded. What cannot be read goes: etcdbrctl would take it for its newest.
async fn read_back(store: &Store, object: &Object) -> Result<(), Error> {
    let (objects, uploaded) = (StoreObjects::new(store), object.clone());
    let Err(error) = blocking(move || look(&objects as &dyn Open, &uploaded)).await else {
        return Ok(());
    };
    match store.delete(&object.key).await {
        Ok(Deleted::Gone) => Err(error),
        kept => {
            let why = match kept {
                Err(why) => why.to_string(),
                Ok(_) => "the store keeps it".to_owned(),
            };
            Err(Error::refused(
                format!(
                    "{} was uploaded and cannot be read back: {error}; and it could not be deleted: {why}",
                    object.key
                ),
                "delete it: etcdbrctl takes it for its newest full",
            ))
        }
    }
}

/// Compresses the file into the store. Out: the bytes that lie there.
async fn upload(store: &Store, key: &str, file: &Path, progress: &Arc<Progress>) -> Result<u64, Error> {
    match store.head(key).await {
        Err(error) if error.is_missing() => {}
        Ok(_) => return Err(Error::refused(format!("{key} is there already"), "try again")),
        Err(error) => return Err(error),
    }
    let (send, mut pieces) = mpsc::channel::<Bytes>(WAITING);
    let (path, progress) = (file.to_owned(), Arc::clone(progress));
    let compressing = tokio::task::spawn_blocking(move || compress(&path, &send, &progress));
    let mut upload = store.upload(key).await?;
    let mut sent = Ok(());
    while let Some(piece) = pieces.recv().await {
        sent = upload.write(piece).await;
        if sent.is_err() {
            break;
        }
    }
    drop(pieces);
    let compressed = compressing.await.unwrap_or(Err(Error::Cancelled));
    if let Err(error) = sent.and(compressed) {
        // The reason is what counts.
        let _ = upload.abort().await;
        return Err(error);
    }
    upload.finish().await
}

fn compress(path: &Path, send: &mpsc::Sender<Bytes>, progress: &Progress) -> Result<(), Error> {
    let failed = |source| Error::File {
        doing: "read",
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(failed)?;
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut piece = vec![0; PIECE];
    loop {
        let length = file.read(&mut piece).map_err(failed)?;
        let Some(read @ [_, ..]) = piece.get(..length) else {
            break;
        };
        encoder.write_all(read).map_err(failed)?;
        progress.add(length as u64).map_err(told)?;
        if encoder.get_ref().len() >= PIECE {
            let full = std::mem::take(encoder.get_mut());
            send.blocking_send(full.into()).map_err(|_| Error::Cancelled)?;
        }
    }
    let rest = encoder.finish().map_err(failed)?;
    send.blocking_send(rest.into()).map_err(|_| Error::Cancelled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoreOptions, StoreUrl};

    #[tokio::test]
    async fn a_full_that_cannot_be_read_back_does_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let url = StoreUrl::parse(&format!("file://{}", dir.path().display())).unwrap();
        let store = Store::open(&url, &StoreOptions::default()).await.unwrap();
        let name = Name {
            kind: Kind::Full,
            start: 0,
            last: 7,
            created: 1_700_000_000,
            compression: Compression::Gzip,
            is_final: false,
        };
        let key = format!("v2/{name}");
        let bytes = Bytes::from_static(b"not what was sent");
        let size = bytes.len() as u64;
        store.put(&key, bytes).await.unwrap();
        let object = Object { key, name, size };
        let error = read_back(&store, &object).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert!(store.head(&object.key).await.unwrap_err().is_missing());
    }
}
