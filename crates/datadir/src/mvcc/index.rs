//! What is known of every key while the rows of a history pass by: is it there, and since when.
//!
//! In: rows of `key` in order. Out: whether each is what etcd would have written after those before it ([`History`]), how
//! many keys there are, which rows are the last of theirs. A key is known by eighty bits of a keyed hash, so that a key
//! costs the same whatever its length: at most 64 bytes a key that is there, nothing for one that was deleted.
//! Never: the keys themselves kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use super::row::{KeyValue, RowKey};

/// Each part grows by itself: the memory of one growing is a small part of all.
const PARTS: usize = 256;

/// What a key is known by.
type Print = [u8; 10];

/// A number for each of many keys.
#[derive(Debug)]
pub(crate) struct KeyIndex<V> {
    seeds: (RandomState, RandomState),
    parts: Vec<HashMap<Print, V, BuildHasherDefault<Straight>>>,
}

/// The prints are hashes already.
#[derive(Debug, Default)]
struct Straight(u64);

impl Hasher for Straight {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(bytes) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*bytes);
        }
    }

    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<V: Copy> KeyIndex<V> {
    pub(crate) fn new() -> KeyIndex<V> {
        KeyIndex {
            seeds: (RandomState::new(), RandomState::new()),
            parts: (0..PARTS).map(|_| HashMap::default()).collect(),
        }
    }

    fn print(&self, key: &[u8]) -> (usize, Print) {
        let (first, second) = (self.seeds.0.hash_one(key), self.seeds.1.hash_one(key));
        let mut print = [0; 10];
        print[..8].copy_from_slice(&first.to_ne_bytes());
        print[8..].copy_from_slice(&(second as u16).to_ne_bytes());
        ((second >> 16) as usize % PARTS, print)
    }

    /// Sets a key's number. Out: what it was.
    #[allow(clippy::indexing_slicing, reason = "a part is a remainder of their number")]
    pub(crate) fn insert(&mut self, key: &[u8], value: V) -> Option<V> {
        let (part, print) = self.print(key);
        self.parts[part].insert(print, value)
    }

    #[allow(clippy::indexing_slicing, reason = "a part is a remainder of their number")]
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let (part, print) = self.print(key);
        self.parts[part].remove(&print)
    }

    /// How many keys are known.
    pub(crate) fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// All numbers, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = V> + '_ {
        self.parts.iter().flat_map(|part| part.values().copied())
    }
}

/// What is known of a key that is there: since which revision, how often written, and by which row last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    create: [u8; 8],
    version: [u8; 4],
    row: [u8; 4],
}

impl State {
    fn new(create: i64, version: i64, row: u32) -> State {
        State {
            create: create.to_ne_bytes(),
            version: (version as u32).to_ne_bytes(),
            row: row.to_ne_bytes(),
        }
    }

    fn create(self) -> i64 {
        i64::from_ne_bytes(self.create)
    }

    fn version(self) -> u32 {
        u32::from_ne_bytes(self.version)
    }

    fn row(self) -> u32 {
        u32::from_ne_bytes(self.row)
    }
}

/// The rows of a history as they pass by, each held against those before it.
#[derive(Debug)]
pub(crate) struct History {
    keys: KeyIndex<State>,
    compacted: i64,
    /// The compaction was finished.
    done: bool,
    last: Option<RowKey>,
    rows: u32,
    /// How many of them the compaction reaches.
    early: u32,
    /// One of those is not the last of a key that is there.
    superseded: bool,
}

impl History {
    /// A history that was compacted up to there, or is being.
    pub(crate) fn new(compacted: Option<i64>, done: bool) -> History {
        History {
            keys: KeyIndex::new(),
            // A compaction at revision 0 is allowed, and there is no revision 1.
            compacted: compacted.unwrap_or(1).max(1),
            done,
            last: None,
            rows: 0,
            early: 0,
            superseded: false,
        }
    }

    /// Takes the next row. An error if etcd would not have written it.
    pub(crate) fn take(&mut self, row: RowKey, kv: &KeyValue<'_>) -> Result<(), &'static str> {
        let number = self.rows;
        self.rows = self
            .rows
            .checked_add(1)
            .ok_or("there are more rows than can be counted")?;
        self.order(row)?;
        self.last = Some(row);
        let main = row.revision.main;
        let whole = main > self.compacted;
        if !whole {
            self.early = self.rows;
        }
        if *kv == KeyValue::default() {
            // What a restore puts there to have the revisions go on from a higher one.
            self.superseded = true;
            let bump = !row.tombstone && !whole;
            return if bump { Ok(()) } else { Err("it has no key") };
        }
        if kv.key.is_empty() {
            return Err("it has no key");
        }
        if row.tombstone {
            let only_key = KeyValue {
                key: kv.key,
                ..KeyValue::default()
            };
            if *kv != only_key {
                return Err("it is a deletion and has more than a key");
            }
            if self.done && main < self.compacted {
                return Err("it is a deletion that the compaction took away");
            }
            let before = self.keys.remove(kv.key);
            self.supersede(before);
            // A deletion at the compaction is kept for whoever watches from there, and is in no hash.
            self.superseded |= main < self.compacted;
            return match before {
                None if whole => Err("it deletes a key that is not there"),
                _ => Ok(()),
            };
        }
        if kv.mod_revision != main {
            return Err("its value was written at another revision than its key says");
        }
        if kv.create_revision < 1 || kv.create_revision > main || kv.version < 1 {
            return Err("its numbers of creation and version are impossible");
        }
        let state = State::new(kv.create_revision, kv.version, number);
        let before = self.keys.insert(kv.key, state);
        self.supersede(before);
        let follows = match before {
            Some(before) if whole => {
                kv.create_revision == before.create() && kv.version as u32 == before.version().wrapping_add(1)
            }
            Some(_) if self.done => {
                return Err("the compaction took away one of this key's rows, and both are there");
            }
            Some(before) => {
                kv.create_revision > before.create()
                    || (kv.create_revision == before.create() && kv.version as u32 > before.version())
            }
            None if whole => kv.create_revision == main && kv.version == 1,
            None => true,
        };
        if follows {
            Ok(())
        } else {
            Err("its numbers of creation and version do not follow those of the key before")
        }
    }

    fn supersede(&mut self, before: Option<State>) {
        self.superseded |= before.is_some_and(|before| before.row() < self.early);
    }

    /// Revisions that were not compacted have no holes, and the changes of each are numbered from zero.
    fn order(&self, row: RowKey) -> Result<(), &'static str> {
        let now = row.revision;
        let last = self.last.map(|last| last.revision);
        if last == Some(now) {
            return Err("it is at the same revision as the one before it");
        }
        if now.main <= self.compacted {
            return Ok(());
        }
        let follows = match last.filter(|last| last.main > self.compacted) {
            Some(last) if now.main == last.main => now.sub == last.sub + 1,
            Some(last) => now.main == last.main + 1 && now.sub == 0,
            None => now.main == self.compacted + 1 && now.sub == 0,
        };
        if follows {
            Ok(())
        } else {
            Err("a revision between this and the one before it is missing")
        }
    }

    /// How many keys there are.
    pub(crate) fn live(&self) -> u64 {
        self.keys.len()
    }

    /// How many rows passed by.
    pub(crate) fn rows(&self) -> u64 {
        u64::from(self.rows)
    }

    /// Did rows pass by, up to the compaction, that its HashKV leaves out?
    pub(crate) fn any_superseded(&self) -> bool {
        self.superseded
    }

    /// The rows that are the last of a key that is there.
    pub(crate) fn kept(&self) -> Kept {
        let mut kept = Kept::none(self.rows());
        for state in self.keys.values() {
            kept.add(u64::from(state.row()));
        }
        kept
    }
}

/// Rows, by their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    bits: Vec<u64>,
    any: bool,
}

impl Kept {
    pub(crate) fn none(rows: u64) -> Kept {
        Kept {
            bits: vec![0; usize::try_from(rows.div_ceil(64)).unwrap_or(0)],
            any: false,
        }
    }

    pub(crate) fn add(&mut self, row: u64) {
        if let Some(word) = usize::try_from(row / 64)
            .ok()
            .and_then(|at| self.bits.get_mut(at))
        {
            *word |= 1 << (row % 64);
            self.any = true;
        }
    }

    pub(crate) fn has(&self, row: u64) -> bool {
        let word = usize::try_from(row / 64).ok().and_then(|at| self.bits.get(at));
        word.is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    /// There are keys, though none whose last row has a number here.
    pub(crate) fn set_any(&mut self) {
        self.any = true;
    }

    pub(crate) fn any(&self) -> bool {
        self.any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mvcc::Revision;

    fn row(main: i64, sub: i64, tombstone: bool) -> RowKey {
        RowKey {
            revision: Revision { main, sub },
            tombstone,
        }
    }

    fn put(key: &[u8], create: i64, modified: i64, version: i64) -> KeyValue<'_> {
        KeyValue {
            key,
            create_revision: create,
            mod_revision: modified,
            version,
            ..KeyValue::default()
        }
    }

    fn deletion(key: &[u8]) -> KeyValue<'_> {
        put(key, 0, 0, 0)
    }

    #[test]
    fn a_history_is_followed() {
        let mut history = History::new(None, true);
        history.take(row(2, 0, false), &put(b"a", 2, 2, 1)).unwrap();
        history.take(row(3, 0, false), &put(b"a", 2, 3, 2)).unwrap();
        history.take(row(3, 1, false), &put(b"b", 3, 3, 1)).unwrap();
        history.take(row(4, 0, true), &deletion(b"a")).unwrap();
        history.take(row(5, 0, false), &put(b"a", 5, 5, 1)).unwrap();
        assert_eq!((history.live(), history.rows()), (2, 5));
        let kept = history.kept();
        assert_eq!((0..5).filter(|r| kept.has(*r)).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn what_a_hash_leaves_out_is_noticed_as_it_passes() {
        let begun = || {
            let mut history = History::new(Some(10), false);
            history.take(row(4, 0, false), &put(b"a", 2, 4, 2)).unwrap();
            history.take(row(10, 0, true), &deletion(b"c")).unwrap();
            assert!(!history.any_superseded());
            history
        };
        let then = |row: RowKey, kv: &KeyValue<'_>| {
            let mut history = begun();
            history.take(row, kv).unwrap();
            history.any_superseded()
        };
        assert!(!then(row(11, 0, false), &put(b"b", 11, 11, 1)));
        assert!(then(row(11, 0, false), &put(b"a", 2, 11, 3)));
        assert!(then(row(11, 0, true), &deletion(b"a")));
        let mut history = begun();
        history.take(row(11, 0, false), &put(b"b", 11, 11, 1)).unwrap();
        history.take(row(12, 0, false), &put(b"b", 11, 12, 2)).unwrap();
        assert!(!history.any_superseded(), "later rows are all hashed");
        let mut history = History::new(Some(10), false);
        history.take(row(5, 0, true), &deletion(b"c")).unwrap();
        assert!(history.any_superseded());
        let mut history = History::new(Some(10), true);
        history.take(row(5, 0, false), &KeyValue::default()).unwrap();
        assert!(history.any_superseded());
    }

    #[test]
    fn what_a_compaction_takes_away_is_gone_once_it_is_done() {
        for done in [true, false] {
            let mut history = History::new(Some(10), done);
            history.take(row(4, 0, false), &put(b"a", 2, 4, 2)).unwrap();
            assert_eq!(history.take(row(6, 0, false), &put(b"a", 2, 6, 3)).is_err(), done);
            assert_eq!(history.take(row(7, 0, true), &deletion(b"b")).is_err(), done);
            history.take(row(10, 0, true), &deletion(b"c")).unwrap();
        }
    }

    #[test]
    fn what_cannot_follow_is_found() {
        let begun = || {
            let mut history = History::new(Some(10), true);
            history.take(row(7, 0, false), &put(b"a", 2, 7, 5)).unwrap();
            history.take(row(11, 0, false), &put(b"b", 11, 11, 1)).unwrap();
            history
        };
        for (row, kv) in [
            (row(13, 0, false), put(b"c", 13, 13, 1)),
            (row(12, 1, false), put(b"c", 12, 12, 1)),
            (row(11, 0, true), deletion(b"b")),
            (row(11, 2, false), put(b"c", 11, 11, 1)),
            (row(12, 0, false), put(b"a", 2, 12, 7)),
            (row(12, 0, false), put(b"a", 3, 12, 6)),
            (row(12, 0, false), put(b"c", 12, 12, 2)),
            (row(12, 0, false), put(b"c", 12, 11, 1)),
            (row(12, 0, false), put(b"", 12, 12, 1)),
            (row(12, 0, false), KeyValue::default()),
            (row(12, 0, true), deletion(b"c")),
            (row(12, 0, true), put(b"a", 2, 12, 6)),
        ] {
            assert!(begun().take(row, &kv).is_err(), "{row:?} {kv:?}");
        }
        assert!(begun().take(row(12, 0, false), &put(b"a", 2, 12, 6)).is_ok());
        assert!(begun().take(row(12, 0, true), &deletion(b"a")).is_ok());
    }
}
