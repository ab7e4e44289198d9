//! The rules of `spec.backup` and `spec.maintenance`.

use super::{Findings, Ground};
use crate::cluster::ClusterSpec;
use crate::path::FieldPath;

/// Judges what is asked for beside running.
pub(crate) fn upkeep(spec: &ClusterSpec, found: &mut Findings) {
    if spec.backup.is_some() {
        let path = FieldPath::of("spec.backup");
        match found.ground {
            // A refusal, not a warning: who believes in a backup that nobody takes finds out too late.
            Ground::Host => found.fault(
                path,
                "a group of fields",
                "no backup: this version of quorate takes none on this machine",
                "backup is not supported by this version of quorate; leave it out, or use a newer version.",
            ),
            Ground::Kubernetes => found.warn(
                path,
                "not acted on by this version of quorate: no backup is taken. Take them by other means until it is.",
            ),
        }
    }
    if spec.maintenance.is_some() && found.ground == Ground::Host {
        found.warn(
            FieldPath::of("spec.maintenance"),
            "ignored: on this machine changes always roll through the members.",
        );
    }
}
