//! The names of etcdbrctl's objects.
//!
//! ```text
//! KIND-START-LAST-SECONDS[COMPRESSION][.final]     KIND: Full, Incr; numbers at least 8 digits wide, or wider
//! v2/NAME   v1/Backup-SECONDS/NAME                 an object; with one more level below: a piece of an upload
//! ```
//!
//! In: a key relative to the archive. Out: what it says; that it is a piece; or that it is something else. Numbers are
//! compared as numbers: past eight digits names no longer sort as text.
//! Never: a key of another archive that lies deeper taken for one of this.

use std::fmt;

/// What an object holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Full,
    Delta,
}

/// How an object is compressed, all of it as one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    None,
    Gzip,
    Zlib,
    /// `.Z`: LZW as Go has it, least significant bit first, 8-bit literals; not what compress(1) writes.
    Lzw,
}

impl Compression {
    fn suffix(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zlib => ".zlib",
            Compression::Lzw => ".Z",
        }
    }

    fn of(suffix: &str) -> Option<Compression> {
        match suffix {
            "gz" => Some(Compression::Gzip),
            "zlib" => Some(Compression::Zlib),
            "Z" => Some(Compression::Lzw),
            _ => None,
        }
    }
}

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub kind: Kind,
    /// Its first revision: of a full 0, of a delta the one after the previous object's last.
    pub start: i64,
    /// Its last revision. A full may hold later ones: it was asked before the database was.
    pub last: i64,
    /// When it was uploaded, seconds since 1970, by the clock of whoever did.
    pub created: i64,
    /// How it is compressed.
    pub compression: Compression,
    /// The last one before the cluster was put to rest.
    pub is_final: bool,
}

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Object(Name),
    /// A piece of an upload, finished or not. Not to be read.
    Chunk,
    Foreign,
}

impl Key {
    /// Reads a key relative to what lies around `v1` and `v2`, or, where the archive was given with that part of its
    /// address, relative to that.
    pub fn read(key: &str) -> Key {
        let segments: Vec<&str> = key.split('/').collect();
        let name = match segments[..] {
            [name] | ["v2", name] => name,
            ["v1", directory, name] | [directory, name] if is_directory(directory) => name,
            ["v2", name, piece] | [name, piece] => return chunk(name, piece),
            ["v1", directory, name, piece] | [directory, name, piece] if is_directory(directory) => {
                return chunk(name, piece);
            }
            _ => return Key::Foreign,
        };
        Name::read(name).map_or(Key::Foreign, Key::Object)
    }
}

fn is_directory(segment: &str) -> bool {
    segment
        .strip_prefix("Backup-")
        .is_some_and(|rest| number(rest).is_some())
}

fn chunk(name: &str, piece: &str) -> Key {
    match (Name::read(name), number(piece)) {
        (Some(_), Some(_)) => Key::Chunk,
        _ => Key::Foreign,
    }
}

/// Digits and nothing else.
fn number(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

impl Name {
    /// Reads a name without what stands before it.
    pub fn read(name: &str) -> Option<Name> {
        let mut parts = name.split('-');
        let kind = match parts.next()? {
            "Full" => Kind::Full,
            "Incr" => Kind::Delta,
            _ => return None,
        };
        let (start, last) = (number(parts.next()?)?, number(parts.next()?)?);
        let mut rest = parts.next()?.split('.');
        if parts.next().is_some() || start > last {
            return None;
        }
        let created = number(rest.next()?)?;
        let (compression, is_final) = match (rest.next(), rest.next(), rest.next()) {
            (None, ..) => (Compression::None, false),
            (Some("final"), None, _) => (Compression::None, true),
            (Some(suffix), None, _) => (Compression::of(suffix)?, false),
            (Some(suffix), Some("final"), None) => (Compression::of(suffix)?, true),
            _ => return None,
        };
        Some(Name {
            kind,
            start,
            last,
            created,
            compression,
            is_final,
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Full => "Full",
            Kind::Delta => "Incr",
        };
        let (start, last, created) = (self.start, self.last, self.created);
        let end = if self.is_final { ".final" } else { "" };
        write!(
            f,
            "{kind}-{start:08}-{last:08}-{created}{}{end}",
            self.compression.suffix()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(key: &str) -> Name {
        match Key::read(key) {
            Key::Object(name) => name,
            other => panic!("{key}: {other:?}"),
        }
    }

    #[test]
    fn both_layouts() {
        let name = object("v2/Full-00000000-00030009-1518427675.gz");
        let expected = Name {
            kind: Kind::Full,
            start: 0,
            last: 30_009,
            created: 1_518_427_675,
            compression: Compression::Gzip,
            is_final: false,
        };
        assert_eq!(name, expected);
        assert_eq!(
            object("v1/Backup-1518427675/Full-00000000-00030009-1518427675.gz"),
            expected
        );
        assert_eq!(object("Full-00000000-00030009-1518427675.gz"), expected);
        assert_eq!(
            object("Backup-1518427675/Full-00000000-00030009-1518427675.gz"),
            expected
        );
        let name = object("v2/Incr-3607431064-3607435351-1718427675.zlib.final");
        assert_eq!((name.start, name.last), (3_607_431_064, 3_607_435_351));
        assert!(name.is_final && name.compression == Compression::Zlib);
        assert!(object("v2/Full-00000000-00000001-1.final").is_final);
    }

    #[test]
    fn pieces_and_strangers() {
        for piece in [
            "v2/Full-00000000-00030009-1518427675.gz/0000000001",
            "v1/Backup-1518427675/Incr-00000001-00030009-1518427675/0000000012",
            "Full-00000000-00030009-1518427675/0000000001",
        ] {
            assert_eq!(Key::read(piece), Key::Chunk, "{piece}");
        }
        for foreign in [
            "",
            "archive.json",
            "v2/",
            "v2/README",
            "v3/Full-00000000-00030009-1518427675",
            "other/v2/Full-00000000-00030009-1518427675",
            "v2/v2/Full-00000000-00030009-1518427675",
            "v2/Full-00000000-00030009-1518427675/manifest",
            "v2/full-00000000-00030009-1518427675",
            "v2/Chunk-00000000-00030009-1518427675",
            "v2/Full-00000000-00030009",
            "v2/Full-00000000-00030009-1518427675-1",
            "v2/Incr-00030010-00030009-1518427675",
            "v2/Full-00000000-00030009-1518427675.zst",
            "v2/Full-00000000-00030009-1518427675.final.gz",
            "v2/Full-00000000-00030009-1518427675.gz.final.x",
            "v2/Full-00000000-99999999999999999999-1518427675",
            "v2/Full-00000000-+0030009-1518427675",
            "v1/Backup-x/Full-00000000-00030009-1518427675",
        ] {
            assert_eq!(Key::read(foreign), Key::Foreign, "{foreign}");
        }
    }

    fn any_name() -> impl Strategy<Value = Name> {
        let kind = prop_oneof![Just(Kind::Full), Just(Kind::Delta)];
        let compression = prop_oneof![
            Just(Compression::None),
            Just(Compression::Gzip),
            Just(Compression::Zlib),
            Just(Compression::Lzw)
        ];
        (
            kind,
            0..=i64::MAX,
            0..=i64::MAX,
            0..=i64::MAX,
            compression,
            any::<bool>(),
        )
            .prop_map(|(kind, a, b, created, compression, is_final)| Name {
                kind,
                start: a.min(b),
                last: a.max(b),
                created,
                compression,
                is_final,
            })
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in any_name()) {
            let text = name.to_string();
            prop_assert_eq!(Name::read(&text), Some(name));
            prop_assert_eq!(Key::read(&format!("v2/{text}")), Key::Object(name));
            prop_assert_eq!(Key::read(&format!("v1/Backup-{}/{text}", name.created)), Key::Object(name));
            prop_assert_eq!(Key::read(&format!("v2/{text}/0000000001")), Key::Chunk);
            prop_assert_eq!(Key::read(&format!("elsewhere/v2/{text}")), Key::Foreign);
        }

        #[test]
        fn anything_is_read_without_panic(key in ".{0,60}", tail in "(Full|Incr)(-[0-9]{0,21}){0,5}(\\.[a-zA-Z]{0,6}){0,3}") {
            Key::read(&key);
            if let Key::Object(name) = Key::read(&tail) {
                prop_assert!(name.start <= name.last);
            }
        }
    }
}
