//! The ground of the simulated world: processes, volumes by generation, asides and first-start evidence; and one
//! look at all of it.
//!
//! In: the etcd model and what the steps did. Out: an [`Observed`]. Never: a fact about a member that quorate's own
//! place cannot reach, and no evidence that lies in the volume it is about.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::Memory;
use quorate_core::model::{
    ClusterId, Epoch, Exit, FirstStart, Generation, MemberId, MemberStatus, Observed, Ordinal, Outcome,
    Place as Where, Process, QuorumView, Setup, SlotView, Spec, Time, Token, Version, Volume, VolumeMarks,
};

use crate::etcd::{Data, EtcdModel, Place, Wal};

/// The place of a slot.
pub fn place(ordinal: Ordinal) -> Place {
    Place(ordinal.0)
}

/// A process, with what the world knows of its end.
#[derive(Clone, Debug)]
pub enum Proc {
    Stopped {
        /// How the last one ended.
        last: Option<Exit>,
    },
    Running {
        since: Time,
        version: Version,
        config: String,
        generation: Generation,
        /// When a bad binary will end.
        dies_at: Option<u64>,
    },
    Stopping {
        /// When it will have.
        until: u64,
        generation: Generation,
    },
}

/// Evidence of a first start, as the ground's own record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstRecord {
    /// Written with the memory that intends it; the plan's number makes late duplicates harmless.
    Armed(u64),
    /// Written just before the exec.
    Fired(u64),
    /// Watched to its end, and no log was made.
    EndedWithoutData(u64),
}

/// Data that was moved away.
#[derive(Clone, Debug)]
pub struct Aside {
    /// Which volume it was.
    pub generation: Generation,
    pub member: Option<MemberId>,
    pub at: u64,
}

/// A place that was made for a process: for one volume, version and configuration.
#[derive(Clone, Debug)]
pub struct Pod {
    pub generation: Generation,
    pub config: String,
    /// With which etcd in it.
    pub version: Version,
    /// From when on a process can be started in it.
    pub ready_at: u64,
}

/// A disk on its way out.
#[derive(Clone, Debug)]
pub struct Dying {
    /// Which volume it takes with it.
    pub generation: Generation,
    /// From when on everybody can know: a view is that old at most.
    pub known_at: u64,
    /// When it is gone.
    pub at: u64,
}

/// A volume as it was at some time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub generation: Generation,
    pub data: Data,
    /// The number of the last start on it.
    pub run: Option<u64>,
}

impl Snapshot {
    /// What is written on it.
    pub fn marks(&self) -> VolumeMarks {
        marks(&self.data, self.run)
    }
}

/// What is written on a volume with this data.
pub fn marks(data: &Data, run: Option<u64>) -> VolumeMarks {
    VolumeMarks {
        epoch: Epoch(0),
        run,
        last_index: data.wal().map(|wal| wal.log.len() as u64),
    }
}

/// A slot of the ground.
#[derive(Clone, Debug)]
pub struct Slot {
    pub process: Proc,
    /// Where it runs, on a ground of pods.
    pub pod: Option<Pod>,
    /// First-start evidence by volume.
    pub first: BTreeMap<Generation, FirstRecord>,
    /// The newest minor that could replay each volume's log, where there is a limit.
    pub replay: BTreeMap<Generation, u32>,
    /// What lies aside, oldest first.
    pub asides: Vec<Aside>,
    /// Volumes that ever had a log.
    pub ever_ran: BTreeSet<Generation>,
    /// The port is taken until this tick.
    pub taken_until: u64,
    /// The binary crashes until this tick.
    pub crashes_until: u64,
    /// The settings that it was last started with.
    pub last_config: String,
    /// The volume cannot be looked at until this tick.
    pub blind_until: u64,
    /// The member gives no status until this tick.
    pub mute_until: u64,
    /// Its disk stopped answering and will be lost.
    pub dying: Option<Dying>,
    /// Own data that someone swapped for foreign data.
    pub swapped: Option<(Generation, Data)>,
    /// The number of the last start that is written on each volume.
    pub runs: BTreeMap<Generation, u64>,
    /// A volume as it was at some time, as storage takes a snapshot of it.
    pub snapshot: Option<Snapshot>,
    /// Volumes that were put back to such a snapshot. Nobody but the checkers may look.
    pub rolled_back: BTreeSet<Generation>,
    /// When its member last served a linearizable read.
    pub served_at: Option<u64>,
    /// It was stopped by a duplicate of a step, which no plan could know of.
    pub stopped_by_mistake: bool,
    /// When the user last did not want it.
    pub unwanted_at: Option<u64>,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            process: Proc::Stopped { last: None },
            pod: None,
            first: BTreeMap::new(),
            replay: BTreeMap::new(),
            asides: Vec::new(),
            ever_ran: BTreeSet::new(),
            taken_until: 0,
            crashes_until: 0,
            last_config: String::new(),
            blind_until: 0,
            mute_until: 0,
            dying: None,
            swapped: None,
            runs: BTreeMap::new(),
            snapshot: None,
            rolled_back: BTreeSet::new(),
            served_at: None,
            stopped_by_mistake: false,
            unwanted_at: None,
        }
    }
}

impl Slot {
    /// The volume a process uses.
    pub fn in_use(&self) -> Option<Generation> {
        match self.process {
            Proc::Stopped { .. } => None,
            Proc::Running { generation, .. } | Proc::Stopping { generation, .. } => Some(generation),
        }
    }
}

/// What quorate's clock shows at the first tick. It may be set back many times before it shows nothing.
const CLOCK_MS: u64 = 1_000_000_000;

/// A cluster id that is nobody's.
pub const FOREIGN: ClusterId = ClusterId(0x00f0_e160);

/// Data of somebody else's cluster, of one member.
pub fn foreign_data(place: Place, version: Version) -> Data {
    use crate::etcd::{ConfChange, Entry, Kind};
    let member = MemberId(0xf0e1_6000 + u64::from(place.0));
    let change = ConfChange::Add {
        id: member,
        place,
        learner: false,
        named: true,
    };
    let log = vec![Entry {
        term: 1,
        kind: Kind::Conf { request: 0, change },
    }];
    Data::Wal(Wal {
        member,
        cluster: FOREIGN,
        log,
        compacted: 0,
        term: 1,
        vote: None,
        commit: 1,
        version,
    })
}

/// All slots and the etcd they run.
#[derive(Clone, Debug)]
pub struct Ground {
    pub etcd: EtcdModel,
    pub slots: BTreeMap<Ordinal, Slot>,
    /// Do processes run in pods that have to be made first?
    pub pods: bool,
    /// How far quorate's clock is ahead of the ticks, or behind them.
    pub clock_off_ms: i64,
}

impl Ground {
    /// The time as quorate's clock has it.
    pub fn now(&self) -> Time {
        let ticked = CLOCK_MS + self.etcd.now * crate::TICK_MS;
        Time(ticked.saturating_add_signed(self.clock_off_ms))
    }

    /// A slot, made if there is none.
    pub fn slot(&mut self, ordinal: Ordinal) -> &mut Slot {
        self.slots.entry(ordinal).or_default()
    }

    /// One look, for a memory.
    pub fn observe(&self, spec: &Spec, memory: &Memory, token: u64, last: Option<Outcome>) -> Observed {
        let wanted = (0..spec.replicas).map(Ordinal);
        let ordinals: BTreeSet<Ordinal> = wanted.chain(memory.slots.keys().copied()).collect();
        let slots = ordinals
            .into_iter()
            .map(|o| (o, self.look(o, memory.slot(o).generation)))
            .collect();
        Observed {
            login_refused: None,
            unasked: false,
            at: self.now(),
            fresh_token: Token(format!("token-{token}")),
            slots,
            quorum: self.quorum_view(&spec.name),
            last,
            lost_ca: Default::default(),
        }
    }

    /// The linearizable list, through any member quorate can reach.
    pub fn quorum_view(&self, name: &str) -> Option<QuorumView> {
        let (cluster, conf, leader) = self.etcd.list(self.way_in()?)?;
        Some(QuorumView {
            cluster,
            members: conf.listed(name),
            leader: Some(leader),
        })
    }

    /// A voter that serves and that quorate can reach: learners answer neither the list nor requests to change it.
    pub fn way_in(&self) -> Option<Place> {
        let learner = |p: &Place| {
            let node = &self.etcd.nodes[p];
            let id = node.member();
            let conf = node.running.as_ref().map(|r| &r.conf);
            conf.zip(id).is_none_or(|(conf, id)| !conf.votes(id))
        };
        let reachable = self
            .slots
            .keys()
            .map(|o| place(*o))
            .filter(|p| self.etcd.linked(Place::SITE, *p));
        reachable
            .into_iter()
            .find(|p| self.etcd.nodes.contains_key(p) && self.etcd.serves(*p) && !learner(p))
    }

    fn look(&self, ordinal: Ordinal, generation: Generation) -> SlotView {
        let (at, now) = (place(ordinal), self.etcd.now);
        let Some(slot) = self.slots.get(&ordinal) else {
            return self.never_seen(at);
        };
        let volumes = self.etcd.nodes.get(&at).map(|n| &n.volumes);
        let volume = match volumes.and_then(|v| v.get(&generation)) {
            _ if slot.blind_until > now => Volume::Unknown,
            None | Some(Data::Empty) => Volume::Empty,
            Some(Data::Damaged) => Volume::Damaged {
                why: "wal: crc mismatch".into(),
            },
            Some(Data::Wal(wal)) => Volume::Data {
                member: wal.member,
                cluster: wal.cluster,
            },
        };
        let first_start = match slot.first.get(&generation) {
            Some(FirstRecord::Armed(_)) => FirstStart::NotRun,
            Some(FirstRecord::EndedWithoutData(_)) => FirstStart::RanWithoutData,
            Some(FirstRecord::Fired(_)) | None => FirstStart::Unknown,
        };
        let leftovers = volumes.map_or(Vec::new(), |v| {
            let old = v
                .iter()
                .filter(|(g, data)| **g < generation && !matches!(data, Data::Empty));
            old.map(|(g, _)| *g).collect()
        });
        let data = volumes
            .and_then(|v| v.get(&generation))
            .filter(|d| d.wal().is_some());
        let marks = data.map(|data| {
            let marks = marks(data, slot.runs.get(&generation).copied());
            let at_rest = matches!(slot.process, Proc::Stopped { .. });
            VolumeMarks {
                last_index: marks.last_index.filter(|_| at_rest),
                ..marks
            }
        });
        let status = self.status(ordinal);
        let votes = |id: MemberId| {
            let running = self.etcd.nodes.get(&at).and_then(|n| n.running.as_ref());
            running.is_some_and(|r| r.conf.votes(id))
        };
        let durable = status.as_ref().filter(|s| s.healthy && votes(s.member));
        let durable = durable.map(|s| (s.member, s.applied));
        let (where_to, made_for) = self.where_to(slot, generation);
        let volume = if where_to == Where::Ready {
            volume
        } else {
            Volume::Unknown
        };
        SlotView {
            peer_url: at.url(),
            volume,
            marks,
            durable,
            first_start,
            leftovers,
            place: where_to,
            made_for,
            storage: None,
            resize: Default::default(),
            no_room_aside: None,
            asides: slot.asides.len() as u32,
            process: self.process(slot),
            status,
            deletion_pending: false,
            in_service: true,
            cannot_start: (slot.taken_until > now).then(|| "port 2380 is taken".to_owned()),
            ran: None,
            replay_limit: self.replay_limit(ordinal, generation),
            located: None,
        }
    }

    /// Is there a pod for this volume, and what was it made for?
    fn where_to(&self, slot: &Slot, generation: Generation) -> (Where, Option<Setup>) {
        if !self.pods || !matches!(slot.process, Proc::Stopped { .. }) {
            return (Where::Ready, None);
        }
        let Some(pod) = &slot.pod else {
            return (Where::Absent, None);
        };
        let place = match pod.generation == generation {
            true if pod.ready_at <= self.etcd.now => Where::Ready,
            true => Where::Preparing {
                why: "the pod is being made".into(),
            },
            false => Where::Unfit,
        };
        let made_for = Setup {
            version: pod.version,
            config: pod.config.clone(),
        };
        (place, Some(made_for))
    }

    fn never_seen(&self, at: Place) -> SlotView {
        SlotView {
            peer_url: at.url(),
            volume: Volume::Empty,
            marks: None,
            durable: None,
            first_start: FirstStart::Unknown,
            leftovers: Vec::new(),
            place: if self.pods { Where::Absent } else { Where::Ready },
            made_for: None,
            storage: None,
            resize: Default::default(),
            no_room_aside: None,
            asides: 0,
            process: Process::Stopped { last: None },
            status: None,
            deletion_pending: false,
            in_service: true,
            cannot_start: None,
            ran: None,
            replay_limit: None,
            located: None,
        }
    }

    fn process(&self, slot: &Slot) -> Process {
        match &slot.process {
            Proc::Stopped { last } => Process::Stopped { last: last.clone() },
            Proc::Running {
                since,
                version,
                config,
                generation,
                ..
            } => Process::Running {
                since: *since,
                version: *version,
                config: config.clone(),
                generation: *generation,
            },
            Proc::Stopping { .. } => Process::Stopping,
        }
    }

    /// What the member of a slot answers, if it answers.
    pub fn status(&self, ordinal: Ordinal) -> Option<MemberStatus> {
        let at = place(ordinal);
        let slot = self.slots.get(&ordinal)?;
        if !self.etcd.linked(Place::SITE, at) || slot.mute_until > self.etcd.now {
            return None;
        }
        let node = self.etcd.nodes.get(&at)?;
        let (running, wal) = (node.running.as_ref()?, node.wal()?);
        // As the client judges: one that calls itself a learner, and votes by the list, needs a read.
        let learner = running.conf.members.get(&wal.member).is_none_or(|m| m.learner)
            && !self.etcd.votes_by_list(self.way_in(), wal.member);
        Some(MemberStatus {
            member: wal.member,
            cluster: wal.cluster,
            leader: running.leader,
            term: wal.term,
            applied: running.applied as u64,
            version: running.version,
            db_size: 4096 * (1 + wal.log.len() as u64),
            db_in_use: 4096 * (1 + running.applied as u64),
            alarms: self.etcd.alarms.clone(),
            healthy: if learner {
                node.stalled_until <= self.etcd.now
            } else {
                self.etcd.serves(at)
            },
        })
    }
}

impl Ground {
    /// Ends what has had its time. Out: whose processes, and on which volume.
    pub fn pass_time(&mut self) -> Vec<(Ordinal, Generation)> {
        let (now, at) = (self.etcd.now, self.now());
        let mut ended = Vec::new();
        for (ordinal, slot) in &mut self.slots {
            if let Proc::Stopping { until, generation } = slot.process
                && until <= now
            {
                ended.push((*ordinal, generation));
                self.etcd.stop(place(*ordinal));
                let exit = Exit {
                    at,
                    asked: true,
                    how: "exit 0".into(),
                };
                slot.process = Proc::Stopped { last: Some(exit) };
                slot.pod = None;
            }
        }
        ended
    }
}
