//! What must be remembered between passes: intents, first-start marks, attempts. Small, versioned, stored by the
//! ground before any effect of the plan it came with.
//!
//! Never: a fact that can be observed again, and nothing a ground would rather hide in its executor.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{
    Basis, ClusterId, Epoch, Generation, MemberId, Ordinal, PeerUrl, Progress, Setup, Spec, Time, Token,
    Version, Volume, VolumeMarks,
};

/// The record. `Memory::default()` is that of a cluster never heard of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    #[serde(default)]
    pub format: Format,
    /// Which life of the cluster this is.
    #[serde(default, skip_serializing_if = "Epoch::is_first")]
    pub epoch: Epoch,
    /// The recovery that began this epoch. Nothing recovers a cluster yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// The manifest that was last found to be right, as the ground writes it. Kept for the ground, and not read here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// What every voter has served with, last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<LastKnownGood>,
    /// What was wanted and did not serve. It is void as soon as something else is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejected>,
    /// The bootstrap, once decided: it is latched and never decided again.
    pub bootstrap: Option<Bootstrap>,
    /// The cluster's id, once a quorum of it has answered.
    pub cluster: Option<ClusterId>,
    /// Every slot that ever had a volume.
    pub slots: BTreeMap<Ordinal, Slot>,
    /// The membership change under way, written before it is asked for.
    pub change: Option<Change>,
    /// The member that is deliberately disturbed now.
    pub disturbance: Option<Disturbance>,
    /// Leadership being moved off a member.
    pub handover: Option<Handover>,
    /// How the learner is doing.
    pub learner: Option<LearnerWatch>,
    /// The member list as last read, and since when it is that.
    pub list: Option<(Basis, Time)>,
    /// No membership change before this time: etcd refused the last one.
    pub change_not_before: Time,
    /// The look that last taught it something. An older look is never acted on.
    pub looked: Time,
}

/// The format that a memory was written in. One newer than is known cannot be read, so that nobody acts on half of it, or
/// writes it back without what they did not understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct Format(u32);

impl Format {
    const KNOWN: Format = Format(1);
}

impl Default for Format {
    fn default() -> Format {
        Format::KNOWN
    }
}

impl TryFrom<u32> for Format {
    type Error = String;

    fn try_from(format: u32) -> Result<Format, String> {
        match format {
            1 => Ok(Format::KNOWN),
            other => Err(format!(
                "it is of format {other}, and this quorate knows format {}",
                Format::KNOWN.0
            )),
        }
    }
}

/// A recovery, and who agreed to what it costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    pub id: String,
    pub consent: String,
}

/// The first members, and the token they share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Fresh for this bootstrap.
    pub token: Token,
    /// Where each first member is.
    pub members: BTreeMap<Ordinal, PeerUrl>,
}

/// What is remembered of one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Which volume is the present one.
    pub generation: Generation,
    /// Whether that volume was ever started.
    pub mark: Mark,
    /// The number of the start that was last planned on it. Whether that one reached the volume is not known.
    #[serde(default)]
    pub run: u64,
    /// How far that volume is known to have come. One that is behind this was rolled back.
    #[serde(default, skip_serializing_if = "Progress::is_none")]
    pub reached: Progress,
    /// The id under which it is in the member list.
    pub member: Option<MemberId>,
    /// Whether that member was last seen to vote.
    pub voter: bool,
    /// The newest version that was started on that volume.
    pub version: Option<Version>,
    /// The newest version that was seen to serve from it.
    pub served: Option<Version>,
    /// The setup it last served with for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_as: Option<Setup>,
    /// The setup that was last wanted of it; failures count against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Setup>,
    /// The setup of its last start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Setup>,
    /// The volume before this one was seen to serve: what is older than that is no longer needed.
    #[serde(default)]
    pub after_served: bool,
    /// Starts since it was last healthy for good: the pause before the next one grows with them.
    pub starts: u32,
    /// Starts since it was last healthy at all: after too many its data is given up.
    pub fails: u32,
    /// When the last start was planned.
    pub last_start: Time,
    /// How often it was restarted to take a raft snapshot that it still lacks.
    pub settles: u32,
    /// How often it was replaced for crashing since it was last healthy.
    pub replacements: u32,
    /// How often a learner in this place was withdrawn since one became a voter that stayed healthy, and when last.
    #[serde(default)]
    pub withdrawn: (u32, Time),
    /// To whom its storage belonged when somebody last looked into it, if not to this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belongs_to: Option<String>,
    /// Healthy without a break since.
    pub healthy_since: Option<Time>,
    /// Running, and not healthy, without a break since.
    #[serde(default, rename = "ill_since")]
    pub unhealthy_since: Option<Time>,
    /// When an entry was last written so that it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_written: Option<Time>,
    /// How often in a row it ran and did not answer, and when that was last counted.
    #[serde(default)]
    pub unanswered: (u32, Time),
    /// How often in a row it answered and knew no leader, and when that was last counted.
    #[serde(default)]
    pub leaderless: (u32, Time),
}

/// What a cluster served with as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastKnownGood {
    pub setup: Setup,
    /// What the ground builds it from; None if it cannot be built again.
    pub manifest: Option<String>,
    /// The first members were started with it, and nobody was seen to serve with the settings of all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
}

/// A change that stopped at its first member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    pub setup: Setup,
    /// Where it did not serve.
    pub member: Ordinal,
    /// For people: how that showed, in etcd's own words where it has said something.
    pub why: String,
}

/// Whether a volume was ever started. Written before the first exec, so that "never" can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// No start was ever planned on it.
    #[default]
    Never,
    /// A first start was planned; whether it ran is the ground's to prove.
    Intended,
    /// It had data once. From now on an empty volume means that data was lost.
    Started,
}

/// A membership change that may or may not have happened yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub kind: ChangeKind,
    /// Since when it is intended.
    pub since: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeKind {
    /// A learner with this peer URL.
    AddLearner(PeerUrl),
    /// This learner becomes a voter.
    Promote(MemberId),
    Remove(MemberId),
}

/// One member is being restarted on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    pub ordinal: Ordinal,
    pub since: Time,
    /// Not to run something else yet, but to take a raft snapshot first.
    pub settle: bool,
    /// Only to be started again as it was, for it was stuck.
    #[serde(default)]
    pub again: bool,
}

/// Leadership is to leave a member before it is disturbed or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// Who should stop leading.
    pub from: MemberId,
    /// How often it was tried.
    pub tries: u32,
}

/// A learner's progress, to tell slow from stuck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerWatch {
    pub member: MemberId,
    /// The highest index it was seen to have applied.
    pub applied: u64,
    /// When that last grew.
    pub progressed: Time,
}

impl Memory {
    /// The manifest that the cluster last served with, if it is not the one that is wanted: see
    /// [`Spec::fallback`](crate::model::Spec::fallback).
    pub fn served_with(&self, wanted: Option<&str>) -> Option<&str> {
        let served = self.good.as_ref()?.manifest.as_deref();
        served.filter(|_| served != wanted)
    }

    /// The slot at `ordinal`, as it is or as it would begin.
    pub fn slot(&self, ordinal: Ordinal) -> Slot {
        self.slots.get(&ordinal).cloned().unwrap_or_default()
    }

    /// The log of `member` is on its disk up to `index`, if it is the member of that slot.
    pub fn note_durable(&mut self, ordinal: Ordinal, (member, index): (MemberId, u64)) {
        let slot = self.slots.get_mut(&ordinal);
        if let Some(slot) = slot.filter(|slot| slot.member == Some(member)) {
            slot.reached.index = slot.reached.index.max(index);
        }
    }

    /// What is wrong with a volume that holds a slot's own data, by what is written on it: it was rolled back, or is of
    /// another epoch.
    pub fn fault(&self, ordinal: Ordinal, marks: VolumeMarks) -> Option<Volume> {
        if marks.epoch != self.epoch {
            return Some(Volume::OtherEpoch { epoch: marks.epoch });
        }
        let why = marks.rollback_evidence(self.slot(ordinal).reached)?;
        Some(Volume::RolledBack { why })
    }

    /// Does the user agree that the only member there is goes on from a volume with these marks, which was rolled back? With
    /// others it would contradict them, so there is nothing to agree to.
    pub fn agreed(&self, spec: &Spec, ordinal: Ordinal, marks: VolumeMarks) -> bool {
        let alone = self
            .slots
            .iter()
            .all(|(o, s)| *o == ordinal || s.member.is_none());
        let text = marks.consent(&spec.member_name(ordinal), self.slot(ordinal).reached);
        alone && marks.epoch == self.epoch && spec.accept_rolled_back.as_ref() == Some(&text)
    }

    /// The memory as a supervisor takes it up when it begins. Members that ended while none watched are not crashing,
    /// so the pauses between starts count from here; what makes a volume be given up is kept.
    #[must_use]
    pub fn taken_up(mut self) -> Memory {
        for slot in self.slots.values_mut() {
            slot.starts = 0;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_of_a_newer_format_is_not_read() {
        let text = serde_json::to_string(&Memory::default()).unwrap();
        assert!(text.starts_with(r#"{"format":1,"#), "{text}");
        assert_eq!(serde_json::from_str(&text).ok(), Some(Memory::default()));
        let before_formats = text.replacen(r#""format":1,"#, "", 1);
        assert_eq!(
            serde_json::from_str(&before_formats).ok(),
            Some(Memory::default())
        );
        let newer = text.replacen(r#""format":1,"#, r#""format":2,"epochs":{},"#, 1);
        let error = serde_json::from_str::<Memory>(&newer).unwrap_err().to_string();
        assert!(
            error.contains("it is of format 2, and this quorate knows format 1"),
            "{error}"
        );
    }
}
