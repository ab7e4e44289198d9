//! What is in a store, read from its rows: keys and values as they were at a revision, and what two differ in.
//!
//! In: a snapshot or a stopped member's database ([`Source`](crate::Source)), a revision, which keys. Out: [`Found`]
//! keys in order, values one at a time, [`Change`]s. Rows are revisions, not keys: there is no index on the disk, so every
//! question is a pass over the rows up to its revision. Memory holds the keys that were asked for, never their values.
//!
//! Never: an answer for a revision whose rows are gone.

mod diff;
mod find;
mod index;
mod selection;
mod sweep;
mod trail;

pub use diff::{Change, Compared, Kind, Side, Totals, diff};
pub use find::{Found, Values, find, find_those};
pub use selection::Selection;
pub use trail::{Trail, trail};
