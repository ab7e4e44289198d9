//! The operator against a model of Kubernetes, over the same model of etcd as everything else here.
//!
//! ```text
//! operator (its real code) ──requests──▶ api ──▶ controllers, kubelet ──▶ volume, etcd
//!        ▲──────────views that lag────────┘
//! ```
//!
//! - [`api`]: objects, uids, resourceVersions, finalizers, lag.
//! - [`controllers`]: ReplicaSets, owners, claims, pods on their nodes.
//! - [`kubelet`], [`volume`]: one pod; what its programs say of its volume, by their own rules.
//! - [`operator`], `driver`, `answers`: the passes of one or two operators, driven request by request; what the members
//!   tell them.
//! - `exchange`: volumes that are rolled back, cloned and swapped.
//! - `resources`: memory limits that change while pods run.
//! - [`fault`], [`world`], [`run`]: trouble, then peace, then what must hold; many seeds of that.
//! - [`refusal`]: members lost, and another change asked for, while Secrets cannot be written.
//! - [`course`]: one course of changes without any trouble, but for an operator that dies between two requests.

pub mod api;
pub mod controllers;
pub mod course;
pub mod fault;
pub mod judge;
pub mod kubelet;
pub mod operator;
pub mod refusal;
mod resources;
pub mod run;
mod tls;
pub mod volume;
pub mod world;

/// When tick 0 is, in milliseconds since 1970.
pub const EPOCH_MS: u64 = 1_767_225_600_000;
