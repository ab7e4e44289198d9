//! The host ground with real etcd processes.
//!
//! Each test has a root of its own and a supervisor that runs inside the test. Members are real etcd, launched by the
//! real launcher; a test that fails leaves none behind.

mod harness;

mod adoption;
mod bring_up;
mod identity;
mod launcher;
mod login;
mod refusals;
mod rotation;
mod trouble;
mod truth;
