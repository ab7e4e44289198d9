//! `launch-in-pod`: runs at every start of the etcd container, looks once more, and becomes etcd.
//!
//! In: what the gate left in the shared directory, and etcd's command line. Out: etcd, with the lock of the volume,
//! under this process number; only the very first start is a child, whose end is watched ([`crate::first`]). Kubelet restarts a container without its init containers, so whatever happened to the
//! volume since the gate is seen here or nowhere.
//!
//! Never: a first start twice, unless the one before provably came to nothing; etcd on a volume, generation or member other than what was let through last; an
//! argument or an `ETCD_…` variable that changes who etcd is.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use quorate_datadir::durable;

use crate::Error;
use crate::error::file;
use crate::first::Watched;
use crate::handover::{EXECUTED, Launch};
use crate::volume::aside::clear_blank;
use crate::volume::hold::{Held, Hold};
use crate::volume::judge::{Data, judge};
use crate::volume::layout::Layout;
use crate::volume::record::{Known, Record};

/// How long another process is given to leave the volume.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Who etcd is and where its data lies are not for its command line to say.
const DECIDED_HERE: [&str; 9] = [
    "data-dir",
    "wal-dir",
    "config-file",
    "force-new-cluster",
    "initial-cluster",
    "initial-cluster-state",
    "initial-cluster-token",
    "discovery",
    "discovery-srv",
];

#[derive(Clone, Debug)]
pub struct Launching<'a> {
    /// Where the gate left things.
    pub shared: &'a Path,
    pub program: PathBuf,
    /// Its arguments, without those that are decided here.
    pub arguments: Vec<OsString>,
    /// How long to wait for another process to leave the volume.
    pub patience: Duration,
}

/// Everything is checked and noted; what is left is to become etcd.
#[derive(Debug)]
pub struct Ready {
    /// What the gate left, and how it is used.
    launch: Launch,
    way: LaunchMode,
    hold: Hold,
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Launching<'_> {
    /// Looks once more, and notes what is about to happen. `waiting` is called once, with what is waited for.
    pub fn ready(&self, waiting: impl FnMut(&str)) -> Result<Ready, Error> {
        let launch = Launch::read(self.shared)?;
        let refused = |why: String| Error::refused(&launch.volume, why);
        if let Some(argument) = self.arguments.iter().find(|argument| is_decided_here(argument)) {
            let argument = argument.to_string_lossy();
            return Err(refused(format!(
                "the argument {argument} is not for the command line to say"
            )));
        }
        let layout = Layout::new(&launch.volume);
        let hold = match Hold::wait(&layout, launch.generation, self.patience, waiting)? {
            Held::Ours(hold) => hold,
            Held::Busy { why } => {
                return Err(Error::GaveUp {
                    after: self.patience,
                    why,
                });
            }
        };
        let mut record = may_go_on(&layout, &launch)?;
        let data = judge(&launch.data_dir)?;
        let way = check(&launch, &record, &data, self.was_executed()?).map_err(refused)?;
        let more = match way {
            LaunchMode::FirstStart => {
                if data == Data::Blank {
                    clear_blank(&layout, &launch.data_dir)?;
                }
                // In this order: a crash between the two costs this pod, and not the volume, its first start.
                self.mark_executed(&launch)?;
                let entry = record.entry_mut(launch.generation);
                entry.fired = true;
                entry.came_to_nothing = false;
                record.write(&layout).inspect_err(|_| self.unmark())?;
                &launch.first_arguments
            }
            LaunchMode::Resume => {
                self.mark_executed(&launch)?;
                remember(&layout, &launch, &mut record, &data);
                &launch.arguments
            }
        };
        let mut arguments = self.arguments.clone();
        arguments.extend(more.iter().map(OsString::from));
        let mut data_dir = OsString::from("--data-dir=");
        data_dir.push(&launch.data_dir);
        arguments.push(data_dir);
        Ok(Ready {
            launch,
            way,
            hold,
            program: self.program.clone(),
            arguments,
        })
    }

    /// Was etcd executed in this pod before?
    fn was_executed(&self) -> Result<bool, Error> {
        let marker = self.shared.join(EXECUTED);
        marker.try_exists().map_err(file("look at", &marker))
    }

    /// Takes the mark back: nothing was executed, and nothing on the volume says so.
    fn unmark(&self) {
        let _ = std::fs::remove_file(self.shared.join(EXECUTED));
    }

    fn mark_executed(&self, launch: &Launch) -> Result<(), Error> {
        if self.was_executed()? {
            return Ok(());
        }
        let marker = self.shared.join(EXECUTED);
        Ok(durable::write_with_mode(
            &marker,
            launch.generation.to_string().as_bytes(),
            0o644,
        )?)
    }
}

/// The record of the volume, if this is still the volume and the start that was let through on it last.
fn may_go_on(layout: &Layout, launch: &Launch) -> Result<Record, Error> {
    let refused = |why: String| Error::refused(&launch.volume, why);
    let record = match Record::read(layout)? {
        Known::Record(record) if record.id == launch.volume_id => record,
        _ => {
            return Err(refused(
                "the volume was wiped or exchanged while the pod ran; delete the pod, so that it is looked at again"
                    .to_owned(),
            ));
        }
    };
    still_admitted(&record, launch).map_err(refused)?;
    Ok(record)
}

/// Is this what was let through last, as the volume's record has it?
pub fn still_admitted(record: &Record, launch: &Launch) -> Result<(), String> {
    let own = (Some(launch.generation), Some(&launch.started));
    let entry = record.entry(launch.generation);
    if (record.newest(), entry.started.as_ref()) != own {
        return Err(
            "another pod of this member was let through with something else since; this one must not go on"
                .to_owned(),
        );
    }
    if entry.run < launch.run {
        return Err(
            "the volume was rolled back while the pod ran: it knows less than it did; delete the pod, so that it is looked \
             at again"
                .to_owned(),
        );
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchMode {
    FirstStart,
    /// From the data that is there.
    Resume,
}

/// May it, as things are? A function of what is there, and of nothing else.
pub fn check(launch: &Launch, record: &Record, data: &Data, executed: bool) -> Result<LaunchMode, String> {
    let entry = record.entry(launch.generation);
    let ran = entry.fired || executed;
    match data {
        Data::Member(found) => {
            if launch.first && !ran {
                return Err(format!("a first start over the data of {found}"));
            }
            // What the gate saw counts for this pod; a first start has only what was seen since.
            let (member, cluster) = match (launch.member, launch.cluster) {
                (None, None) => (entry.member, entry.cluster),
                seen => seen,
            };
            if !found.is(member, cluster) {
                return Err(format!(
                    "the data was exchanged for that of {found} since it was let through"
                ));
            }
            Ok(LaunchMode::Resume)
        }
        Data::Damaged { why } => Err(format!("its data is damaged ({why})")),
        Data::Blank if !launch.first || !entry.may_be_blank() => Err(
            "it is to go on from its data, and its log is blank; only the operator decides what becomes of it"
                .to_owned(),
        ),
        Data::Nothing | Data::Remains { .. } if (ran && !entry.came_to_nothing) || !launch.first => Err(
            "etcd was executed on it before, and its data has gone; only the operator decides what becomes of it"
                .to_owned(),
        ),
        Data::Nothing | Data::Blank | Data::Remains { .. } if entry.pod.as_deref() != Some(&launch.pod) => {
            Err("the first start on it was given to another pod since".to_owned())
        }
        Data::Nothing | Data::Blank | Data::Remains { .. } => Ok(LaunchMode::FirstStart),
    }
}

/// Notes whose data it is, so that other data in its place is noticed while the operator is away.
fn remember(layout: &Layout, launch: &Launch, record: &mut Record, data: &Data) {
    let Data::Member(found) = data else { return };
    let mut entry = record.entry(launch.generation);
    entry.fired = true;
    entry.came_to_nothing = false;
    entry.member = Some(found.member);
    entry.cluster = Some(found.cluster);
    if entry != record.entry(launch.generation) {
        *record.entry_mut(launch.generation) = entry;
        // Best effort: a full disk is no reason to keep a member down.
        let _ = record.write(layout);
    }
}

impl Ready {
    /// Is it a first start, whose end is to be seen?
    pub fn is_first(&self) -> bool {
        self.way == LaunchMode::FirstStart
    }

    /// Becomes etcd. Returns only if that failed.
    pub fn become_etcd(self) -> Error {
        let failed = |source: io::Error| Error::Exec {
            program: self.program.clone(),
            source,
        };
        // etcd inherits the lock: it ends with the process, however that ends.
        if let Err(source) = self.hold.hand_on() {
            return failed(source);
        }
        failed(self.command().exec())
    }

    /// Starts etcd beside this process.
    pub fn watch_etcd(self) -> Result<Watched, Error> {
        let command = self.command();
        Watched::start(command, self.launch, self.hold)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        for (name, _) in std::env::vars_os() {
            // One of them, ETCD_FORCE_NEW_CLUSTER, would throw the other members out; and for a service of that name
            // Kubernetes itself makes up some that etcd would take for options.
            let text = name.to_string_lossy();
            if text.starts_with("ETCD_") && text != "ETCD_UNSUPPORTED_ARCH" {
                command.env_remove(&name);
            }
        }
        command
    }
}

/// Is this one of the options that are decided here? etcd takes one dash or two.
fn is_decided_here(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    let Some(option) = text.strip_prefix('-') else {
        return false;
    };
    let option = option.strip_prefix('-').unwrap_or(option);
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    DECIDED_HERE.contains(&name)
}

#[cfg(test)]
mod tests;
