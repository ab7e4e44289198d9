//! A first look into a bbolt file: its meta pages, and single values of small buckets.
//!
//! In: `member/snap/db`. Out: the valid meta, a value by bucket and key. Never: a byte written; a page believed
//! that does not hold together; more than a few pages read.

mod meta;
mod value;

pub(crate) use meta::{Metas, read_metas};
pub(crate) use value::value;
