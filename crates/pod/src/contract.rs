//! What the operator and a member's pod say to each other.
//!
//! ```text
//! pod ──  Report        ──▶ operator   the termination message of the init container that looks
//! pod ◀── GoAhead       ──  operator   the pod annotation START, seen in the pod as the file GO
//! pod ◀── KnownProgress ──  operator   the pod annotation REACHED, which every pod of the member has from its birth
//! pod ──  GateResult    ──▶ operator   the termination message of the gate
//! ```
//!
//! All are JSON with a format number. A reader takes fields that it does not know for additions, and refuses a format
//! that it does not know. Never: a report longer than Kubernetes keeps; the conclusion "never ran" from anything but
//! a mark on the very volume that the operator has recorded.

use quorate_core::model::{
    ClusterId, Epoch, FirstStart, Generation, MemberId, MemberName, PeerUrl, Progress, Token, Version,
    Volume, VolumeMarks,
};
use quorate_core::plan::StartHow;
use serde::{Deserialize, Serialize};

pub(crate) mod hex;

/// The only format of reports and go-aheads so far.
pub const FORMAT: u32 = 1;

/// The pod annotation with the operator's go-ahead.
pub const START_ANNOTATION: &str = "etcd.improbable.io/start";
/// The pod annotation with what the operator knows to be on the volume.
pub const REACHED_ANNOTATION: &str = "etcd.improbable.io/reached";
/// The label with the cluster's name.
pub const CLUSTER_LABEL: &str = "etcd.improbable.io/cluster-name";
/// The label with the member's name.
pub const PEER_LABEL: &str = "etcd.improbable.io/peer-name";

/// The init container that looks.
pub const LOOK_CONTAINER: &str = "look";
/// The init container that is the gate.
pub const PREPARE_CONTAINER: &str = "prepare";
/// The container of etcd.
pub const ETCD_CONTAINER: &str = "etcd";

/// Where the volume is mounted.
pub const VOLUME_PATH: &str = "/var/lib/etcd";
/// Where the gate leaves things for the launcher: a directory of the pod.
pub const SHARED_PATH: &str = "/opt/quorate";
/// The quorate that the etcd container runs.
pub const BINARY_PATH: &str = "/opt/quorate/quorate";
/// Where the downward API is mounted.
pub const PODINFO_PATH: &str = "/podinfo";
/// The file in [`PODINFO_PATH`] that shows [`START_ANNOTATION`].
pub const START_FILE: &str = "start";
/// The go-ahead as the pod sees it.
pub const GO_PATH: &str = "/podinfo/start";
/// The file in [`PODINFO_PATH`] that shows [`REACHED_ANNOTATION`].
pub const REACHED_FILE: &str = "reached";
/// The same as the pod sees it.
pub const REACHED_PATH: &str = "/podinfo/reached";
/// Where a container leaves its last words.
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// Kubernetes keeps 4096 bytes of a termination message.
pub const REPORT_BYTES_MAX: usize = 3500;
/// Longer than any go-ahead; annotations end at 256 KiB in all.
pub const GO_AHEAD_BYTES_MAX: usize = 256 * 1024;

/// What lies on a member's volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub format: u32,
    /// The id of the volume, kept on it; empty if it has none and none could be made.
    pub volume_id: String,
    /// There was no id on the volume, so one was just made: it is new, or it was wiped.
    pub fresh_id: bool,
    /// The generation that was looked at.
    pub generation: Generation,
    pub volume: Found,
    /// etcd was, or may have been, executed for the first time on this generation. Written by the launcher before it
    /// becomes etcd; a pod that was let through and never came to that leaves no such mark.
    pub fired: bool,
    /// etcd was executed, and ended before it had promised anything: it left no log, or a blank one.
    #[serde(default)]
    pub blank: bool,
    /// What was last let through for this generation.
    pub started: Option<Started>,
    /// The newest minor that could replay the log, if there is such a limit. Only where it was asked for.
    pub replay_limit: Option<u32>,
    /// How many sets of old data lie aside.
    pub asides: u32,
    /// The room they take on the volume.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub aside_bytes: u64,
    /// The member that the volume belongs to, once etcd was let through on it for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belongs_to: Option<MemberRef>,
    /// The epoch in which etcd was last let through on this generation.
    #[serde(default, skip_serializing_if = "Epoch::is_first")]
    pub epoch: Epoch,
    /// The number of the last start that was let through on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// The last index in its log, if that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_index: Option<u64>,
    /// The newest generation on the volume on which anything was let through or ran, whichever was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Generation>,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// In the words of a gate that refuses a start because too much old data lies aside.
pub const NO_ROOM_ASIDE: &str = "sets of old data lie in";

/// In the words of a gate that finds the volume without its record: what the look reported is not true any more.
pub const IDENTITY_GONE: &str = "its identity has gone since it was looked at";

/// What is known to be on a volume. The gate lets nothing through on one that has less: it was put back to an earlier state.
/// Data of another member or cluster than is known waits for a go-ahead: a volume of an earlier cluster of the same name
/// has the same names on it. An id that is absent is not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownProgress {
    #[serde(default, skip_serializing_if = "Epoch::is_first")]
    pub epoch: Epoch,
    #[serde(default, flatten)]
    pub reached: Progress,
    /// The member whose data it was seen to have.
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberId>,
    /// The cluster that the member is of.
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
}

impl KnownProgress {
    pub fn is_none(&self) -> bool {
        *self == KnownProgress::default()
    }

    /// Reads an annotation's value; nothing is known where there is none.
    pub fn read(json: &[u8]) -> Result<KnownProgress, Unreadable> {
        if json.iter().all(u8::is_ascii_whitespace) {
            return Ok(KnownProgress::default());
        }
        if json.len() > GO_AHEAD_BYTES_MAX {
            return Err(Unreadable::Long(json.len()));
        }
        serde_json::from_slice(json).map_err(Unreadable::Malformed)
    }

    /// As an annotation's value.
    pub fn to_annotation(&self) -> String {
        // These types have nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// May data of this member and cluster be what is known to be on the volume?
    pub fn fits(&self, member: MemberId, cluster: ClusterId) -> bool {
        self.member.is_none_or(|id| id == member) && self.cluster.is_none_or(|id| id == cluster)
    }

    /// Why nothing may start from a volume with these marks, if so: in words.
    pub fn refuses(&self, marks: &VolumeMarks) -> Option<String> {
        if marks.epoch != self.epoch {
            let (found, own) = (marks.epoch, self.epoch);
            return Some(format!(
                "the volume is of epoch {found}, and the cluster is in epoch {own}"
            ));
        }
        let why = marks.rollback_evidence(self.reached)?;
        Some(format!("the volume was rolled back: {why}"))
    }
}

/// What the gate says when it has let a start through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateResult {
    /// The number of the last start that is written on the volume.
    pub run: Option<u64>,
}

impl GateResult {
    /// Reads a termination message; `None` if it is none of ours, as an older gate leaves none.
    pub fn read(message: &str) -> Option<GateResult> {
        serde_json::from_str(message).ok()
    }

    pub fn to_message(&self) -> String {
        // These types have nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A member by its name: that of an EtcdPeer, of an EtcdCluster, in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberRef {
    pub namespace: String,
    pub cluster: String,
    pub name: String,
}

impl std::fmt::Display for MemberRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.cluster, self.name)
    }
}

impl std::str::FromStr for MemberRef {
    type Err = String;

    fn from_str(text: &str) -> Result<MemberRef, String> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            [namespace, cluster, name] if parts.iter().all(|part| !part.is_empty()) => Ok(MemberRef {
                namespace: namespace.to_owned(),
                cluster: cluster.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err("expected NAMESPACE/CLUSTER/MEMBER".to_owned()),
        }
    }
}

/// What was found in a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Found {
    Empty,
    Data {
        #[serde(with = "hex")]
        member: MemberId,
        #[serde(with = "hex")]
        cluster: ClusterId,
    },
    /// Something that etcd could not start from.
    Damaged {
        why: String,
    },
    /// It could not be looked at, or is in use; nothing may be concluded.
    Unknown {
        why: String,
    },
}

/// What was let through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    pub version: Version,
    /// The digest of its configuration.
    pub config: String,
}

/// The operator's word that one pod may start etcd, once looked at again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoAhead {
    pub format: u32,
    /// The uid of the pod: one that is made in its place does not inherit this.
    pub pod: String,
    /// The id of the volume that this was decided on, as the pod's report gave it.
    pub volume_id: String,
    pub generation: Generation,
    pub version: Version,
    pub config: String,
    pub how: How,
    /// Whose data must be there, where it goes on from data.
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberId>,
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Whether a member has served from this generation, or for a first start from the one before it: what is older than
    /// that is then no longer needed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub served: bool,
    /// The number of this start, to be written on the volume; none in one of an operator that does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// What is known to be on the volume.
    #[serde(default, skip_serializing_if = "KnownProgress::is_none")]
    pub floor: KnownProgress,
}

/// As what a member starts: [`StartHow`], in the words of this contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum How {
    /// As one of the first members of a new cluster.
    New {
        token: Token,
        initial: Vec<(MemberName, PeerUrl)>,
    },
    /// As a member just added.
    Join {
        /// The whole member list, itself included.
        initial: Vec<(MemberName, PeerUrl)>,
    },
    /// From its own data.
    Resume,
    /// From its own data, taking a raft snapshot at once.
    Settle,
}

impl How {
    /// Is it for a volume that never ran?
    pub fn is_first(&self) -> bool {
        matches!(self, How::New { .. } | How::Join { .. })
    }
}

impl From<StartHow> for How {
    fn from(how: StartHow) -> How {
        match how {
            StartHow::New { token, initial } => How::New { token, initial },
            StartHow::Join { initial } => How::Join { initial },
            StartHow::Resume => How::Resume,
            StartHow::Settle => How::Settle,
        }
    }
}

/// A report or go-ahead that cannot be taken for one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// It is not the JSON of one.
    #[error("it cannot be understood")]
    Malformed(#[source] serde_json::Error),
    /// It comes from another quorate.
    #[error("it has format {0}, and this quorate knows {FORMAT}; run one version of quorate on both sides")]
    Format(u32),
    /// It is longer than any.
    #[error("it has {0} bytes, more than any has")]
    Long(usize),
}

#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

fn read<T: serde::de::DeserializeOwned>(json: &[u8], longest: usize) -> Result<T, Unreadable> {
    if json.len() > longest {
        return Err(Unreadable::Long(json.len()));
    }
    let AnyFormat { format } = serde_json::from_slice(json).map_err(Unreadable::Malformed)?;
    if format != FORMAT {
        return Err(Unreadable::Format(format));
    }
    serde_json::from_slice(json).map_err(Unreadable::Malformed)
}

impl Report {
    /// Reads a termination message.
    pub fn read(json: &[u8]) -> Result<Report, Unreadable> {
        read(json, GO_AHEAD_BYTES_MAX)
    }

    /// As a termination message of at most [`REPORT_BYTES_MAX`] bytes; long reasons are cut.
    pub fn to_message(&self) -> String {
        let mut report = self.clone();
        loop {
            // These types have nothing that JSON cannot say.
            let text = serde_json::to_string(&report).unwrap_or_default();
            if text.len() <= REPORT_BYTES_MAX {
                return text;
            }
            match &mut report.volume {
                Found::Damaged { why } | Found::Unknown { why } if why.chars().count() > 16 => {
                    // Counted in characters, because each may take six bytes in JSON.
                    let kept = why.chars().count() / 2;
                    *why = why.chars().take(kept).chain(['…']).collect();
                }
                // Only a file that another wrote has these so long, and then they equal nothing of ours.
                _ if report.started.is_some() => report.started = None,
                _ if report.belongs_to.is_some() => report.belongs_to = None,
                _ => report.volume_id.clear(),
            }
        }
    }

    /// As the planner understands what was found.
    pub fn volume(&self) -> Volume {
        match &self.volume {
            Found::Empty => Volume::Empty,
            Found::Data { member, cluster } => Volume::Data {
                member: *member,
                cluster: *cluster,
            },
            Found::Damaged { why } => Volume::Damaged { why: why.clone() },
            Found::Unknown { .. } => Volume::Unknown,
        }
    }

    /// The generation that the volume has gone on to, if that is a later one than was looked at. What was looked at says
    /// nothing then of what its member has.
    pub fn gone_on_to(&self) -> Option<Generation> {
        self.newest.filter(|newest| *newest > self.generation)
    }

    /// What is written on the volume, and what its log comes to.
    pub fn marks(&self) -> VolumeMarks {
        VolumeMarks {
            epoch: self.epoch,
            run: self.run,
            last_index: self.last_index,
        }
    }

    /// Does the gate let a pod of this member, version and configuration through by itself? Only as a plain restart, from
    /// a volume that has what it is known to have.
    pub fn passes_alone(
        &self,
        member: &MemberRef,
        version: Version,
        config: &str,
        floor: &KnownProgress,
    ) -> bool {
        let data = matches!(self.volume, Found::Data { member, cluster } if floor.fits(member, cluster));
        let own = self
            .belongs_to
            .as_ref()
            .is_none_or(|belongs_to| belongs_to == member);
        let before = self.started.as_ref();
        let whole = floor.refuses(&self.marks()).is_none();
        own && data && whole && before.is_some_and(|s| s.version == version && s.config == config)
    }

    /// What is proven about a first start on this generation, given the volume id that the operator has `recorded`.
    ///
    /// Without the same id nothing is: a wiped volume has no marks either.
    pub fn first_start(&self, recorded: Option<&str>) -> FirstStart {
        let the_recorded_one = !self.volume_id.is_empty() && recorded == Some(self.volume_id.as_str());
        if !the_recorded_one || self.volume != Found::Empty {
            FirstStart::Unknown
        } else if !self.fired {
            FirstStart::NotRun
        } else if self.blank {
            FirstStart::RanWithoutData
        } else {
            FirstStart::Unknown
        }
    }
}

impl GoAhead {
    /// Reads an annotation's value.
    pub fn read(json: &[u8]) -> Result<GoAhead, Unreadable> {
        read(json, GO_AHEAD_BYTES_MAX)
    }

    /// As an annotation's value.
    pub fn to_annotation(&self) -> String {
        // These types have nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
