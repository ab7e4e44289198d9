//! The Kubernetes ground: what the operator is made of.
//!
//! In: what an administrator asks for. Out: the objects that install the operator ([`install`]).
//!
//! What must never happen: more rights than the operator uses; a pod of the operator with more power than it needs.

pub mod install;
