//! The client against real etcd servers, every cached version of them.
//!
//! Servers are started here, on loopback, in temporary directories, and are killed when their handle is
//! dropped. Nothing sleeps for a fixed time: conditions are awaited. An empty cache is a failure.

mod auth;
mod member;
mod membership;
mod outage;
mod single;
mod tls;
mod watch;
