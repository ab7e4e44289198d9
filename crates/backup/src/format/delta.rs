//! The content of a delta: rows of a range of revisions, exactly as etcd keeps them.
//!
//! ```text
//! frame: varint main, varint sub of its first row, then rows
//! row:   varint (main - the last row's main) * 2 + 1 if a deletion, varint length, value
//! ```
//!
//! In: rows in the order of their revisions. Out: frames that can each be read alone, and the rows again. A row that does
//! not raise the main revision is the next of it (sub + 1); one that does is its first (sub 0).
//! Never: a row out of order; a revision with a hole before it.

use quorate_datadir::Revision;

use crate::Error;

/// A frame is closed once it holds so much.
pub const FRAME_BYTES: usize = 1 << 20;
/// The length of a row key: 17, or 18 for a deletion.
const ROW_KEY: usize = 17;

/// A row of etcd's bucket `key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// When it was written.
    pub revision: Revision,
    /// It is a deletion.
    pub tombstone: bool,
    /// As etcd stores it: a KeyValue; of a deletion only the key.
    pub value: &'a [u8],
}

impl Row<'_> {
    /// Its key in the bucket; the first 17 bytes, or all 18 for a deletion.
    pub fn key(&self) -> ([u8; ROW_KEY + 1], usize) {
        let mut key = [b't'; ROW_KEY + 1];
        key[..ROW_KEY].copy_from_slice(&self.revision.bytes());
        (key, ROW_KEY + usize::from(self.tombstone))
    }

    /// The checksum of this row behind that of the rows before it: what HashKV takes of it.
    pub fn crc(&self, before: u32) -> u32 {
        let (key, length) = self.key();
        crc32c::crc32c_append(crc32c::crc32c_append(before, &key[..length]), self.value)
    }
}

/// Rows on their way into frames.
#[derive(Debug)]
pub struct Builder {
    plain: Vec<u8>,
    first: i64,
    last: Option<Revision>,
    before: i64,
    from: i64,
    rows: u64,
    bytes: u64,
    crc: u32,
}

/// A frame's worth of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    /// The revision of the first.
    pub first: u64,
    pub bytes: Vec<u8>,
}

/// What a whole delta holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    pub from: i64,
    pub to: i64,
    pub rows: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
    pub crc: u32,
}

impl Builder {
    /// For rows from revision `from` on.
    pub fn new(from: i64) -> Builder {
        Builder {
            plain: Vec::new(),
            first: 0,
            last: None,
            before: 0,
            from,
            rows: 0,
            bytes: 0,
            crc: 0,
        }
    }

    /// Adds the next row; gives a frame back once it is full.
    pub fn push(&mut self, row: Row<'_>) -> Result<Option<Plain>, Error> {
        let Revision { main, sub } = row.revision;
        let follows = match self.last {
            None => main == self.from && sub == 0,
            Some(last) => (main == last.main && sub == last.sub + 1) || (main == last.main + 1 && sub == 0),
        };
        if !follows {
            let last = self
                .last
                .map_or_else(|| format!("the start at {}", self.from), |last| last.to_string());
            let why = format!("revision {} does not follow {last}", row.revision);
            return Err(Error::damaged("the sequence of changes", why));
        }
        if self.plain.is_empty() {
            (self.first, self.before) = (main, main);
            put(&mut self.plain, main.unsigned_abs());
            put(&mut self.plain, sub.unsigned_abs());
        }
        put(
            &mut self.plain,
            ((main - self.before).unsigned_abs() << 1) | u64::from(row.tombstone),
        );
        put(&mut self.plain, row.value.len() as u64);
        self.plain.extend_from_slice(row.value);
        self.before = main;
        self.last = Some(row.revision);
        self.rows += 1;
        self.bytes += (row.key().1 + row.value.len()) as u64;
        self.crc = row.crc(self.crc);
        Ok((self.plain.len() >= FRAME_BYTES).then(|| self.cut()))
    }

    fn cut(&mut self) -> Plain {
        Plain {
            first: self.first.unsigned_abs(),
            bytes: std::mem::take(&mut self.plain),
        }
    }

    /// What is not in a frame yet.
    pub fn rest(&mut self) -> Option<Plain> {
        (!self.plain.is_empty()).then(|| self.cut())
    }

    /// What it holds so far; `None` if nothing.
    pub fn content(&self) -> Option<Content> {
        self.last.map(|last| Content {
            from: self.from,
            to: last.main,
            rows: self.rows,
            bytes: self.bytes,
            crc: self.crc,
        })
    }

    /// Bytes of rows that are not in a frame yet.
    pub fn pending_bytes(&self) -> usize {
        self.plain.len()
    }
}

/// The rows of a frame.
#[derive(Debug, Clone)]
pub struct Rows<'a> {
    plain: &'a [u8],
    cursor: Cursor,
}

/// Where one is in a frame whose bytes are kept elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    at: usize,
    main: i64,
    sub: i64,
    begun: bool,
}

/// Reads a frame's rows.
pub fn rows(plain: &[u8]) -> Result<Rows<'_>, &'static str> {
    let cursor = Cursor::of(plain)?;
    Ok(Rows { plain, cursor })
}

impl Cursor {
    /// Before the first row of the frame `plain`.
    pub fn of(plain: &[u8]) -> Result<Cursor, &'static str> {
        let (main, rest) = take(plain).ok_or("its first revision is cut off")?;
        let (sub, rest) = take(rest).ok_or("its first revision is cut off")?;
        match (i64::try_from(main), i64::try_from(sub)) {
            (Ok(main), Ok(sub)) => Ok(Cursor {
                at: plain.len() - rest.len(),
                main,
                sub,
                begun: false,
            }),
            _ => Err("its first revision cannot be"),
        }
    }

    /// How much of the frame has been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next row of the same frame; `None` behind the last, and behind one that cannot be read.
    pub fn next<'a>(&mut self, plain: &'a [u8]) -> Option<Result<Row<'a>, &'static str>> {
        let rest = plain.get(self.at..).filter(|rest| !rest.is_empty())?;
        let row = self.read(plain.len(), rest).ok_or("a row in it cannot be read");
        if row.is_err() {
            self.at = plain.len();
        }
        Some(row)
    }

    fn read<'a>(&mut self, length: usize, rest: &'a [u8]) -> Option<Row<'a>> {
        let (step, rest) = take(rest)?;
        let (bytes, rest) = take(rest)?;
        let (value, rest) = rest.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.at = length - rest.len();
        let raised = i64::try_from(step >> 1).ok()?;
        match (self.begun, raised) {
            (false, 0) => {}
            (true, 0) => self.sub = self.sub.checked_add(1)?,
            (true, 1) => (self.main, self.sub) = (self.main.checked_add(1)?, 0),
            _ => return None,
        }
        self.begun = true;
        Some(Row {
            revision: Revision {
                main: self.main,
                sub: self.sub,
            },
            tombstone: step & 1 == 1,
            value,
        })
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Row<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.next(self.plain)
    }
}

fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn take(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (position, byte) in bytes.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if position == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * position);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[position + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(main: i64, sub: i64, tombstone: bool, value: &[u8]) -> Row<'_> {
        Row {
            revision: Revision { main, sub },
            tombstone,
            value,
        }
    }

    #[test]
    fn a_hole_is_refused() {
        for (main, sub) in [(6, 0), (5, 1), (4, 0)] {
            assert!(
                Builder::new(5).push(row(main, sub, false, b"v")).is_err(),
                "{main}/{sub}"
            );
        }
        for (main, sub) in [(5, 0), (5, 2), (7, 0), (6, 1), (4, 0)] {
            let mut builder = Builder::new(5);
            builder.push(row(5, 0, false, b"v")).unwrap();
            let told = builder.push(row(main, sub, false, b"v")).unwrap_err().to_string();
            assert!(told.contains("does not follow"), "{told}");
        }
    }

    proptest! {
        #[test]
        fn rows_come_back(
            from in 1i64..1 << 40,
            shape in prop::collection::vec((any::<bool>(), any::<bool>(), 0usize..300_000), 1..40)
        ) {
            let mut builder = Builder::new(from);
            let (mut main, mut sub) = (from, 0);
            let (mut expected, mut frames, mut crc, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
            for (number, (next, tombstone, length)) in shape.iter().enumerate() {
                if number > 0 {
                    (main, sub) = if *next { (main + 1, 0) } else { (main, sub + 1) };
                }
                let value = vec![number as u8; *length];
                crc = row(main, sub, *tombstone, &value).crc(crc);
                bytes += 17 + u64::from(*tombstone) + *length as u64;
                frames.extend(builder.push(row(main, sub, *tombstone, &value)).unwrap());
                expected.push((main, sub, *tombstone, value));
            }
            frames.extend(builder.rest());
            let content = builder.content().unwrap();
            let rows_count = shape.len() as u64;
            prop_assert_eq!(content, Content { from, to: main, rows: rows_count, bytes, crc });
            let mut found = Vec::new();
            for frame in &frames {
                for (position, row) in rows(&frame.bytes).unwrap().enumerate() {
                    let row = row.unwrap();
                    if position == 0 {
                        prop_assert_eq!(frame.first, row.revision.main as u64);
                    }
                    found.push((row.revision.main, row.revision.sub, row.tombstone, row.value.to_vec()));
                }
            }
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(rows) = rows(&bytes) {
                prop_assert!(rows.take(1000).count() < 1000);
            }
        }
    }
}
