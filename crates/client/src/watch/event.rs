//! Events as etcd sends them, read without copying.
//!
//! In: the bytes of one `mvccpb.Event`. Out: its fields, borrowed, and the bytes of its key-value pair as they came,
//! which for a put are the very bytes that etcd keeps. A message holds up to a hundred thousand events, so that an
//! allocation for each would be the dearest thing a watch does.
//! Never: a panic, whatever the bytes.

use std::slice;

use bytes::Bytes;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

const NOT_AN_EVENT: &str = "an event is not one";

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Put,
    Delete,
}

/// One change of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    pub kind: EventKind,
    pub key: &'a [u8],
    /// Its value; empty for a deletion.
    pub value: &'a [u8],
    /// When the key was created; 0 for a deletion.
    pub create_revision: i64,
    /// The revision of this change.
    pub mod_revision: i64,
    /// How often it was written since; 0 for a deletion.
    pub version: i64,
    /// The lease it hangs on, or 0.
    pub lease: i64,
    /// The `mvccpb.KeyValue` as it came.
    pub key_value: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads the bytes of an event.
    pub fn parse(bytes: &'a [u8]) -> Result<Event<'a>, &'static str> {
        let mut kind = 0;
        let mut key_value: &[u8] = &[];
        let mut fields = Fields(bytes);
        while let Some((tag, field)) = fields.next()? {
            match (tag, field) {
                (1, Field::Number(number)) => kind = number,
                (2, Field::Bytes(bytes)) => key_value = bytes,
                _ => {}
            }
        }
        let kind = match kind {
            0 => EventKind::Put,
            1 => EventKind::Delete,
            _ => return Err("an event is of a kind that does not exist"),
        };
        let mut event = Event {
            kind,
            key: &[],
            value: &[],
            create_revision: 0,
            mod_revision: 0,
            version: 0,
            lease: 0,
            key_value,
        };
        let mut fields = Fields(key_value);
        while let Some((tag, field)) = fields.next()? {
            match (tag, field) {
                (1, Field::Bytes(bytes)) => event.key = bytes,
                (2, Field::Number(number)) => event.create_revision = number as i64,
                (3, Field::Number(number)) => event.mod_revision = number as i64,
                (4, Field::Number(number)) => event.version = number as i64,
                (5, Field::Bytes(bytes)) => event.value = bytes,
                (6, Field::Number(number)) => event.lease = number as i64,
                _ => {}
            }
        }
        if event.mod_revision <= 0 {
            return Err("an event has no revision");
        }
        Ok(event)
    }
}

/// The events of a message.
#[derive(Debug, Clone)]
pub struct Events<'a>(slice::Iter<'a, Bytes>);

impl<'a> Events<'a> {
    pub(crate) fn new(events: &'a [Bytes]) -> Events<'a> {
        Events(events.iter())
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|bytes| Event::parse(bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message, in the order they came.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, &'static str> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            VARINT => Field::Number(self.varint()?),
            LENGTH => {
                let length = usize::try_from(self.varint()?).map_err(|_| NOT_AN_EVENT)?;
                Field::Bytes(self.take(length)?)
            }
            FIXED64 => self.take(8).map(|_| Field::Other)?,
            FIXED32 => self.take(4).map(|_| Field::Other)?,
            _ => return Err(NOT_AN_EVENT),
        };
        Ok(Some((key >> 3, field)))
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut number = 0u64;
        for (place, byte) in self.0.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.0 = self.0.get(place + 1..).unwrap_or_default();
                return Ok(number);
            }
        }
        Err(NOT_AN_EVENT)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(NOT_AN_EVENT)?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use quorate_wire::mvccpb::{self, KeyValue};

    use super::*;

    fn sample(kind: i32) -> mvccpb::Event {
        mvccpb::Event {
            r#type: kind,
            kv: Some(KeyValue {
                key: b"a key".to_vec(),
                create_revision: 2,
                mod_revision: 1 << 40,
                version: 3,
                value: vec![7; 300],
                lease: i64::MIN,
            }),
            prev_kv: None,
        }
    }

    #[test]
    fn fields_come_out_as_they_went_in() {
        for (code, kind) in [(0, EventKind::Put), (1, EventKind::Delete)] {
            let sent = sample(code);
            let bytes = sent.encode_to_vec();
            let event = Event::parse(&bytes).unwrap();
            let kv = sent.kv.unwrap();
            assert_eq!(event.kind, kind);
            assert_eq!((event.key, event.value), (&kv.key[..], &kv.value[..]));
            assert_eq!(
                (
                    event.create_revision,
                    event.mod_revision,
                    event.version,
                    event.lease
                ),
                (kv.create_revision, kv.mod_revision, kv.version, kv.lease)
            );
            assert_eq!(event.key_value, kv.encode_to_vec());
        }
        assert!(Event::parse(&sample(2).encode_to_vec()).is_err());
        assert!(Event::parse(&[]).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let good = sample(0).encode_to_vec();
        for length in 0..good.len() {
            let _ = Event::parse(&good[..length]);
        }
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut bad = good[..40].to_vec();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = (state >> 33) as usize % bad.len();
                bad[place] = (state >> 55) as u8;
            }
            if let Ok(event) = Event::parse(&bad) {
                assert!(event.key.len() + event.value.len() <= bad.len());
            }
        }
    }
}
