//! Changes on their way from a watch to deltas.
//!
//! In: a watch of the whole keyspace, kept up ([`reader`]). Out: deltas and gaps in one sequence ([`intake`]), the objects
//! of deltas ([`building`]), and whether the cluster still has the history that was archived ([`recall`]).
//! Never: a revision left out, or a delta that ends inside one.

pub(crate) mod building;
pub(super) mod intake;
pub(super) mod reader;
pub(super) mod recall;
