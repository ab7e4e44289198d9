//! The format of an archive: what its objects are called and what is in them.
//!
//! In: rows, pages, what happened. Out: objects ([`object`], with the rows of a [`delta`] in them), [`record`]s and other
//! small objects ([`lines`]), their [`names`], and all of it back.
//! Never: a byte believed whose hash does not hold.

pub mod delta;
pub(crate) mod digest;
pub(crate) mod lines;
pub mod names;
pub mod object;
pub mod record;
