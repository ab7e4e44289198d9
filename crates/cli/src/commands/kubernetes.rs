//! Commands for clusters on Kubernetes: what is installed, the operator, and what runs in a member's pod.

pub(super) mod install;
pub(super) mod launch_in_pod;
pub(super) mod operator;
pub(super) mod prepare;
