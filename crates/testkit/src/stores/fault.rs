//! What a proxy breaks.

use std::time::Duration;

/// What happens to connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Every connection is reset as soon as it is made.
    Refuse,
    /// Connections are made, and then nothing ever comes.
    Hang,
    /// Every request gets this status, and this code in a body as S3 writes it; the server sees nothing.
    Answer { status: u16, code: &'static str },
    /// Conditional writes are not implemented, as with old servers; the first request of a connection counts.
    NoConditions,
    /// A connection is reset once so many bytes came back from the server. With 0 the server does what it was asked and
    /// the client never learns.
    CutAnswer {
        /// Counted over the connection.
        after: u64,
    },
    /// A connection is reset once so many bytes went to the server.
    CutRequest {
        /// Counted over the connection.
        after: u64,
    },
    /// Every piece of an answer comes so much later.
    Latency(Duration),
}
