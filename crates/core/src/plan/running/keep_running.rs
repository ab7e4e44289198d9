//! Whatever has data and should run, runs: crashed members are started again from their own data, after a pause that
//! grows. This needs no quorum and asks nobody; it is how a cluster comes back after a power cut.

use crate::memory::Mark;
use crate::model::{ClusterId, FirstStart, MemberStatus, Ordinal, Place, Process, SlotView, Volume, quorum};
use crate::plan::pass::Pass;
use crate::plan::{BlockReason, StartHow, WaitReason, pace};

impl Pass<'_> {
    /// Starts what is down, and says what is not well yet.
    pub fn keep_running(&mut self) {
        for ordinal in self.ordinals() {
            let Some(view) = self.view(ordinal) else { continue };
            let name = self.spec.member_name(ordinal);
            match (&view.process, &view.volume) {
                // What was seen of its process is older than its answer.
                (Process::Stopped { .. }, _) if self.serves(ordinal) => {
                    let detail = format!("{name} serves, although its process was last seen to have ended");
                    self.wait(WaitReason::OldView, Some(ordinal), detail);
                }
                (Process::Stopped { .. }, _) if self.belongs(ordinal) && !self.is_placed(ordinal) => {
                    self.placed(ordinal, &self.setup(ordinal, self.has_yet_to_join(ordinal)));
                }
                (Process::Stopped { .. }, Volume::Data { member, cluster }) => {
                    if !self.holds_its_own_data(ordinal) {
                        let whose = self.whose(ordinal, *member, *cluster);
                        let detail = format!("{whose}; it is neither started nor moved");
                        self.block(BlockReason::ForeignData, Some(ordinal), detail);
                    } else if self.belongs(ordinal) {
                        let settle = self.disturbance_of(ordinal).is_some_and(|d| d.settle);
                        self.start(
                            ordinal,
                            if settle {
                                StartHow::Settle
                            } else {
                                StartHow::Resume
                            },
                        );
                    }
                }
                (Process::Stopped { .. }, Volume::Foreign { .. }) => {
                    self.is_foreign(ordinal);
                }
                (Process::Stopped { .. }, Volume::RolledBack { .. } | Volume::OtherEpoch { .. }) => {
                    let ours = !self.is_foreign(ordinal) && self.belongs(ordinal);
                    if ours {
                        self.report_stale(ordinal);
                    }
                }
                (Process::Running { .. }, _) if !view.status.as_ref().is_some_and(|s| s.healthy) => {
                    self.report_unhealthy(ordinal, view.status.is_some());
                }
                // Clients are sent to voters only.
                (Process::Running { since, .. }, _)
                    if self.memory.slot(ordinal).voter && self.is_yet_out_of_service(view) =>
                {
                    let until = *since + pace::IN_SERVICE;
                    let name = self.name_and_location(ordinal);
                    let detail = format!("{name} serves, and clients are not sent to it yet");
                    self.wait_until(WaitReason::MemberStarting, Some(ordinal), detail, until);
                }
                (Process::Stopping, _) => {
                    let detail = match &view.place {
                        Place::Preparing { why } => format!("{name} is stopping: {why}"),
                        _ => format!("{name} is stopping"),
                    };
                    self.wait(WaitReason::MemberStopping, Some(ordinal), detail);
                }
                _ => {}
            }
        }
    }

    /// Was a member started so lately that clients need not be sent to it yet, and are they not? That is not waited for
    /// without end: one that serves does, whatever its readiness says later.
    pub fn is_yet_out_of_service(&self, view: &SlotView) -> bool {
        let Process::Running { since, .. } = view.process else {
            return !view.in_service;
        };
        !view.in_service && self.elapsed(since) <= pace::IN_SERVICE
    }

    /// Says that etcd does not let quorate in, if so: then nothing can be concluded from its silence.
    pub fn report_login(&mut self) -> bool {
        let Some(why) = &self.observed.login_refused else {
            return false;
        };
        let detail = format!(
            "authentication is enabled, and etcd does not let quorate in: {why}; name a Secret with the password of root \
             in spec.auth.rootSecret (on a host: a file with it in spec.auth.passwordFile), or turn authentication off"
        );
        self.block(BlockReason::LoginRefused, None, detail);
        true
    }

    /// Is there a place for a slot, made for what it is started as?
    fn is_placed(&self, ordinal: Ordinal) -> bool {
        let setup = self.setup(ordinal, self.has_yet_to_join(ordinal));
        self.view(ordinal).is_none_or(|v| {
            let other = v.made_for.as_ref().is_some_and(|made_for| *made_for != setup);
            // Whoever starts one without data looks at its place, too.
            v.place == Place::Ready && !(other && matches!(v.volume, Volume::Data { .. }))
        })
    }

    /// Is it to become a member of a cluster that exists?
    fn has_yet_to_join(&self, ordinal: Ordinal) -> bool {
        self.memory.cluster.is_some() && self.memory.slot(ordinal).mark != Mark::Started
    }

    /// Says what is the matter with a member that runs and is not healthy.
    fn report_unhealthy(&mut self, ordinal: Ordinal, answers: bool) {
        if self.observed.unasked || self.observed.login_refused.is_some() && self.quorum().is_none() {
            return; // It is reported once, for all.
        }
        let name = self.name_and_location(ordinal);
        let slot = self.memory.slot(ordinal);
        let served = slot.mark == Mark::Started && slot.fails == 0 && slot.served.is_some();
        match (answers, slot.unhealthy_since.filter(|_| served)) {
            (true, _) => {
                let detail = format!("{name} answers, but cannot reach a quorum yet");
                self.wait(WaitReason::MemberStarting, Some(ordinal), detail);
            }
            (false, None) => {
                let detail = format!("{name} runs and does not answer yet");
                self.wait(WaitReason::MemberStarting, Some(ordinal), detail);
            }
            (false, Some(since)) => {
                let detail = format!(
                    "{name} runs and does not answer any more; it is restarted if that lasts and the others can do without \
                     it"
                );
                let until = since + pace::STUCK.0;
                self.wait_until(WaitReason::MemberUnresponsive, Some(ordinal), detail, until);
            }
        }
    }

    /// Does the present volume hold data that can be this slot's?
    pub fn holds_its_own_data(&self, ordinal: Ordinal) -> bool {
        let Some(Volume::Data { member, cluster }) = self.view(ordinal).map(|v| &v.volume) else {
            return false;
        };
        let ours = match self.memory.cluster {
            Some(ours) => ours == *cluster,
            None => !self.foreign_while_forming(ordinal, *cluster),
        };
        ours && self.memory.slot(ordinal).member.is_none_or(|id| id == *member)
    }

    /// Before a quorum has answered nobody knows the cluster's id. But the first members share it, and one that
    /// provably never ran has no data of its own.
    fn foreign_while_forming(&self, ordinal: Ordinal, cluster: ClusterId) -> bool {
        let never_ran =
            |v: &SlotView| matches!(v.first_start, FirstStart::NotRun | FirstStart::RanWithoutData);
        let differs =
            |v: &SlotView| matches!(v.volume, Volume::Data { cluster: other, .. } if other != cluster);
        self.view(ordinal).is_some_and(never_ran) || self.observed.slots.values().any(differs)
    }

    fn serves(&self, ordinal: Ordinal) -> bool {
        let status = self.view(ordinal).and_then(|v| v.status.as_ref());
        let own = |s: &MemberStatus| s.healthy && Some(s.member) == self.memory.slot(ordinal).member;
        status.is_some_and(own)
    }

    /// A slot is to run if it is a member, or may be one as far as anyone can tell.
    fn belongs(&self, ordinal: Ordinal) -> bool {
        let first = self
            .memory
            .bootstrap
            .as_ref()
            .is_some_and(|b| b.members.contains_key(&ordinal));
        let forming = self.memory.cluster.is_none() && first;
        forming || self.memory.slot(ordinal).member.is_some() || self.may_be_member(ordinal)
    }

    /// Was it started, before anyone saw under which id it is in the list? Until a quorum says, it may vote.
    pub fn may_be_member(&self, ordinal: Ordinal) -> bool {
        let slot = self.memory.slot(ordinal);
        self.observed.quorum.is_none() && slot.member.is_none() && slot.mark != Mark::Never
    }

    /// No quorum answered. Nothing but restarts may be done; what is known of the volumes says whether to hope.
    pub fn without_quorum(&mut self) {
        if self.memory.cluster.is_none() {
            return self.form();
        }
        if self.foreign_quorum {
            return;
        }
        let voters = self.memory.slots.iter();
        let voters = voters.filter(|(o, s)| s.member.is_some() && s.voter || self.may_be_member(**o));
        let members: Vec<Ordinal> = voters.map(|(o, _)| *o).collect();
        let sound = members.iter().filter(|o| self.may_come_back(**o)).count();
        let needed = quorum(members.len());
        if sound < needed {
            let detail = format!(
                "only {sound} of {} voters still have their data, {needed} are needed; the cluster cannot come back \
                 by itself, and no new cluster is started over it",
                members.len()
            );
            return self.block(BlockReason::QuorumLost, None, detail);
        }
        let down: Vec<String> = members
            .iter()
            .filter(|o| {
                !self
                    .view(**o)
                    .and_then(|v| v.status.as_ref())
                    .is_some_and(|s| s.healthy)
            })
            .map(|o| self.name_and_location(*o))
            .collect();
        let detail = format!("no quorum answers; unhealthy: {}", down.join(", "));
        self.wait(WaitReason::NoQuorum, None, detail);
    }

    fn may_come_back(&self, ordinal: Ordinal) -> bool {
        let Some(view) = self.view(ordinal) else {
            return true;
        };
        match view.volume {
            Volume::Data { .. } | Volume::Unknown => true,
            Volume::Empty
            | Volume::Damaged { .. }
            | Volume::Foreign { .. }
            | Volume::RolledBack { .. }
            | Volume::OtherEpoch { .. } => {
                // One that runs may be the last that has its data, unless it is silent for long.
                let hangs = view.status.is_none() && self.unhealthy_for_long(ordinal);
                matches!(view.process, Process::Running { .. }) && !hangs
            }
        }
    }
}
