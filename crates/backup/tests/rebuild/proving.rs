//! Archives verified: whole ones are proven, and nothing that is changed or gone stays unseen; and compacted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, iter};

use futures::future::BoxFuture;
use quorate_backup::compact::{Compaction, Keep, compact};
use quorate_backup::plan::{To, plan};
use quorate_backup::record::{Hash, Level, Made};
use quorate_backup::verify::{Fulls, Options, Recording, Report, Serve, Staged, verify};
use quorate_backup::{Archive, Error};
use quorate_datadir::{Progress, Source, hash_kv};

use super::archived::{Archived, BEGIN, Told, open, timestamp};
use super::{copy_dir, restored, to};

/// An etcd that says of any directory what is in it, or something else.
struct Says {
    other: bool,
}

impl Serve for Says {
    fn serve<'a>(&'a self, staged: &'a Staged<'a>) -> BoxFuture<'a, Result<Hash, Error>> {
        Box::pin(async move {
            let source = Source::open(staged.data_dir)?;
            let hash = hash_kv(&source, staged.revision, None, &Progress::new())?;
            Ok(Hash {
                hash: hash.hash ^ u32::from(self.other),
                revision: hash.revision,
                compact_revision: hash.compact_revision,
            })
        })
    }
}

async fn verified(archive: &Archive, level: Level, scratch: &Path) -> Report {
    let options = Options {
        timeline: None,
        level,
        fulls: Fulls::All,
        scratch,
        serve: Some(&Says { other: false }),
        writer: "test/verify",
        record: Recording::Told,
    };
    let progress = Arc::new(Progress::new());
    verify(archive, &options, &progress, timestamp(BEGIN))
        .await
        .unwrap()
}

pub async fn whole_archives(told: &Told, made: &Archived) {
    let scratch = told.root.path();
    for level in [Level::Read, Level::Rebuilt, Level::Served] {
        let options = Options {
            timeline: None,
            level,
            fulls: Fulls::All,
            scratch,
            serve: Some(&Says { other: false }),
            writer: "test/verify",
            record: Recording::Recorded,
        };
        let progress = Arc::new(Progress::new());
        let report = verify(&made.archive, &options, &progress, timestamp(BEGIN))
            .await
            .unwrap();
        assert_eq!((&report.findings[..], &report.notes[..]), (&[][..], &[][..]));
        let proof = report.proof.unwrap();
        assert_eq!((proof.level, proof.revision), (level, told.said.revision));
        if let Some(rebuilt) = report.rebuilt {
            // Both fulls' and, later, the proof's; the newest full held against the older one.
            assert!(rebuilt.hashes >= 1, "{rebuilt:?}");
            assert_eq!(rebuilt.fulls, 1, "{rebuilt:?}");
            assert_eq!(rebuilt.hash.hash, told.said.hashes.last().unwrap().hash);
        }
        assert!(report.fulls == 2 && report.deltas > 3 && report.records > 5 && report.bytes > 1000);
    }
    let history = made.archive.history(1).await.unwrap();
    assert_eq!(history.proofs().count(), 3);
    let options = Options {
        timeline: None,
        level: Level::Served,
        fulls: Fulls::Newest,
        scratch,
        serve: Some(&Says { other: true }),
        writer: "test/verify",
        record: Recording::Recorded,
    };
    let report = verify(
        &made.archive,
        &options,
        &Arc::new(Progress::new()),
        timestamp(BEGIN),
    )
    .await
    .unwrap();
    assert!(report.proof.is_none() && report.findings.len() == 1, "{report:?}");
    let left: Vec<_> = fs::read_dir(scratch)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".quorate")),
        "{left:?}"
    );
}

fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// Each file with a flipped bit, cut off, gone: `verify` finds it, and names it.
pub async fn every_file(told: &Told, made: &Archived) {
    let dir = told.root.path().join("bits");
    copy_dir(&made.dir, &dir);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut tried = 0;
    for path in files(&dir) {
        let name = path.strip_prefix(&dir).unwrap().to_str().unwrap().to_owned();
        // The store's own: drafts, and what it is known by.
        if name.starts_with('.') {
            continue;
        }
        let sound = fs::read(&path).unwrap();
        let flips = iter::repeat_with(|| Some(rng.usize(..sound.len() * 8))).take(2);
        // Whether a mark should be there nothing tells but the mark.
        let gone = [None].into_iter().filter(|_| !name.starts_with("restored/"));
        for change in flips.chain(gone).collect::<Vec<_>>() {
            match change {
                Some(bit) => {
                    let mut bytes = sound.clone();
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    fs::write(&path, bytes).unwrap();
                }
                None => fs::remove_file(&path).unwrap(),
            }
            let found = find(&dir, told.root.path()).await;
            assert!(
                found.iter().any(|found| found.contains(&name)),
                "{name} {change:?}: {found:?}"
            );
            fs::write(&path, &sound).unwrap();
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
    assert_eq!(find(&dir, told.root.path()).await, [""; 0]);
    fs::remove_dir_all(&dir).unwrap();
}

/// The names of what is found wrong.
async fn find(dir: &Path, scratch: &Path) -> Vec<String> {
    let url = quorate_backup::StoreUrl::parse(&format!("file://{}", dir.display())).unwrap();
    let store = quorate_backup::Store::open(&url, &quorate_backup::StoreOptions::default())
        .await
        .unwrap();
    let archive = match Archive::open(&store, None).await {
        Ok(archive) => archive,
        Err(error) => return vec![error.to_string()],
    };
    let report = verified(&archive, Level::Read, scratch).await;
    assert!(report.findings.is_empty() == report.proof.is_some(), "{report:?}");
    report
        .findings
        .into_iter()
        .map(|finding| finding.object)
        .collect()
}

/// Older full and deltas become a new full; what is restored from it is the same.
pub async fn compaction(told: &Told, made: &Archived) {
    let dir = told.root.path().join("compacted");
    copy_dir(&made.dir, &dir);
    let archive = open(&dir).await;
    let between = told.revision_of(1);
    let progress = Arc::new(Progress::new());
    for (revision, keep) in [(between + 150, Keep::History), (between + 333, Keep::Keys)] {
        let wanted = Compaction {
            wanted: to(To::Revision(revision)),
            keep,
            scratch: told.root.path(),
            writer: "test/compact",
        };
        let made = compact(&archive, &wanted, &progress, timestamp(BEGIN))
            .await
            .unwrap();
        assert!(!made.was_there);
        assert_eq!((made.full.revision, made.full.made), (revision, Made::Compaction));
        let compacted = match keep {
            Keep::Keys => revision,
            Keep::History => told.compacted(),
        };
        assert_eq!(made.full.compact_revision, compacted);
        let planned = plan(&archive, to(To::Revision(revision + 1))).await.unwrap();
        assert_eq!(planned.full.facts, made.full.facts);
        // Changes do not tell of users: those in it are as old as in what it was made of.
        assert_eq!(planned.full.auth(), made.plan.full.auth());
        assert!(planned.full.auth().revision <= between);
        let out = told.root.path().join("out");
        let outcome = restored(&archive, to(To::Revision(revision + 1)), &out)
            .await
            .unwrap();
        assert_eq!(outcome.plan.deltas.len(), 1);
        let found = hash_kv(&Source::open(&out).unwrap(), 0, Some(compacted), &Progress::new()).unwrap();
        assert_eq!(found, told.hash(revision + 1, Some(compacted)));
        fs::remove_dir_all(&out).unwrap();
        let again = compact(&archive, &wanted, &progress, timestamp(BEGIN))
            .await
            .unwrap();
        assert!(again.was_there);
    }
    let report = verified(&archive, Level::Rebuilt, told.root.path()).await;
    assert!(report.findings.is_empty(), "{report:?}");
    assert_eq!(report.rebuilt.unwrap().fulls, 3);
    fs::remove_dir_all(&dir).unwrap();
}
