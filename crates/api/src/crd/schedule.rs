//! EtcdBackupSchedule: backups again and again, what is kept of them, and how they are proven. `spec.backup` of an
//! EtcdCluster is its short form.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::backup::{BackupDestination, BackupSpec};
use super::{embed, rules};

/// When to back up, what, to where, and what is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "etcd.improbable.io",
    version = "v1alpha1",
    kind = "EtcdBackupSchedule",
    plural = "etcdbackupschedules",
    shortname = "etcdbs",
    category = "quorate",
    namespaced,
    doc = "Backups of an etcd cluster at set times.",
    status = "ScheduleStatus",
    derive = "Default",
    derive = "PartialEq"
)]
pub struct ScheduleSpec {
    /// When: minute, hour, day of month, month and day of week as in a crontab, or @hourly, @daily, @every 30m and the
    /// like. CRON_TZ=Europe/Paris before it names a time zone; without, it is UTC.
    #[schemars(length(min = 1, max = 128))]
    pub schedule: String,
    /// Each backup's spec, as in an EtcdBackup.
    pub backup_template: BackupSpec,
    /// True: no backup is begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How many EtcdBackups that completed are kept; their data stays. Absent: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub successful_backups_history_limit: Option<i32>,
    /// How many EtcdBackups that failed are kept. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failed_backups_history_limit: Option<i32>,
    /// The deltas between two full backups; for archives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deltas: Option<Deltas>,
    /// What is kept; for archives. Absent: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub retention: Option<Vec<RetentionStep>>,
    /// Compaction: one full backup made of an older one and the deltas after it; for archives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<ArchiveCompaction>,
    /// Verifies that the archive can be restored; for archives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

/// Backups of a cluster, in short form: the source is the cluster itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["destination", "schedule"]))]
#[x_kube(validation = rules::deltas_need_an_archive())]
pub struct BackupPlan {
    /// When full backups are taken, as in an EtcdBackupSchedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub schedule: Option<String>,
    /// Where to put them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<BackupDestination>,
    /// The deltas between two full backups; for archives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deltas: Option<Deltas>,
    /// What is kept; for archives. Absent: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub retention: Option<Vec<RetentionStep>>,
}

/// The deltas between two full backups.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deltas {
    /// How long a change may wait before it is written to the archive, for example 10s: the recovery point objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub period: Option<String>,
}

/// What is kept for how long. Steps are read in order: everything for 7 days, then a full backup a day for 30, and so on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetentionStep {
    /// For how long, counted from now, for example 7d or 12h.
    #[serde(rename = "for")]
    #[schemars(length(min = 1, max = 32))]
    pub for_: String,
    /// One full backup in each span of this length, for example 1d. Absent: every revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub every: Option<String>,
}

/// Compaction: one full backup made of an older one and the deltas after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveCompaction {
    /// When, as in schedule.
    #[schemars(length(min = 1, max = 128))]
    pub schedule: String,
}

/// Verifies that the archive can be restored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// When, as in schedule.
    #[schemars(length(min = 1, max = 128))]
    pub schedule: String,
    /// Read: everything is read and its hashes are compared. Rebuilt: it is restored to a scratch place. Served: an etcd
    /// answers from it. Absent: Rebuilt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Read", "Rebuilt", "Served"]))]
    pub level: Option<String>,
}

/// What became of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// When the last backup was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::time")]
    pub last_schedule_time: Option<Time>,
    /// When the last backup completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::time")]
    pub last_successful_time: Option<Time>,
    /// When the next is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::time")]
    pub next_schedule_time: Option<Time>,
    /// The names of the EtcdBackups that are under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<String>,
    /// Conditions, one of each type: status, reason and message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "embed::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
