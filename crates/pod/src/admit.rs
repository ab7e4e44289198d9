//! A start that may pass is let through: the volume is made ready, and the launcher may start etcd.
//!
//! In: a decision of the gate, on a volume that is held. Out, in the order of [`Act::ALL`]: a place in `g<N>`, a record
//! of what was let through, this program and `launch.json` in the directory that the pod's containers share. Each act
//! can be done again, so a crash between any two of them leaves a state from which the gate starts over.
//!
//! Never: the launcher let go before the record is on the disk.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

use quorate_core::model::Epoch;
use quorate_datadir::durable::{self, Draft};

use crate::contract::{GateResult, How, Started};
use crate::error::file;
use crate::gate::Gate;
use crate::handover::Launch;
use crate::volume::hold::Hold;
use crate::volume::judge::Identity;
use crate::volume::layout::Layout;
use crate::volume::record::{Entry, Record};
use crate::volume::{aside, owner};
use crate::{Error, handover};

/// What is let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// As what it starts.
    pub how: How,
    /// Whose data is there; none for a first start.
    pub identity: Option<Identity>,
    /// A member has served from that data, or for a first start from the data before it.
    pub served: bool,
    /// The number and the epoch of the start; none where it passes by itself.
    pub run: Option<(Option<u64>, Epoch)>,
}

/// One thing to do; between any two of them a crash may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Deletes the oldest asides, if the member goes on from data that it has served from: only then is what it
    /// replaced known to be of no use.
    Thin,
    /// Puts older generations out of the way.
    SetAside,
    /// Makes the data directory.
    Directory,
    /// Notes what is let through.
    Record,
    /// Gives it all to the user that etcd runs as.
    Owner,
    /// Leaves this program for the launcher.
    Program,
    Launch,
}

impl Act {
    pub(crate) const ALL: [Act; 7] = [
        Act::Thin,
        Act::SetAside,
        Act::Directory,
        Act::Record,
        Act::Owner,
        Act::Program,
        Act::Launch,
    ];
}

pub(crate) fn admit(
    gate: &Gate<'_>,
    layout: &Layout,
    mut record: Record,
    admission: &Admission,
    _held: &Hold,
) -> Result<GateResult, Error> {
    for act in Act::ALL {
        run(act, gate, layout, &mut record, admission)?;
    }
    Ok(GateResult {
        run: record.entry(gate.generation).run,
    })
}

pub(crate) fn run(
    act: Act,
    gate: &Gate<'_>,
    layout: &Layout,
    record: &mut Record,
    admission: &Admission,
) -> Result<(), Error> {
    let generation = gate.generation;
    match act {
        Act::Thin if admission.served => aside::thin(layout, generation),
        Act::Thin => Ok(()),
        Act::SetAside => {
            aside::has_room(layout, generation)?;
            aside::set_aside(layout, generation)
        }
        Act::Directory => directory(gate, layout),
        Act::Record => note(gate, layout, record, admission),
        Act::Owner => match gate.owner {
            Some(to) => owner::give(layout, generation, to),
            None => Ok(()),
        },
        Act::Program => program(gate),
        Act::Launch => Launch::of(gate, layout, record, admission).write(gate.shared),
    }
}

fn directory(gate: &Gate<'_>, layout: &Layout) -> Result<(), Error> {
    let path = layout.data(gate.generation);
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => return durable::sync_directory(layout.root()).map_err(file("sync", layout.root())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(file("create", &path)(error)),
    }
    let mode = path
        .metadata()
        .map_err(file("look at", &path))?
        .permissions()
        .mode();
    if mode & 0o777 == 0o700 {
        return Ok(());
    }
    let private = std::fs::Permissions::from_mode(0o700);
    match std::fs::set_permissions(&path, private) {
        // Another's: the next act gives it to etcd's user, or etcd itself says what is wrong.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other.map_err(file("make private", &path)),
    }
}

/// Writes nothing where all is on record, so that a plain restart needs no room on a full disk.
fn note(gate: &Gate<'_>, layout: &Layout, record: &mut Record, admission: &Admission) -> Result<(), Error> {
    let noted = record_after(gate, record, admission);
    if noted == *record {
        return Ok(());
    }
    *record = noted;
    record.write(layout)
}

/// What is on record once `admission` is let through. A function of what is there, and of nothing else.
pub fn record_after(gate: &Gate<'_>, record: &Record, admission: &Admission) -> Record {
    let mut record = record.clone();
    if record.belongs_to.is_none() {
        record.belongs_to = gate.member.cloned();
    }
    let entry = noted_entry(gate, record.entry(gate.generation), admission);
    *record.entry_mut(gate.generation) = entry;
    record
}

fn noted_entry(gate: &Gate<'_>, mut entry: Entry, admission: &Admission) -> Entry {
    entry.started = Some(Started {
        version: gate.version,
        config: gate.config.to_owned(),
    });
    if let Some((run, epoch)) = admission.run {
        (entry.run, entry.epoch) = (entry.run.max(run), epoch);
    }
    match admission.identity {
        Some(identity) => {
            entry.fired = true;
            entry.came_to_nothing = false;
            entry.member = Some(identity.member);
            entry.cluster = Some(identity.cluster);
            entry.served |= admission.served;
        }
        None => entry.pod = Some(gate.pod.to_owned()),
    }
    entry
}

fn program(gate: &Gate<'_>) -> Result<(), Error> {
    let path = gate.shared.join(handover::PROGRAM);
    let copy = || -> io::Result<()> {
        let mut from = std::fs::File::open(gate.program)?;
        let draft = Draft::of(&path)?;
        io::copy(&mut from, &mut draft.file())?;
        draft.set_mode(0o755)?;
        // It lives no longer than the pod, so a power cut may take it.
        draft.publish_fast()
    };
    copy().map_err(file("copy this program to", &path))
}
