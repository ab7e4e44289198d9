//! Every change of every key, as it happens.
//!
//! In: the revision to begin with. Out: messages of events in the order etcd applied them, what the member has come to
//! where nothing happened, or that the revision is compacted away.
//! A message is fetched when it is asked for and not before: what nobody reads stays in the connection's windows, and
//! behind them in etcd. Large messages come in pieces of about a MiB, so memory does not grow with what one
//! transaction changed.
//! Never: silence taken for peace. A member that answers nothing for the stream idle timeout, not even a request for
//! progress, is an error; one that has lost its leader ends the watch.

mod cut;
pub(crate) mod event;

use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use http::uri::PathAndQuery;
use quorate_wire::etcdserverpb::watch_request::RequestUnion;
use quorate_wire::etcdserverpb::{ResponseHeader, WatchCreateRequest, WatchProgressRequest, WatchRequest};
use tokio::time::Instant;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::refusal::Refusal;
use cut::{Cutting, MAX_EVENT_BYTES};
use event::{Event, Events};

/// A piece, and the largest event.
const MAX_MESSAGE_BYTES: usize = MAX_EVENT_BYTES + 2 * 1024 * 1024;
/// Requests that wait to be sent: the creation, and for progress.
const QUEUED_REQUESTS: usize = 4;
/// Not polled for so long, the watch was not waiting: its reader was busy.
const READER_AWAY: Duration = Duration::from_secs(1);
/// How often a quiet member is asked for progress before it counts as silent.
const ASKS_BEFORE_SILENCE: u32 = 3;

/// Who cuts large messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// This client, as they come in.
    Here,
    /// etcd, which takes very long over revisions of many small events; for messages larger than the 2 GiB that gRPC
    /// allows.
    ByEtcd,
}

/// A watch under way.
pub struct Watching {
    endpoint: Endpoint,
    requests: mpsc::Sender<WatchRequest>,
    replies: Streaming<Reply>,
    /// When it began to wait for the next message.
    waiting_since: Instant,
    polled: Instant,
    asked: u32,
    member_id: u64,
    cluster_id: u64,
}

/// What a watch brought.
#[derive(Debug)]
pub enum Watched {
    Events(Batch),
    /// Nothing happened up to this revision. On patches before 3.4.25 and 3.5.8 events of it may still come.
    Progress {
        /// What the member has come to.
        revision: i64,
    },
    /// What was asked for exists no more. The watch is over.
    Compacted {
        /// The oldest revision that can be watched from.
        compact_revision: i64,
    },
    /// etcd ended the watch.
    Cancelled {
        why: String,
    },
}

/// One message of events.
#[derive(Debug)]
pub struct Batch {
    /// The member's revision when it sent this.
    pub revision: i64,
    /// More events, possibly of the last revision in here, follow with the next. Otherwise every revision in here is
    /// complete.
    pub continues: bool,
    events: Vec<Bytes>,
}

impl Batch {
    /// Of these events, each the bytes of an `mvccpb.Event`.
    pub fn new(revision: i64, continues: bool, events: Vec<Bytes>) -> Batch {
        Batch {
            revision,
            continues,
            events,
        }
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events, in order.
    pub fn events(&self) -> Events<'_> {
        Events::new(&self.events)
    }

    /// The event at this place.
    pub fn event(&self, place: usize) -> Option<Result<Event<'_>, &'static str>> {
        self.events.get(place).map(|bytes| Event::parse(bytes))
    }

    /// Their size on the wire.
    pub fn bytes(&self) -> usize {
        self.events.iter().map(Bytes::len).sum()
    }
}

/// etcd's WatchResponse with its events left as they came: a message holds up to a hundred thousand of them.
#[derive(Clone, PartialEq, prost::Message)]
struct Reply {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(bool, tag = "3")]
    created: bool,
    #[prost(bool, tag = "4")]
    canceled: bool,
    #[prost(int64, tag = "5")]
    compact_revision: i64,
    #[prost(string, tag = "6")]
    cancel_reason: String,
    #[prost(bool, tag = "7")]
    fragment: bool,
    #[prost(bytes = "bytes", repeated, tag = "11")]
    events: Vec<Bytes>,
}

impl Endpoint {
    /// Watches the whole keyspace from this revision on.
    ///
    /// Best one that exists: newer patches tell no progress before the first event, so that a quiet cluster would look
    /// like a silent member. And patches before 3.4.36 and 3.5.20 forget the deletions of the revision that they are
    /// compacted at: who has all of revision R and watches from R, not R + 1, is told of such a compaction in time.
    ///
    /// etcd looks at rights only now: a watch outlives its token. Needs the right to read every key.
    pub async fn watch(&self, from_revision: i64, cut: Cut) -> Result<Watching, Error> {
        match self.open_watch(from_revision, cut).await {
            // 3.4 says "permission denied" of a token that it does not know. Nothing is executed, so once more.
            Err(error) if self.credentials().is_some() && stale_token(error.refusal()) => {
                let held = self.token().clone();
                self.renew_token(held.as_ref()).await?;
                self.open_watch(from_revision, cut).await
            }
            result => result,
        }
    }

    async fn open_watch(&self, from_revision: i64, cut: Cut) -> Result<Watching, Error> {
        let (mut requests, queue) = mpsc::channel(QUEUED_REQUESTS);
        let create = WatchCreateRequest {
            key: vec![0],
            range_end: vec![0],
            start_revision: from_revision,
            fragment: cut == Cut::ByEtcd,
            ..WatchCreateRequest::default()
        };
        // Cannot fail: the queue is empty and its other end is here.
        let _ = requests.try_send(WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        });
        let operation = Operation::Watch;
        let open = async {
            let mut request = Request::new(queue);
            if let Some(token) = self.token_for(operation).await? {
                token.attach(&mut request);
            }
            // The member ends the watch when it has no leader, instead of going on with nothing to tell.
            let metadata = request.metadata_mut();
            metadata.insert("hasleader", MetadataValue::from_static("true"));
            let answered = |status| Error::answered(operation, self.label(), status);
            let mut replies = stream(self.channel(), request)
                .await
                .map_err(answered)?
                .into_inner();
            let first = replies.message().await.map_err(answered)?;
            let Some(first) = first.filter(|reply| reply.created || reply.canceled) else {
                return Err(self.malformed_watch("the watch ended before it was created"));
            };
            // Compaction is told in a message of its own, after the creation.
            if first.canceled && first.compact_revision == 0 {
                return Err(answered(Status::unknown(last_words(&first.cancel_reason))));
            }
            let header = self.header(operation, first.header)?;
            let now = Instant::now();
            Ok(Watching {
                endpoint: self.clone(),
                requests,
                replies,
                waiting_since: now,
                polled: now,
                asked: 0,
                member_id: header.member_id,
                cluster_id: header.cluster_id,
            })
        };
        let bound = self.timeouts().request;
        match tokio::time::timeout(bound, open).await {
            Ok(result) => result,
            Err(_) => {
                self.disconnect();
                Err(Error::no_answer(operation, self.label(), bound))
            }
        }
    }

    fn malformed_watch(&self, what: &'static str) -> Error {
        Error::malformed(Operation::Watch, self.label(), what)
    }
}

impl Watching {
    /// The member that serves it.
    pub fn member_id(&self) -> u64 {
        self.member_id
    }

    pub fn cluster_id(&self) -> u64 {
        self.cluster_id
    }

    /// The next message. Dropping the future loses nothing. After an error, [`Watched::Compacted`] or
    /// [`Watched::Cancelled`] the watch is over.
    pub async fn next(&mut self) -> Result<Watched, Error> {
        if self.polled.elapsed() > READER_AWAY {
            self.waiting_since = Instant::now();
            self.asked = 0;
        }
        let idle = self.endpoint.timeouts().stream_idle;
        let step = idle / (ASKS_BEFORE_SILENCE + 1);
        loop {
            self.polled = Instant::now();
            let until = self.waiting_since + step * (self.asked + 1);
            let reply = tokio::time::timeout_at(until, self.replies.message()).await;
            self.polled = Instant::now();
            let reply = match reply {
                Err(_) if self.asked < ASKS_BEFORE_SILENCE => {
                    self.asked += 1;
                    self.request_progress();
                    continue;
                }
                Err(_) => {
                    self.endpoint.disconnect();
                    return Err(Error::no_answer(Operation::Watch, self.endpoint.label(), idle));
                }
                Ok(reply) => reply,
            };
            self.waiting_since = self.polled;
            self.asked = 0;
            let reply = reply
                .map_err(|status| Error::answered(Operation::Watch, self.endpoint.label(), status))?
                .ok_or_else(|| self.endpoint.malformed_watch("the member ended the stream"))?;
            return self.judge(reply);
        }
    }

    fn judge(&self, reply: Reply) -> Result<Watched, Error> {
        if reply.compact_revision > 0 {
            let compact_revision = reply.compact_revision;
            return Ok(Watched::Compacted { compact_revision });
        }
        if reply.canceled {
            let why = last_words(&reply.cancel_reason).to_owned();
            return Ok(Watched::Cancelled { why });
        }
        let header = self.endpoint.header(Operation::Watch, reply.header)?;
        if header.cluster_id != self.cluster_id || header.member_id != self.member_id {
            return Err(self
                .endpoint
                .malformed_watch("the message is of another member than the one that was asked"));
        }
        if reply.events.is_empty() {
            return Ok(Watched::Progress {
                revision: header.revision,
            });
        }
        Ok(Watched::Events(Batch {
            revision: header.revision,
            continues: reply.fragment,
            events: reply.events,
        }))
    }

    /// Asks what the member has come to; it answers with [`Watched::Progress`] once it has sent all it has. Where
    /// answers are still owed this does nothing.
    pub fn request_progress(&mut self) {
        let _ = self.requests.try_send(WatchRequest {
            request_union: Some(RequestUnion::ProgressRequest(WatchProgressRequest {})),
        });
    }
}

async fn stream(
    channel: Channel,
    request: Request<mpsc::Receiver<WatchRequest>>,
) -> Result<Response<Streaming<Reply>>, Status> {
    let mut grpc = tonic::client::Grpc::new(Cutting(channel)).max_decoding_message_size(MAX_MESSAGE_BYTES);
    grpc.ready()
        .await
        .map_err(|error| Status::from_error(Box::new(error)))?;
    let codec = tonic_prost::ProstCodec::<WatchRequest, Reply>::default();
    let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
    grpc.streaming(request, path, codec).await
}

/// Reasons come as gRPC errors in words: "rpc error: code = PermissionDenied desc = etcdserver: permission denied".
fn last_words(reason: &str) -> &str {
    reason.rsplit_once("desc = ").map_or(reason, |(_, words)| words)
}

fn stale_token(refusal: Refusal) -> bool {
    refusal.wants_new_token() || refusal == Refusal::PermissionDenied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_lose_their_wrapping() {
        let wrapped = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
        let status = Status::unknown(last_words(wrapped));
        assert_eq!(Refusal::classify(&status), Refusal::PermissionDenied);
        assert_eq!(last_words("etcdserver: no leader"), "etcdserver: no leader");
    }
}
