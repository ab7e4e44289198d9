//! Real etcd and the simulator's model of it, held against each other.
//!
//! In: a seed, and from it a random [`script::Script`] of member operations and faults. Out: two [`trace::Trace`]s,
//! one of real members in network namespaces of their own ([`real`]), one of the model ([`model`]), and every
//! difference between them ([`trace::differences`]). Never: an answer that is compared by less than its kind, and
//! never traffic outside the namespaces that a run made for itself ([`net`]).

pub mod members;
pub mod model;
pub mod net;
pub mod real;
pub mod script;
pub mod standing;
pub mod suite;
pub mod trace;
