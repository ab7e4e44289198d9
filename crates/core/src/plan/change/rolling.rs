//! A changed version or configuration reaches the members one after the other, highest ordinal first, each only when
//! all are well, leadership moved off just before.

use crate::guard::Guard;
use crate::memory::Disturbance;
use crate::model::{Ordinal, Process, Version, VersionPath};
use crate::plan::pass::{Known, Pass};
use crate::plan::{BlockReason, Step, WaitReason, WriteBefore, pace};

impl Pass<'_> {
    /// True while members still run with something else than wanted.
    pub fn roll(&mut self) -> bool {
        let mut voters = self.voters().into_iter().filter_map(|k| k.ordinal);
        if voters.any(|o| self.deletion_pending(o)) {
            return true; // Reported already, and replaced first.
        }
        let open = self.version_open();
        let behind: Vec<Known> = self
            .voters()
            .into_iter()
            .filter(|k| self.behind(k, open))
            .collect();
        let failing = self.rejected().is_some();
        let disturbed = self.memory.disturbance.as_ref().map(|d| d.ordinal);
        if let Some(disturbed) = disturbed.filter(|_| !failing) {
            self.report_disturbed(disturbed);
        }
        if (failing || disturbed.is_some()) && self.guards.on(Guard::OneDisturbed) {
            return true;
        }
        let mut voters = self.voters().into_iter().filter_map(|k| k.ordinal);
        if let Some(tried) = voters.find(|o| self.on_trial(*o)) {
            let detail = format!(
                "waiting for {} to serve for {} seconds before the next is restarted",
                self.spec.member_name(tried),
                pace::STABLE.as_secs()
            );
            self.wait(WaitReason::MemberStarting, Some(tried), detail);
            return true;
        }
        let Some(victim) = behind.iter().max_by_key(|k| k.ordinal).cloned() else {
            return false;
        };
        let ill: Vec<String> = self
            .voters()
            .iter()
            .filter(|k| !k.healthy || !self.in_service(k))
            .map(|k| self.called(k))
            .collect();
        if !ill.is_empty()
            && self.guards.on(Guard::QuorumWhileDisturbed)
            && self.guards.on(Guard::OneDisturbed)
        {
            let detail = format!(
                "before a member is restarted all must be healthy; not yet: {}",
                ill.join(", ")
            );
            self.wait(WaitReason::MembersUnhealthy, None, detail);
            return true;
        }
        let victims = if self.guards.on(Guard::OneDisturbed) {
            vec![victim]
        } else {
            behind
        };
        for victim in victims {
            self.disturb(&victim);
        }
        true
    }

    /// Are clients sent to it? Not waited for without end: the change may be what mends that.
    fn in_service(&self, known: &Known) -> bool {
        let view = known.ordinal.and_then(|o| self.view(o));
        !view.is_some_and(|v| self.is_yet_out_of_service(v))
    }

    fn disturb(&mut self, victim: &Known) {
        let Some(ordinal) = victim.ordinal else { return };
        if let Some(why) = self.view(ordinal).and_then(|v| v.cannot_start.as_ref()) {
            let name = self.spec.member_name(ordinal);
            let detail = format!("{name} is to be restarted, but then could not be started: {why}");
            return self.block(BlockReason::CannotStart, Some(ordinal), detail);
        }
        if self.guards.on(Guard::OneDisturbed) && !self.guards.disturbance(self.others(victim.listed.id)) {
            let detail = format!(
                "{} must wait: the others are no quorum without it",
                self.spec.member_name(ordinal)
            );
            return self.wait(WaitReason::MembersUnhealthy, Some(ordinal), detail);
        }
        let Some(Process::Running { since, version, .. }) = self.view(ordinal).map(|v| v.process.clone())
        else {
            return;
        };
        if self.alone_since_a_moment() {
            let detail = format!(
                "{name} has only just become the only voter",
                name = self.spec.member_name(ordinal)
            );
            return self.wait(WaitReason::MembersUnhealthy, Some(ordinal), detail);
        }
        let settle = self.must_settle(ordinal);
        let slot = self.memory.slot(ordinal);
        let settles = slot.settles >= pace::SETTLES_MAX;
        if settle && settles && self.elapsed(slot.last_start) < pace::SETTLED {
            let detail = format!(
                "{} takes a raft snapshot before it goes to etcd {}",
                self.spec.member_name(ordinal),
                self.spec.version
            );
            return self.wait(WaitReason::MemberStarting, Some(ordinal), detail);
        }
        if settle && settles {
            let detail = format!(
                "{} still has log entries that etcd {} cannot replay, although it was restarted {} times to take a \
                 raft snapshot",
                self.spec.member_name(ordinal),
                self.spec.version,
                pace::SETTLES_MAX
            );
            return self.block(BlockReason::VersionPath, Some(ordinal), detail);
        }
        if self.can_be_resized(ordinal) {
            return self.resize_process(ordinal);
        }
        if self.transfer_leadership(victim.listed.id) {
            self.memory.disturbance = Some(Disturbance {
                ordinal,
                since: self.now,
                settle,
                again: false,
            });
            let slot = self.slot_mut(ordinal);
            slot.settles = slot.settles.saturating_add(u32::from(settle));
            if version.minor == 4 && self.spec.version.minor > 4 {
                self.step(Step::Write {
                    ordinal,
                    before: WriteBefore::LeavingMinor4,
                });
            }
            self.step(Step::Stop { ordinal, since });
        }
    }

    /// etcd records that a change is committed only with the next entry. The survivor of two that is stopped before it
    /// wrote one forgets that it is alone, and waits for a vote that never comes.
    fn alone_since_a_moment(&self) -> bool {
        let changed = self.memory.list.map(|(_, since)| self.elapsed(since));
        self.voters().len() == 1 && changed.is_some_and(|ago| ago < pace::STABLE)
    }

    /// Would the wanted etcd find log entries that it cannot replay? Seen with 3.4 to 3.5 to 3.6 and 3.5 to 3.6 to 3.7:
    /// it panics at every start, and the data is of the newer minor by then.
    pub fn must_settle(&self, ordinal: Ordinal) -> bool {
        let limit = self.view(ordinal).and_then(|v| v.replay_limit);
        let beyond = limit.is_some_and(|newest| self.spec.version.minor > newest);
        self.guards.on(Guard::VersionStep) && beyond && self.version_is_open()
    }

    /// May every member go to the wanted version? If not, that blocks the version, not the rest.
    fn version_open(&mut self) -> bool {
        let to = self.spec.version;
        for member in self.known() {
            let Some(from) = member.ordinal.and_then(|o| self.memory.slot(o).floor()) else {
                continue;
            };
            let why = match self.guards.version(from, to) {
                VersionPath::Allowed => continue,
                VersionPath::Downgrade => {
                    "etcd data never goes back to an older version by itself".to_owned()
                }
                VersionPath::SkipsMinor => "minors cannot be skipped: go one at a time".to_owned(),
                VersionPath::PatchFirst { at_least } => {
                    format!("go to {at_least} or a later patch of it first")
                }
                VersionPath::Corrupting => "that version is known to corrupt data".to_owned(),
                VersionPath::Unknown => "quorate does not know that version".to_owned(),
            };
            let detail = format!(
                "{} is at {from} and cannot go to {to}: {why}",
                self.called(&member)
            );
            self.block(BlockReason::VersionPath, member.ordinal, detail);
            return false;
        }
        true
    }

    fn behind(&self, member: &Known, open: bool) -> bool {
        let Some((ordinal, view)) = member.ordinal.and_then(|o| Some((o, self.view(o)?))) else {
            return false;
        };
        let Process::Running { version, config, .. } = &view.process else {
            return false;
        };
        let wanted: Version = if open { self.spec.version } else { *version };
        *version != wanted || *config != self.spec.config_of(ordinal)
    }

    pub fn runs_as_wanted(&self, ordinal: Ordinal) -> bool {
        let Some(view) = self.view(ordinal) else {
            return false;
        };
        matches!(&view.process, Process::Running { version, config, .. }
            if *version == self.spec.version && *config == self.spec.config_of(ordinal))
    }

    pub fn called(&self, member: &Known) -> String {
        match member.ordinal {
            Some(ordinal) => self.spec.member_name(ordinal).to_string(),
            None => format!("member {}", member.listed.id),
        }
    }
}
