//! The newest point of an archive, put together in a scratch directory and held against all that was recorded.
//!
//! In: a timeline. Out: what it came to. Its pages, its history and its log are looked at as those of any member; its
//! HashKV is held against etcd's where one was recorded; the newest full copy against the one before it and the deltas
//! between; then a real etcd may start on it.
//! Memory: a few frames, and an index of the keys.

use std::path::Path;
use std::sync::Arc;

use quorate_datadir::{Members, Progress, Seat, Source, hash_kv, restore_members, verify_member};
use serde::Serialize;

use super::{Fulls, Options, Report, Serve, Staged};
use crate::format::record::{Entry, Full, Hash, Level};
use crate::log::History;
use crate::maintain::compact::Workshop;
use crate::restore::chain::{Base, Goal, Link, chain};
use crate::restore::fetch;
use crate::restore::plan::{Book, Plan, To, Wanted};
use crate::restore::{carry_out, suffice};
use crate::{Archive, Error};

const NAME: &str = "verify";
/// A socket in the directory that etcd is started in.
const PEER_URL: &str = "unix://peer:1";

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rebuilt {
    /// Up to this revision.
    pub revision: i64,
    /// From the full copy of this one.
    pub base: i64,
    pub hash: Hash,
    /// Recorded hashes that it was held against.
    pub hashes: u64,
    /// Full copies that were held against the one before and the deltas between.
    pub fulls: u64,
    /// A real etcd told the same hash.
    pub served: bool,
}

/// How far the log leads, and the revision of the full copy it leads there from.
pub(super) fn end(history: &History) -> Option<(i64, i64)> {
    let bases: Vec<Base> = history.fulls().iter().map(|(_, full)| (*full).into()).collect();
    let links: Vec<Link> = history
        .deltas()
        .iter()
        .map(|(_, delta)| (*delta).into())
        .collect();
    let found = chain(&bases, &links, Goal::End)?;
    Some((found.revision, bases.get(found.base)?.revision))
}

/// Rebuilds it. `None` if something is wrong, which is in the report then.
pub(super) async fn check(
    archive: &Archive,
    wanted: Wanted,
    options: &Options<'_>,
    progress: &Arc<Progress>,
    report: &mut Report,
) -> Result<Option<Rebuilt>, Error> {
    let mut book = Book::open(archive, wanted).await?;
    let work = Workshop::in_dir(options.scratch, "verify")?;
    let plan = match book.plan().await {
        Ok(plan) => plan,
        Err(Error::Refused { what, .. }) => {
            report.wrong("the chain", what);
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    for consent in plan.consents() {
        report.wrong("the chain", consent);
    }
    let dir = work.path().join("newest");
    let Some(plan) = put_together(plan, &dir, work.path(), progress, report).await? else {
        return Ok(None);
    };
    let seen = look(&dir, progress).await?;
    let (source, hash) = match seen {
        Ok(seen) => seen,
        Err(why) => {
            report.wrong(
                plan.full.facts.object.clone(),
                format!("rebuilt, it is not sound: {why}"),
            );
            return Ok(None);
        }
    };
    let history = plan.book.history();
    let hashes = hold(source, recorded(history), progress, report).await?;
    let mut rebuilt = Rebuilt {
        revision: plan.revision,
        base: plan.full.revision,
        hash,
        hashes,
        fulls: 0,
        served: false,
    };
    let fulls: Vec<Full> = history.fulls().iter().map(|(_, full)| (*full).clone()).collect();
    let first = match options.fulls {
        Fulls::Newest => fulls.len().saturating_sub(1).max(1),
        Fulls::All => 1,
    };
    for full in fulls.get(first..).unwrap_or_default() {
        let newest = full.revision == plan.full.revision && plan.cut.is_none();
        let against = newest.then_some(dir.as_path());
        if held_against(&book, full, against, work.path(), progress, report).await? {
            rebuilt.fulls += 1;
        }
    }
    if let (Level::Served, Some(etcd)) = (options.level, options.serve) {
        let wrong = serve(etcd, &dir, &plan.full.etcd_version, plan.revision, progress).await?;
        rebuilt.served = wrong.is_none();
        if let Some(why) = wrong {
            report.wrong(plan.full.facts.object.clone(), why);
        }
    }
    Ok(Some(rebuilt))
}

/// The only member of a cluster that a real etcd can be started on, privately.
pub(crate) fn alone(dir: &Path) -> Members {
    Members {
        initial_cluster: format!("{NAME}={PEER_URL}"),
        token: format!("quorate-verify-{}", std::process::id()),
        seats: vec![Seat {
            name: NAME.to_owned(),
            peer_urls: PEER_URL.to_owned(),
            data_dir: dir.to_owned(),
            wal_dir: None,
        }],
        bump: None,
        for_version: None,
    }
}

/// Restores a plan into `dir`.
async fn put_together(
    plan: Plan,
    dir: &Path,
    scratch: &Path,
    progress: &Arc<Progress>,
    report: &mut Report,
) -> Result<Option<Plan>, Error> {
    suffice([(scratch, plan.database_bytes())])?;
    let members = alone(dir);
    let done = carry_out(plan, progress, &mut |_| {}, || {
        let members = members.clone();
        Box::new(move |assembly, progress| restore_members(&members, assembly, progress))
    })
    .await;
    let plan = match done {
        Ok((plan, _)) => plan,
        Err(Error::Refused { what, .. }) => {
            report.wrong("the chain", what);
            return Ok(None);
        }
        Err(Error::Data(error @ quorate_datadir::Error::Damaged { .. })) => {
            report.wrong("the chain", error.to_string());
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    for (object, why) in plan.passed_over() {
        report.findings.push(super::Finding::new(object, why));
    }
    Ok(Some(plan))
}

/// Looks at a whole member. Out: its database and its hash, or what is wrong with it.
pub(crate) async fn look(
    dir: &Path,
    progress: &Arc<Progress>,
) -> Result<Result<(Source, Hash), String>, Error> {
    let (dir, progress) = (dir.to_owned(), Arc::clone(progress));
    let looking = tokio::task::spawn_blocking(move || {
        let verdict = verify_member(&dir, &progress)?;
        Ok((Source::open(&dir)?, verdict.database.hash_kv))
    });
    match looking.await.map_err(|_| Error::Cancelled)? {
        Ok((source, hash)) => Ok(Ok((source, recorded_as(hash)))),
        Err(error @ quorate_datadir::Error::Damaged { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(fetch::told(error)),
    }
}

fn recorded_as(hash: quorate_datadir::HashKv) -> Hash {
    Hash {
        hash: hash.hash,
        revision: hash.revision,
        compact_revision: hash.compact_revision,
    }
}

/// Every hash that was recorded, and of what.
fn recorded(history: &History) -> Vec<(Hash, String)> {
    let told = history.records.iter().filter_map(|signed| {
        let (hash, object) = match &signed.record.entry {
            Entry::Full(full) => (full.hash, full.facts.object.clone()),
            Entry::Proof(proof) => (
                proof.hash,
                format!("the proof of record {}", signed.record.number),
            ),
            _ => return None,
        };
        Some((hash?, object))
    });
    told.collect()
}

/// Holds a database against every hash that was recorded of a revision it has. Out: how many.
async fn hold(
    source: Source,
    recorded: Vec<(Hash, String)>,
    progress: &Arc<Progress>,
    report: &mut Report,
) -> Result<u64, Error> {
    let progress = Arc::clone(progress);
    let holding = tokio::task::spawn_blocking(move || {
        let own = source.compact_revision().unwrap_or(-1);
        let (mut count, mut others) = (0, Vec::new());
        for (hash, object) in recorded {
            let there = (own.max(1)..=source.current_revision()).contains(&hash.revision);
            if !there || hash.compact_revision < own || hash.compact_revision > hash.revision {
                continue;
            }
            let compacted = Some(hash.compact_revision).filter(|revision| *revision > 0);
            let found = hash_kv(&source, hash.revision, compacted, &progress)?;
            count += 1;
            if found.hash != hash.hash {
                others.push((object, hash, found.hash));
            }
        }
        Ok((count, others))
    });
    let held = holding.await.map_err(|_| Error::Cancelled)?;
    let (count, others) = held.map_err(fetch::told)?;
    for (object, hash, found) in others {
        let Hash { hash, revision, .. } = hash;
        report.wrong(
            object,
            format!("the hash recorded of revision {revision} is {hash}, and what was rebuilt has {found}"),
        );
    }
    Ok(count)
}

/// Is `full` what the full copy before it and the deltas between come to? `against`: a directory that was made from it.
/// Out: it was held against them, and is.
async fn held_against(
    book: &Book,
    full: &Full,
    against: Option<&Path>,
    scratch: &Path,
    progress: &Arc<Progress>,
    report: &mut Report,
) -> Result<bool, Error> {
    let to = Wanted {
        timeline: None,
        to: To::Revision(full.revision),
    };
    // No other full copy leads there: deltas between were given up, or never archived. Nothing is wrong with that.
    let older = match book.before(full.revision, to).plan().await {
        Ok(older) => older,
        Err(Error::Refused { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let (old, new) = (scratch.join("older"), scratch.join("newer"));
    let Some(_) = put_together(older, &old, scratch, progress, report).await? else {
        return Ok(false);
    };
    let made = match against {
        Some(_) => None,
        None => {
            let alone = book.only(&full.facts.object, to).plan().await?;
            put_together(alone, &new, scratch, progress, report).await?
        }
    };
    let newer = against.map_or_else(|| new.clone(), Path::to_owned);
    let compared = compare(&old, &newer, full.revision, progress).await?;
    if !compared {
        report.wrong(
            full.facts.object.clone(),
            "its keys are not those that the full copy before it and the deltas between come to",
        );
    }
    for dir in [Some(&old), made.is_some().then_some(&new)].into_iter().flatten() {
        std::fs::remove_dir_all(dir).map_err(|source| Error::File {
            doing: "remove",
            path: dir.clone(),
            source,
        })?;
    }
    Ok(compared)
}

/// Do two databases have the same keys at a revision?
async fn compare(old: &Path, new: &Path, revision: i64, progress: &Arc<Progress>) -> Result<bool, Error> {
    let (old, new, progress) = (old.to_owned(), new.to_owned(), Arc::clone(progress));
    let comparing = tokio::task::spawn_blocking(move || {
        let (old, new) = (Source::open(&old)?, Source::open(&new)?);
        // History may be compacted further in one of them; both are looked at as if it were in both.
        let compacted = old.compact_revision().max(new.compact_revision());
        let hash = |source| hash_kv(source, revision, compacted, &progress);
        Ok(hash(&old)?.hash == hash(&new)?.hash)
    });
    comparing
        .await
        .map_err(|_| Error::Cancelled)?
        .map_err(fetch::told)
}

/// Has a real etcd start on the directory of [`alone`], and tell its hash. Out: what is wrong with it.
pub(crate) async fn serve(
    serve: &dyn Serve,
    dir: &Path,
    etcd_version: &str,
    revision: i64,
    progress: &Arc<Progress>,
) -> Result<Option<String>, Error> {
    let staged = Staged {
        data_dir: dir,
        name: NAME,
        peer_url: PEER_URL,
        etcd_version,
        revision,
    };
    let answer = serve.serve(&staged).await?;
    let (dir, progress) = (dir.to_owned(), Arc::clone(progress));
    let compacted = Some(answer.compact_revision).filter(|revision| *revision > 0);
    let hashing = tokio::task::spawn_blocking(move || {
        let source = Source::open(&dir)?;
        hash_kv(&source, revision, compacted, &progress)
    });
    let found = hashing
        .await
        .map_err(|_| Error::Cancelled)?
        .map_err(fetch::told)?;
    let same = found.hash == answer.hash && answer.revision == revision;
    Ok((!same).then(|| {
        format!(
            "etcd says that the hash of revision {} is {}, and it is {} of revision {revision}",
            answer.revision, answer.hash, found.hash
        )
    }))
}
