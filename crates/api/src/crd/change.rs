//! The rules of changes to an object that exists.
//!
//! In: what was and what is wanted. Out: why the change is refused, with the fields that differ.
//!
//! What must never happen: a version that etcd cannot reach from the present one; a volume that shrinks; pods replaced
//! because someone edited a template that was said to be fixed.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use quorate_core::model::{Version, VersionPath};
use serde::Serialize;
use serde_json::Value;

use super::refusal::Refusal;
use super::status::ClusterStatus;
use crate::cluster::{ClusterSpec, EtcdCluster};
use crate::path::FieldPath;

/// Differences reported at most; the rest are counted.
const REPORTED: usize = 8;

/// Whether etcd can go from the one version to the other. Within a minor both ways are open here, since a patch that
/// does not exist must be taken back, and so is the way down from a minor that nobody ran; whether members may follow is the
/// planner's to say.
pub(super) fn version(old: &EtcdCluster, new: &EtcdCluster) -> Option<Refusal> {
    let (old_text, new_text) = (old.spec.version.as_deref()?, new.spec.version.as_deref()?);
    let (from, to): (Version, Version) = (old_text.parse().ok()?, new_text.parse().ok()?);
    if from.minor == to.minor || !Version::MINORS.contains(&from.minor) {
        return None;
    }
    let why = match from.path_to(to) {
        // The last two are faults of the new version by itself, and reported as such.
        VersionPath::Allowed | VersionPath::Corrupting | VersionPath::Unknown => return None,
        VersionPath::Downgrade
            if old
                .status
                .as_ref()
                .is_some_and(|status| nobody_is_past(status, to)) =>
        {
            return None;
        }
        VersionPath::Downgrade => "etcd does not start on the data of a newer minor".to_owned(),
        VersionPath::SkipsMinor => {
            format!("etcd moves one minor at a time; go to 3.{} first", from.minor + 1)
        }
        VersionPath::PatchFirst { at_least } => format!(
            "go to {at_least} or a later 3.{} first, or removed members could come back to life",
            from.minor
        ),
    };
    Some(Refusal {
        path: FieldPath::of("spec.version"),
        text: format!("Invalid value: {new_text:?}: no way from {old_text} to {new_text}: {why}."),
    })
}

/// Is every member that is known, and what they agree on, of no newer minor? What nobody knows may be.
fn nobody_is_past(status: &ClusterStatus, to: Version) -> bool {
    let within = |text: &str| {
        let version = text.parse::<Version>();
        version.is_ok_and(|v| v.major == 3 && Version::MINORS.contains(&v.minor) && v.minor <= to.minor)
    };
    let mut members = status.members.iter().filter_map(|m| m.version.as_deref());
    within(&status.cluster_version) && members.all(within)
}

/// Storage stays, or grows where the cluster opted in.
pub(super) fn storage(old: &ClusterSpec, new: &ClusterSpec) -> Option<Refusal> {
    let (before, now) = (claim(old)?, claim(new)?);
    if before == now {
        return None;
    }
    let rolling = new.rolling_changes();
    let grows = || {
        let size = |spec: &ClusterSpec| spec.storage.as_ref()?.size()?.units().ok();
        without_size(before.clone()) == without_size(now.clone())
            && matches!((size(old), size(new)), (Some(before), Some(now)) if before <= now)
    };
    if rolling && grows() {
        return None;
    }
    let mut fix = if rolling {
        "only resources.requests.storage may change, and only grow."
    } else {
        "storage stays as it was when the cluster was made; with maintenance.rollingChanges: true it may grow."
    }
    .to_owned();
    if before.storage_class_name != now.storage_class_name {
        fix.push_str(
            " To correct the class of claims that are not bound yet, delete the EtcdCluster and those claims, and create it \
             again.",
        );
    }
    immutable("spec.storage.volumeClaimTemplate", &before, &now, &fix)
}

/// What pods carry stays, unless the cluster opted in.
pub(super) fn pods(old: &ClusterSpec, new: &ClusterSpec) -> Vec<Refusal> {
    if new.rolling_changes() {
        return Vec::new();
    }
    let fix = "it stays as it was when the cluster was made, unless maintenance.rollingChanges is true.";
    let template = immutable("spec.podTemplate", &old.pod_template, &new.pod_template, fix);
    let affinity = immutable("spec.affinity", &old.affinity, &new.affinity, fix);
    template.into_iter().chain(affinity).collect()
}

/// Encryption stays on or off, and its certificates quorate's or the user's.
pub(super) fn tls(old: &ClusterSpec, new: &ClusterSpec) -> Option<Refusal> {
    let whose = |spec: &ClusterSpec| {
        let on = spec.tls.as_ref().filter(|tls| tls.is_on())?;
        Some(on.client.is_some())
    };
    if whose(old) == whose(new) {
        return None;
    }
    let fix = "it stays on or off, with quorate's certificates or with yours, as it was when the cluster was made: \
               members that changed would no longer understand the others.";
    immutable("spec.tls", &old.tls, &new.tls, fix)
}

/// No change at all.
pub(super) fn immutable<T: Serialize + PartialEq>(
    path: &str,
    old: &T,
    new: &T,
    fix: &str,
) -> Option<Refusal> {
    if old == new {
        return None;
    }
    let plain = |value: &T| serde_json::to_value(value).unwrap_or_default();
    let mut reported = Vec::new();
    differences(&FieldPath::of(path), &plain(old), &plain(new), &mut reported);
    let more = reported.len().saturating_sub(REPORTED);
    reported.truncate(REPORTED);
    if more > 0 {
        reported.push(format!("and {more} more"));
    }
    Some(Refusal {
        path: FieldPath::of(path),
        text: format!(
            "Unsupported changes: (- current, + new) {}; {fix}",
            reported.join(", ")
        ),
    })
}

fn differences(path: &FieldPath, old: &Value, new: &Value, reported: &mut Vec<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let at =
                    |fields: &serde_json::Map<String, Value>| fields.get(key).cloned().unwrap_or_default();
                differences(&path.key(key), &at(old), &at(new), reported);
            }
        }
        _ => {
            let side = |sign: &str, value: &Value| match value {
                Value::Null => None,
                value => Some(format!("{sign} {value}")),
            };
            let sides: Vec<String> = [side("-", old), side("+", new)].into_iter().flatten().collect();
            reported.push(format!("{path}: {}", sides.join(" ")));
        }
    }
}

/// The claim with Kubernetes' defaults, so that writing them out is no change.
fn claim(spec: &ClusterSpec) -> Option<PersistentVolumeClaimSpec> {
    let mut claim = spec.storage.as_ref()?.volume_claim_template.clone()?;
    crate::resolve::fill(&mut claim);
    Some(claim)
}

fn without_size(mut claim: PersistentVolumeClaimSpec) -> PersistentVolumeClaimSpec {
    let requests = claim
        .resources
        .as_mut()
        .and_then(|resources| resources.requests.as_mut());
    if let Some(requests) = requests {
        requests.remove("storage");
    }
    claim
}
