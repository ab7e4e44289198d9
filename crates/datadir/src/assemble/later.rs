//! Rows that come behind those of a base, and the one that revisions go on from.
//!
//! In: rows from elsewhere. Out: the same, if they go on from the base without a hole up to where they are to end.
//! Never: a row taken that etcd would not have written there.

use super::rewrite::{Changes, Later};
use crate::Error;
use crate::bolt::KeyAndValue;
use crate::mvcc::{KeyValue, Lease, Revision, RowKey, bucket, meta};

/// Rows that come behind those of a base.
pub struct LaterRows<'a> {
    pub rows: &'a mut dyn Later,
    /// The revision they end with; `None`: wherever they do.
    pub to: Option<i64>,
}

impl std::fmt::Debug for LaterRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaterRows")
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// Rows on their way behind a base, each held against the one before it.
#[derive(Debug)]
pub(crate) struct Behind<'a> {
    rows: Option<LaterRows<'a>>,
    /// The last one so far; without a sub-revision the base's.
    last: Revision,
    bump: Option<Bump>,
}

impl<'a> Behind<'a> {
    pub(crate) fn new(base: i64, mut rows: Option<LaterRows<'a>>) -> Result<Behind<'a>, Error> {
        if let Some(rows) = &mut rows {
            rows.rows.begin(base)?;
        }
        let last = Revision {
            main: base,
            sub: i64::MAX,
        };
        Ok(Behind {
            rows,
            last,
            bump: None,
        })
    }

    /// And then this one.
    pub(crate) fn then(mut self, bump: Bump) -> Behind<'a> {
        self.bump = Some(bump);
        self
    }

    /// Did they end where they should?
    pub(crate) fn ended(&self) -> Result<(), Error> {
        ended(self.rows.as_ref().and_then(|rows| rows.to), self.last)
    }

    /// The revision they ended with.
    pub(crate) fn end(&self) -> i64 {
        self.last.main
    }
}

fn ended(to: Option<i64>, last: Revision) -> Result<(), Error> {
    match to {
        Some(to) if to != last.main => Err(unsound(format!(
            "they end at revision {}, and should end at {to}",
            last.main
        ))),
        _ => Ok(()),
    }
}

impl Later for Behind<'_> {
    fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, Error> {
        let last = self.last;
        let to = self.rows.as_ref().and_then(|rows| rows.to);
        let given = match &mut self.rows {
            Some(rows) => rows.rows.next()?,
            None => None,
        };
        let Some((key, value)) = given else {
            ended(to, last)?;
            return match &mut self.bump {
                Some(bump) => bump.next(),
                None => Ok(None),
            };
        };
        self.last = follows(last, key, value).map_err(|why| {
            let sub = if last.sub == i64::MAX { 0 } else { last.sub };
            unsound(format!(
                "the one behind revision {}.{sub} is not what follows it: {why}",
                last.main
            ))
        })?;
        Ok(Some((key, value)))
    }

    fn leases(&mut self) -> Vec<Lease> {
        self.rows
            .as_mut()
            .map_or_else(Vec::new, |rows| rows.rows.leases())
    }
}

/// Is this the row behind `last`? Out: its revision.
fn follows(last: Revision, key: &[u8], value: &[u8]) -> Result<Revision, &'static str> {
    let row = RowKey::read(key)?;
    let next = row.revision;
    let same = next.main == last.main && last.sub != i64::MAX && next.sub == last.sub.saturating_add(1);
    let new = Some(next.main) == last.main.checked_add(1) && next.sub == 0;
    if !same && !new {
        return Err("revisions are missing, or come twice");
    }
    let kv = KeyValue::read(value)?;
    let sound = if row.tombstone {
        kv == KeyValue {
            key: kv.key,
            ..KeyValue::default()
        }
    } else {
        kv.mod_revision == next.main
            && kv.create_revision >= 1
            && kv.create_revision <= next.main
            && kv.version >= 1
    };
    if sound && !kv.key.is_empty() {
        Ok(next)
    } else {
        Err("its value is not what etcd writes at that revision")
    }
}

fn unsound(why: String) -> Error {
    Error::Damaged {
        path: "later rows".into(),
        place: "their revisions".to_owned(),
        why,
    }
}

/// The row that revisions go on from, if they are to go on from a higher one; it holds nothing.
#[derive(Debug)]
pub(crate) struct Bump {
    key: [u8; 17],
    given: bool,
}

/// That row, for a store at revision `end`, and what else is changed for it.
pub(crate) fn bump_row(end: i64, by: i64) -> Result<(Bump, Changes), Error> {
    let Some(main) = end.checked_add(by) else {
        return Err(Error::refused(
            "revisions that high cannot be counted",
            "bump them by less",
        ));
    };
    let key = Revision { main, sub: 0 }.bytes();
    let mut changes = Changes::default();
    // etcd finishes it when it starts: whoever watches from an older revision is told so.
    changes.set(bucket::META, meta::SCHEDULED_COMPACTION, key);
    Ok((Bump { key, given: false }, changes))
}

impl Later for Bump {
    fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, Error> {
        if std::mem::replace(&mut self.given, true) {
            return Ok(None);
        }
        Ok(Some((&self.key, &[])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::rewrite::Nothing;

    struct Listed(Vec<(Vec<u8>, Vec<u8>)>, usize);

    impl Later for Listed {
        fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, Error> {
            self.1 += 1;
            let row = self.0.get(self.1 - 1);
            Ok(row.map(|(key, value)| (&key[..], &value[..])))
        }
    }

    fn put(main: i64, sub: i64) -> (Vec<u8>, Vec<u8>) {
        let kv = KeyValue {
            key: b"k",
            create_revision: 1,
            mod_revision: main,
            version: main,
            ..KeyValue::default()
        };
        (Revision { main, sub }.bytes().to_vec(), kv.bytes())
    }

    fn deletion(main: i64, sub: i64) -> (Vec<u8>, Vec<u8>) {
        let mut key = Revision { main, sub }.bytes().to_vec();
        key.push(b't');
        (key, vec![0x0a, 1, b'k'])
    }

    /// How many rows passed, or why not.
    fn passed(base: i64, rows: Vec<(Vec<u8>, Vec<u8>)>, to: i64) -> Result<usize, String> {
        let mut listed = Listed(rows, 0);
        let rows = &mut listed;
        let mut behind = Behind::new(base, Some(LaterRows { rows, to: Some(to) })).unwrap();
        let mut count = 0;
        while behind.next().map_err(|error| error.to_string())?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    #[test]
    fn rows_follow_one_another_up_to_the_end() {
        let rows = vec![put(6, 0), put(6, 1), deletion(6, 2), put(7, 0)];
        assert_eq!(passed(5, rows.clone(), 7), Ok(4));
        assert_eq!(passed(5, vec![], 5), Ok(0));
        for (base, rows, to) in [
            (4, rows.clone(), 7),
            (6, rows.clone(), 7),
            (5, rows.clone(), 8),
            (5, rows[..3].to_vec(), 7),
            (5, vec![put(6, 1)], 6),
            (5, vec![put(6, 0), put(6, 2)], 6),
            (5, vec![put(6, 0), put(6, 0)], 6),
            (5, vec![put(5, 0)], 5),
            (5, vec![(b"x".to_vec(), vec![])], 6),
            (5, vec![(put(6, 0).0, put(7, 0).1)], 6),
            (5, vec![(deletion(6, 0).0, put(6, 0).1)], 6),
        ] {
            assert!(passed(base, rows.clone(), to).is_err(), "{base} {rows:?} {to}");
        }
    }

    #[test]
    fn a_bump_comes_last() {
        let (row, changes) = bump_row(7, 100).unwrap();
        assert!(changes.patched.contains_key(bucket::META));
        let mut behind = Behind::new(7, None).unwrap().then(row);
        let key = behind.next().unwrap().unwrap().0.to_vec();
        assert_eq!(
            RowKey::read(&key).unwrap().revision,
            Revision { main: 107, sub: 0 }
        );
        assert!(behind.next().unwrap().is_none());
        assert!(bump_row(7, i64::MAX).is_err());
        assert!(Nothing.next().unwrap().is_none());
    }
}
