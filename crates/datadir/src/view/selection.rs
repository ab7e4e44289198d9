//! Which keys are meant, as etcd's ranges mean them.

/// Keys by their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    All,
    Exact(Vec<u8>),
    /// Those that begin so.
    Prefix(Vec<u8>),
    /// This one and all after it.
    From(Vec<u8>),
    /// From the first up to the second, without it; without an end, if that is one zero byte, as etcd has it.
    Range(Vec<u8>, Vec<u8>),
}

impl Selection {
    /// Whether `key` is meant.
    pub fn has(&self, key: &[u8]) -> bool {
        match self {
            Selection::All => true,
            Selection::Exact(wanted) => key == wanted.as_slice(),
            Selection::Prefix(prefix) => key.starts_with(prefix),
            Selection::From(first) => key >= first.as_slice(),
            Selection::Range(first, end) => {
                key >= first.as_slice() && (key < end.as_slice() || end.as_slice() == [0])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_chosen_by_their_bytes() {
        let keys = ["", "a", "a/1", "a/2", "a0", "b", "\u{7f}"];
        let chosen = |selection: Selection| -> Vec<&str> {
            keys.iter()
                .copied()
                .filter(|key| selection.has(key.as_bytes()))
                .collect()
        };
        assert_eq!(chosen(Selection::All), keys);
        assert_eq!(chosen(Selection::Exact(b"a".to_vec())), ["a"]);
        assert_eq!(chosen(Selection::Prefix(b"a/".to_vec())), ["a/1", "a/2"]);
        assert_eq!(chosen(Selection::From(b"a0".to_vec())), ["a0", "b", "\u{7f}"]);
        assert_eq!(
            chosen(Selection::Range(b"a".to_vec(), b"a0".to_vec())),
            ["a", "a/1", "a/2"]
        );
        assert!(chosen(Selection::Range(b"b".to_vec(), b"a".to_vec())).is_empty());
    }
}
