//! A data directory or a snapshot examined: whose it is, what it holds, whether it is intact.
//!
//! In: a path, or a source. Out: at a glance ([`look`]), from its log ([`inspect`]), in a few numbers ([`status`]), with
//! every page and row checked ([`verify`]).
//! Never: a byte changed; damage taken for emptiness, or for an end.

pub(crate) mod inspect;
pub(crate) mod look;
pub(crate) mod status;
pub(crate) mod verify;
