//! As what a member is started: as is wanted, or as the cluster last served.
//!
//! A change of version or settings reaches a member in its turn. If that member does not serve with it, the change is
//! rejected: the member goes back to what served, and no other is touched until the user wants something else.
//!
//! Never: a member taken back to an older minor than was started on its data; a member that served stopped for a change
//! that another does not serve with.

use crate::guard::Guard;
use crate::memory::{LastKnownGood, Mark, Rejected};
use crate::model::{Ordinal, Place, Process, Setup, SlotView, Time, Version, VersionPath, Volume, quorum};
use crate::plan::pass::Pass;
use crate::plan::{BlockReason, pace};

impl Pass<'_> {
    /// What the cluster last served with, if that is not what is wanted and the ground can build it.
    fn good(&self, ordinal: Ordinal) -> Option<Setup> {
        let good = self.memory.good.as_ref()?;
        let served = self
            .memory
            .slots
            .get(&ordinal)
            .and_then(|slot| slot.served_as.as_ref());
        let again = Setup {
            version: good.setup.version,
            config: self.spec.fallback_of(ordinal, served)?.to_owned(),
        };
        let own = self.spec.own_fallbacks.contains_key(&ordinal);
        let known = own || !good.unproven || self.memory.cluster.is_none();
        let differs = again != self.spec.setup_of(ordinal) && good.manifest != self.spec.manifest;
        (known && differs).then_some(again)
    }

    /// Why what is wanted is not tried any more, if so.
    pub fn rejected(&self) -> Option<&Rejected> {
        let rejected = self.memory.rejected.as_ref();
        rejected.filter(|r| r.setup == self.spec.setup_of(r.member))
    }

    /// Since when a slot's turn for what is wanted lasts.
    pub fn in_turn(&self, ordinal: Ordinal) -> Option<Time> {
        let disturbance = self.disturbance_of(ordinal);
        disturbance.filter(|d| !d.settle && !d.again).map(|d| d.since)
    }

    /// As what a slot is started now; `joins` if as a member that was just added.
    pub fn setup(&self, ordinal: Ordinal, joins: bool) -> Setup {
        let forms = self.memory.cluster.is_none() && self.memory.slot(ordinal).mark != Mark::Started;
        let back = if joins {
            self.good(ordinal)
        } else if forms || !self.guards.on(Guard::ServedSettings) {
            None
        } else {
            self.back(ordinal).filter(|_| !self.takes_wanted(ordinal))
        };
        let version = match &back {
            _ if joins => self.join_version(),
            Some(back) => back.version,
            None => self.start_version(ordinal),
        };
        Setup {
            version,
            config: back.map_or_else(|| self.spec.config_of(ordinal).to_owned(), |good| good.config),
        }
    }

    /// What a slot can go back to: never to an older version than its data may be of, but then to the settings.
    fn back(&self, ordinal: Ordinal) -> Option<Setup> {
        let (good, slot) = (self.good(ordinal)?, self.memory.slot(ordinal));
        let version = slot
            .version
            .map_or(good.version, |newest| newest.min(good.version));
        let floor = slot.floor();
        let open = floor.is_none_or(|floor| self.guards.version(floor, version) == VersionPath::Allowed);
        let version = slot.version.filter(|_| !open).unwrap_or(version);
        let back = Setup {
            version,
            config: good.config,
        };
        (back != self.wanted_at(ordinal)).then_some(back)
    }

    /// Is a slot to be started as is wanted, rather than as the cluster served?
    fn takes_wanted(&self, ordinal: Ordinal) -> bool {
        if self.rejected().is_some() {
            return false;
        }
        let fails = self.memory.slot(ordinal).fails;
        // One that does not come up as it served is tried as is wanted every other time: that may be the cure. While the
        // others serve, not beside one that is tried already.
        let free = self.quorum().is_none() || self.memory.disturbance.is_none();
        let cure = free && fails >= pace::GOOD_TRIES && fails % 2 == 1;
        self.served_as_wanted(ordinal) || self.in_turn(ordinal).is_some() || cure
    }

    /// What a slot should run as. Where members cannot go to the wanted version, they get the wanted settings all the same.
    pub fn wanted_at(&self, ordinal: Ordinal) -> Setup {
        let slot = self.memory.slot(ordinal);
        let stays = slot.started.map(|s| s.version).or(slot.version);
        let version = stays.filter(|_| !self.version_is_open());
        Setup {
            version: version.unwrap_or(self.spec.version),
            config: self.spec.config_of(ordinal).to_owned(),
        }
    }

    fn served_as_wanted(&self, ordinal: Ordinal) -> bool {
        self.memory.slot(ordinal).served_as == Some(self.wanted_at(ordinal))
    }

    /// The version that new members should have: one that has served.
    pub fn version_for_new_members(&self) -> Version {
        let goes_back = self.ordinals().into_iter().find_map(|o| self.good(o));
        goes_back.map_or(self.spec.version, |good| good.version)
    }

    /// One that cannot be started as it served is started as is wanted from then on: that may be the cure.
    pub fn give_up_what_served(&mut self) {
        for ordinal in self.ordinals() {
            let Some(view) = self.view(ordinal).filter(|v| v.cannot_start.is_some()) else {
                continue;
            };
            let as_it_served = view.made_for.is_some() && view.made_for == self.back(ordinal);
            if as_it_served && self.stopped(ordinal) {
                let slot = self.slot_mut(ordinal);
                // Every other time, that is: see `takes_wanted`.
                slot.fails = slot.fails.max(pace::GOOD_TRIES) | 1;
            }
        }
    }

    /// Decides whether what is wanted is rejected, and says so for as long as it is.
    pub fn judge_change(&mut self) {
        let serves = |r: &Rejected| {
            let view = self.view(r.member);
            view.is_some_and(|view| healthy(view) && runs(view) == Some(self.wanted_at(r.member)))
        };
        let other = |r: &Rejected| r.setup != self.spec.setup_of(r.member);
        if (self.memory.rejected.as_ref()).is_some_and(|r| other(r) || serves(r)) {
            self.memory.rejected = None;
        }
        if self.memory.rejected.is_none() {
            let mut slots = self.ordinals().into_iter();
            let failing = slots.find_map(|o| Some((o, self.fails_as_wanted(o)?)));
            if let Some((member, why)) = failing {
                if self.back(member).is_some() {
                    // What it failed at says nothing of what it is started as from now on.
                    let slot = self.slot_mut(member);
                    (slot.starts, slot.fails) = (0, 0);
                }
                self.memory.rejected = Some(Rejected {
                    setup: self.spec.setup_of(member),
                    member,
                    why,
                });
            }
        }
        self.report_rejected();
    }

    fn report_rejected(&mut self) {
        let Some(Rejected { member, why, .. }) = self.rejected().cloned() else {
            return;
        };
        let slot = self.memory.slot(member);
        let before = self.memory.good.as_ref().map(|good| good.setup.version);
        let before = before.or(slot.served).filter(|v| *v != self.spec.version);
        // Nobody has tried the new version yet where it has failed out of its turn.
        let tried =
            self.good(member).is_some() || slot.started.is_none_or(|s| s.version == self.spec.version);
        let before = before.filter(|_| tried);
        let (reason, what) = match before {
            Some(_) => (
                BlockReason::NewVersionFails,
                format!("as etcd {}", self.spec.version),
            ),
            None => (BlockReason::NewSettingsFail, "with the new settings".to_owned()),
        };
        let then = match (self.good(member), self.back(member)) {
            (Some(_), Some(_)) => "it is run as before, and no other is touched".to_owned(),
            (Some(good), None) => format!(
                "it cannot go back to etcd {}, for a newer one may have changed its data; no other is touched",
                good.version
            ),
            (None, _) => "no other is touched".to_owned(),
        };
        let name = self.spec.member_name(member);
        let detail = format!("{name} does not serve {what}; {then}: {why}");
        self.block(reason, Some(member), detail);
    }

    /// How it shows that a member does not serve as is wanted, if the change is to blame and not its data: it served as
    /// something else just before.
    fn fails_as_wanted(&self, ordinal: Ordinal) -> Option<String> {
        let (slot, view) = (self.memory.slot(ordinal), self.view(ordinal)?);
        let turn = self.in_turn(ordinal);
        if self.served_as_wanted(ordinal) || !(turn.is_some() || self.has_no_choice(ordinal)) {
            return None;
        }
        let wanted = self.wanted_at(ordinal);
        let as_wanted = self.started_as_wanted(ordinal);
        let late = |since: Time| self.elapsed(since) >= pace::COME_UP && since <= self.now;
        let minutes = pace::COME_UP.as_secs() / 60;
        let ends = slot.fails.max(slot.starts);
        match &view.process {
            Process::Stopped { last: Some(exit) }
                if turn.is_some()
                    && as_wanted
                    && !exit.asked
                    && view.cannot_start.is_some()
                    && self.not_lost(ordinal) =>
            {
                let why = why_not_started(view).unwrap_or_default();
                Some(format!("it ended, {}{why}", exit.how))
            }
            Process::Stopped { last: Some(exit) }
                if as_wanted && ends >= pace::CRASH_LIMIT && !exit.asked && self.not_lost(ordinal) =>
            {
                Some(format!("it ended {ends} times, {}", exit.how))
            }
            Process::Stopped { .. } if turn.is_some_and(late) && self.not_lost(ordinal) => {
                let why = why_not_started(view).unwrap_or_default();
                Some(format!("it could not be started for {minutes} minutes{why}"))
            }
            Process::Running { .. }
                if turn.is_some()
                    && runs(view).as_ref() == Some(&wanted)
                    && self.unhealthy_for_long(ordinal)
                    && self.can_be_stopped(ordinal) =>
            {
                Some(format!("it runs and has not served for {minutes} minutes"))
            }
            _ => None,
        }
    }

    /// Can it only be started as is wanted, because nobody knows how to build what it served with? Of one that never served
    /// itself, what the others served with counts.
    fn has_no_choice(&self, ordinal: Ordinal) -> bool {
        let slots = self.memory.slots.iter();
        let served: Vec<(Ordinal, &Setup)> = slots
            .filter_map(|(o, slot)| Some((*o, slot.served_as.as_ref()?)))
            .collect();
        let itself: Vec<_> = served.iter().filter(|(o, _)| *o == ordinal).copied().collect();
        let counts = if itself.is_empty() { served } else { itself };
        let served_else = |(o, served): &(Ordinal, &Setup)| served.config != self.spec.config_of(*o);
        self.good(ordinal).is_none() && !counts.is_empty() && counts.iter().all(served_else)
    }

    /// Was it last started as is wanted? Out of its turn it keeps its version; settings it may have no choice about.
    fn started_as_wanted(&self, ordinal: Ordinal) -> bool {
        let (started, wanted) = (self.memory.slot(ordinal).started, self.wanted_at(ordinal));
        let settings = started.as_ref().is_some_and(|s| s.config == wanted.config);
        let out_of_turn = self.in_turn(ordinal).is_none() && self.has_no_choice(ordinal);
        started == Some(wanted) || (settings && out_of_turn)
    }

    /// Its data is there, as far as anyone can see.
    fn not_lost(&self, ordinal: Ordinal) -> bool {
        let volume = self.view(ordinal).map(|v| &v.volume);
        matches!(volume, Some(Volume::Data { .. } | Volume::Unknown))
    }

    /// Has it failed at what is rejected by now, and not been started as anything else since? Then its data is not to blame.
    pub fn failed_at_rejected(&self, ordinal: Ordinal) -> bool {
        self.rejected().is_some() && self.started_as_wanted(ordinal) && self.not_lost(ordinal)
    }

    /// Was it last started as something it never served as, and could be as what it did? Then its data is not to blame yet.
    pub fn failed_at_unproven(&self, ordinal: Ordinal) -> bool {
        let slot = self.memory.slot(ordinal);
        let unproven = slot.served_as.is_some() && slot.started.is_some() && slot.served_as != slot.started;
        unproven && self.back(ordinal) == slot.served_as && self.not_lost(ordinal)
    }

    /// Is a member that runs with the wanted settings still being tried? It is until it has served for a while.
    pub fn on_trial(&self, ordinal: Ordinal) -> bool {
        let served = self.memory.slot(ordinal).served_as;
        let runs = self.view(ordinal).and_then(runs);
        runs.is_some_and(|runs| {
            runs.config == self.spec.config_of(ordinal) && served.is_some_and(|s| s != runs)
        })
    }

    /// Can the others do without a voter that does not serve as what it never served as? While a quorum answers, they must be
    /// one. While none does, and has not for a while, those that may serve unseen must be no quorum even with it.
    fn can_be_stopped(&self, ordinal: Ordinal) -> bool {
        if let Some(voter) = self.voters().into_iter().find(|k| k.ordinal == Some(ordinal)) {
            return self.guards.restart(self.others(voter.listed.id));
        }
        if self.quorum().is_some() || self.foreign_quorum {
            return false;
        }
        let members = self.ordinals().into_iter().filter(|o| self.may_vote(*o));
        let members: Vec<Ordinal> = members.collect();
        let forming = self.memory.cluster.is_none();
        let votes = |o: &&Ordinal| forming || self.memory.slot(**o).voter;
        let voters = members.iter().filter(votes).count();
        let serving = members.iter().filter(|o| self.may_serve_unseen(**o)).count();
        let silent = self.memory.slot(ordinal).unanswered.0 >= pace::UNANSWERED.1;
        members == [ordinal] || (silent && serving < quorum(voters))
    }

    /// Is it a voter, or may have become one since a quorum last answered? While a cluster forms its first members are.
    fn may_vote(&self, ordinal: Ordinal) -> bool {
        match (self.memory.cluster, &self.memory.bootstrap) {
            (None, Some(bootstrap)) => bootstrap.members.contains_key(&ordinal),
            _ => self.memory.slot(ordinal).member.is_some() || self.may_be_member(ordinal),
        }
    }

    pub fn unhealthy_for_long(&self, ordinal: Ordinal) -> bool {
        let since = self.memory.slot(ordinal).unhealthy_since;
        since.is_some_and(|since| since <= self.now && self.elapsed(since) >= pace::COME_UP)
    }

    fn may_serve_unseen(&self, ordinal: Ordinal) -> bool {
        let (slot, Some(view)) = (self.memory.slot(ordinal), self.view(ordinal)) else {
            return true;
        };
        let serves = match &view.status {
            Some(_) => slot.leaderless.0 < pace::LEADERLESS.1,
            None => slot.unanswered.0 < pace::UNANSWERED.1,
        };
        !matches!(view.process, Process::Stopped { .. }) && serves
    }

    /// While a cluster forms nobody has served as what the first members were started as, either. If one does not for long,
    /// or ends, it is nothing to go back to.
    fn forget_what_never_served(&mut self) {
        let forming = self.memory.cluster.is_none();
        let fails = |o: Ordinal| match (self.good(o), self.view(o)) {
            (Some(good), Some(view)) => match &view.process {
                Process::Running { .. } => runs(view) == Some(good) && self.unhealthy_for_long(o),
                Process::Stopped { last: Some(exit) } => {
                    !exit.asked && self.memory.slot(o).started == Some(good)
                }
                _ => false,
            },
            _ => false,
        };
        if forming && self.ordinals().into_iter().any(fails) {
            self.memory.good = None;
        }
    }

    /// Stops a voter that does not serve, and never has as what it runs, if it should run as something else: because that
    /// was rejected, or the user took it back. True if it does.
    pub fn restart_unproven(&mut self) -> bool {
        self.forget_what_never_served();
        // Without a quorum, one that is disturbed and runs can wait for others to come up; one that lost its data cannot come up.
        let waits = |o: Ordinal| self.quorum().is_none() && !(self.stopped(o) && self.not_lost(o));
        let other = self.disturbed().filter(|o| !waits(*o));
        let another = |o: Ordinal| other.is_some_and(|other| other != o);
        let found = self
            .ordinals()
            .into_iter()
            .filter_map(|o| Some((o, self.unproven_since(o)?)))
            .find(|(o, _)| !another(*o) && !self.deletion_pending(*o) && self.can_be_stopped(*o));
        let Some((ordinal, since)) = found else {
            return false;
        };
        self.disturb_and_stop(ordinal, since, false);
        self.slot_mut(ordinal).unhealthy_since = None;
        true
    }

    /// Since when the process of a voter runs, if it does not serve, never has as what it is, and is not to be that.
    fn unproven_since(&self, ordinal: Ordinal) -> Option<Time> {
        let (view, slot) = (self.view(ordinal)?, self.memory.slot(ordinal));
        let Process::Running {
            since, generation, ..
        } = &view.process
        else {
            return None;
        };
        let runs = runs(view)?;
        let votes = self.memory.slot(ordinal).voter || self.quorum().is_none();
        let member = votes && self.may_vote(ordinal) && *generation == slot.generation;
        let served_else = slot.served_as.as_ref() != Some(&runs);
        // What is wanted has its time to come up.
        let tried =
            runs == self.wanted_at(ordinal) && self.rejected().is_none() && !self.unhealthy_for_long(ordinal);
        // Without a quorum, who answers waits for the others.
        let silent = self.quorum().is_some() || view.status.is_none();
        // One whose data was deleted under it may be the last that has it.
        let whole = slot.mark != Mark::Started || self.not_lost(ordinal);
        let unproven = member && served_else && !healthy(view) && !tried && silent && whole;
        (unproven && self.setup(ordinal, false) != runs).then_some(*since)
    }

    /// Every voter has served as is wanted: that is what to go back to from now on. Where nothing else is known, what one
    /// has served with will do. But settings that a member has of its own nobody else can prove, nor it those of the others.
    pub fn learn_good(&mut self) {
        let served = |config: &str| {
            let mut slots = self.memory.slots.values();
            slots.any(|slot| slot.served_as.as_ref().is_some_and(|s| s.config == config))
        };
        let proven = self
            .memory
            .good
            .as_ref()
            .is_some_and(|good| served(&good.setup.config));
        if let Some(good) = self.memory.good.as_mut().filter(|_| proven) {
            good.unproven = false;
        }
        let voters = self.voters().into_iter().filter_map(|k| k.ordinal);
        let voters: Vec<Ordinal> = voters.filter(|o| self.spec.wants(*o)).collect();
        let newest = voters
            .iter()
            .map(|o| self.wanted_at(*o))
            .max_by_key(|w| w.version);
        let served = voters.iter().filter(|o| self.served_as_wanted(**o)).count();
        let own = &self.spec.own_configs;
        let mut wanted = own.keys().filter(|o| self.spec.wants(**o));
        let own_served = wanted.all(|o| voters.contains(o) && self.served_as_wanted(*o));
        let common = |o: &Ordinal| !own.contains_key(o) && self.served_as_wanted(*o);
        let common_served = own.is_empty() || voters.iter().any(common);
        let enough = served == voters.len() || (self.spec.fallback.is_none() && served > 0);
        let enough = enough && own_served && common_served;
        if let Some(setup) = newest.filter(|_| enough) {
            let manifest = self.spec.manifest.clone();
            self.memory.good = Some(LastKnownGood {
                setup,
                manifest,
                unproven: false,
            });
        }
    }
}

fn healthy(view: &SlotView) -> bool {
    view.status.as_ref().is_some_and(|s| s.healthy)
}

/// As what its process runs.
fn runs(view: &SlotView) -> Option<Setup> {
    let Process::Running { version, config, .. } = &view.process else {
        return None;
    };
    Some(Setup {
        version: *version,
        config: config.clone(),
    })
}

/// What keeps a member from being started, for the end of a sentence.
fn why_not_started(view: &SlotView) -> Option<String> {
    let why = match &view.place {
        Place::Preparing { why } => Some(why),
        _ => view.cannot_start.as_ref(),
    };
    why.map(|why| format!(", {why}"))
}
