//! One thing to do. A step names its object by id, generation or URL, so that it can be retried blindly and a late
//! duplicate finds it done.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::memory::Memory;
use crate::model::{
    Basis, Generation, MemberId, MemberName, Ordinal, PeerUrl, Spec, StepKind, StorageId, Time, Token,
    Version,
};

/// Something for the ground to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Make the place in which a slot's process can be started: nothing is started by it.
    Provide {
        ordinal: Ordinal,
        /// For which of its volumes.
        generation: Generation,
        version: Version,
        /// The digest of the settings it is made for.
        config: String,
    },
    /// Take away the place of a slot in which nothing runs. Its volumes stay.
    Withdraw { ordinal: Ordinal },
    /// Start the process of a slot on one volume.
    Start {
        ordinal: Ordinal,
        /// On which of its volumes.
        generation: Generation,
        how: StartHow,
        version: Version,
        /// The digest of the settings it is started with.
        config: String,
    },
    /// Stop the process of a slot, cleanly.
    Stop {
        ordinal: Ordinal,
        /// Which process: the one that runs since then, not one that was started after it.
        since: Time,
    },
    AddLearner {
        ordinal: Ordinal,
        peer_url: PeerUrl,
        /// The member list it was planned on.
        basis: Basis,
    },
    /// Make a learner a voter.
    Promote {
        ordinal: Ordinal,
        member: MemberId,
        /// The member list it was planned on.
        basis: Basis,
    },
    /// Remove a member from the list.
    Remove {
        member: MemberId,
        /// The member list it was planned on.
        basis: Basis,
    },
    MoveLeader {
        /// From the present leader.
        from: MemberId,
        to: MemberId,
    },
    /// Have a member write something that changes nothing, so that its store is up to date with its log.
    Write { ordinal: Ordinal, before: WriteBefore },
    /// Move a volume to where nothing starts from it, whole.
    SetAside {
        ordinal: Ordinal,
        generation: Generation,
    },
    /// Delete the oldest asides of a slot, whose replacement serves.
    DropAside { ordinal: Ordinal, keep: u32 },
    /// Have the storage of a slot grow, to this many bytes.
    Grow {
        ordinal: Ordinal,
        storage: StorageId,
        to: u64,
    },
    /// Give a slot's process what `config` stands for while it runs: other CPU and memory, and nothing else.
    Resize { ordinal: Ordinal, config: String },
    /// Delete the storage of a slot, with every volume in it: the member in it is gone and not wanted.
    Discard { ordinal: Ordinal, storage: StorageId },
}

/// What a member's store must be up to date for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteBefore {
    /// etcd 3.4 records how far it has applied its log only with a write of a key. Without one, 3.5.26 and later apply
    /// membership entries again when they first start on that data, take members that are yet to be replayed for
    /// zombies, and mark them as removed; with 3.6, which believes that mark, the cluster falls apart.
    LeavingMinor4,
    /// etcd records what is committed only together with new entries. Killed before the next one, members forget the last
    /// change of the voters and go by the old list: the survivor of two waits for the vote of the one that is gone, and
    /// of more, those that stay wait for one whose disk was lost in the same outage.
    Outage,
    /// etcd counts a raft snapshot as applied only with the next entry, and refuses every request while it seems to be more
    /// than 5,000 entries behind, its own first one included. So one that began with a snapshot serves nobody until
    /// somebody writes.
    Serving,
}

/// As what a member starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartHow {
    /// As one of the first members of a new cluster, on a volume never started.
    New {
        token: Token,
        initial: Vec<(MemberName, PeerUrl)>,
    },
    /// As a member just added, on a volume never started.
    Join {
        /// The whole member list, itself included.
        initial: Vec<(MemberName, PeerUrl)>,
    },
    /// From its own data, as whatever it was.
    Resume,
    /// The same, taking a raft snapshot at once: it puts log entries behind it that a newer etcd could not replay.
    Settle,
}

impl Step {
    pub fn kind(&self) -> StepKind {
        match self {
            Step::Provide { .. } => StepKind::Provide,
            Step::Withdraw { .. } => StepKind::Withdraw,
            Step::Start { .. } => StepKind::Start,
            Step::Stop { .. } => StepKind::Stop,
            Step::Resize { .. } => StepKind::Resize,
            Step::AddLearner { .. } => StepKind::AddLearner,
            Step::Promote { .. } => StepKind::Promote,
            Step::Remove { .. } => StepKind::Remove,
            Step::MoveLeader { .. } => StepKind::MoveLeader,
            Step::Write { .. } => StepKind::Write,
            Step::SetAside { .. } => StepKind::SetAside,
            Step::DropAside { .. } => StepKind::DropAside,
            Step::Grow { .. } => StepKind::Grow,
            Step::Discard { .. } => StepKind::Discard,
        }
    }

    /// Does it change the member list?
    pub fn changes_membership(&self) -> bool {
        matches!(
            self,
            Step::AddLearner { .. } | Step::Promote { .. } | Step::Remove { .. }
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&|ordinal| format!("member {ordinal}"), &|id| {
            format!("member {id}")
        }))
    }
}

impl Step {
    /// The step in words, with members called by name where the memory knows them.
    pub fn described(&self, spec: &Spec, memory: &Memory) -> String {
        let by_id = |id: MemberId| {
            let slot = memory.slots.iter().find(|(_, slot)| slot.member == Some(id));
            slot.map_or(format!("member {id}"), |(ordinal, _)| {
                spec.member_name(*ordinal).to_string()
            })
        };
        self.text(&|ordinal| spec.member_name(ordinal).to_string(), &by_id)
    }

    fn text(&self, place: &dyn Fn(Ordinal) -> String, member: &dyn Fn(MemberId) -> String) -> String {
        match self {
            Step::Provide {
                ordinal,
                generation,
                version,
                ..
            } => {
                format!(
                    "make a place for {} ({generation}), etcd {version}",
                    place(*ordinal)
                )
            }
            Step::Withdraw { ordinal } => format!("take the place of {} away", place(*ordinal)),
            Step::Start {
                ordinal,
                generation,
                how,
                version,
                ..
            } => {
                let how = match how {
                    StartHow::New { .. } => "as a first member",
                    StartHow::Join { .. } => "as a joining learner",
                    StartHow::Resume => "from its data",
                    StartHow::Settle => "from its data, to take a raft snapshot",
                };
                format!("start {} ({generation}) {how}, etcd {version}", place(*ordinal))
            }
            Step::Stop { ordinal, .. } => format!("stop {}", place(*ordinal)),
            Step::Resize { ordinal, .. } => format!("give {} other resources", place(*ordinal)),
            Step::AddLearner {
                ordinal, peer_url, ..
            } => {
                format!("add {} ({peer_url}) as a learner", place(*ordinal))
            }
            Step::Promote { ordinal, member, .. } => {
                format!(
                    "promote learner {} ({member})",
                    place(*ordinal).trim_start_matches("member ")
                )
            }
            Step::Remove { member: id, .. } => format!("remove {} from the cluster", member(*id)),
            Step::MoveLeader { from, to } => {
                format!("move leadership from {} to {}", member(*from), member(*to))
            }
            Step::Write { ordinal, before } => {
                let before = match before {
                    WriteBefore::LeavingMinor4 => "before its upgrade",
                    WriteBefore::Outage => "so that the change of voters outlasts an outage",
                    WriteBefore::Serving => "so that one that began with a raft snapshot serves",
                };
                format!("have {} write an entry, {before}", place(*ordinal))
            }
            Step::SetAside { ordinal, generation } => {
                format!("set data of {} ({generation}) aside", place(*ordinal))
            }
            Step::DropAside { ordinal, keep } => {
                format!("delete old asides of {}, all but {keep}", place(*ordinal))
            }
            Step::Grow { ordinal, to, .. } => {
                format!("have the storage of {} grow to {to} bytes", place(*ordinal))
            }
            Step::Discard { ordinal, .. } => {
                format!("delete the storage of {}", place(*ordinal))
            }
        }
    }
}
