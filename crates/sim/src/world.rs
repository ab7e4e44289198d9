//! One simulated world: time passes, things go wrong, then everything heals and must come right.
//!
//! In: a seed and which guards are on. Out: what broke, what was reached, the log. Never: a tick without every
//! checker having looked.

use quorate_core::guard::Guards;
use quorate_core::model::{Exit, MemberId, Ordinal, Spec};
use quorate_core::plan::BlockReason;

use crate::checkers::{Break, BreakKind, Clusters, Outage, Writes};
use crate::coverage::Coverage;
use crate::etcd::{EtcdModel, Note, Place};
use crate::executor::{Executor, Store};
use crate::fault::Swarm;
use crate::ground::{Ground, Proc, Slot, place};
use crate::log::EventLog;
use crate::user::{self, Settings};

/// So many ticks the healed world has to come right.
pub const HEALED_TICKS_MAX: u64 = 2400;
/// A world has hundreds of entries, not tens of thousands.
const SNAPSHOT_COUNT: usize = 40;
const APPLY_GAP: usize = 20;
/// For how long the only voter there is may not have written down that it is.
const JUST_ALONE_TICKS: u64 = 20;
/// A fault's aftermath: so long after it nothing counts as calm.
const AFTERMATH_TICKS: u64 = 120;

/// How a world is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Everything follows from it.
    pub seed: u64,
    pub guards: Guards,
    /// Do broken rules count (the safety check's and the checkers'), or only a broken cluster?
    pub check: bool,
    /// With the rules off: what counts besides a broken cluster.
    pub also: &'static [BreakKind],
    /// Do processes run in pods that have to be made first?
    pub pods: bool,
    /// Keep the log's lines.
    pub log: bool,
}

pub struct World {
    pub ground: Ground,
    /// What the user wants now.
    pub spec: Spec,
    pub store: Store,
    /// quorate, and sometimes another.
    pub executors: Vec<Executor>,
    pub swarm: Swarm,
    pub rng: fastrand::Rng,
    pub log: EventLog,
    pub coverage: Coverage,
    pub breaks: Vec<Break>,
    pub guards: Guards,
    /// Do broken rules count, or only a broken cluster?
    pub check_on: bool,
    /// What counts besides, even then.
    also: &'static [BreakKind],
    /// Did this seed lose a quorum's disks on purpose?
    pub budget_broken: bool,
    /// When the network becomes one again.
    pub partition_until: u64,
    /// When somebody takes the alarms back.
    pub alarms_until: u64,
    /// When more disks were lost at once than a quorum survives.
    pub quorum_lost_at: Option<u64>,
    /// When something last went wrong.
    pub disturbed_at: u64,
    /// A member that somebody else added.
    pub stranger: Option<MemberId>,
    /// When it was added.
    pub stranger_since: u64,
    /// When somebody else gets to adding a member.
    pub stranger_due: Option<u64>,
    /// When somebody else's member is started.
    pub stranger_starts_at: Option<u64>,
    pub tokens: u64,
    writes: Writes,
    clusters: Clusters,
    outage: Outage,
    values: u64,
    voters: usize,
    alone_since: u64,
}

impl World {
    /// A world before its first tick.
    pub fn new(options: Options) -> Self {
        let mut rng = fastrand::Rng::with_seed(options.seed);
        let mut etcd = EtcdModel::new(rng.u64(..));
        etcd.snapshot_count = SNAPSHOT_COUNT;
        etcd.apply_gap = APPLY_GAP;
        let spec = user::first_spec(&mut rng);
        let swarm = Swarm::of(&mut rng);
        let store = Store::default();
        let executors = vec![store.load(1, 1, None)];
        let mut log = EventLog::new(options.log);
        log.event(
            "world",
            format_args!("seed {}: {:?}, {} ticks", options.seed, swarm.theme, swarm.ticks),
        );
        log.event("user", format_args!("wants {} x {}", spec.replicas, spec.version));
        let mut ground = Ground {
            etcd,
            slots: Default::default(),
            pods: options.pods,
            clock_off_ms: 0,
        };
        (0..spec.replicas).for_each(|o| _ = ground.slot(Ordinal(o)));
        if swarm.blind_start > 0 {
            ground.etcd.cut(Place::SITE, 1);
        }
        let partition_until = swarm.blind_start;
        Self {
            ground,
            spec,
            store,
            executors,
            swarm,
            rng,
            log,
            coverage: Coverage::default(),
            breaks: Vec::new(),
            guards: options.guards,
            check_on: options.check,
            also: options.also,
            budget_broken: false,
            partition_until,
            alarms_until: 0,
            quorum_lost_at: None,
            disturbed_at: 0,
            stranger: None,
            stranger_since: 0,
            stranger_due: None,
            stranger_starts_at: None,
            tokens: options.seed << 20,
            writes: Writes::default(),
            clusters: Clusters::default(),
            outage: Outage::default(),
            values: 0,
            voters: 0,
            alone_since: 0,
        }
    }

    pub fn broke(&mut self, kind: BreakKind, detail: String) {
        self.log.event("BROKEN", format_args!("{kind:?}: {detail}"));
        self.log_members();
        let counts = kind.of_the_world() || self.also.contains(&kind);
        if !self.check_on && !counts {
            return; // A guard is off: only what harms the cluster itself counts.
        }
        self.breaks.push(Break {
            kind,
            tick: self.ground.etcd.now,
            detail,
        });
    }

    /// How every member stands, for whoever reads the log of a break.
    fn log_members(&mut self) {
        for (place, node) in &self.ground.etcd.nodes {
            let (Some(running), Some(wal)) = (node.running.as_ref(), node.wal()) else {
                continue;
            };
            let voters: Vec<u32> = running.conf.voters().map(|(_, m)| m.place.0).collect();
            let leads = if node.leads() { "leads" } else { "follows" };
            self.log.event(
                "member",
                format_args!(
                    "{} {} {leads} term {} vote {:?} last {:?} commit {} voters {voters:?} island {}",
                    place.0,
                    wal.member,
                    wal.term,
                    wal.vote,
                    wal.last(),
                    wal.commit,
                    node.island
                ),
            );
        }
    }

    /// The whole course. Stops at the first break.
    pub fn run(&mut self) {
        for _ in 0..self.swarm.ticks {
            self.trouble();
            self.edit();
            if self.partition_until == self.ground.etcd.now && self.ground.etcd.now > 0 {
                self.ground.etcd.heal();
                self.log.event("world", format_args!("the network is one again"));
            }
            if self.alarms_until == self.ground.etcd.now {
                self.ground.etcd.alarms.clear();
            }
            self.tick();
            if !self.breaks.is_empty() {
                return;
            }
        }
        self.log.event("world", format_args!("everything heals"));
        self.heal_everything();
        self.make_satisfiable();
        let mut quiet = 0;
        for _ in 0..HEALED_TICKS_MAX {
            self.withdraw_stranger();
            self.make_room();
            self.change_what_fails();
            self.tick();
            if !self.breaks.is_empty() {
                return;
            }
            // As wanted, and it stays so for a while.
            quiet = if self.missing().is_none() { quiet + 1 } else { 0 };
            if quiet >= 12 {
                return self.finish();
            }
            if self.given_up() {
                return self.finish();
            }
        }
        // Who knows of a change that only the lost disks knew? Waiting for a quorum is then as true as a block. A quorum
        // of all that is known, lost at once, leaves no such doubt.
        let silent = self.ground.etcd.serving_leader().is_none() && self.quorum_lost_at.is_none();
        let hopeless = silent || self.stranger.is_some();
        // One that hangs is not stopped while others that are not known may be needed for a quorum.
        let hangs = |slot: &Slot| match &slot.process {
            Proc::Running { config, .. } => Settings::of(config) == Settings::Hang,
            _ => false,
        };
        let held_up = self.stranger.is_some() && self.ground.slots.values().any(hangs);
        if !(held_up || self.budget_broken && hopeless) {
            let missing = self.missing().unwrap_or_default();
            self.broke(BreakKind::NoConvergence, missing);
        }
    }

    /// With the budget broken, a block that says so is the right end.
    fn given_up(&self) -> bool {
        let plan = self.executors.first().and_then(|e| e.plan.as_ref());
        let lost = plan.is_some_and(|(_, p)| p.blocks.iter().any(|b| b.reason == BlockReason::QuorumLost));
        // A stranger that nobody can remove any more hides how much is lost.
        let lost = lost || self.stranger.is_some();
        self.budget_broken
            && lost
            && self.ground.etcd.serving_leader().is_none()
            && self.ground.etcd.now > 200
    }

    /// At the end every member that serves has every acknowledged write.
    fn finish(&mut self) {
        self.log.event(
            "world",
            format_args!(
                "{} writes acknowledged, {:?}",
                self.writes.count(),
                self.missing()
            ),
        );
        let all = self.ground.etcd.nodes.keys().copied();
        let serving: Vec<Place> = all.filter(|p| self.ground.etcd.serves(*p)).collect();
        for at in serving {
            let node = &self.ground.etcd.nodes[&at];
            let applied = node.running.as_ref().map_or(0, |r| r.applied);
            let leader = self
                .ground
                .etcd
                .leader_of(at)
                .and_then(|l| self.ground.etcd.nodes[&l].wal());
            // A follower a tick behind is waited for by a linearizable read.
            if leader.is_some_and(|w| w.commit > applied) {
                continue;
            }
            if let Some(lost) = self.writes.read(&self.ground.etcd, at) {
                self.broke(BreakKind::WriteLost, lost);
            }
        }
    }

    fn tick(&mut self) {
        self.clients();
        self.await_stranger();
        self.run_stranger();
        self.ground.etcd.advance();
        self.log.at(self.ground.etcd.now);
        self.notes();
        self.processes();
        for (ordinal, generation) in self.ground.pass_time() {
            self.ended_without_data(ordinal, generation);
        }
        let now = self.ground.etcd.now;
        self.executors.retain(|e| e.until.is_none_or(|until| until > now));
        for index in 0..self.executors.len() {
            self.quorate(index);
        }
        (0..self.spec.replicas).for_each(|o| _ = self.ground.slot(Ordinal(o)));
        self.watch();
    }

    /// Clients write unique values through members by chance.
    fn clients(&mut self) {
        let places: Vec<Place> = self.ground.etcd.nodes.keys().copied().collect();
        if places.is_empty() {
            return;
        }
        for _ in 0..self.rng.u8(0..3) {
            let via = places[self.rng.usize(..places.len())];
            self.values += 1;
            self.ground.etcd.write(via, self.values);
        }
    }

    fn notes(&mut self) {
        for note in std::mem::take(&mut self.ground.etcd.notes) {
            match note {
                Note::Elected { place, cluster, term } => {
                    self.log.event(
                        "etcd",
                        format_args!("member {} leads {cluster} in term {term}", place.0),
                    );
                    let lost = self.writes.elected(&self.ground.etcd, place);
                    let second = self.clusters.elected(cluster);
                    lost.into_iter().for_each(|l| self.broke(BreakKind::WriteLost, l));
                    second
                        .into_iter()
                        .for_each(|s| self.broke(BreakKind::TwoClusters, s));
                }
                Note::Acknowledged { value, term, .. } => {
                    let lost = self.writes.acknowledge(&self.ground.etcd, value, term);
                    lost.into_iter().for_each(|l| self.broke(BreakKind::WriteLost, l));
                }
                Note::Exited { place, why } => self.exited(Ordinal(place.0), why),
            }
        }
    }

    /// A process ended by itself.
    pub fn exited(&mut self, ordinal: Ordinal, why: &'static str) {
        let at = self.ground.now();
        let Some(slot) = self.ground.slots.get_mut(&ordinal) else {
            return;
        };
        let Some(generation) = slot.in_use() else { return };
        slot.process = Proc::Stopped {
            last: Some(Exit {
                at,
                asked: false,
                how: why.into(),
            }),
        };
        self.log
            .event("etcd", format_args!("member {ordinal} ended: {why}"));
        self.ended_without_data(ordinal, generation);
    }

    /// Would killing a member now leave etcd itself no way back? etcd syncs how much is committed only along with
    /// the next entry: the survivor of two, killed before that, waits for the removed one's vote for ever. Where quorate does not reach
    /// it, nobody has it write one.
    pub fn fragile(&self) -> bool {
        self.voters <= 2
            && (self.voters == 2 || self.ground.etcd.now - self.alone_since < JUST_ALONE_TICKS)
            && self.shrinking()
    }

    fn shrinking(&self) -> bool {
        self.voters == 1 || self.executors.iter().any(|e| e.changing())
    }

    /// Bad binaries end; who serves is noted.
    fn processes(&mut self) {
        let now = self.ground.etcd.now;
        for ordinal in self.ground.slots.keys().copied().collect::<Vec<_>>() {
            if let Proc::Running {
                dies_at: Some(at), ..
            } = self.ground.slots[&ordinal].process
                && at <= now
            {
                self.exited(ordinal, "exit 1");
            }
            if !self.spec.wants(ordinal) {
                self.ground.slot(ordinal).unwanted_at = Some(now);
            }
            let at = place(ordinal);
            if self.ground.etcd.nodes.contains_key(&at) && self.ground.etcd.serves(at) {
                self.ground.slot(ordinal).served_at = Some(now);
            }
        }
    }

    fn watch(&mut self) {
        self.judge_asides();
        let now = self.ground.etcd.now;
        let leader = self.ground.etcd.serving_leader();
        if let Some(leader) = leader.filter(|_| now.is_multiple_of(16)) {
            let lost = self.writes.read(&self.ground.etcd, leader);
            lost.into_iter().for_each(|l| self.broke(BreakKind::WriteLost, l));
        }
        let conf = leader
            .and_then(|l| self.ground.etcd.nodes[&l].running.as_ref())
            .map(|r| &r.conf);
        let all_well = conf.is_some_and(|c| c.voters().all(|(_, m)| self.ground.etcd.serves(m.place)));
        let voters = conf.map_or(self.voters, |c| c.voters().count());
        let unheard = leader.is_some_and(|l| !self.ground.etcd.linked(Place::SITE, l));
        let just_alone = self.voters != 1 || now - self.alone_since < JUST_ALONE_TICKS && unheard;
        if voters == 1 && just_alone {
            self.alone_since = now;
        }
        self.voters = voters;
        let calm = self.partition_until < now && now - self.disturbed_at > AFTERMATH_TICKS;
        let seen = crate::checkers::Seen {
            tick: now,
            calm,
            all_well,
            serves: leader.is_some(),
            voters,
        };
        let outage = self.outage.tick(seen);
        outage.into_iter().for_each(|o| self.broke(BreakKind::Outage, o));
    }
}
