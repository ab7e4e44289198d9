//! What a ground saw in one pass. A member that is down is a fact here, never an error.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{ClusterId, Epoch, Generation, MemberId, Ordinal, PeerUrl, Setup, Time, Version, VolumeMarks};

/// One look at everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// When the look began; nothing in it is older.
    pub at: Time,
    /// The token to use if this pass bootstraps: fresh in every pass, made by the ground.
    pub fresh_token: super::Token,
    /// Every slot the spec wants or the memory knows.
    pub slots: BTreeMap<Ordinal, SlotView>,
    /// The member list, read linearizably in this very pass; `None` when no member could give it.
    pub quorum: Option<QuorumView>,
    /// etcd asks for a user, and what it was given is not enough; in its words.
    pub login_refused: Option<String>,
    /// The members were not asked, for want of certificates to ask them with: nothing can be concluded from their silence.
    #[serde(default)]
    pub unasked: bool,
    /// How the last membership step, leadership move or start ended, if one ran since the last pass.
    pub last: Option<Outcome>,
    /// Members whose processes trust only CAs that nobody has any more.
    #[serde(default)]
    pub lost_ca: BTreeSet<Ordinal>,
}

/// One slot: a place for a member, its volume and its process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotView {
    /// Where the others reach (or will reach) this member.
    pub peer_url: PeerUrl,
    /// The volume of the generation that the memory names.
    pub volume: Volume,
    /// What is written on that volume, if it holds data and that could be read.
    pub marks: Option<VolumeMarks>,
    /// The highest raft index that this process knows to be on a member's disk, and the member.
    pub durable: Option<(MemberId, u64)>,
    /// What is known of the first start on that volume, kept apart from the volume so that a wipe cannot take it.
    pub first_start: FirstStart,
    /// Older generations still lying where a volume lives, to be set aside.
    pub leftovers: Vec<Generation>,
    /// How many sets of old data of this slot lie aside.
    pub asides: u32,
    /// Why no more can be set aside, where the ground does that by itself and says so.
    #[serde(default)]
    pub no_room_aside: Option<String>,
    /// Whether there is anything to start a process in.
    pub place: Place,
    /// What the place was made for. `None` where one place does for all, and while there is none.
    pub made_for: Option<Setup>,
    /// What the slot's volumes lie in and would be deleted with. A machine has none.
    pub storage: Option<Storage>,
    pub process: Process,
    /// Where its process is, for people: its pod, and the node of that. `None` where it can only be here.
    #[serde(default)]
    pub located: Option<String>,
    /// Whether its process can be given what is wanted while it runs.
    #[serde(default)]
    pub resize: Resize,
    /// What the member itself answered in this pass.
    pub status: Option<MemberStatus>,
    /// Somebody asked for the volume to be deleted. It lasts for as long as a process is on it.
    pub deletion_pending: bool,
    /// Clients are sent to it. A machine has no say in that; Kubernetes finds out a moment after the member serves.
    pub in_service: bool,
    /// Why the ground could not start it even if told to (a port is taken, no such etcd here).
    pub cannot_start: Option<String>,
    /// The version that was last started on the present volume, as that itself has it on record.
    pub ran: Option<Version>,
    /// The newest minor that could replay the log of the present volume, if there is such a limit. Looked at when the
    /// spec wants a newer minor than the memory knows to have served; `None` otherwise.
    pub replay_limit: Option<u32>,
}

/// Whether the CPU and memory of a process can be changed while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resize {
    /// It has what is wanted, or has to be restarted for it.
    #[default]
    No,
    /// Nothing else differs from what is wanted.
    Possible,
    /// It was asked for, and is not in effect yet.
    UnderWay { why: String },
}

/// Where a slot's process would run. On a machine that is the machine; in Kubernetes a pod with its claim, which has to
/// be made first, and whose volume cannot be looked at before that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// It is there, and a start can be asked for.
    Ready,
    /// It is being made, or what was there before is going.
    Preparing {
        /// How far that has got, or what keeps it.
        why: String,
    },
    /// There is one for another volume.
    Unfit,
    Absent,
}

/// What a slot's volumes lie in: on Kubernetes a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    pub id: StorageId,
    /// Something is there that uses it, or may yet.
    pub in_use: bool,
    pub size: StorageSize,
    /// What is written on it: of which volume, and whether that was ever started. Without that it may hold anything.
    pub record: Option<(Generation, bool)>,
}

/// In bytes. Storage grows after it was asked to, and sometimes only when its member is restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageSize {
    /// What it was asked to hold, if that is known.
    pub asked: Option<u64>,
    /// What it holds, if that is known.
    pub holds: Option<u64>,
}

impl StorageSize {
    /// Was it asked to grow, and has not yet?
    pub fn grows(self) -> bool {
        matches!((self.asked, self.holds), (Some(asked), Some(holds)) if holds < asked)
    }
}

/// Which storage, as it was seen: one that has changed since is another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageId {
    pub uid: String,
    pub version: String,
}

/// A data directory at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Volume {
    Empty,
    /// A write-ahead log with a readable head.
    Data {
        member: MemberId,
        cluster: ClusterId,
    },
    /// Something is there that etcd could not start from.
    Damaged {
        why: String,
    },
    /// It belongs to another member: a copy, a swap, or a volume under a new name.
    Foreign {
        belongs_to: String,
        /// The slot of that member, if it is one of this cluster.
        slot: Option<Ordinal>,
        /// Whether that member's cluster is still there, where the ground can tell.
        #[serde(default)]
        owner_exists: Option<bool>,
    },
    /// It is this member's, put back to an earlier state: from a snapshot of the storage, or from a copy.
    RolledBack {
        why: String,
    },
    /// It is of an epoch before the cluster's, or after it.
    OtherEpoch {
        epoch: Epoch,
    },
    /// Could not be looked at in this pass; nothing may be concluded.
    Unknown,
}

/// What is known of the first start on a fresh volume. Absence of a record is `Unknown`, never `NotRun`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FirstStart {
    Unknown,
    /// A start was prepared and provably never executed.
    NotRun,
    /// It was executed, watched all the while, and ended before it had made a write-ahead log.
    RanWithoutData,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Process {
    Stopped {
        /// How the last one ended, if this is known.
        last: Option<Exit>,
    },
    Running {
        since: Time,
        /// The version of its binary.
        version: Version,
        /// The digest it was started with.
        config: String,
        generation: Generation,
    },
    /// It was told to stop and still runs.
    Stopping,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// When it was noticed.
    pub at: Time,
    /// Whether it was told to (a stop), or ended by itself.
    pub asked: bool,
    /// For people: exit code or signal, last line of its log.
    pub how: String,
}

/// What one member says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    pub member: MemberId,
    pub cluster: ClusterId,
    /// Who leads, as it sees it.
    pub leader: Option<MemberId>,
    pub term: u64,
    /// The last log index it applied.
    pub applied: u64,
    pub version: Version,
    /// The size of its database file.
    pub db_size: u64,
    /// How much of that is in use.
    pub db_in_use: u64,
    /// A linearizable read through it succeeded in this pass (for a learner: it answers at all).
    pub healthy: bool,
    /// The alarms that it knows of: its own and the others'.
    pub alarms: BTreeSet<Alarm>,
}

/// What etcd raises when it refuses to go on, until somebody takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alarm {
    pub kind: AlarmKind,
    /// The member that it was raised for.
    pub member: MemberId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AlarmKind {
    /// Its database has reached its quota: no member takes writes any more.
    NoSpace,
    /// Its data differs from the others': no member answers requests any more.
    Corrupt,
}

impl Alarm {
    /// Reads what a status says of an alarm, in etcd's words: "memberID:1234 alarm:NOSPACE".
    pub fn read(text: &str) -> Option<Alarm> {
        let word = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
        let kind = match word("alarm:")? {
            "NOSPACE" => AlarmKind::NoSpace,
            "CORRUPT" => AlarmKind::Corrupt,
            _ => return None,
        };
        let member = word("memberID:").and_then(|id| id.parse().ok()).unwrap_or(0);
        Some(Alarm {
            kind,
            member: MemberId(member),
        })
    }
}

/// The cluster as a quorum of it sees itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumView {
    pub cluster: ClusterId,
    pub members: Vec<Listed>,
    pub leader: Option<MemberId>,
}

/// One member of the member list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Listed {
    pub id: MemberId,
    /// Its name; empty until it has started once.
    pub name: String,
    /// Where its peers reach it.
    pub peer_urls: Vec<PeerUrl>,
    /// Does not vote yet.
    pub learner: bool,
}

/// What the last step came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub step: StepKind,
    pub result: StepResult,
    pub at: Time,
}

/// Kinds of steps, without their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StepKind {
    /// Make the place of a slot.
    Provide,
    /// Take the place of a slot away.
    Withdraw,
    /// Start a member's process.
    Start,
    /// Stop a member's process.
    Stop,
    /// Add a learner to the member list.
    AddLearner,
    /// Make a learner a voter.
    Promote,
    /// Remove a member from the list.
    Remove,
    MoveLeader,
    /// Have a member write an entry.
    Write,
    /// Move a volume aside.
    SetAside,
    /// Delete the oldest aside of a slot.
    DropAside,
    /// Have the storage of a slot grow.
    Grow,
    /// Change the resources of a slot's process while it runs.
    Resize,
    /// Delete the storage of a slot.
    Discard,
}

impl StepKind {
    pub const ALL: [StepKind; 14] = [
        StepKind::Provide,
        StepKind::Withdraw,
        StepKind::Start,
        StepKind::Stop,
        StepKind::AddLearner,
        StepKind::Promote,
        StepKind::Remove,
        StepKind::MoveLeader,
        StepKind::Write,
        StepKind::SetAside,
        StepKind::DropAside,
        StepKind::Grow,
        StepKind::Resize,
        StepKind::Discard,
    ];
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepResult {
    /// It was done, or had been done already.
    Done,
    /// It was refused and has had no effect.
    Refused(Refused),
    /// It failed in a way that leaves open whether it had an effect.
    Unclear(String),
}

/// Why etcd (or the executor, on its behalf) refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refused {
    /// "unhealthy cluster": a voter was not connected for the last five seconds.
    UnhealthyCluster,
    /// Too few started members to keep a quorum after the change.
    NotEnoughStarted,
    /// The learner has not caught up.
    LearnerNotReady,
    /// There is a learner already.
    TooManyLearners,
    /// The member list is no longer the one the step was planned on.
    Moved,
    /// Anything else, in etcd's words.
    Other(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refused::UnhealthyCluster => "etcd wants every voter connected for five seconds first",
            Refused::NotEnoughStarted => "too few members would be left that have started",
            Refused::LearnerNotReady => "the learner has not caught up yet",
            Refused::TooManyLearners => "there is a learner already",
            Refused::Moved => "the member list changed in between",
            Refused::Other(why) => why,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_read_as_each_version_writes_them() {
        let no_space = Some(Alarm {
            kind: AlarmKind::NoSpace,
            member: MemberId(10276657743932975437),
        });
        assert_eq!(
            Alarm::read("memberID:10276657743932975437 alarm:NOSPACE "),
            no_space
        );
        assert_eq!(
            Alarm::read("memberID:10276657743932975437  alarm:NOSPACE"),
            no_space
        );
        let corrupt = Alarm::read("memberID:1 alarm:CORRUPT ").unwrap();
        assert_eq!((corrupt.kind, corrupt.member), (AlarmKind::Corrupt, MemberId(1)));
        assert_eq!(Alarm::read("etcdserver: no leader"), None);
    }
}
