//! Real etcd: starting it, calling it, filling it, and what it leaves on disk.

mod client;
mod made;
mod server;
mod workload;
mod writes;

pub use client::{Client, User};
pub use made::{HashKv, Made, Said};
pub use server::{Server, Start};
pub use workload::Workload;
