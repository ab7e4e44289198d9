//! etcd's data directory, seen from outside a running etcd.
//!
//! In: the path of a data directory. Out: whose it is and whether its head is intact ([`look`]), the lock that
//! keeps etcd and others away while something is decided ([`DbLock`]), a safe way to put a directory out of the
//! way ([`move_aside`]), and one to write files of our own beside it ([`durable`]).
//!
//! What must never happen: a byte of etcd's written; a directory judged or moved while an etcd has it; a panic
//! or an unbounded allocation, whatever the files hold; data deleted.
//!
//! ```text
//! DATA-DIR/member/snap/db                                       bbolt file: bolt
//! DATA-DIR/member/wal/0000000000000000-0000000000000000.wal     log segments: wal
//! ```

#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::indexing_slicing, clippy::unwrap_used)
)]

mod assemble;
pub mod bolt;
mod defrag;
mod error;
mod examine;
mod files;
mod mvcc;
mod progress;
pub mod replay;
mod restore;
mod revive;
pub mod snap_file;
pub mod view;
pub mod wal;

pub use assemble::rewrite;
pub use assemble::snapshot::{Fresh, write_snapshot};
pub use assemble::{Arrival, Assembly, Base, Landing, LaterRows};
pub use defrag::{Defragmented, defrag};
pub use error::Error;
pub use examine::inspect::{Inspection, Received, SnapFileFound, inspect, inspect_with_log};
pub use examine::look::{Db, Identity, Look, db_path, look};
pub use examine::status::{Status, status};
pub use examine::verify::{MemberVerdict, Verdict, verify, verify_member};
pub use files::aside::{move_aside, room_of};
pub use files::durable;
pub use files::lock::{Attempt, DbLock};
pub use mvcc::{HashKv, KeyValue, Lease, Numbers, Revision, RowKey, Source, bucket, hash_kv, meta};
pub use progress::Progress;
pub use restore::roster::{Roster, RosterMember};
pub use restore::target::Target;
pub use restore::{Members, Restore, Restored, Seat, restore, restore_members};
pub use revive::{Finish, Revival, Revive, Revived, Staged, Stopped, revive, stage};
pub use wal::{Replay, SegmentName, last_index, replay};
