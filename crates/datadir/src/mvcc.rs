//! What etcd keeps in its database: every version of every key, and a few small buckets beside.
//!
//! In: rows of buckets. Out: revisions, key-values, the numbers etcd itself goes by. Never: a row believed that etcd
//! could not have written.

mod buckets;
mod hash;
mod index;
mod row;
pub(crate) mod small;
mod source;

pub use buckets::{Numbers, bucket, meta};
pub use hash::{HashKv, hash_kv};
pub use row::{KeyValue, Revision, RowKey};
pub use small::Lease;
pub use source::Source;

pub(crate) use hash::{HashRows, each_row, hash_at, kept};
pub(crate) use index::{History, Kept, KeyIndex};
pub(crate) use small::lease_row;
