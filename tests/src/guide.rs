//! Guides that are held to their word: the commands they show are run, and what they say is printed must be.
//!
//! [`document`] reads a guide's commands, files and fragments; [`contract`] reads the list of an older guide's commands
//! with what was put in place of parts of them; [`shell`] runs them with the real kubectl; [`compare`] holds what was
//! shown against what was printed.

pub mod compare;
pub mod contract;
pub mod document;
pub mod shell;
