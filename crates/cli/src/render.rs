//! Text for people, made from plain data. Nothing here reads a clock, a file or a terminal.
//!
//! The texts carry colours as escape sequences; [`crate::say`] takes them off where nobody would see them.

pub mod backups;
pub mod bytes;
pub mod count;
pub mod event;
pub mod facts;
pub mod json_text;
pub mod kubernetes;
pub mod paragraph;
pub mod status;
pub mod style;
pub mod summary;
pub mod table;
