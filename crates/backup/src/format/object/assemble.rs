//! An object put together frame by frame.
//!
//! In: frames in their order. Out: the bytes of the object as they come, and at the end what a record says of it. Frames
//! may be packed elsewhere and at the same time; this only puts them in a row.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::Facts;
use super::frame::{Frame, Packer};
use super::layout::{Entry, FRAMES_MAX, HEADER, Header, Kind, close};
use super::seal::{Key, Seal};
use crate::Error;
use crate::format::digest::Sha256Hex;

/// An object that is being put together.
pub struct Assembler {
    name: String,
    header: Header,
    key: Option<Key>,
    packer: Packer,
    entries: Vec<Entry>,
    offset: u64,
    plain: u64,
    whole: Sha256,
}

impl Assembler {
    /// Begins one called `name`. The bytes that come back are its first.
    pub fn new(name: &str, kind: Kind, key: Option<&Key>) -> Result<(Assembler, Bytes), Error> {
        let sealed = match key {
            None => None,
            Some(key) => {
                let mut salt = [0; 16];
                ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut salt)
                    .map_err(|_| Error::refused("the system gives no random numbers", "try again later"))?;
                Some((salt, key.id().bytes().unwrap_or_default()))
            }
        };
        let header = Header { kind, sealed };
        let seal = key.and_then(|key| Seal::new(key, &header)).map(Arc::new);
        let bytes = header.bytes();
        let assembler = Assembler {
            name: name.to_owned(),
            header,
            key: key.cloned(),
            packer: Packer { seal },
            entries: Vec::new(),
            offset: HEADER as u64,
            plain: 0,
            whole: Sha256::new().chain_update(bytes),
        };
        Ok((assembler, Bytes::copy_from_slice(&bytes)))
    }

    /// What packs its frames, here or in another thread.
    pub fn packer(&self) -> Packer {
        self.packer.clone()
    }

    /// How many frames it has; the number of the next.
    pub fn frames(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// The bytes so far, in the store.
    pub fn stored_bytes(&self) -> u64 {
        self.offset
    }

    /// Adds the next frame; gives its bytes back.
    pub fn add(&mut self, frame: Frame) -> Result<Bytes, Error> {
        if self.frames() >= FRAMES_MAX {
            return Err(Error::refused(
                format!("{} is larger than an object of an archive may be", self.name),
                "this cannot be stored",
            ));
        }
        self.entries.push(frame.entry);
        self.offset += frame.bytes.len() as u64;
        self.plain += u64::from(frame.entry.plain);
        self.whole.update(&frame.bytes);
        Ok(Bytes::from(frame.bytes))
    }

    /// Ends it: its last bytes, and what is to be said of it.
    pub fn finish(mut self) -> (Bytes, Facts) {
        let (bytes, index_sha256) = close(&self.header, self.offset, &self.entries);
        self.whole.update(&bytes);
        let facts = Facts {
            object: self.name,
            stored_bytes: self.offset + bytes.len() as u64,
            plain_bytes: self.plain,
            sha256: Sha256Hex(self.whole.finalize().into()),
            index_sha256,
            key: self.key.map(|key| key.id().clone()),
        };
        (Bytes::from(bytes), facts)
    }
}
