//! `quorate launch-member`: hidden; the supervisor runs it, and it becomes etcd.

use crate::arguments;
use crate::failure::Failure;

/// Becomes etcd. Returns only if that failed.
pub fn run(arguments: &arguments::LaunchMember) -> Result<(), Failure> {
    Err(quorate_host::run::launch::main(&arguments.spec).into())
}
