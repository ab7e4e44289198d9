//! Marks that something in an archive is being read: a restore, a copy, a verification, a compaction.
//!
//! In: who reads. Out: an object that prune honours until it ends or runs out. Whoever may only read the store cannot
//! leave a mark; then the time between prune's record and its deletions is all there is.

use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::format::{lines, names};
use crate::{Archive, Error};

/// A mark that is not renewed runs out after this.
pub const RUNS_OUT: Duration = Duration::from_secs(3600);
/// How often to renew it.
pub const RENEW: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// What is being done, and where.
    pub who: String,
    /// It counts until then.
    pub until: Timestamp,
    /// Since when; what was read of the log is at least as new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// A mark that was left.
pub struct Hold {
    archive: Archive,
    name: String,
    who: String,
    since: Timestamp,
}

impl Hold {
    /// Leaves a mark. `None` if the store takes none: reading needs no right to write.
    pub async fn take(archive: &Archive, who: &str, now: Timestamp) -> Option<Hold> {
        let hold = Hold {
            archive: archive.clone(),
            name: names::hold(&names::unique()),
            who: who.to_owned(),
            since: now,
        };
        match hold.renew(now).await {
            Ok(()) => Some(hold),
            Err(error) => {
                tracing::debug!(%error, "no mark was left that the archive is being read");
                None
            }
        }
    }

    pub async fn renew(&self, now: Timestamp) -> Result<(), Error> {
        let mark = Mark {
            who: self.who.clone(),
            until: now + SignedDuration::try_from(RUNS_OUT).unwrap_or_default(),
            since: Some(self.since),
        };
        self.archive
            .store()
            .put(&self.name, Bytes::from(lines::write(&mark).0))
            .await
    }

    pub async fn release(self) {
        if let Err(error) = self.archive.store().delete(&self.name).await {
            tracing::debug!(%error, "a mark stays until it runs out");
        }
    }
}

/// Marks that count. One that cannot be read counts as long as it could have been written for.
pub async fn marks(archive: &Archive, now: Timestamp) -> Result<Vec<Mark>, Error> {
    let mut marks = Vec::new();
    for found in archive.store().list(names::HOLDS, None).await? {
        let mark = match archive.store().get(&found.name, 64 << 10).await {
            Ok(bytes) => lines::read::<Mark>(&bytes).ok(),
            Err(error) if error.is_missing() => continue,
            Err(error) => return Err(error),
        };
        let mark = mark.unwrap_or_else(|| Mark {
            who: format!("an unreadable mark, {}", found.name),
            until: found.modified + SignedDuration::try_from(RUNS_OUT).unwrap_or_default(),
            since: None,
        });
        if mark.until > now {
            marks.push(mark);
        }
    }
    Ok(marks)
}
