//! The custom resources of the group `etcd.improbable.io/v1alpha1`, and their definitions.
//!
//! In: the types, whose comments are what `kubectl explain` shows. Out: five CustomResourceDefinitions with structural
//! schemas, defaults and rules, in a fixed order; and the checks that the operator makes again by itself.
//!
//! What must never happen: a definition that an API server refuses; a schema that drops a field which a manifest on a
//! machine may carry; a rule here that the Rust rules do not have.

pub(crate) mod embed;
pub(crate) mod rules;

mod backup;
mod change;
mod columns;
mod definition;
mod judge;
mod peer;
mod refusal;
mod restore;
mod schedule;
mod status;
mod store;
mod validate;

#[cfg(test)]
mod api_server;

pub use crate::cluster::EtcdCluster;
pub use backup::{BackupDestination, BackupSource, BackupSpec, BackupStatus, Endpoint, EtcdBackup};
pub use definition::{WRITTEN, definitions, yaml};
pub use judge::{Judgement, judge};
pub use peer::{
    Bootstrap, EtcdPeer, InitialClusterState, InitialMember, PeerSpec, PeerStart, StaticBootstrap,
};
pub use refusal::{Refusal, Rejection};
pub use restore::{ArchivePoint, ClusterTemplate, EtcdRestore, RestoreSource, RestoreSpec, RestoreStatus};
pub use schedule::{
    ArchiveCompaction, BackupPlan, Deltas, EtcdBackupSchedule, RetentionStep, ScheduleSpec, ScheduleStatus,
    Verification,
};
pub use status::{ClusterStatus, MemberStatus, PeerStatus};
pub use store::{Archive, Bucket, CredentialSource, Credentials, LocalDirectory};
pub use validate::{resolve, validate, validate_peer, validate_peer_update, validate_update};
