//! What keeps an archive small and proven: compaction, pruning, copies, verification.
//!
//! In: an archive, which an agent may be writing. Out: a new full backup ([`compact`]), fewer objects ([`prune`], by
//! [`retention`]), a second archive ([`copy`]), or a proof that it can be restored ([`verify`]).
//! Never: an object deleted that counts; a full backup recorded that was not verified.

pub mod compact;
pub mod copy;
pub(crate) mod deposit;
pub mod prune;
pub mod retention;
pub mod verify;
