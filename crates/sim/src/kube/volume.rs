//! The volume of a claim: its record, its lock, and what lies on it; looked at, let through and launched on by the rules
//! of the pod's own programs.
//!
//! In: a volume, the data that the model of etcd has for its place. Out: what those programs would say. Never: a rule of
//! its own.

use std::collections::BTreeSet;
use std::path::Path;

use quorate_core::guard::{Guard, Guards};
use quorate_core::model::{Generation, Version};
use quorate_pod::contract::{How, IDENTITY_GONE, KnownProgress, MemberRef, Report};
use quorate_pod::rules::{
    self, Admission, Data as Judged, Decision, Gate, Identity, Launch, LaunchMode, Layout, Record,
};

use crate::etcd::{Data, Node};

#[derive(Clone, Debug, Default)]
pub struct Volume {
    /// `volume.json`, if it is there.
    pub record: Option<Record>,
    /// Which pod's process has its lock.
    pub lock: Option<String>,
    /// How many sets of old data lie aside.
    pub asides: usize,
    /// Generations on which etcd promised something, whatever became of that. Nobody but the checkers may look.
    pub ran: BTreeSet<Generation>,
    /// Generations where a first start left files and no log.
    pub remains: BTreeSet<Generation>,
    /// Generations that were put back to an earlier state. Nobody but the checkers may look.
    pub rolled_back: BTreeSet<Generation>,
}

/// What a pod was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    pub pod: String,
    /// Whose pod it is.
    pub member: MemberRef,
    pub generation: Generation,
    pub version: Version,
    pub config: String,
    /// What its annotation says to be on the volume.
    pub reached: String,
    /// Those that the gate goes by.
    pub guards: Guards,
}

impl Purpose {
    fn gate(&self) -> Gate<'_> {
        let nowhere = Path::new("/");
        Gate {
            volume: nowhere,
            generation: self.generation,
            version: self.version,
            config: &self.config,
            pod: &self.pod,
            member: Some(&self.member).filter(|_| self.guards.on(Guard::OwnVolume)),
            go: nowhere,
            reached: None,
            shared: nowhere,
            program: nowhere,
            owner: None,
            patience: std::time::Duration::ZERO,
        }
    }
}

/// What the gate has let through.
#[derive(Clone, Debug)]
pub struct Through {
    /// What the launcher reads.
    pub launch: Launch,
    pub how: How,
}

/// What the gate says.
#[derive(Clone, Debug)]
pub enum AtGate {
    Through(Box<Through>),
    Wait,
    Refused(String),
}

/// Has nothing been promised in this log?
pub fn is_blank(data: &Data) -> bool {
    data.wal()
        .is_some_and(|w| w.log.is_empty() && w.term == 0 && w.vote.is_none())
}

impl Volume {
    fn judge(&self, node: &Node, generation: Generation) -> Judged {
        match node.volumes.get(&generation) {
            None | Some(Data::Empty) if self.remains.contains(&generation) => Judged::Remains {
                why: "there is no write-ahead log, only member/snap/db".to_owned(),
            },
            None | Some(Data::Empty) => Judged::Nothing,
            Some(Data::Damaged) => Judged::Damaged {
                why: "wal: crc mismatch".to_owned(),
            },
            Some(data) if is_blank(data) => Judged::Blank,
            Some(Data::Wal(wal)) => Judged::Member(Identity {
                member: wal.member,
                cluster: wal.cluster,
                minor: Some(u64::from(wal.version.minor)),
                last_index: Some(wal.log.len() as u64),
            }),
        }
    }

    /// `prepare --look`, on a volume that is held.
    pub fn look(&mut self, node: &Node, generation: Generation, fresh: &str) -> Report {
        let fresh_id = self.record.is_none();
        let record = self.record.get_or_insert_with(|| {
            let mut record = Record::of(fresh.to_owned());
            for there in node.volumes.keys() {
                record.entry_mut(*there).fired = true;
            }
            record
        });
        let mut record = record.clone();
        let data = self.judge(node, generation);
        if rules::marks_fired(&record, generation, &data) {
            record.entry_mut(generation).fired = true;
            self.record = Some(record.clone());
        }
        Report {
            asides: self.asides as u32,
            ..rules::to_report(&record, fresh_id, generation, data)
        }
    }

    /// `prepare`, once, on a volume that is held.
    pub fn pass(&mut self, node: &mut Node, purpose: &Purpose, go: Option<&str>) -> AtGate {
        let gate = purpose.gate();
        let Some(record) = &mut self.record else {
            return AtGate::Refused(IDENTITY_GONE.to_owned());
        };
        let record = record.clone();
        let data = self.judge(node, purpose.generation);
        let Ok(floor) = KnownProgress::read(purpose.reached.as_bytes()) else {
            return AtGate::Wait;
        };
        let admission = match rules::decide(&gate, &record, &data, go.map(str::as_bytes), &floor) {
            Decision::Pass(admission) => admission,
            Decision::Wait { .. } => return AtGate::Wait,
            Decision::Refuse { why } => return AtGate::Refused(why),
        };
        if let Err(why) = self.make_room(node, purpose.generation, &admission) {
            return AtGate::Refused(why);
        }
        let record = rules::record_after(&gate, &record, &admission);
        self.record = Some(record.clone());
        AtGate::Through(Box::new(Through {
            launch: Launch::of(&gate, &Layout::new(gate.volume), &record, &admission),
            how: admission.how,
        }))
    }

    fn make_room(
        &mut self,
        node: &mut Node,
        present: Generation,
        admission: &Admission,
    ) -> Result<(), String> {
        let all = node.volumes.iter().filter(|(g, _)| **g < present);
        let (blank, older): (Vec<_>, Vec<_>) = all.partition(|(_, data)| is_blank(data));
        let blank: Vec<Generation> = blank.into_iter().map(|(g, _)| *g).collect();
        let older: Vec<Generation> = older.into_iter().map(|(g, _)| *g).collect();
        if admission.served {
            self.asides = self.asides.min(rules::KEPT.saturating_sub(older.len()));
        }
        if self.asides + older.len() > rules::MOST {
            return Err("there is no room aside".to_owned());
        }
        self.asides += older.len();
        for generation in older.into_iter().chain(blank) {
            node.volumes.remove(&generation);
            self.remains.remove(&generation);
        }
        Ok(())
    }

    /// `launch-in-pod`, on a volume that is held: may etcd be executed, and as what?
    pub fn launch(
        &mut self,
        node: &mut Node,
        through: &Through,
        executed: &mut bool,
    ) -> Result<LaunchMode, String> {
        let launch = &through.launch;
        let record = self.record.as_ref().filter(|r| r.id == launch.volume_id);
        let mut record = record
            .cloned()
            .ok_or("the volume was wiped or exchanged while the pod ran")?;
        rules::still_admitted(&record, launch)?;
        let data = self.judge(node, launch.generation);
        let way = rules::check(launch, &record, &data, *executed)?;
        *executed = true;
        let entry = record.entry_mut(launch.generation);
        match (way, &data) {
            (LaunchMode::FirstStart, _) => {
                if data == Judged::Blank {
                    node.volumes.remove(&launch.generation);
                }
                entry.fired = true;
                entry.came_to_nothing = false;
            }
            (LaunchMode::Resume, Judged::Member(found)) => {
                entry.fired = true;
                entry.came_to_nothing = false;
                entry.member = Some(found.member);
                entry.cluster = Some(found.cluster);
            }
            (LaunchMode::Resume, _) => {}
        }
        self.record = Some(record);
        Ok(way)
    }

    /// The launcher has seen a first start on `generation` end without a log.
    pub fn came_to_nothing(&mut self, generation: Generation) {
        if let Some(record) = &mut self.record {
            record.entry_mut(generation).came_to_nothing = true;
        }
    }
}
