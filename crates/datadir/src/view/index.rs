//! Two states of every key, in little memory: by a hash of the key, which row it was last written in, and a hash of what.
//!
//! In: the writes and deletions of one side in order, then those of the other. Out: an entry for each key that is alive
//! on either. An entry is 48 bytes, and what waits to be sorted in is an eighth of them, so that a key costs at most 64
//! bytes. Hashes of keys have 128 bits under a secret of this process: two keys are taken for one by nobody's doing.

use std::hash::{BuildHasher, Hasher, RandomState};

/// What waits at least, before it is sorted in.
const PENDING_MIN: usize = 16 * 1024;
/// What waits at most, as a part of what is sorted.
const PENDING_PART: usize = 8;

/// One of the two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct State {
    /// The revision of the row, 0 where there is no key.
    pub(super) revision: i64,
    /// Of its value, and of its lease where that counts.
    pub(super) content: u64,
}

impl State {
    pub(super) fn is_there(self) -> bool {
        self.revision != 0
    }
}

/// A key on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Entry {
    key: u128,
    pub(super) states: [State; 2],
}

impl Entry {
    fn is_dead(&self) -> bool {
        !self.states[0].is_there() && !self.states[1].is_there()
    }
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    key: u128,
    state: State,
}

/// The keys of both sides.
pub(super) struct Index {
    secrets: [RandomState; 3],
    side: usize,
    entries: Vec<Entry>,
    pending: Vec<Pending>,
}

impl Index {
    pub(super) fn new() -> Index {
        Index {
            secrets: [RandomState::new(), RandomState::new(), RandomState::new()],
            side: 0,
            entries: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// What follows is of this side, 0 or 1.
    pub(super) fn begin(&mut self, side: usize) {
        self.settle();
        self.side = side & 1;
    }

    /// A key was written.
    pub(super) fn put(&mut self, key: &[u8], revision: i64, value: &[u8], lease: i64) {
        let mut hasher = self.secrets[2].build_hasher();
        hasher.write_i64(lease);
        hasher.write(value);
        let content = hasher.finish();
        self.note(key, State { revision, content });
    }

    /// A key was deleted.
    pub(super) fn delete(&mut self, key: &[u8]) {
        self.note(key, State::default());
    }

    fn note(&mut self, key: &[u8], state: State) {
        let key = self.hash(key);
        self.pending.push(Pending { key, state });
        if self.pending.len() >= PENDING_MIN.max(self.entries.len() / PENDING_PART) {
            self.settle();
        }
    }

    fn hash(&self, key: &[u8]) -> u128 {
        let half = |secret: &RandomState| {
            let mut hasher = secret.build_hasher();
            hasher.write(key);
            u128::from(hasher.finish())
        };
        half(&self.secrets[0]) << 64 | half(&self.secrets[1])
    }

    /// Sorts in what waits. The last word on a key counts.
    #[allow(
        clippy::indexing_slicing,
        reason = "`from`, `left` and `to` only go down from the lengths they begin with; a side is 0 or 1"
    )]
    fn settle(&mut self) {
        self.pending.sort_by_key(|pending| pending.key);
        let (mut left, mut from) = (self.entries.len(), self.pending.len());
        let mut to = left + from;
        self.entries.reserve_exact(from);
        self.entries.resize(to, Entry::default());
        // From the end, into the room that was made there: nothing is overwritten before it was moved.
        while let Some(Pending { key, state }) = from.checked_sub(1).map(|last| self.pending[last]) {
            let moved = left
                .checked_sub(1)
                .map(|last| self.entries[last])
                .filter(|entry| entry.key >= key);
            let mut entry = match moved {
                Some(entry) => {
                    left -= 1;
                    entry
                }
                None => Entry {
                    key,
                    ..Entry::default()
                },
            };
            if entry.key == key {
                entry.states[self.side] = state;
                while from > 0 && self.pending[from - 1].key == key {
                    from -= 1;
                }
            }
            if !entry.is_dead() {
                to -= 1;
                self.entries[to] = entry;
            }
        }
        self.entries.drain(left..to);
        self.pending.clear();
    }

    /// All keys, once both sides are in.
    pub(super) fn entries(&mut self) -> &[Entry] {
        self.settle();
        &self.entries
    }

    /// Forgets all that `keep` does not want.
    pub(super) fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.settle();
        self.pending = Vec::new();
        self.entries.retain(keep);
        self.entries.shrink_to_fit();
    }

    /// The entry of a key.
    pub(super) fn of(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let key = self.hash(key);
        let at = self.entries.binary_search_by_key(&key, |entry| entry.key).ok()?;
        self.entries.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 48);
        assert_eq!(size_of::<Pending>(), 32);
    }

    #[test]
    fn a_key_costs_at_most_64_bytes() {
        let mut index = Index::new();
        let keys = 500_000;
        for side in 0..2 {
            index.begin(side);
            for number in 0..keys {
                index.put(format!("key-{number}").as_bytes(), number + 2, b"", 0);
            }
        }
        assert_eq!(index.entries().len(), usize::try_from(keys).unwrap());
        let bytes =
            index.entries.capacity() * size_of::<Entry>() + index.pending.capacity() * size_of::<Pending>();
        assert!(bytes <= 64 * index.entries.len(), "{bytes}");
    }

    proptest! {
        #[test]
        fn the_last_word_on_every_key_counts(
            words in proptest::collection::vec((0u8..2, 0u8..20, proptest::option::of(0u8..3)), 0..200),
            pause in 1usize..20,
        ) {
            let mut words = words;
            words.sort_by_key(|(side, _, _)| *side);
            let mut index = Index::new();
            let mut model: BTreeMap<u8, [Option<(i64, u8)>; 2]> = BTreeMap::new();
            for (at, (side, key, value)) in words.into_iter().enumerate() {
                let revision = i64::try_from(at).unwrap() + 2;
                index.begin(usize::from(side));
                let known = model.entry(key).or_default();
                known[usize::from(side)] = value.map(|value| (revision, value));
                match value {
                    Some(value) => index.put(&[key], revision, &[value], 0),
                    None => index.delete(&[key]),
                }
                if at % pause == 0 {
                    index.settle();
                }
            }
            model.retain(|_, states| states.iter().any(Option::is_some));
            prop_assert_eq!(index.entries().len(), model.len());
            prop_assert!(index.entries.is_sorted_by_key(|entry| entry.key));
            for (key, states) in model {
                let found = *index.of(&[key]).unwrap();
                for (found, state) in found.states.iter().zip(states) {
                    prop_assert_eq!(found.revision, state.map_or(0, |(revision, _)| revision));
                }
                if let [Some((_, before)), Some((_, after))] = states {
                    prop_assert_eq!(found.states[0].content == found.states[1].content, before == after);
                }
            }
        }
    }
}
