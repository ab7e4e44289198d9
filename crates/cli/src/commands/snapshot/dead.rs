//! `quorate snapshot save FILE --from-data-dir DIR`: a snapshot of a member that does not run, as it would be after its
//! next start.
//!
//! In: a data directory, which stays as it is. Out: the snapshot. What its log holds that only etcd knows the effect of is
//! replayed by a real etcd on a copy; that is said as it happens.

use std::path::{Path, PathBuf};

use quorate_datadir::Revive;
use quorate_host::etcd::find::Places;
use quorate_host::etcd::revive::{ReviveEvent, RevivedSnapshot, revive};
use serde::Serialize;

use super::{form, offline};
use crate::arguments::snapshot::Save as Arguments;
use crate::failure::Failure;
use crate::output_file;
use crate::render::facts;
use crate::{roots, say};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Saved {
    file: PathBuf,
    data_dir: PathBuf,
    size: u64,
    revision: i64,
    /// The last entry of the log in it.
    index: u64,
    /// How many entries the database lacked.
    entries: u64,
    /// How many of them the member did not know to be committed.
    beyond_commit: u64,
    /// The etcd that replayed the log, if it took one.
    replayed_by: Option<String>,
    /// Entries that are not in it.
    left_out: u64,
}

/// Makes it and says what it is.
pub fn run(root: Option<PathBuf>, data_dir: &Path, arguments: &Arguments) -> Result<(), Failure> {
    output_file::check(&arguments.file)?;
    let wanted = Revive {
        data_dir,
        wal_dir: arguments.wal_dir.as_deref(),
        file: &arguments.file,
    };
    // An etcd may be found without a root as well.
    let root = roots::resolve(root).ok();
    let places = Places::of(
        root.as_ref().map(|root| root.path()),
        arguments.etcd.as_deref(),
        None,
    );
    let made = offline::run("copied", |progress| {
        Ok(revive(&wanted, &places, &mut print_event, progress)?)
    })?;
    if made.left_out.total() > 0 {
        say::warning(&format!(
            "not in it, because what they do is not known: {}",
            made.left_out
        ));
    }
    let saved = saved(data_dir, &arguments.file, &made);
    form::show(arguments.output, &saved, || page(&saved))
}

fn print_event(event: ReviveEvent<'_>) {
    match event {
        ReviveEvent::UnsupportedEntry(stopped) => say::note(&format!(
            "It takes a real etcd: {}. {} entries remain, up to {}.",
            stopped.stop,
            stopped.remaining.total(),
            stopped.last_index
        )),
        ReviveEvent::EtcdStarted(etcd) => say::note(&format!(
            "{} (etcd {}) replays the log, on a copy.",
            etcd.path.display(),
            etcd.version
        )),
        ReviveEvent::Retrying(kinds) => say::note(&format!("It did more than that ({kinds}); once more.")),
    }
}

fn saved(data_dir: &Path, file: &Path, made: &RevivedSnapshot) -> Saved {
    Saved {
        file: file.to_owned(),
        data_dir: data_dir.to_owned(),
        size: made.revived.bytes,
        revision: made.revived.revision,
        index: made.revived.index,
        entries: made.revived.applied.total(),
        beyond_commit: made.revived.beyond_commit,
        replayed_by: made.by.as_ref().map(|etcd| etcd.version.to_string()),
        left_out: made.left_out.total(),
    }
}

fn page(saved: &Saved) -> String {
    let mut log = match (saved.entries, saved.beyond_commit) {
        (0, _) => "the database had all of it".to_owned(),
        (entries, 0) => format!("{entries} entries that the database lacked"),
        (entries, beyond) => {
            format!("{entries} entries that the database lacked, {beyond} of them not known to be committed")
        }
    };
    if let Some(version) = &saved.replayed_by {
        log.push_str(&format!("; replayed by etcd {version}"));
    }
    facts::page(&[
        ("saved", saved.file.display().to_string()),
        ("from", saved.data_dir.display().to_string()),
        ("size", facts::size(saved.size)),
        ("revision", saved.revision.to_string()),
        ("log", log),
    ])
}
