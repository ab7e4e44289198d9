//! What a restore will use, where it gets, and what it takes; made before anything is written.
//!
//! In: an archive, a point: its end, a revision, a time. Out: a full copy and deltas, every one of them opened and its
//! index checked; the revision reached; how wide the bracket of a time is; bytes, room, seconds; how old users and roles
//! are; leases whose time to live nobody knows. What turned out to be damaged or gone is passed over, and said.
//! Never: a plan with a hole; a point other than the one asked for without a word.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod book;
mod show;

use jiff::Timestamp;

use super::clock::Bracket;
use crate::format::object::Opened;
use crate::format::record::{Delta, Full, Lease};
use crate::log::Fault;
use crate::{Archive, Error};

pub use book::Book;
pub(crate) use book::fault;

/// A lease whose time to live could not be asked for gets this one, in seconds.
pub const LEASE_TTL_DEFAULT: i64 = 3600;

/// A point of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Which timeline; the newest if none is named.
    pub timeline: Option<u32>,
    pub to: To,
}

/// A point of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum To {
    /// As far as it goes.
    #[default]
    End,
    Revision(i64),
    /// The last revision known to be committed by then.
    Time(Timestamp),
}

/// A delta, and which of its revisions are taken.
#[derive(Clone)]
pub struct Planned {
    /// What its record says, but for its samples.
    pub delta: Delta,
    /// The first revision taken.
    pub from: i64,
    pub to: i64,
    pub(crate) opened: Opened,
}

/// What will be used, and what comes of it.
#[derive(Clone)]
pub struct Plan {
    pub(crate) book: Book,
    pub timeline: u32,
    /// The full copy to begin with.
    pub full: Full,
    pub(crate) base: Opened,
    /// It is cut off at this revision.
    pub cut: Option<i64>,
    pub deltas: Vec<Planned>,
    pub revision: i64,
    /// When that revision was known to exist.
    pub known: Option<Timestamp>,
    /// The revision for a time, if one was asked for.
    pub bracket: Option<Bracket>,
    /// The last revision that the archive speaks of.
    pub last_known: i64,
    /// Users and roles are sure to be those of the point: nothing changed about them until a full copy after it.
    pub auth_is_sure: bool,
    /// Leases that are told of besides those of the full copy.
    pub leases: Vec<Lease>,
    /// What is wrong with the log.
    pub faults: Vec<Fault>,
}

pub async fn plan(archive: &Archive, wanted: Wanted) -> Result<Plan, Error> {
    Book::open(archive, wanted).await?.plan().await
}

impl Plan {
    /// Bytes that are fetched.
    pub fn fetch_bytes(&self) -> u64 {
        let deltas = self.deltas.iter().map(|planned| planned.delta.facts.stored_bytes);
        self.full.facts.stored_bytes + deltas.sum::<u64>()
    }

    /// Bytes that are unpacked.
    pub fn plain_bytes(&self) -> u64 {
        let deltas = self.deltas.iter().map(|planned| planned.delta.facts.plain_bytes);
        self.full.facts.plain_bytes + deltas.sum::<u64>()
    }

    /// The room that the database will take, at most.
    pub fn database_bytes(&self) -> u64 {
        let rows = self
            .deltas
            .iter()
            .map(|planned| planned.delta.row_bytes)
            .sum::<u64>();
        let headers = self
            .deltas
            .iter()
            .map(|planned| planned.delta.rows * 16)
            .sum::<u64>();
        // Rows fill pages but for what the next one is too large for.
        self.full.facts.plain_bytes + (rows + headers) / 4 * 5 + (1 << 20)
    }

    /// Leases whose time to live nobody knows; they get [`LEASE_TTL_DEFAULT`].
    pub fn unknown_leases(&self) -> impl Iterator<Item = i64> + '_ {
        self.leases
            .iter()
            .filter(|lease| lease.ttl.is_none())
            .map(|lease| lease.id)
    }

    /// Objects that were passed over, and why.
    pub fn passed_over(&self) -> impl Iterator<Item = (&str, &str)> {
        self.book.bad.iter().map(|(object, why)| (&object[..], &why[..]))
    }

    /// The leases to be set.
    pub(crate) fn lease_rows(&self) -> Vec<quorate_datadir::Lease> {
        let row = |lease: &Lease| quorate_datadir::Lease {
            id: lease.id,
            ttl: lease.ttl.unwrap_or(LEASE_TTL_DEFAULT),
        };
        self.leases.iter().map(row).collect()
    }

    /// Which object is to blame for an error, and why; the error itself if none is.
    pub(crate) async fn blame(&self, error: Error) -> Result<(String, String), Error> {
        let used =
            std::iter::once(&self.full.facts).chain(self.deltas.iter().map(|planned| &planned.delta.facts));
        let named = match &error {
            Error::Damaged { object, .. } | Error::Store { object, .. } => object.clone(),
            _ => return Err(error),
        };
        let Some(facts) = used.into_iter().find(|facts| facts.object == named) else {
            return Err(error);
        };
        let why = book::fault(self.book.archive().store(), facts, error).await?;
        Ok((named, why))
    }

    /// The same point without an object that turned out to be damaged or gone.
    pub(crate) async fn without(mut self, object: &str, why: &str) -> Result<Plan, Error> {
        let (promised, ends) = (self.revision, self.book.wanted.to == To::End);
        self.book.bad.insert(object.to_owned(), why.to_owned());
        let again = self.book.plan().await?;
        if ends && again.revision != promised {
            return Err(Error::refused(
                format!(
                    "{object} is damaged ({why}), and without it revision {promised} cannot be reached, only {}",
                    again.revision
                ),
                format!("ask for what is left: --to-revision {}", again.revision),
            ));
        }
        Ok(again)
    }
}
