//! What `kubectl get` shows of each kind, in columns.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;

/// Heading, type, where the value is, and what it means.
type Column = (&'static str, &'static str, &'static str, &'static str);

const AGE: Column = (
    "Age",
    "date",
    ".metadata.creationTimestamp",
    "Since when it exists.",
);

const CLUSTER: &[Column] = &[
    (
        "Wanted",
        "integer",
        ".spec.replicas",
        "How many members are wanted.",
    ),
    (
        "Healthy",
        "integer",
        ".status.readyReplicas",
        "How many members are voters and healthy.",
    ),
    ("Version", "string", ".spec.version", "The wanted etcd version."),
    (
        "Cluster Version",
        "string",
        ".status.clusterVersion",
        "The version that all members agree on.",
    ),
    (
        "Ready",
        "string",
        r#".status.conditions[?(@.type=="Ready")].status"#,
        "Whether the cluster is as wanted.",
    ),
    (
        "Reason",
        "string",
        r#".status.conditions[?(@.type=="Ready")].reason"#,
        "Why; `quorate explain REASON` says more.",
    ),
    (
        "Observed",
        "date",
        ".status.observedAt",
        "How long ago this was observed. More than ten minutes: the operator does not run, or cannot write.",
    ),
    AGE,
];

const PEER: &[Column] = &[
    (
        "Cluster",
        "string",
        ".spec.clusterName",
        "The cluster it belongs to.",
    ),
    ("Version", "string", ".spec.version", "The etcd it was made for."),
    (
        "Server Version",
        "string",
        ".status.serverVersion",
        "The etcd it reports.",
    ),
    (
        "Ready",
        "string",
        r#".status.conditions[?(@.type=="Ready")].status"#,
        "Whether it serves. That is as old as the OBSERVED of its EtcdCluster says.",
    ),
    AGE,
];

const BACKUP: &[Column] = &[
    (
        "Phase",
        "string",
        ".status.phase",
        "BackingUp, Completed or Failed.",
    ),
    (
        "Revision",
        "integer",
        ".status.revision",
        "The revision that was backed up.",
    ),
    ("Completed", "date", ".status.completionTime", "When it was done."),
    AGE,
];

const SCHEDULE: &[Column] = &[
    ("Schedule", "string", ".spec.schedule", "When backups are taken."),
    (
        "Suspended",
        "boolean",
        ".spec.suspend",
        "Whether none are taken for now.",
    ),
    (
        "Last",
        "date",
        ".status.lastScheduleTime",
        "When the last was begun.",
    ),
    AGE,
];

const RESTORE: &[Column] = &[
    (
        "Cluster",
        "string",
        ".spec.clusterTemplate.clusterName",
        "The cluster that is made.",
    ),
    (
        "Phase",
        "string",
        ".status.phase",
        "Pending, Completed or Failed.",
    ),
    AGE,
];

/// The columns of `kind`.
pub(super) fn columns(kind: &str) -> Vec<CustomResourceColumnDefinition> {
    let columns = match kind {
        "EtcdCluster" => CLUSTER,
        "EtcdPeer" => PEER,
        "EtcdBackup" => BACKUP,
        "EtcdBackupSchedule" => SCHEDULE,
        "EtcdRestore" => RESTORE,
        _ => &[AGE],
    };
    let column = |(name, type_, json_path, description): &Column| CustomResourceColumnDefinition {
        name: (*name).to_owned(),
        type_: (*type_).to_owned(),
        json_path: (*json_path).to_owned(),
        description: Some((*description).to_owned()),
        ..CustomResourceColumnDefinition::default()
    };
    columns.iter().map(column).collect()
}
