//! Large watch messages cut into small ones while they come in.
//!
//! In: the bytes of a gRPC response, in pieces. Out: the same messages, but one of more than a MiB as several, each
//! whole by itself and all but the last marked as fragments. So memory grows with the largest event and not with what
//! one transaction changed.
//!
//! etcd can cut them too, and measures the whole fragment anew for every event that it adds: a deletion of a hundred
//! thousand short keys keeps a core of it busy for minutes. It is asked to only where a message would be larger than
//! gRPC allows.
//! Never: a message passed on that is not whole, or memory taken for what is only announced.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::StreamExt as _;
use http_body_util::{BodyStream, StreamBody};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::transport::Channel;

/// Messages above this are cut into pieces of about this.
const PIECE_BYTES: usize = 1024 * 1024;
/// The largest event, which comes whole.
pub(crate) const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;
/// What a message holds besides its events: the header, a reason in words.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const PREFIX_BYTES: usize = 5;
const EVENTS: u64 = 11;
/// Field 7, `fragment`, set.
const FRAGMENT: [u8; 2] = [7 << 3, 1];

/// A connection whose responses are watch messages, cut.
#[derive(Clone)]
pub(crate) struct Cutting(pub(crate) Channel);

impl Service<http::Request<Body>> for Cutting {
    type Response = http::Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let response = Service::call(&mut self.0, request);
        let response = async move { Ok(response.await?.map(cut_body)) };
        Pin::from(Box::new(response) as Box<_>)
    }
}

fn cut_body(body: Body) -> Body {
    let mut cutter = Cutter::default();
    let frames = BodyStream::new(body).map(move |frame| {
        let mut fault = None;
        let frame = frame?.map_data(|data| {
            let cut = cutter.push(&data);
            cut.unwrap_or_else(|what| {
                fault = Some(what);
                Bytes::new()
            })
        });
        match fault {
            None => Ok(frame),
            Some(what) => Err(Status::internal(what)),
        }
    });
    Body::new(StreamBody::new(frames))
}

#[derive(Default)]
struct Cutter {
    /// Came, and is not yet used.
    pending: BytesMut,
    /// How much of a large message is still to come, with what is pending; none between messages.
    left: Option<usize>,
    head: BytesMut,
    events: BytesMut,
}

impl Cutter {
    /// Takes what came, gives what is whole.
    fn push(&mut self, data: &[u8]) -> Result<Bytes, &'static str> {
        self.pending.put_slice(data);
        let mut out = BytesMut::new();
        loop {
            let went_on = match self.left {
                None => self.begin(&mut out)?,
                Some(left) => self.field(left, &mut out)?,
            };
            if !went_on {
                return Ok(out.freeze());
            }
        }
    }

    /// Passes a small message on, or begins a large one.
    fn begin(&mut self, out: &mut BytesMut) -> Result<bool, &'static str> {
        let Some(prefix) = self.pending.first_chunk::<PREFIX_BYTES>() else {
            return Ok(false);
        };
        let [compressed, length @ ..] = *prefix;
        if compressed != 0 {
            return Err("the message is compressed, and that was not asked for");
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > PIECE_BYTES {
            self.pending.advance(PREFIX_BYTES);
            self.left = Some(length);
            return Ok(true);
        }
        let whole = PREFIX_BYTES + length;
        if self.pending.len() < whole {
            return Ok(false);
        }
        out.unsplit(self.pending.split_to(whole));
        Ok(true)
    }

    /// Takes one field of a large message.
    fn field(&mut self, left: usize, out: &mut BytesMut) -> Result<bool, &'static str> {
        if left == 0 {
            self.emit(&[], out);
            self.head.clear();
            self.left = None;
            return Ok(true);
        }
        let Some((key, length)) = measure(&self.pending)? else {
            return Ok(false);
        };
        if length > left {
            return Err("a field is longer than its message");
        }
        let is_event = key == (EVENTS << 3 | 2);
        if is_event && length > MAX_EVENT_BYTES {
            return Err("an event is larger than 64 MiB");
        }
        if !is_event && self.head.len() + length > MAX_HEAD_BYTES {
            return Err("the message holds something else than events");
        }
        if self.pending.len() < length {
            return Ok(false);
        }
        let field = self.pending.split_to(length);
        if is_event {
            if self.events.len() >= PIECE_BYTES {
                self.emit(&FRAGMENT, out);
            }
            self.events.put_slice(&field);
        } else {
            self.head.put_slice(&field);
        }
        self.left = Some(left - length);
        Ok(true)
    }

    fn emit(&mut self, mark: &[u8], out: &mut BytesMut) {
        let length = self.head.len() + mark.len() + self.events.len();
        out.reserve(PREFIX_BYTES + length);
        out.put_u8(0);
        out.put_u32(length as u32);
        out.put_slice(&self.head);
        out.put_slice(mark);
        out.put_slice(&self.events);
        self.events.clear();
    }
}

/// The first field's key, and its length with its key; `None` if too little is there to know.
fn measure(bytes: &[u8]) -> Result<Option<(u64, usize)>, &'static str> {
    let Some((key, key_length)) = varint(bytes)? else {
        return Ok(None);
    };
    let rest = bytes.get(key_length..).unwrap_or_default();
    let length = match key & 7 {
        0 => varint(rest)?.map(|(_, length)| length),
        1 => Some(8),
        2 => match varint(rest)? {
            None => None,
            Some((length, prefix)) => usize::try_from(length)
                .ok()
                .and_then(|length| length.checked_add(prefix)),
        },
        5 => Some(4),
        _ => return Err("the message is not one"),
    };
    Ok(length.and_then(|length| Some((key, length.checked_add(key_length)?))))
}

/// A number and its length; `None` if its end is not there.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, &'static str> {
    let mut number = 0u64;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(Some((number, place + 1)));
        }
    }
    match bytes.len() {
        0..10 => Ok(None),
        _ => Err("a number does not end"),
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use quorate_wire::etcdserverpb::{ResponseHeader, WatchResponse};
    use quorate_wire::mvccpb::{Event, KeyValue};

    use super::*;

    fn message(events: usize, value: usize) -> WatchResponse {
        let event = |n: usize| Event {
            kv: Some(KeyValue {
                key: n.to_le_bytes().to_vec(),
                mod_revision: 7,
                value: vec![1; value],
                ..KeyValue::default()
            }),
            ..Event::default()
        };
        WatchResponse {
            header: Some(ResponseHeader {
                revision: 7,
                ..ResponseHeader::default()
            }),
            events: (0..events).map(event).collect(),
            ..WatchResponse::default()
        }
    }

    fn framed(messages: &[WatchResponse]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.push(0);
            bytes.extend((message.encoded_len() as u32).to_be_bytes());
            bytes.extend(message.encode_to_vec());
        }
        bytes
    }

    fn unframed(mut bytes: &[u8]) -> Vec<WatchResponse> {
        let mut messages = Vec::new();
        while !bytes.is_empty() {
            let length = u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
            messages.push(WatchResponse::decode(&bytes[5..5 + length]).unwrap());
            bytes = &bytes[5 + length..];
        }
        messages
    }

    #[test]
    fn whatever_the_pieces_the_events_are_the_same() {
        let sent = [
            message(1, 10),
            message(100_000, 0),
            message(0, 0),
            message(3, 3 << 20),
            message(2_000, 1024),
        ];
        let bytes = framed(&sent);
        for piece in [999, 16_384, 3 << 20] {
            let mut cutter = Cutter::default();
            let mut out = Vec::new();
            for piece in bytes.chunks(piece) {
                let cut = cutter.push(piece).unwrap();
                out.extend_from_slice(&cut);
            }
            let mut joined: Vec<WatchResponse> = Vec::new();
            let mut continues = false;
            for mut piece in unframed(&out) {
                assert!(piece.encoded_len() < 4 << 20);
                assert_eq!(piece.header.as_ref().unwrap().revision, 7);
                let fragment = std::mem::take(&mut piece.fragment);
                assert!(!fragment || !piece.events.is_empty());
                if continues {
                    assert!(!piece.events.is_empty());
                    joined.last_mut().unwrap().events.extend(piece.events);
                } else {
                    joined.push(piece);
                }
                continues = fragment;
            }
            assert!(!continues);
            assert_eq!(joined, sent);
        }
    }

    #[test]
    fn nonsense_is_refused_and_nothing_taken_for_it() {
        let large = |body: &[u8]| {
            let mut bytes = vec![0, 0xff, 0xff, 0xff, 0xff];
            bytes.extend_from_slice(body);
            bytes
        };
        for bytes in [
            vec![1, 0, 0, 0, 1],
            large(&[0x5a, 0xff, 0xff, 0xff, 0xff, 0x0f]),
            large(&[0x5a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            large(&[0x0a, 0xff, 0xff, 0xff, 0x01]),
            large(&[7]),
        ] {
            let mut cutter = Cutter::default();
            assert!(cutter.push(&bytes).is_err(), "{bytes:?}");
            assert!(cutter.pending.capacity() + cutter.events.capacity() < 4096);
        }
    }
}
