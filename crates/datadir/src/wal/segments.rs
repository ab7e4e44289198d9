//! The segments of a log, by name: `SEQUENCE-INDEX.wal`, both sixteen hex digits.
//!
//! In: `member/wal`. Out: the segments in order of sequence, or the gap between two. Files of other names are
//! etcd's leftovers (`*.tmp`, `*.broken`) and are ignored, as etcd does.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// The name of a log segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// Its number; segments follow one another without a gap.
    pub sequence: u64,
    /// The index of the first entry that belongs in it.
    pub first_index: u64,
}

impl SegmentName {
    fn parse(name: &str) -> Option<SegmentName> {
        let (sequence, first_index) = name.strip_suffix(".wal")?.split_once('-')?;
        let number = |text: &str| {
            let fits = text.len() == 16
                && text
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            if fits {
                u64::from_str_radix(text, 16).ok()
            } else {
                None
            }
        };
        Some(SegmentName {
            sequence: number(sequence)?,
            first_index: number(first_index)?,
        })
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}.wal", self.sequence, self.first_index)
    }
}

/// The segments of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listing {
    None,
    /// All of them, first and last.
    Contiguous {
        count: u64,
        first: SegmentName,
        last: SegmentName,
    },
    /// `after` is not the segment that follows `before`.
    Gap {
        before: SegmentName,
        after: SegmentName,
    },
}

/// The names of the segments in `dir`, in order; a directory that is not there has none.
pub(crate) fn names(dir: &Path) -> io::Result<Vec<SegmentName>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().to_str().and_then(SegmentName::parse));
    }
    names.sort_unstable();
    Ok(names)
}

/// The first two of `names`, which are in order, that do not follow one another.
pub(crate) fn gap(names: &[SegmentName]) -> Option<(SegmentName, SegmentName)> {
    names.array_windows().find_map(|[before, after]| {
        let follows =
            before.sequence.checked_add(1) == Some(after.sequence) && before.first_index <= after.first_index;
        (!follows).then_some((*before, *after))
    })
}

/// Lists the segments in `dir`; a directory that is not there has none.
pub(crate) fn list(dir: &Path) -> io::Result<Listing> {
    let names = names(dir)?;
    if let Some((before, after)) = gap(&names) {
        return Ok(Listing::Gap { before, after });
    }
    Ok(match (names.first(), names.last()) {
        (Some(first), Some(last)) => Listing::Contiguous {
            count: last.sequence - first.sequence + 1,
            first: *first,
            last: *last,
        },
        _ => Listing::None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Listing {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(dir.path().join(name), b"").unwrap();
        }
        list(dir.path()).unwrap()
    }

    #[test]
    fn names() {
        let text = "000000000000000a-00000000000001ff.wal";
        let name = SegmentName::parse(text).unwrap();
        assert_eq!(
            name,
            SegmentName {
                sequence: 10,
                first_index: 511
            }
        );
        assert_eq!(name.to_string(), text);
        for bad in [
            "0.tmp",
            "a-b.wal",
            "000000000000000A-00000000000001ff.wal",
            "",
            ".wal",
            "-.wal",
            "+00000000000000a-00000000000001ff.wal",
        ] {
            assert_eq!(SegmentName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn order_gaps_and_leftovers() {
        let (a, b, c) = (
            "0000000000000009-0000000000000000.wal",
            "000000000000000a-0000000000000010.wal",
            "000000000000000b-0000000000000020.wal",
        );
        assert_eq!(listing(&[]), Listing::None);
        assert_eq!(listing(&["0.tmp", "x.wal"]), Listing::None);
        let Listing::Contiguous { count, first, last } = listing(&[c, a, b, "1.tmp", &format!("{c}.broken")])
        else {
            panic!("contiguous");
        };
        assert_eq!((count, first.sequence, last.sequence), (3, 9, 11));
        assert!(matches!(listing(&[a, c]), Listing::Gap { .. }));
        assert!(matches!(
            listing(&[b, "000000000000000b-0000000000000001.wal"]),
            Listing::Gap { .. }
        ));
        assert!(matches!(
            listing(&[a, "0000000000000009-0000000000000001.wal"]),
            Listing::Gap { .. }
        ));
        assert_eq!(list(Path::new("/nowhere/at/all")).unwrap(), Listing::None);
    }
}
