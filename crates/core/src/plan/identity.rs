//! Whether a volume is the one that its slot had: its own, of this epoch, and not put back to an earlier state.
//!
//! In: what is written on it and what its log comes to, and what is remembered. Out: [`Volume`] as the rest of the planner
//! takes it. Never: a start from a volume that forgot what its member promised; a good one condemned because a start that
//! was intended never reached it (decision 15).

use super::BlockReason;
use super::pass::Pass;
use crate::guard::{Guard, Guards};
use crate::memory::Memory;
use crate::model::{ClusterId, MemberId, Observed, Ordinal, Process, Spec, Volume};

/// The same look, with volumes that hold the slot's own data and must not start distinguished from those that may.
pub(super) fn judged(spec: &Spec, observed: &Observed, memory: &Memory, guards: Guards) -> Observed {
    let mut judged = observed.clone();
    if !guards.on(Guard::PresentVolume) {
        return judged;
    }
    for (ordinal, view) in &mut judged.slots {
        let slot = memory.slot(*ordinal);
        let Volume::Data { member, cluster } = view.volume else {
            continue;
        };
        let own = slot.member.is_none_or(|id| id == member) && memory.cluster.is_none_or(|id| id == cluster);
        if !own || !matches!(view.process, Process::Stopped { .. }) {
            continue;
        }
        if let Some(marks) = view.marks.filter(|marks| !memory.agreed(spec, *ordinal, *marks))
            && let Some(volume) = memory.fault(*ordinal, marks)
        {
            view.volume = volume;
        }
    }
    judged
}

impl Pass<'_> {
    /// What a slot's volume has come to, as far as it shows. What was once reached is never less, unless the user agreed.
    pub fn learn_progress(&mut self, ordinal: Ordinal) {
        let Some(view) = self.view(ordinal) else { return };
        // One that runs on it says what it has written there, before anybody sees its data.
        let runs = matches!(
            (&view.process, &view.volume),
            (Process::Running { .. }, Volume::Unknown)
        );
        let Some(marks) = view.marks.filter(|_| runs || self.holds_its_own_data(ordinal)) else {
            return;
        };
        let stopped = matches!(view.process, Process::Stopped { .. });
        let agreed = stopped && self.memory.agreed(self.spec, ordinal, marks);
        let slot = self.slot_mut(ordinal);
        if agreed {
            slot.reached = marks.accepted(slot.reached);
        }
        let run = marks.run.unwrap_or(0);
        slot.reached.run = slot.reached.run.max(run);
        slot.run = slot.run.max(run);
    }

    /// How far the members' logs are on their disks. That grows with every write of a client, so it is remembered only
    /// along with something else.
    pub fn note_indexes(&mut self) {
        for ordinal in self.ordinals() {
            if let Some(durable) = self.view(ordinal).and_then(|v| v.durable) {
                self.memory.note_durable(ordinal, durable);
            }
        }
    }

    /// Whose storage it is stays known when nobody is there any more who could look into it.
    pub fn learn_owner(&mut self, ordinal: Ordinal) {
        let Some(view) = self.view(ordinal) else { return };
        let known = self.memory.slot(ordinal).belongs_to;
        let belongs_to = match &view.volume {
            Volume::Foreign { belongs_to, .. } => Some(belongs_to.clone()),
            Volume::Unknown if view.storage.is_some() => known.clone(),
            _ => None,
        };
        if known != belongs_to {
            self.slot_mut(ordinal).belongs_to = belongs_to;
        }
    }

    /// Blocks if the volume of a slot is not its own, or is not to be started. True if it must not be touched either: it
    /// may be somebody's only copy.
    pub fn is_foreign(&mut self, ordinal: Ordinal) -> bool {
        let name = self.spec.member_name(ordinal);
        match self.view(ordinal).map(|v| &v.volume) {
            Some(Volume::Foreign {
                belongs_to,
                slot,
                owner_exists,
            }) => {
                let how = self.how_it_came(ordinal, *slot, *owner_exists);
                let detail = format!(
                    "the volume of {name} belongs to {belongs_to}: {how}; it is neither started nor moved"
                );
                self.block(BlockReason::ForeignData, Some(ordinal), detail);
                true
            }
            Some(Volume::OtherEpoch { epoch }) if *epoch > self.memory.epoch => {
                let detail = format!(
                    "the volume of {name} is of epoch {epoch}, and this cluster is in epoch {}: what is remembered of the \
                     cluster is older than that volume; it is neither started nor moved",
                    self.memory.epoch
                );
                self.block(BlockReason::NewerEpoch, Some(ordinal), detail);
                true
            }
            _ => false,
        }
    }

    /// How the volume of another member may have come here: in words.
    fn how_it_came(
        &self,
        ordinal: Ordinal,
        from: Option<Ordinal>,
        owner_exists: Option<bool>,
    ) -> &'static str {
        let Some(from) = from else {
            return match owner_exists {
                Some(true) => "it was copied or moved here from that cluster, which is still there",
                Some(false) => {
                    "that cluster is not there any more, so it was renamed or deleted; create it again under its own name, \
                     or restore a snapshot of it under the new one"
                }
                None => {
                    "it was copied or moved here from another cluster; or that cluster was renamed, and then restore a \
                     snapshot of it under the new name"
                }
            };
        };
        let there = self.view(from).map(|v| (&v.volume, &v.process));
        match there {
            Some((Volume::Foreign { slot, .. }, _)) if *slot == Some(ordinal) => {
                "the volumes of the two were swapped"
            }
            Some((Volume::Data { member, .. }, _)) if Some(*member) == self.memory.slot(from).member => {
                "it is a clone of the volume that this member has"
            }
            _ => "it was swapped or cloned",
        }
    }

    /// Whose data lies in a slot, where that is not its own: in words.
    pub fn whose(&self, ordinal: Ordinal, member: MemberId, cluster: ClusterId) -> String {
        let name = self.spec.member_name(ordinal);
        if self.memory.cluster.is_some_and(|ours| ours != cluster) {
            return format!("the data of {name} is foreign: of member {member} of cluster {cluster}");
        }
        let mut slots = self.memory.slots.iter();
        let Some((&from, _)) = slots.find(|(_, slot)| slot.member == Some(member)) else {
            return format!("the data of {name} is of member {member} of cluster {cluster}, which it is not");
        };
        let other = self.spec.member_name(from);
        let theirs = |v: &Volume| matches!(v, Volume::Data { member: m, .. } if Some(*m) == self.memory.slot(ordinal).member);
        let own = |v: &Volume| matches!(v, Volume::Data { member: m, .. } if *m == member);
        match self.view(from).map(|v| &v.volume) {
            Some(volume) if theirs(volume) => format!("the data of {name} and {other} was swapped"),
            Some(volume) if own(volume) => format!("the data of {name} is a clone of that of {other}"),
            _ => format!("the data of {name} is that of {other}"),
        }
    }

    /// Why the volume of a slot, which is its own, must not start.
    pub fn stale(&self, ordinal: Ordinal) -> Option<String> {
        match &self.view(ordinal)?.volume {
            Volume::RolledBack { why } => Some(format!("its volume was rolled back: {why}")),
            Volume::OtherEpoch { epoch } if *epoch < self.memory.epoch => Some(format!(
                "its volume is of epoch {epoch}, and the cluster is in epoch {}",
                self.memory.epoch
            )),
            _ => None,
        }
    }

    /// Says of a slot that its volume must not start. If the others can do without it, it is replaced.
    pub fn report_stale(&mut self, ordinal: Ordinal) {
        let Some(why) = self.stale(ordinal) else { return };
        let name = self.spec.member_name(ordinal);
        let (reason, consent) = match self.view(ordinal).map(|v| &v.volume) {
            Some(Volume::RolledBack { .. }) => (BlockReason::RolledBack, self.consent(ordinal)),
            _ => (BlockReason::OlderEpoch, None),
        };
        let way_on = consent.map_or_else(
            || "it is replaced once the others are a healthy quorum".to_owned(),
            |text| {
                format!(
                    "it is the only member: put the newest state of its volume back, or, to go on without what was \
                     written since, set spec.acceptRolledBack to {text:?}"
                )
            },
        );
        let detail = format!("{name} is not started, for {why}; {way_on}");
        self.block(reason, Some(ordinal), detail);
    }

    /// The text by which the user agrees to go on from the volume of a slot, where there is no other member to ask.
    fn consent(&self, ordinal: Ordinal) -> Option<String> {
        let marks = self.view(ordinal)?.marks?;
        let mut others = self.memory.slots.iter().filter(|(o, _)| **o != ordinal);
        let alone = others.all(|(_, slot)| slot.member.is_none());
        let name = self.spec.member_name(ordinal);
        alone.then(|| marks.consent(&name, self.memory.slot(ordinal).reached))
    }
}
