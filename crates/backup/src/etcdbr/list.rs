//! What lies in one of etcdbrctl's archives, in order.
//!
//! In: keys and sizes as a store lists them. Out: fulls and deltas by their last revision, of equal ones the older
//! first; what is not theirs is counted and left alone. Both layouts may be there: they are one archive.
//! Never: a piece of an upload taken for an object.

use super::name::{Key, Kind, Name};

/// How many names of foreign keys are kept to be shown.
const FOREIGN_SHOWN: usize = 20;

/// A full or a delta.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Where it is, relative to the archive.
    pub key: String,
    /// What its name says.
    pub name: Name,
    /// Its bytes as it lies there.
    pub size: u64,
}

/// An archive as its names show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Whole databases, by revision and time.
    pub fulls: Vec<Object>,
    /// Events, by last revision and time.
    pub deltas: Vec<Object>,
    /// How many pieces of uploads lie about.
    pub chunks: u64,
    /// How many keys are something else.
    pub foreign: u64,
    pub foreign_names: Vec<String>,
}

impl Listing {
    /// Sorts keys that lie in a store.
    pub fn of<K: Into<String>>(found: impl IntoIterator<Item = (K, u64)>) -> Listing {
        let mut listing = Listing::default();
        for (key, size) in found {
            let key = key.into();
            match Key::read(&key) {
                Key::Object(name) => {
                    let object = Object { key, name, size };
                    match name.kind {
                        Kind::Full => listing.fulls.push(object),
                        Kind::Delta => listing.deltas.push(object),
                    }
                }
                Key::Chunk => listing.chunks += 1,
                Key::Foreign => {
                    listing.foreign += 1;
                    if listing.foreign_names.len() < FOREIGN_SHOWN {
                        listing.foreign_names.push(key);
                    }
                }
            }
        }
        for objects in [&mut listing.fulls, &mut listing.deltas] {
            objects.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key)));
        }
        listing
    }

    /// There is nothing of etcdbrctl's.
    pub fn is_empty(&self) -> bool {
        self.fulls.is_empty() && self.deltas.is_empty()
    }

    /// The highest revision that any name speaks of.
    pub fn newest(&self) -> Option<i64> {
        let last = |objects: &[Object]| objects.last().map(|object| object.name.last);
        last(&self.fulls).max(last(&self.deltas))
    }
}

fn order(object: &Object) -> (i64, i64) {
    (object.name.last, object.name.created)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_not_text() {
        let keys = [
            "v2/Incr-100000000-100000009-1700000003.gz",
            "v2/Incr-99999991-99999999-1700000002.gz",
            "v2/Full-00000000-100000009-1700000009",
            "v2/Full-00000000-99999990-1700000001",
            "v1/Backup-1600000000/Full-00000000-00000005-1600000000",
            "v2/Full-00000000-99999990-1700000001/0000000001",
            "v2/notes.txt",
        ];
        let listing = Listing::of(keys.map(|key| (key, 1)));
        let last = |objects: &[Object]| objects.iter().map(|o| o.name.last).collect::<Vec<_>>();
        assert_eq!(last(&listing.fulls), [5, 99_999_990, 100_000_009]);
        assert_eq!(last(&listing.deltas), [99_999_999, 100_000_009]);
        assert_eq!((listing.chunks, listing.foreign), (1, 1));
        assert_eq!(listing.foreign_names, ["v2/notes.txt"]);
        assert_eq!(listing.newest(), Some(100_000_009));
        assert!(Listing::of([("x", 0)]).is_empty());
    }

    proptest! {
        #[test]
        fn order_does_not_depend_on_the_order_of_the_store(
            mut names in proptest::collection::vec(("(Full|Incr)-0{3}[0-9]{1,4}-9[0-9]{4}-[0-9]{1,3}", 0u64..9), 0..30),
            seed: u64,
        ) {
            let one = Listing::of(names.clone());
            fastrand::Rng::with_seed(seed).shuffle(&mut names);
            // Equal keys are equal objects; a store has none of those twice.
            names.sort_by(|a, b| b.0.cmp(&a.0));
            names.dedup_by(|a, b| a.0 == b.0);
            let two = Listing::of(names);
            let mut keys: Vec<&String> = one.fulls.iter().map(|o| &o.key).collect();
            keys.dedup();
            let same: Vec<&String> = two.fulls.iter().map(|o| &o.key).collect();
            prop_assert_eq!(keys, same);
            prop_assert!(one.deltas.windows(2).all(|two| order(&two[0]) <= order(&two[1])));
        }
    }
}
