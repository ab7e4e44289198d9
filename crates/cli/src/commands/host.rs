//! Commands for a cluster on this machine, found by its root directory.

pub(super) mod certs;
pub(super) mod down;
pub(super) mod healthcheck;
pub(super) mod launch_member;
pub(super) mod logs;
pub(super) mod redeploy;
pub(super) mod scale;
pub(super) mod status;
pub(super) mod up;
pub(super) mod upgrade;
