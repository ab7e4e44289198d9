//! The rules of `spec.backup` and `spec.maintenance`.

use std::str::FromStr as _;

use super::retention::retention;
use super::{Findings, Ground};
use crate::cluster::ClusterSpec;
use crate::crd::{BackupDestination, BackupPlan};
use crate::duration::parse_backup_period;
use crate::path::FieldPath;
use crate::resolve::BackupSettings;

/// What the address of an archive may begin with.
const SCHEMES: [&str; 4] = ["file://", "s3://", "gs://", "az://"];

/// Judges what is asked for beside running. Returns the backups that are to be taken on this machine.
pub(crate) fn upkeep(spec: &ClusterSpec, found: &mut Findings) -> Option<BackupSettings> {
    if spec.maintenance.is_some() && found.ground == Ground::Host {
        found.warn(
            FieldPath::of("spec.maintenance"),
            "ignored: on this machine changes always roll through the members.",
        );
    }
    let plan = spec.backup.as_ref()?;
    match found.ground {
        Ground::Host => Some(settings(plan, found)),
        Ground::Kubernetes => {
            let text = "not acted on by this version of quorate: no backup is taken. Take them by other means until it is.";
            found.warn(FieldPath::of("spec.backup"), text);
            // A fault would hold clusters that an earlier version accepted.
            if let Some(why) = plan.schedule.as_deref().and_then(no_schedule) {
                let text = format!("no schedule as cron knows them: {why}");
                found.warn(FieldPath::of("spec.backup.schedule"), text);
            }
            None
        }
    }
}

fn settings(plan: &BackupPlan, found: &mut Findings) -> BackupSettings {
    let period = plan.deltas.as_ref().and_then(|deltas| deltas.period.clone());
    if let Some(text) = period
        .as_deref()
        .filter(|text| parse_backup_period(text).is_err())
    {
        found.fault(
            FieldPath::of("spec.backup.deltas.period"),
            format!("{text:?}"),
            "a time of at least 1s and at most 1h",
            "Write numbers and s, m or h, for example 20s.",
        );
    }
    schedule(plan, found);
    BackupSettings {
        url: plan
            .destination
            .as_ref()
            .and_then(|destination| address(destination, found)),
        schedule: plan.schedule.clone(),
        period,
        keep: retention(plan.retention.as_deref().unwrap_or_default(), found),
    }
}

fn schedule(plan: &BackupPlan, found: &mut Findings) {
    let line = plan.schedule.as_deref();
    if let Some((text, why)) = line.and_then(|text| Some((text, no_schedule(text)?))) {
        found.fault(
            FieldPath::of("spec.backup.schedule"),
            format!("{text:?}: {why}"),
            "five fields as cron knows them, in UTC",
            "For example \"0 */6 * * *\" for every six hours.",
        );
    }
}

/// Why a line is no schedule, if so.
fn no_schedule(line: &str) -> Option<String> {
    croner::Cron::from_str(line.trim())
        .err()
        .map(|why| why.to_string())
}

fn address(destination: &BackupDestination, found: &mut Findings) -> Option<String> {
    let path = FieldPath::of("spec.backup.destination");
    if let Some(local) = &destination.local {
        if !local.path.starts_with('/') {
            found.fault(
                FieldPath::of("spec.backup.destination.local.path"),
                format!("{:?}", local.path),
                "an absolute path",
                "Write the whole path of a directory, for example /var/backups/etcd.",
            );
        }
        return Some(format!("file://{}", local.path));
    }
    let Some(archive) = &destination.archive else {
        found.fault(
            path,
            "no archive",
            "archive.url or local.path",
            "On this machine backups go into an archive: name one, for example archive: {url: \"s3://bucket/prefix\"}.",
        );
        return None;
    };
    if archive.credentials.is_some() {
        found.fault(
            FieldPath::of("spec.backup.destination.archive.credentials"),
            "a Secret",
            "nothing",
            "There are no Secrets on this machine: name a file in the address (credentials=FILE), or set the usual \
             environment variables.",
        );
    }
    if !SCHEMES.iter().any(|scheme| archive.url.starts_with(scheme)) {
        found.fault(
            FieldPath::of("spec.backup.destination.archive.url"),
            format!("{:?}", archive.url),
            "an address that begins with file://, s3://, gs:// or az://",
            "For example s3://bucket/prefix.",
        );
    }
    Some(archive.url.clone())
}
