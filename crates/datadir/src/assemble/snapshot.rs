//! A snapshot file put together: a base, the rows that came after it, compacted.
//!
//! In: an [`Assembly`]. Out: a file as `etcdctl snapshot save` writes it: the database, and its SHA-256 behind. It is read
//! back and verified before it gets its name.
//! It is made to be passed on: a power cut may lose it.
//! Never: a file under that name which was not found intact.

use std::path::Path;

use super::rewrite::Changes;
use super::{Assembly, Into, Ready, Shape, assemble};
use crate::Error;
use crate::bolt::{Bolt, DIGEST};
use crate::examine::verify::{Verdict, verify};
use crate::files::digest;
use crate::files::durable::Draft;
use crate::mvcc::Source;
use crate::progress::Progress;

/// A snapshot that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fresh {
    /// The revision of its last change.
    pub revision: i64,
    /// Up to where history is compacted.
    pub compact_revision: Option<i64>,
    /// Its length, with the hash.
    pub bytes: u64,
    /// What was found when it was read back.
    pub verdict: Verdict,
}

/// Rows of `key` and leases change, nothing else.
struct AsItIs;

impl Shape for AsItIs {
    fn changes(&mut self, _: &Source) -> Result<Changes, Error> {
        Ok(Changes::default())
    }

    fn bump(&self) -> Option<i64> {
        None
    }
}

/// Writes the snapshot `path`; one that is there is replaced once the new one is found intact.
pub fn write_snapshot(assembly: Assembly<'_>, path: &Path, progress: &Progress) -> Result<Fresh, Error> {
    let (ready, rest) = assembly.split()?;
    if let Ready::Opened(source) = &ready {
        rest.check(source)?;
        if !source.bolt().has_digest() {
            verify(source, progress)?;
        }
    }
    let draft = Draft::among_others(path).map_err(Error::write(path))?;
    let temporary = draft.temporary().to_owned();
    let again = || draft.file().try_clone().map_err(Error::write(path));
    let into = Into {
        file: again()?,
        path: &temporary,
        passing: true,
    };
    let made = assemble(ready, rest, &mut AsItIs, &into, progress)?;
    let source = Source::of(Bolt::from_file(again()?, &temporary)?)?;
    progress.expect(made.size);
    // Both read the whole file: side by side, what one has read the other finds in memory.
    let (digest, verdict) = std::thread::scope(|scope| {
        let hashing = scope.spawn(|| digest::append(draft.file(), path, progress));
        let verdict = verify(&source, progress);
        (hashing.join().unwrap_or(Err(Error::Cancelled)), verdict)
    });
    let fresh = Fresh {
        revision: source.current_revision(),
        compact_revision: source.compact_revision(),
        bytes: source.bolt().length() + DIGEST,
        verdict: Verdict {
            digest: Some(digest?),
            ..verdict?
        },
    };
    if fresh.revision != made.revision {
        return Err(Error::Damaged {
            path: path.to_owned(),
            place: "its last revision".to_owned(),
            why: format!("it is {}, and should be {}", fresh.revision, made.revision),
        });
    }
    if made.hash.is_some_and(|hash| hash != fresh.verdict.hash_kv.hash) {
        return Err(Error::Damaged {
            path: path.to_owned(),
            place: "its keys".to_owned(),
            why: "their HashKV is another one than that of what was compacted".to_owned(),
        });
    }
    draft.publish_fast().map_err(Error::write(path))?;
    Ok(fresh)
}
