//! What lies in a data directory, as far as a start depends on it.
//!
//! In: a directory that is held. Out: [`Data`]. Never: judged while a process has the database open; damage taken for
//! emptiness.

use std::path::Path;

use quorate_core::model::{ClusterId, MemberId};
use quorate_datadir::{Attempt, DbLock, Look};

use crate::Error;
use crate::error::data;

/// What lies in a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    Nothing,
    /// No write-ahead log, but something: what a first start leaves that got no further, or what is left of a log.
    Remains {
        why: String,
    },
    /// A log in which nothing is promised, so that a first start may be made once more. etcd itself would go on from it
    /// for ever without serving.
    Blank,
    Member(Identity),
    /// Something that etcd could not start from.
    Damaged {
        why: String,
    },
}

/// Whose data it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub member: MemberId,
    pub cluster: ClusterId,
    /// The newest minor that is known to have written there.
    pub minor: Option<u64>,
    /// The last index in its log, where that was read.
    pub last_index: Option<u64>,
}

impl Identity {
    /// Is it the one that is expected, as far as one is?
    pub fn is(&self, member: Option<MemberId>, cluster: Option<ClusterId>) -> bool {
        member.is_none_or(|id| id == self.member) && cluster.is_none_or(|id| id == self.cluster)
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "member {} of cluster {}", self.member, self.cluster)
    }
}

impl Data {
    /// The same with what the log in `directory` comes to. That takes as long as reading it.
    pub(crate) fn with_log(self, directory: &Path) -> Data {
        match self {
            Data::Member(identity) => Data::Member(Identity {
                last_index: quorate_datadir::last_index(directory).ok().flatten(),
                ..identity
            }),
            other => other,
        }
    }
}

/// Looks into `directory`, whose volume is held.
pub(crate) fn judge(directory: &Path) -> Result<Data, Error> {
    let _lock = match DbLock::try_hold(directory).map_err(data("lock", directory))? {
        Attempt::Held(lock) => Some(lock),
        Attempt::NoDb => None,
        Attempt::Busy { holder } => {
            let in_use = quorate_datadir::Error::InUse {
                path: directory.to_owned(),
                holder,
            };
            return Err(data("look at", directory)(in_use));
        }
    };
    let look = quorate_datadir::look(directory).map_err(data("look at", directory))?;
    Ok(match look {
        Look::Empty => Data::Nothing,
        Look::NoWal { what_is_there } => {
            let some = what_is_there.iter().take(4);
            let files: Vec<String> = some.map(|path| path.display().to_string()).collect();
            Data::Remains {
                why: format!("there is no write-ahead log, only {}", files.join(", ")),
            }
        }
        Look::Unborn { .. } => Data::Blank,
        Look::Data(found) => Data::Member(Identity {
            member: MemberId(found.member_id),
            cluster: ClusterId(found.cluster_id),
            minor: [found.storage_version, found.cluster_version]
                .into_iter()
                .flatten()
                .map(|version| version.minor)
                .max(),
            last_index: None,
        }),
        Look::Damaged { path, why } => Data::Damaged {
            why: format!("{}: {why}", path.display()),
        },
    })
}
