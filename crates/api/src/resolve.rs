//! From a manifest as written to checked values.
//!
//! In: a manifest and a ground. Out: [`Cluster`], which the grounds work from, or [`Invalid`] with all faults.
//! Never: a [`Cluster`] from a manifest with a fault.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Affinity, PersistentVolumeClaimSpec};
use semver::Version;

use crate::cluster::options::{CompactionMode, LogLevel, Metrics};
use crate::cluster::pod::PodTemplate;
use crate::fault::{Invalid, Warning};
use crate::layout;
use crate::manifest::EtcdCluster;
use crate::validate::{self, Findings, Ground};

/// A cluster that may be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Its name: a DNS label with room for a member's number.
    pub name: String,
    pub namespace: Option<String>,
    /// The number of members, at least one.
    pub replicas: u32,
    /// A supported version of etcd.
    pub version: Version,
    /// The size of a member's volume.
    pub storage_bytes: u64,
    /// The claim, with Kubernetes' defaults filled in.
    pub claim: PersistentVolumeClaimSpec,
    /// What pods carry; its affinity is the one of either field.
    pub pod: PodTemplate,
    pub tls: bool,
    /// The user's own certificates; `None`: quorate makes and renews them.
    pub tls_secrets: Option<TlsSecrets>,
    /// The Secret with root's password; Kubernetes only.
    pub root_secret: Option<String>,
    /// The file with root's password; on this machine only.
    pub password_file: Option<PathBuf>,
    pub options: OptionValues,
    /// The largest database; `None` leaves it to etcd.
    pub quota_bytes: Option<u64>,
    /// Look, but change nothing.
    pub paused: bool,
    /// Members are restarted when this changes.
    pub force_redeployment_reason: Option<String>,
    /// The only member may go on from the rolled-back volume that this text names.
    pub accept_rolled_back: Option<String>,
    /// The pod template may change and storage may grow while the cluster runs; Kubernetes only.
    pub rolling_changes: bool,
    /// Settings on this machine.
    pub host: HostSettings,
    /// Backups that are taken here; on this machine only.
    pub backup: Option<BackupSettings>,
}

/// Backups that are taken beside a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSettings {
    /// The archive's address; `None`: a directory under the root.
    pub url: Option<String>,
    /// When full backups are taken, as cron says it.
    pub schedule: Option<String>,
    /// How long a change may wait, as written.
    pub period: Option<String>,
    /// What is kept, as `quorate backup run --keep` reads it.
    pub keep: Vec<String>,
}

impl BackupSettings {
    /// The flags of `quorate backup run` for these settings.
    pub fn flags(&self) -> Vec<String> {
        let schedule = self.schedule.iter().map(|line| format!("--schedule={line}"));
        let period = self.period.iter().map(|text| format!("--period={text}"));
        let keep = self.keep.iter().map(|step| format!("--keep={step}"));
        schedule.chain(period).chain(keep).collect()
    }
}

/// The names of Secrets with the user's own certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSecrets {
    pub client: String,
    pub peer: String,
}

/// etcd's own settings; `None` leaves a setting to etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionValues {
    pub heartbeat_ms: Option<u64>,
    pub election_ms: Option<u64>,
    pub snapshot_count: Option<u64>,
    pub auto_compaction_mode: Option<CompactionMode>,
    pub auto_compaction_retention: Option<String>,
    pub max_request_bytes: Option<u64>,
    pub max_txn_ops: Option<u64>,
    pub max_snapshots: Option<u64>,
    pub max_wals: Option<u64>,
    pub log_level: Option<LogLevel>,
    pub metrics: Option<Metrics>,
}

impl OptionValues {
    /// The settings as etcd's configuration names and values (the flags' names, without the dashes before).
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let number = |value: Option<u64>| value.map(|value| value.to_string());
        let all = [
            ("heartbeat-interval", number(self.heartbeat_ms)),
            ("election-timeout", number(self.election_ms)),
            ("snapshot-count", number(self.snapshot_count)),
            (
                "auto-compaction-mode",
                self.auto_compaction_mode.map(|mode| mode.as_str().to_owned()),
            ),
            (
                "auto-compaction-retention",
                self.auto_compaction_retention.clone(),
            ),
            ("max-request-bytes", number(self.max_request_bytes)),
            ("max-txn-ops", number(self.max_txn_ops)),
            ("max-snapshots", number(self.max_snapshots)),
            ("max-wals", number(self.max_wals)),
            ("log-level", self.log_level.map(|level| level.as_str().to_owned())),
            ("metrics", self.metrics.map(|metrics| metrics.as_str().to_owned())),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

/// Settings on this machine; `None` leaves a setting to the host ground.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSettings {
    pub client_port: Option<u16>,
    pub peer_port: Option<u16>,
    /// The first part of the systemd units' names.
    pub unit_name: Option<String>,
    /// A member's memory limit.
    pub memory_limit_bytes: Option<u64>,
    /// A member's CPU limit, in thousandths of a core.
    pub cpu_thousandths: Option<u64>,
}

/// The checked values of `manifest` on `ground`, with what is worth knowing. `text` and `origin` are where the
/// manifest was read from: the faults name their lines by them.
pub fn resolve(
    manifest: &EtcdCluster,
    ground: Ground,
    text: &str,
    origin: &str,
) -> Result<(Cluster, Vec<Warning>), Invalid> {
    let mut found = Findings::on(ground);
    let cluster = read(manifest, &mut found);
    if found.faults.is_empty() {
        return Ok((cluster, found.warnings));
    }
    for fault in &mut found.faults {
        fault.line = layout::line_near(text, &fault.path);
    }
    Err(Invalid {
        origin: origin.to_owned(),
        faults: found.faults,
    })
}

/// Applies every rule. What it returns counts only if no fault was found.
pub(crate) fn read(manifest: &EtcdCluster, found: &mut Findings) -> Cluster {
    let spec = &manifest.spec;
    let name = validate::name(manifest.metadata.name.as_deref(), found);
    let replicas = validate::replicas(spec.replicas, found);
    let version = validate::version(spec.version.as_deref(), found);
    let storage_bytes = validate::storage(spec.storage.as_ref(), found);
    validate::pod(spec, found);
    let options = validate::options(spec.options.as_ref(), found);
    let quota_bytes = validate::quota(spec.quota.as_ref(), storage_bytes, found);
    let tls_secrets = validate::tls(spec.tls.as_ref(), found);
    let (root_secret, password_file) = validate::auth(spec.auth.as_ref(), found);
    let backup = validate::upkeep(spec, found);
    let host = validate::host(spec.host.as_ref(), found);
    Cluster {
        name,
        namespace: manifest.metadata.namespace.clone(),
        replicas,
        version,
        storage_bytes,
        claim: claim(manifest),
        pod: pod(spec.pod_template.as_ref(), spec.affinity.as_ref()),
        tls: match &spec.tls {
            Some(tls) => tls.is_on(),
            None => found.ground == Ground::Host,
        },
        tls_secrets,
        root_secret,
        password_file,
        options,
        quota_bytes,
        paused: spec.paused.unwrap_or(false),
        force_redeployment_reason: spec.force_redeployment_reason.clone(),
        accept_rolled_back: spec.accept_rolled_back.clone(),
        rolling_changes: spec.rolling_changes(),
        host,
        backup,
    }
}

fn claim(manifest: &EtcdCluster) -> PersistentVolumeClaimSpec {
    let written = manifest
        .spec
        .storage
        .as_ref()
        .and_then(|storage| storage.volume_claim_template.clone());
    let mut claim = written.unwrap_or_default();
    fill(&mut claim);
    claim
}

/// Fills in Kubernetes' defaults.
pub(crate) fn fill(claim: &mut PersistentVolumeClaimSpec) {
    claim
        .access_modes
        .get_or_insert_with(|| vec!["ReadWriteOnce".to_owned()]);
    claim.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
}

fn pod(template: Option<&PodTemplate>, affinity: Option<&Affinity>) -> PodTemplate {
    let mut pod = template.cloned().unwrap_or_default();
    pod.affinity = pod.affinity.or_else(|| affinity.cloned());
    pod
}
