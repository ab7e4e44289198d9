//! Would one of etcdbrctl's archives restore?
//!
//! In: a store, a directory to work in. Out: every object that is not what its name and its hash say; and, where there is a
//! way to the end, what came of rebuilding it. There is no log to record a proof in: it is told.
//! Never: an object called sound that was not read to its end.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use quorate_datadir::{Progress, restore_members};
use serde::Serialize;

use super::decompress::Decompressed;
use super::delta::{Batch, DeltaEvents};
use super::fetch::StoreObjects;
use super::full::FullStream;
use super::list::{Listing, Object};
use super::name::Kind;
use super::restore::{Way, blocking, carry_out};
use super::rows::{Open, fault, unreadable};
use crate::format::record::Hash;
use crate::maintain::compact::Workshop;
use crate::maintain::verify::Serve;
use crate::maintain::verify::rebuild::{alone, look as seen, serve};
use crate::restore::fetch::told;
use crate::restore::plan::To;
use crate::{Error, Store};

/// Objects that are read at once.
const AT_ONCE: usize = 2;
/// How much of a full is read at once.
const PIECE: usize = 1 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Fulls that were read.
    pub fulls: u64,
    /// Deltas that were read.
    pub deltas: u64,
    /// The bytes of all of them.
    pub bytes: u64,
    pub findings: Vec<Finding>,
    pub rebuilt: Option<Rebuilt>,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The object, or the archive.
    pub object: String,
    /// What is wrong with it.
    pub why: String,
}

/// A database that was put together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rebuilt {
    pub revision: i64,
    /// Its HashKV; etcdbrctl recorded none to hold it against.
    pub hash: Hash,
    /// A real etcd told the same hash.
    pub served: bool,
}

/// How far to go.
#[derive(Clone, Copy)]
pub enum Depth<'a> {
    /// Every object is read.
    Read,
    /// And the end is rebuilt in this directory.
    Rebuilt(&'a Path),
    /// And a real etcd starts on it, and tells its hash.
    Served(&'a Path, &'a dyn Serve),
}

/// Looks at all of it.
pub async fn verify(store: &Store, depth: Depth<'_>, progress: &Arc<Progress>) -> Result<Report, Error> {
    let listing = Listing::read(store).await?;
    let mut report = Report::default();
    let objects: Arc<dyn Open> = Arc::new(StoreObjects::new(store));
    let all: Vec<Object> = listing.fulls.iter().chain(&listing.deltas).cloned().collect();
    progress.expect(all.iter().map(|object| object.size).sum());
    let looked = futures::stream::iter(all).map(|object| {
        let (objects, progress) = (Arc::clone(&objects), Arc::clone(progress));
        blocking(move || {
            let looked = look(&*objects, &object);
            progress.add(object.size).map_err(told)?;
            Ok((object, looked))
        })
    });
    let mut looked = looked.buffered(AT_ONCE);
    while let Some(looked) = looked.next().await {
        let (object, looked) = looked?;
        match object.name.kind {
            Kind::Full => report.fulls += 1,
            Kind::Delta => report.deltas += 1,
        }
        report.bytes += object.size;
        match looked {
            Ok(()) => {}
            Err(Error::Damaged { object, why }) => report.findings.push(Finding { object, why }),
            Err(error) => return Err(error),
        }
    }
    let (scratch, serve) = match depth {
        Depth::Read => return Ok(report),
        Depth::Rebuilt(scratch) => (scratch, None),
        Depth::Served(scratch, serve) => (scratch, Some(serve)),
    };
    match rebuild(store, listing, scratch, serve, progress).await? {
        Ok(rebuilt) => report.rebuilt = Some(rebuilt),
        Err(why) => report.findings.push(Finding {
            object: store.describe().to_owned(),
            why,
        }),
    }
    Ok(report)
}

/// Puts the end together, and has it served if that is wanted. Out: what it came to, or what is wrong with it.
async fn rebuild(
    store: &Store,
    listing: Listing,
    scratch: &Path,
    etcd: Option<&dyn Serve>,
    progress: &Arc<Progress>,
) -> Result<Result<Rebuilt, String>, Error> {
    let way = match Way::among(store, listing, To::End).await {
        Ok(way) => way,
        Err(Error::Refused { what, .. }) => return Ok(Err(what)),
        Err(error) => return Err(error),
    };
    let workshop = Workshop::in_dir(scratch, "verify")?;
    let dir = workshop.path().join("newest");
    let members = alone(&dir);
    let done = carry_out(way, progress, &mut |_| {}, || {
        let members = members.clone();
        Box::new(move |assembly, progress| restore_members(&members, assembly, progress))
    })
    .await;
    let restored = match done {
        Ok((_, made)) => made.made,
        Err(Error::Refused { what, .. }) => return Ok(Err(what)),
        Err(Error::Data(error @ quorate_datadir::Error::Damaged { .. })) => {
            return Ok(Err(error.to_string()));
        }
        Err(error) => return Err(error),
    };
    let hash = match seen(&dir, progress).await? {
        Ok((_, hash)) => hash,
        Err(why) => return Ok(Err(format!("rebuilt, it is not sound: {why}"))),
    };
    let Some(member) = restored.first() else {
        return Ok(Err("nothing was made".to_owned()));
    };
    if let Some(etcd) = etcd {
        let version = member.target.to_string();
        if let Some(why) = serve(etcd, &dir, &version, member.revision, progress).await? {
            return Ok(Err(why));
        }
    }
    Ok(Ok(Rebuilt {
        revision: member.revision,
        hash,
        served: etcd.is_some(),
    }))
}

/// Reads an object to its end.
pub(super) fn look(objects: &dyn Open, object: &Object) -> Result<(), Error> {
    let bytes = Decompressed::new(objects.open(object)?, object.name.compression);
    match object.name.kind {
        Kind::Full => look_at_full(bytes, object),
        Kind::Delta => look_at_delta(bytes, object),
    }
}

fn look_at_full(bytes: impl std::io::Read, object: &Object) -> Result<(), Error> {
    let mut stream = FullStream::new(bytes);
    let mut piece = vec![0; PIECE];
    while std::io::Read::read(&mut stream, &mut piece).map_err(|error| unreadable(object, error))? > 0 {}
    match stream.digest() {
        Some(_) => Ok(()),
        None => Err(Error::damaged(&object.key, "it has no hash at its end")),
    }
}

fn look_at_delta(bytes: impl std::io::Read, object: &Object) -> Result<(), Error> {
    let mut events = DeltaEvents::new(bytes);
    let mut batch = Batch::default();
    let (mut first, mut last) = (None, 0);
    while events
        .next_batch(&mut batch)
        .map_err(|trouble| fault(object, trouble))?
    {
        for (event, _) in batch.rows() {
            let main = event.revision.main;
            if first.is_some() && main > last + 1 {
                let why = format!("revisions {} to {} are missing", last + 1, main - 1);
                return Err(Error::damaged(&object.key, why));
            }
            first.get_or_insert(main);
            last = main;
        }
    }
    // It may begin before: another one had those revisions too.
    let begins = first.is_some_and(|first| first <= object.name.start);
    if !begins || last != object.name.last {
        let why = match first {
            None => "it holds nothing".to_owned(),
            Some(first) => format!(
                "it holds revisions {first} to {last}, its name says {} to {}",
                object.name.start, object.name.last
            ),
        };
        return Err(Error::damaged(&object.key, why));
    }
    Ok(())
}
