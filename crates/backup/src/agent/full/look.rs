//! What a full copy is of, read from the store.
//!
//! In: an object that was just uploaded. Out: its true revision and what else its database says. A handful of pages is
//! fetched, each with the frame around it; nothing lies on a disk of this machine.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use quorate_datadir::Source;
use quorate_datadir::bolt::{Bolt, Pages};
use tokio::runtime::Handle;

use crate::format::object::{self, Facts, Key, Opened};
use crate::{Error, Store};

/// Frames that are kept: the way down a tree goes back and forth between a few.
const KEPT: usize = 3;

/// What a database is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub revision: i64,
    /// Where history begins; -1 if it was never compacted.
    pub compact_revision: i64,
    /// The revision of users and roles.
    pub auth_revision: u64,
}

/// Looks at a full copy in a store.
pub async fn look(store: &Store, facts: &Facts, key: Option<&Key>) -> Result<Seen, Error> {
    let opened = object::open(store, facts, key).await?;
    let pages = FramePages {
        length: facts.plain_bytes,
        opened,
        runtime: Handle::current(),
        kept: Mutex::default(),
    };
    let name = facts.object.clone();
    let seen = tokio::task::spawn_blocking(move || {
        let source = Source::of(Bolt::from_pages(Box::new(pages), Path::new(&name))?)?;
        let auth = source.bolt().value(b"auth", b"authRevision")?;
        let auth = auth.and_then(|bytes| bytes.try_into().ok());
        Ok(Seen {
            revision: source.current_revision(),
            compact_revision: source.compact_revision().unwrap_or(-1),
            auth_revision: auth.map_or(0, u64::from_be_bytes),
        })
    });
    seen.await
        .unwrap_or_else(|_| Err(Error::damaged(facts.object.clone(), "it could not be read")))
}

/// The bytes of a database, by position, from the frames of an object.
struct FramePages {
    opened: Opened,
    length: u64,
    runtime: Handle,
    kept: Mutex<VecDeque<(u32, Vec<u8>)>>,
}

impl fmt::Debug for FramePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramePages")
            .field("object", &self.opened.name())
            .finish()
    }
}

impl FramePages {
    /// The frame that a position is in.
    fn frame(&self, offset: u64) -> u32 {
        let (mut low, mut high) = (0, self.opened.frames());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.opened.first(middle) <= offset {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }
}

impl Pages for FramePages {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.length {
            return Ok(0);
        }
        let number = self.frame(offset);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.iter().any(|(held, _)| *held == number) {
            let plain = self.runtime.block_on(self.opened.frame(number));
            let plain = plain.map_err(|error| io::Error::other(error.to_string()))?;
            kept.truncate(KEPT - 1);
            kept.push_front((number, plain));
        }
        let plain = kept.iter().find(|(held, _)| *held == number);
        let within = usize::try_from(offset - self.opened.first(number)).unwrap_or(usize::MAX);
        let rest = plain
            .and_then(|(_, plain)| plain.get(within..))
            .unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}
