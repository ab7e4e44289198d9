//! A delta on its way from events to an object.
//!
//! In: rows in the order of their revisions. Out: the object, whole in memory while it is small, so that it can be sent
//! again and again; or streamed into the store, where one revision alone is larger than a delta should be.
//! Never: more in memory than a delta's size and a frame.

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::format::delta::{Builder, Content, FRAME_BYTES, Plain, Row};
use crate::format::names;
use crate::format::object::{Assembler, Facts, Kind, Packer, pack};
use crate::{Archive, Error, Upload};

/// More than this is not taken before it is needed.
const SIZE_MAX: usize = 64 << 20;

/// A delta that is being made.
pub struct Building {
    archive: Archive,
    timeline: u32,
    from: i64,
    builder: Builder,
    assembler: Assembler,
    packer: Packer,
    stored: BytesMut,
    /// So much it is expected to grow to.
    size: usize,
    streaming: Option<(Upload, String)>,
    began: Option<(Instant, Timestamp)>,
}

/// A delta that is made.
#[derive(Debug)]
pub struct Sealed {
    /// What is in it.
    pub content: Content,
    pub facts: Facts,
    /// Its bytes, if they are not in the store yet.
    pub bytes: Option<Bytes>,
}

impl Building {
    /// Begins one with the first row of revision `from`, that will have about `size` bytes if it fills up.
    pub fn new(archive: &Archive, timeline: u32, from: i64, size: u64) -> Result<Building, Error> {
        let (assembler, head) = Assembler::new("", Kind::Delta, archive.key())?;
        let packer = assembler.packer();
        Ok(Building {
            archive: archive.clone(),
            timeline,
            from,
            builder: Builder::new(from),
            assembler,
            packer,
            stored: BytesMut::from(&head[..]),
            size: usize::try_from(size).unwrap_or(usize::MAX).min(SIZE_MAX),
            streaming: None,
            began: None,
        })
    }

    pub fn from(&self) -> i64 {
        self.from
    }

    /// What it holds so far.
    pub fn content(&self) -> Option<Content> {
        self.builder.content()
    }

    pub fn rows(&self) -> u64 {
        self.content().map_or(0, |content| content.rows)
    }

    /// Its bytes, nearly as they will be stored.
    pub fn stored_bytes(&self) -> u64 {
        self.assembler.stored_bytes() + self.builder.pending_bytes() as u64
    }

    /// When its first row came.
    pub fn began(&self) -> Option<(Instant, Timestamp)> {
        self.began
    }

    /// It goes into the store as it is made.
    pub fn is_streaming(&self) -> bool {
        self.streaming.is_some()
    }

    /// Adds a row. After an error of the store only giving up is left.
    pub async fn push(&mut self, row: Row<'_>) -> Result<(), Error> {
        let full = self.builder.push(row)?;
        if self.began.is_none() {
            self.began = Some((Instant::now(), Timestamp::now()));
        }
        match full {
            Some(plain) => self.frame(plain).await,
            None => Ok(()),
        }
    }

    async fn frame(&mut self, plain: Plain) -> Result<(), Error> {
        let number = self.assembler.frames();
        let frame = pack(&self.packer, number, plain.first, &plain.bytes)
            .ok_or_else(|| Error::refused("a change is too large to be stored", "this cannot be archived"))?;
        drop(plain);
        let bytes = self.assembler.add(frame)?;
        self.write(bytes).await
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        match &mut self.streaming {
            Some((upload, _)) => upload.write(bytes).await,
            None => {
                // All at once: to double it again and again would take three times as much for a moment.
                if self.assembler.frames() == 1 && bytes.len() >= FRAME_BYTES / 2 {
                    self.stored.reserve(self.size + 2 * FRAME_BYTES);
                }
                self.stored.extend_from_slice(&bytes);
                Ok(())
            }
        }
    }

    /// From here on it goes into the store as it is made; it ends with the revision of its last row.
    pub async fn stream(&mut self) -> Result<(), Error> {
        let to = self.content().map_or(self.from, |content| content.to);
        let name = names::delta(self.timeline, self.from, to, &names::unique());
        let mut upload = self.archive.store().upload(&name).await?;
        upload.write(std::mem::take(&mut self.stored).freeze()).await?;
        self.streaming = Some((upload, name));
        Ok(())
    }

    /// Ends it. The last row must be the last of its revision.
    pub async fn seal(mut self) -> Result<Sealed, Error> {
        if let Some(rest) = self.builder.rest() {
            self.frame(rest).await?;
        }
        let content = self
            .builder
            .content()
            .ok_or_else(|| Error::refused("a delta without changes", "this is a fault of quorate"))?;
        let (tail, mut facts) = self.assembler.finish();
        let bytes = match self.streaming.take() {
            Some((mut upload, name)) => {
                upload.write(tail).await?;
                upload.finish().await?;
                facts.object = name;
                None
            }
            None => {
                self.stored.extend_from_slice(&tail);
                facts.object = names::delta(self.timeline, content.from, content.to, &names::unique());
                Some(self.stored.freeze())
            }
        };
        Ok(Sealed {
            content,
            facts,
            bytes,
        })
    }
}
