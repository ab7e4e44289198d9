//! `spec.options`: etcd's own settings, as written. A closed set: what is not here, quorate decides, since a
//! wrong flag (a data directory, a cluster state) could undo what it guards.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::quantity::Quantity;
use crate::crd::{embed, rules};

/// Settings handed to every member.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::election_waits_for_heartbeats(),
    validation = rules::retention_is_a_number_or_a_time(),
    validation = rules::retention_in_range()
)]
pub struct Options {
    /// Milliseconds between a leader's heartbeats (etcd: 100).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub heartbeat_interval: Option<i64>,
    /// Milliseconds without a heartbeat before an election (etcd: 1000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50000))]
    pub election_timeout: Option<i64>,
    /// Committed transactions between raft snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub snapshot_count: Option<i64>,
    /// How automatic compaction counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = CompactionMode::ALL))]
    pub auto_compaction_mode: Option<String>,
    /// How much history automatic compaction keeps: `1h` (periodic), `1000` (revision), `0` for off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::int_or_text")]
    pub auto_compaction_retention: Option<Quantity>,
    /// The largest request (etcd: 1.5 MiB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::quantity")]
    #[x_kube(validation = rules::request_in_range())]
    pub max_request_bytes: Option<Quantity>,
    /// Operations in one transaction (etcd: 128).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_txn_ops: Option<i64>,
    /// Raft snapshot files kept (etcd: 5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_snapshots: Option<i64>,
    /// Log files kept (etcd: 5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_wals: Option<i64>,
    /// `debug`, `info`, `warn` or `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = LogLevel::ALL))]
    pub log_level: Option<String>,
    /// How detailed metrics are: `basic` or `extensive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = Metrics::ALL))]
    pub metrics: Option<String>,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// The words that are accepted.
            pub const ALL: &'static [&'static str] = &[$($text),+];

            /// As a manifest and etcd spell it.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            pub(crate) fn from_word(word: &str) -> Option<$name> {
                match word { $($text => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

words! {
    /// How automatic compaction counts.
    CompactionMode {
        Periodic = "periodic",
        Revision = "revision",
    }
}

words! {
    /// How much etcd logs.
    LogLevel {
        Debug = "debug",
        Info = "info",
        /// What may need a look.
        Warn = "warn",
        Error = "error",
    }
}

words! {
    /// How many metrics etcd exports.
    Metrics {
        Basic = "basic",
        Extensive = "extensive",
    }
}
