//! Readers of etcd's files, held to any bytes: what the fuzzer in `fuzz/` calls, and plain tests with the same corpus.
//!
//! In: bytes, taken for a file. Out: whether they are a whole one. Each target reads them as they are, and once more with
//! their checksums made right, because no chance finds those. It reads all there is, every way there is, and holds the
//! ways against each other.
//! Never, whatever the bytes: a panic, a hang, or more memory than the bytes warrant.

mod bolt;
mod scratch;
mod snap;
mod varint;
mod wal;

pub use bolt::bolt;
pub use snap::snap;
pub use wal::wal;

/// Reads bytes as one kind of file; true if they are a whole one.
pub type Target = fn(&[u8]) -> bool;

/// Every target by its name, which is that of its directory in `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 3] = [("bolt", bolt), ("wal", wal), ("snap", snap)];

/// Whether it was read, and its error made into text.
fn told<T>(result: Result<T, quorate_datadir::Error>) -> Option<T> {
    result
        .inspect_err(|error| assert!(!error.to_string().is_empty()))
        .ok()
}
