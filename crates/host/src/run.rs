//! Running members: who they are, how they are launched, watched and stopped.
//!
//! In: a [`launch::Launch`]. Out: a process that outlives the supervisor, a record of it on the disk, and news of
//! its end. Never: a signal sent by a number alone (every signal goes through a pidfd whose process was proved to
//! be the recorded one), a member that dies because quorate did.

mod child;
pub mod evidence;
mod handle;
pub(crate) mod holder;
mod identity;
pub mod launch;
mod record;
pub mod volume_record;

pub(crate) use child::Runner;
pub(crate) use handle::Handle;
pub(crate) use identity::Identity;
pub(crate) use record::Record;
