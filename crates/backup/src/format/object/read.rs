//! An object in a store, read frame by frame.
//!
//! In: what a record says of the object. Out: its frames, in any order, each believed only if it is what was written.

use std::ops::Range;
use std::sync::Arc;

use super::layout::{Entry, FOOTER, HEADER, Header, Kind, index_offset, read_index};
use super::seal::{Key, Seal};
use super::{Facts, frame};
use crate::{Error, Store};

/// So much of the end is asked for at once: the whole index of all but the largest.
const TAIL: u64 = 64 << 10;
/// What is read to know a whole object's hash, at a time.
const PIECE: u64 = 8 << 20;

/// An object whose index has been read.
#[derive(Clone)]
pub struct Opened {
    store: Store,
    name: Arc<str>,
    kind: Kind,
    seal: Option<Arc<Seal>>,
    entries: Arc<[Entry]>,
    offsets: Arc<[u64]>,
}

/// Opens what `facts` names.
pub async fn open(store: &Store, facts: &Facts, key: Option<&Key>) -> Result<Opened, Error> {
    let name = &facts.object;
    let damaged = |why: &str| Error::damaged(name.clone(), why);
    let length = facts.stored_bytes;
    if length < (HEADER + FOOTER) as u64 {
        return Err(damaged("it is too short to be an object of an archive"));
    }
    let tail = store.get_range(name, length.saturating_sub(TAIL)..length).await?;
    let footer = tail.get(tail.len().saturating_sub(FOOTER)..).unwrap_or_default();
    let offset = index_offset(footer, length).map_err(damaged)?;
    let missing = (length - offset).saturating_sub(tail.len() as u64);
    let mut index = Vec::new();
    if missing > 0 {
        index.extend_from_slice(&store.get_range(name, offset..offset + missing).await?);
    }
    let kept = usize::try_from((length - offset).min(tail.len() as u64)).unwrap_or(0);
    index.extend_from_slice(tail.get(tail.len().saturating_sub(kept)..).unwrap_or_default());
    let header = match tail.len() as u64 == length {
        true => tail.slice(..HEADER),
        false => store.get_range(name, 0..HEADER as u64).await?,
    };
    let entries = read_index(&header, &index, facts.index_sha256).map_err(damaged)?;
    let header = Header::read(&header).ok_or_else(|| damaged("it begins as no object of an archive does"))?;
    let mut offsets = Vec::with_capacity(entries.len() + 1);
    let mut at = HEADER as u64;
    for entry in &entries {
        offsets.push(at);
        at += u64::from(entry.stored);
    }
    offsets.push(at);
    if at != offset {
        return Err(damaged("its frames do not fill it"));
    }
    let seal = match (header.sealed, key) {
        (None, _) => None,
        (Some((_, id)), Some(key)) if key.id().bytes() == Some(id) => Seal::new(key, &header).map(Arc::new),
        (Some((_, id)), key) => return Err(locked(name, &super::KeyId::of(id), key)),
    };
    Ok(Opened {
        store: store.clone(),
        name: Arc::from(name.as_str()),
        kind: header.kind,
        seal,
        entries: entries.into(),
        offsets: offsets.into(),
    })
}

fn locked(name: &str, id: &super::KeyId, key: Option<&Key>) -> Error {
    let have = match key {
        None => "none was given".to_owned(),
        Some(key) => format!("the one given is {}", key.id()),
    };
    Error::refused(
        format!("{name} is encrypted with key {id}, and {have}"),
        "give the key file it was written with: --key-file FILE",
    )
}

impl Opened {
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many frames it has.
    pub fn frames(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// The first byte or revision of a frame.
    pub fn first(&self, number: u32) -> u64 {
        self.entries.get(number as usize).map_or(0, |entry| entry.first)
    }

    /// The bytes of a frame, unpacked.
    pub fn plain_bytes(&self, number: u32) -> u64 {
        self.entries
            .get(number as usize)
            .map_or(0, |entry| u64::from(entry.plain))
    }

    /// The bytes of a frame, in the store.
    pub fn stored_bytes(&self, number: u32) -> u64 {
        self.entries
            .get(number as usize)
            .map_or(0, |entry| u64::from(entry.stored))
    }

    /// Where frames lie in the object.
    fn range(&self, number: u32) -> Range<u64> {
        let at = |number: usize| self.offsets.get(number).copied().unwrap_or(0);
        at(number as usize)..at(number as usize + 1)
    }

    /// Fetches frame `number`, as it is stored.
    pub async fn fetch(&self, number: u32) -> Result<bytes::Bytes, Error> {
        self.store.get_range(&self.name, self.range(number)).await
    }

    /// Fetches several neighbouring frames by one request.
    pub async fn fetch_many(&self, numbers: Range<u32>) -> Result<Vec<bytes::Bytes>, Error> {
        let begin = self.range(numbers.start).start;
        let end = self.range(numbers.end.saturating_sub(1)).end;
        let bytes = self.store.get_range(&self.name, begin..end).await?;
        let cut = |number: u32| {
            let range = self.range(number);
            let at = |offset: u64| {
                usize::try_from(offset - begin)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len())
            };
            bytes.slice(at(range.start)..at(range.end))
        };
        Ok(numbers.map(cut).collect())
    }

    /// Neighbouring frames of `numbers` that are fetched together: not more than `limit` bytes, or one.
    pub fn groups(&self, numbers: Range<u32>, limit: u64) -> Vec<Range<u32>> {
        let mut groups: Vec<Range<u32>> = Vec::new();
        let mut bytes = 0;
        for number in numbers {
            let more = self.stored_bytes(number);
            match groups.last_mut() {
                Some(last) if bytes + more <= limit => {
                    last.end = number + 1;
                    bytes += more;
                }
                _ => {
                    groups.push(number..number + 1);
                    bytes = more;
                }
            }
        }
        groups
    }

    /// Unpacks what [`Opened::fetch`] gave. Work for a thread that may compute.
    pub fn unpack(&self, number: u32, stored: &[u8]) -> Result<Vec<u8>, Error> {
        let mut plain = Vec::new();
        self.unpack_into(number, stored, &mut plain)?;
        Ok(plain)
    }

    /// The same, into `plain`, whose room is used again.
    pub fn unpack_into(&self, number: u32, stored: &[u8], plain: &mut Vec<u8>) -> Result<(), Error> {
        let entry = self.entries.get(number as usize);
        let entry = entry.ok_or_else(|| Error::damaged(&*self.name, format!("it has no frame {number}")))?;
        frame::unpack(self.seal.as_deref(), number, entry, stored, plain)
            .map_err(|why| Error::damaged(&*self.name, format!("frame {number}: {why}")))
    }

    /// Fetches and unpacks one frame.
    pub async fn frame(&self, number: u32) -> Result<Vec<u8>, Error> {
        self.unpack(number, &self.fetch(number).await?)
    }
}

/// Reads all of an object and compares its hash; `seen` hears how many bytes were read.
pub async fn rehash(store: &Store, facts: &Facts, mut seen: impl FnMut(u64)) -> Result<(), Error> {
    use sha2::{Digest as _, Sha256};
    let mut sum = Sha256::new();
    let mut at = 0;
    let size = store.head(&facts.object).await?.size;
    if size != facts.stored_bytes {
        let why = format!("it has {size} bytes, and {} were written", facts.stored_bytes);
        return Err(Error::damaged(facts.object.clone(), why));
    }
    while at < facts.stored_bytes {
        let end = (at + PIECE).min(facts.stored_bytes);
        let piece = store.get_range(&facts.object, at..end).await?;
        sum.update(&piece);
        seen(end - at);
        at = end;
    }
    let found: [u8; 32] = sum.finalize().into();
    match found == facts.sha256.0 {
        true => Ok(()),
        false => Err(Error::damaged(
            facts.object.clone(),
            "its bytes are not those that were written",
        )),
    }
}
