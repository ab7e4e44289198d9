//! bbolt files: pages, trees of pages, buckets of rows.
//!
//! In: `member/snap/db`, or a snapshot of it. Out: rows in order ([`Rows`]), whole new files ([`BoltWriter`]), files with
//! rows put behind the last ones ([`Edit`]). All of it is sequential: this is no database, there are no transactions.
//! Never: a page believed that does not hold together; an existing file of etcd's written to.

mod ahead;
mod build;
mod check;
mod edge;
mod edit;
mod file;
mod meta;
mod out;
mod page;
mod page_map;
mod pages;
mod rows;
mod write;

pub use check::Structure;
pub use edit::{Appending, Edit};
pub use file::{Bolt, Bucket};
pub use pages::Pages;
pub use rows::{KeyAndValue, Rows};
pub use write::BoltWriter;

pub(crate) use ahead::{Then, ahead};
pub(crate) use file::DIGEST;
pub(crate) use meta::{Metas, read_metas};

#[cfg(test)]
use {meta::NO_FREELIST, page_map::PageMap};

#[cfg(test)]
mod tests;
