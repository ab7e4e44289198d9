//! One pass of the planner: its inputs, the plan and memory it builds, and the questions every part asks.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Block, BlockReason, Plan, Step, Wait, WaitReason, pace};
use crate::guard::{Counted, Guards};
use crate::memory::{Disturbance, LastKnownGood, Mark, Memory, Slot};
use crate::model::{
    FirstStart, Listed, MemberId, Observed, Ordinal, Place, Process, QuorumView, Setup, SlotView, Spec, Time,
    Version, Volume,
};

/// When to look again where nothing is expected to happen.
const REST: Duration = Duration::from_secs(2);

/// The state of one pass.
pub(super) struct Pass<'a> {
    pub spec: &'a Spec,
    pub observed: &'a Observed,
    pub now: Time,
    pub guards: Guards,
    pub memory: Memory,
    before: Memory,
    plan: Plan,
    /// Slots whose volume was given up in this pass: what was seen of them is of a volume that is no longer theirs.
    moved_on: BTreeSet<Ordinal>,
    /// A quorum answered, but not of our cluster.
    pub foreign_quorum: bool,
    /// Who became a voter or stopped being one, if that shows although it was not answered: a crash may undo it.
    pub unanswered_change: Option<MemberId>,
}

/// A listed member and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub listed: Listed,
    pub ordinal: Option<Ordinal>,
    pub healthy: bool,
}

impl<'a> Pass<'a> {
    pub fn new(spec: &'a Spec, observed: &'a Observed, memory: &Memory, now: Time, guards: Guards) -> Self {
        Self {
            spec,
            observed,
            now,
            guards,
            memory: memory.clone(),
            before: memory.clone(),
            plan: Plan::default(),
            moved_on: BTreeSet::new(),
            foreign_quorum: false,
            unanswered_change: None,
        }
    }

    pub fn finish(mut self) -> (Plan, Memory) {
        let busy = !self.plan.steps.is_empty();
        // What lasts until a known time changes nothing before.
        let waiting = self
            .plan
            .waits
            .iter()
            .any(|w| w.until.is_none_or(|until| until <= self.now + REST));
        self.plan.requeue_after = match (busy, waiting) {
            (true, _) => Duration::from_millis(50),
            (false, true) => Duration::from_millis(200),
            (false, false) => REST,
        };
        if self.memory != self.before {
            self.note_indexes();
            self.memory.looked = self.observed.at;
        }
        (self.plan, self.memory)
    }

    /// Is this look too old to act on, or older than what is remembered? What is remembered may lie in the future, when
    /// the clock was set back since; a look may not, for nobody knows how old it is.
    pub fn outdated(&self) -> bool {
        let behind_memory = self.observed.at < self.memory.looked && self.memory.looked <= self.now;
        let relevant = self.guards.on(crate::guard::Guard::FreshView);
        (relevant && behind_memory) || !self.guards.view(self.observed, self.now)
    }

    /// How long ago `since` was. A time in the future is of a clock that was set back: then everything is due.
    pub fn elapsed(&self, since: Time) -> Duration {
        if since > self.now {
            Duration::MAX
        } else {
            self.now - since
        }
    }

    /// How many steps are planned by now.
    pub fn steps(&self) -> usize {
        self.plan.steps.len()
    }

    /// Is a member started in this pass?
    pub fn starts_one(&self) -> bool {
        self.plan.steps.iter().any(|s| matches!(s, Step::Start { .. }))
    }

    pub fn step(&mut self, step: Step) {
        self.plan.steps.push(step);
    }

    pub fn wait(&mut self, reason: WaitReason, member: Option<Ordinal>, detail: impl Into<String>) {
        self.plan.waits.push(Wait {
            reason,
            member,
            detail: detail.into(),
            until: None,
        });
    }

    pub fn wait_until(
        &mut self,
        reason: WaitReason,
        member: Option<Ordinal>,
        detail: impl Into<String>,
        until: Time,
    ) {
        self.plan.waits.push(Wait {
            reason,
            member,
            detail: detail.into(),
            until: Some(until),
        });
    }

    pub fn block(&mut self, reason: BlockReason, member: Option<Ordinal>, detail: impl Into<String>) {
        self.plan.blocks.push(Block {
            reason,
            member,
            detail: detail.into(),
        });
    }

    /// The member list of this pass, if it is our cluster's.
    pub fn quorum(&self) -> Option<&'a QuorumView> {
        if self.foreign_quorum {
            None
        } else {
            self.observed.quorum.as_ref()
        }
    }

    /// What was seen of a slot's present volume and process; nothing if the slot has moved on in this pass.
    pub fn view(&self, ordinal: Ordinal) -> Option<&'a SlotView> {
        if self.moved_on.contains(&ordinal) {
            None
        } else {
            self.observed.slots.get(&ordinal)
        }
    }

    pub fn slot_mut(&mut self, ordinal: Ordinal) -> &mut Slot {
        self.memory.slots.entry(ordinal).or_default()
    }

    /// Every slot the memory knows.
    pub fn ordinals(&self) -> Vec<Ordinal> {
        self.memory.slots.keys().copied().collect()
    }

    /// Which slot a listed member lives in: by id, else by peer URL.
    pub fn ordinal_of(&self, member: &Listed) -> Option<Ordinal> {
        let by_id = self
            .memory
            .slots
            .iter()
            .find(|(_, s)| s.member == Some(member.id))
            .map(|(o, _)| *o);
        by_id.or_else(|| {
            let by_url = |v: &SlotView| member.peer_urls.contains(&v.peer_url);
            self.observed
                .slots
                .iter()
                .find(|(_, v)| by_url(v))
                .map(|(o, _)| *o)
        })
    }

    /// Every listed member with its slot and health.
    pub fn known(&self) -> Vec<Known> {
        let Some(quorum) = self.quorum() else {
            return Vec::new();
        };
        quorum.members.iter().map(|m| self.know(m)).collect()
    }

    fn know(&self, member: &Listed) -> Known {
        let ordinal = self.ordinal_of(member);
        let view = ordinal.and_then(|o| self.observed.slots.get(&o));
        // One that was told to stop still answers for a moment; nothing may be built on that.
        let stays = view.is_some_and(|v| v.process != Process::Stopping);
        let status = view.and_then(|v| v.status.as_ref());
        let healthy = stays && status.is_some_and(|s| s.member == member.id && s.healthy);
        Known {
            listed: member.clone(),
            ordinal,
            healthy,
        }
    }

    pub fn voters(&self) -> Vec<Known> {
        self.known().into_iter().filter(|k| !k.listed.learner).collect()
    }

    /// The voters without `member`.
    pub fn others(&self, member: MemberId) -> Counted {
        let others: Vec<_> = self
            .voters()
            .into_iter()
            .filter(|k| k.listed.id != member)
            .collect();
        Counted {
            voters: others.len(),
            healthy: others.iter().filter(|k| k.healthy).count(),
        }
    }

    pub fn leader(&self) -> Option<MemberId> {
        self.quorum().and_then(|q| q.leader)
    }

    /// May the present volume of a slot see a first start? Only if it is empty and provably never ran.
    pub fn fresh(&self, ordinal: Ordinal) -> bool {
        let Some(view) = self.view(ordinal) else {
            return false;
        };
        if view.volume != Volume::Empty {
            return false;
        }
        if !self.guards.on(crate::guard::Guard::FreshVolume) {
            return true;
        }
        match self.memory.slot(ordinal).mark {
            Mark::Never => true,
            Mark::Intended => {
                // A volume that lacks a start which was made on it was put back: what it proves was true before that.
                let run = view.marks.and_then(|m| m.run).unwrap_or(0);
                let proven = matches!(view.first_start, FirstStart::NotRun | FirstStart::RanWithoutData);
                proven && run >= self.memory.slot(ordinal).reached.run
            }
            Mark::Started => false,
        }
    }

    pub fn stopped(&self, ordinal: Ordinal) -> bool {
        self.view(ordinal)
            .is_some_and(|v| matches!(v.process, Process::Stopped { .. }))
    }

    /// Does this plan start it?
    pub fn starting(&self, ordinal: Ordinal) -> bool {
        self.plan
            .steps
            .iter()
            .any(|s| matches!(s, Step::Start { ordinal: o, .. } if *o == ordinal))
    }

    /// The version to start a slot with: the wanted one if its turn has come and all may go there, else what it ran.
    pub fn start_version(&self, ordinal: Ordinal) -> Version {
        let in_turn = self.in_turn(ordinal).is_some();
        let slot = self.memory.slot(ordinal);
        // No older minor starts on what a newer one has written.
        let started = slot.started.as_ref().map(|s| s.version);
        let started = started.filter(|started| slot.version.is_none_or(|ran| ran.minor <= started.minor));
        match started.or(slot.version) {
            Some(_) if in_turn && self.version_is_open() && !self.must_settle(ordinal) => self.spec.version,
            Some(version) => version,
            None => self.join_version(),
        }
    }

    /// Stops the process that runs since then on purpose; `again` if it is to be started as what it was.
    pub fn disturb_and_stop(&mut self, ordinal: Ordinal, since: Time, again: bool) {
        self.memory.disturbance = Some(Disturbance {
            ordinal,
            since: self.now,
            settle: false,
            again,
        });
        self.step(Step::Stop { ordinal, since });
    }

    /// The disturbance under way, if it is this slot's.
    pub fn disturbance_of(&self, ordinal: Ordinal) -> Option<&Disturbance> {
        self.memory.disturbance.as_ref().filter(|d| d.ordinal == ordinal)
    }

    /// May every member go to the wanted version? One that cannot keeps the others from going where it cannot follow.
    pub fn version_is_open(&self) -> bool {
        let members = self.memory.slots.values().filter(|s| s.member.is_some());
        let mut floors = members.filter_map(|s| s.floor());
        floors.all(|f| self.guards.version(f, self.spec.version) == crate::model::VersionPath::Allowed)
    }

    /// The version for a volume that never ran: the wanted one once the members are of its minor, else the newest patch
    /// of their lowest minor, for a leader may hand it log entries that only the older minor can read.
    pub fn join_version(&self) -> Version {
        let ran = |s: &&Slot| s.member.is_some() && (s.voter || s.mark == Mark::Started);
        let members = self.memory.slots.values().filter(ran);
        let served: Vec<Version> = members.filter_map(|s| s.served.or(s.version)).collect();
        let Some(lowest) = served.iter().map(|v| v.minor).min() else {
            return self.version_for_new_members();
        };
        if lowest == self.version_for_new_members().minor && self.version_is_open() {
            // A later patch that all of them serve with is as good, and an older one might keep them from going on.
            let members = self.memory.slots.values().filter(ran);
            let oldest = members.map(|s| s.served).min();
            let oldest = oldest.flatten().filter(|v| v.minor == lowest);
            let known = self.version_for_new_members();
            return oldest.map_or(known, |oldest| known.max(oldest));
        }
        let of_it = served.into_iter().filter(|v| v.minor == lowest);
        of_it.max().unwrap_or(self.spec.version)
    }

    /// A member's name, and where its process is if the ground says so: whoever is waited for can be found.
    pub fn name_and_location(&self, ordinal: Ordinal) -> String {
        let name = self.spec.member_name(ordinal);
        match self.view(ordinal).and_then(|v| v.located.as_ref()) {
            Some(located) => format!("{name} ({located})"),
            None => name.to_string(),
        }
    }

    /// Takes back whatever else was planned: a place that is taken away now could not be made again.
    pub fn only_starts(&mut self) {
        let starts = |step: &Step| matches!(step, Step::Start { .. } | Step::Provide { .. });
        self.plan.steps.retain(starts);
    }

    /// Who ends now may lack nothing but a certificate that others accept: that says nothing of its data or its setup.
    pub fn certificates_are_wrong(&self) -> bool {
        let frozen = self.spec.frozen.as_ref();
        frozen.is_some_and(|frozen| frozen.reason == super::BlockReason::Certificates)
    }

    /// Is there a place for a slot's process? If not it is asked for, and waited for.
    pub fn placed(&mut self, ordinal: Ordinal, setup: &Setup) -> bool {
        let Some(view) = self.view(ordinal) else {
            return false;
        };
        // One that is being made for another etcd may never be ready: that etcd may not be there to be had.
        let other = view.made_for.as_ref().is_some_and(|made_for| made_for != setup);
        match &view.place {
            Place::Unfit => self.withdraw(ordinal),
            _ if other => self.withdraw(ordinal),
            Place::Ready => return true,
            Place::Preparing { why } => {
                let detail = format!("{}: {why}", self.name_and_location(ordinal));
                self.wait(WaitReason::Preparing, Some(ordinal), detail);
            }
            Place::Absent => {
                let generation = self.memory.slot(ordinal).generation;
                self.step(Step::Provide {
                    ordinal,
                    generation,
                    version: setup.version,
                    config: setup.config.clone(),
                });
            }
        }
        false
    }

    /// Takes the place of a slot away, unless the volume would go with it before its member is replaced.
    pub fn withdraw(&mut self, ordinal: Ordinal) {
        let listed = self.known().iter().any(|k| k.ordinal == Some(ordinal));
        let keeps_data = self.memory.slot(ordinal).mark != Mark::Never && (listed || self.quorum().is_none());
        if !(self.deletion_pending(ordinal) && keeps_data) {
            self.step(Step::Withdraw { ordinal });
        }
    }

    /// Plans a start, unless it is too soon after the last one or the ground cannot.
    pub fn start(&mut self, ordinal: Ordinal, how: super::StartHow) {
        let Some(view) = self.view(ordinal) else { return };
        // What was once planned for a volume that is yet to join binds nobody. First members keep to what was decided
        // for them, so that they are of one version.
        let joins = matches!(how, super::StartHow::Join { .. });
        let setup = self.setup(ordinal, joins);
        let slot = self.memory.slot(ordinal);
        // It may have been given something else while it ran, and ended for that.
        let of_another =
            view.made_for.as_ref() == Some(&setup) && slot.started.as_ref().is_some_and(|s| *s != setup);
        if let Some(why) = view.cannot_start.as_ref().filter(|_| !of_another) {
            let name = self.spec.member_name(ordinal);
            self.block(
                BlockReason::CannotStart,
                Some(ordinal),
                format!("{name} cannot be started: {why}"),
            );
            return;
        }
        // Only a process that ended by itself is waited for: one that was stopped on purpose is started at once.
        let (asked, how_it_ended) = match &view.process {
            Process::Stopped { last: Some(exit) } => (exit.asked, exit.how.clone()),
            _ => (false, String::new()),
        };
        let due = slot.last_start + backoff(slot.starts);
        if !asked && self.elapsed(slot.last_start) < backoff(slot.starts) {
            let name = self.spec.member_name(ordinal);
            let detail = format!(
                "{name} was started {} times without staying healthy ({how_it_ended})",
                slot.starts
            );
            self.wait_until(WaitReason::BackingOff, Some(ordinal), detail, due);
            return;
        }
        if !self.placed(ordinal, &setup) {
            return;
        }
        let now = self.now;
        let same_start = asked && slot.fails > 0 && self.elapsed(slot.last_start) < pace::SAME_START;
        let counts = !same_start && !self.certificates_are_wrong();
        let version = setup.version;
        let slot = self.slot_mut(ordinal);
        slot.started = Some(setup.clone());
        if slot.mark == Mark::Never {
            slot.mark = Mark::Intended;
        }
        slot.version = Some(
            slot.version
                .filter(|_| !joins)
                .map_or(version, |v| v.max(version)),
        );
        slot.starts = if asked { 1 } else { slot.starts.saturating_add(1) };
        // A place that takes its time to show that it was started is started again, and that is the same start.
        if counts {
            slot.fails = slot.fails.saturating_add(1);
        }
        slot.run = slot.run.saturating_add(1);
        slot.last_start = now;
        slot.healthy_since = None;
        let generation = slot.generation;
        let nobody = self.memory.slots.values().all(|s| s.mark != Mark::Started);
        if matches!(how, super::StartHow::New { .. }) && nobody {
            // Should the user want something else before anybody saw it serve, this is what to go back to.
            self.memory.good = Some(LastKnownGood {
                setup: Setup {
                    version,
                    config: self.spec.config.clone(),
                },
                manifest: self.spec.manifest.clone(),
                unproven: true,
            });
        }
        self.step(Step::Start {
            ordinal,
            generation,
            how,
            version,
            config: setup.config,
        });
    }

    /// Gives a slot's volume up: the next one is fresh, and nothing that was seen or marked of this one counts for it.
    pub fn start_next_generation(&mut self, ordinal: Ordinal) {
        let old = self.memory.slot(ordinal);
        let failed = old.member.is_some() && !old.voter && self.spec.wants(ordinal);
        let next = Slot {
            generation: old.generation.next(),
            replacements: old.replacements,
            withdrawn: match old.withdrawn {
                (times, _) if failed => (times.saturating_add(1), self.now),
                before => before,
            },
            wanted: old.wanted,
            after_served: old.served.is_some(),
            belongs_to: old.belongs_to,
            ..Slot::default()
        };
        self.memory.slots.insert(ordinal, next);
        self.moved_on.insert(ordinal);
    }
}

/// The pause before start number `starts + 1`: none after a healthy life, then doubling up to a limit.
pub(super) fn backoff(starts: u32) -> Duration {
    let (first, longest) = pace::BACKOFF;
    if starts == 0 {
        return Duration::ZERO;
    }
    first
        .saturating_mul(1u32.checked_shl(starts - 1).unwrap_or(u32::MAX))
        .min(longest)
}

impl Slot {
    /// The version its data must be taken to be of. A minor counts once it was started, for it may have written; a
    /// patch only once it served, so that a patch that never comes up can be taken back.
    pub fn floor(&self) -> Option<Version> {
        match (self.version, self.served) {
            (None, served) => served,
            (Some(started), Some(served)) if served.minor >= started.minor => Some(served),
            (Some(started), _) => Some(Version { patch: 0, ..started }),
        }
    }
}
