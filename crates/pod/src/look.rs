//! `prepare --look`: what lies on a volume, reported to the operator.
//!
//! In: a volume and the generation that is meant. Out: a [`Report`], always: what cannot be seen is `Unknown`, with the
//! reason. The only things it changes are the volume's identity, where it has none, and where the older operator's
//! data lies.
//!
//! Never: emptiness where something could not be looked at; "not fired" for a generation that has, or had, data.

use std::path::Path;
use std::time::Duration;

use quorate_core::model::Generation;
use quorate_datadir::durable;

use crate::Error;
use crate::contract::{FORMAT, Found, Report};
use crate::error::file;
use crate::volume::hold::{Held, Hold};
use crate::volume::judge::{Data, judge};
use crate::volume::layout::Layout;
use crate::volume::record::{Known, Record};
use crate::volume::{adopt, aside};

/// How long an older pod is given to end, before the volume is reported as in use. It has this long when it is asked
/// to stop, and the report is made once in a pod's life.
pub const PATIENCE: Duration = Duration::from_secs(35);

/// What to look at.
#[derive(Clone, Copy, Debug)]
pub struct LookOptions<'a> {
    pub volume: &'a Path,
    /// Which generation is meant.
    pub generation: Generation,
    /// Say which minor could replay the log.
    pub foretell: bool,
    /// How long to wait for another process to end.
    pub patience: Duration,
}

/// Looks. `waiting` is called once, with what is waited for.
pub fn look(looking: LookOptions<'_>, waiting: impl FnMut(&str)) -> Report {
    let layout = Layout::new(looking.volume);
    let unknown = |why: String| {
        // What is on record can be reported even of a volume that something runs on. What cannot be read counts as fired.
        let record = match Record::read(&layout) {
            Ok(Known::Record(record)) => Some(record),
            _ => None,
        };
        let entry = record.as_ref().map(|record| record.entry(looking.generation));
        let (asides, aside_bytes) = aside::count(&layout).unwrap_or((u32::MAX, 0));
        Report {
            format: FORMAT,
            volume_id: record
                .as_ref()
                .map(|record| record.id.clone())
                .unwrap_or_default(),
            fresh_id: false,
            generation: looking.generation,
            volume: Found::Unknown { why },
            fired: entry.as_ref().is_none_or(|entry| entry.fired),
            blank: false,
            epoch: entry.as_ref().map(|entry| entry.epoch).unwrap_or_default(),
            run: entry.as_ref().and_then(|entry| entry.run),
            last_index: None,
            started: entry.and_then(|entry| entry.started),
            replay_limit: None,
            asides,
            aside_bytes,
            newest: record.as_ref().and_then(Record::newest),
            belongs_to: record.and_then(|record| record.belongs_to),
        }
    };
    match Hold::wait(&layout, looking.generation, looking.patience, waiting) {
        Ok(Held::Ours(hold)) => seen(&layout, looking, &hold).unwrap_or_else(|error| unknown(error.chain())),
        Ok(Held::Busy { why }) => unknown(why),
        Err(error) => unknown(error.chain()),
    }
}

/// Looks at a volume that is held.
fn seen(layout: &Layout, looking: LookOptions<'_>, _held: &Hold) -> Result<Report, Error> {
    let generation = looking.generation;
    let (mut record, fresh_id) = identity(layout)?;
    if adopt::is_due(layout)? {
        adopt::adopt(layout, &mut record)?;
    }
    let directory = layout.data(generation);
    let data = judge(&directory)?.with_log(&directory);
    if marks_fired(&record, generation, &data) {
        // Else a wipe of the directory would leave "never ran" behind.
        record.entry_mut(generation).fired = true;
        record.write(layout)?;
    }
    let entry = record.entry(generation);
    let replay_limit = match &data {
        Data::Member(_) if looking.foretell => match quorate_datadir::replay(&directory) {
            Ok(replay) => replay.newest_minor(),
            // A log that cannot be read is taken for one that only the present minor can replay.
            Err(_) => Some(entry.started.as_ref().map_or(0, |started| started.version.minor)),
        },
        _ => None,
    };
    let (asides, aside_bytes) = aside::count(layout)?;
    Ok(Report {
        replay_limit,
        asides,
        aside_bytes,
        ..to_report(&record, fresh_id, generation, data)
    })
}

/// Does this data show that etcd ran, where that is not on record yet?
pub fn marks_fired(record: &Record, generation: Generation, data: &Data) -> bool {
    let ran = matches!(data, Data::Member(_) | Data::Blank | Data::Damaged { .. });
    ran && !record.entry(generation).fired
}

/// What is reported of a volume with this record and this data. A function of what is there, and of nothing else.
pub fn to_report(record: &Record, fresh_id: bool, generation: Generation, data: Data) -> Report {
    let entry = record.entry(generation);
    let blank = entry.may_be_blank()
        && match data {
            Data::Blank => true,
            Data::Nothing | Data::Remains { .. } => entry.came_to_nothing,
            Data::Member(_) | Data::Damaged { .. } => false,
        };
    let last_index = match &data {
        Data::Member(identity) => identity.last_index,
        _ => None,
    };
    let volume = match data {
        Data::Nothing => Found::Empty,
        Data::Blank if blank => Found::Empty,
        Data::Blank => Found::Damaged {
            why: "its log is blank, and was not before".to_owned(),
        },
        // What a first start leaves behind that provably got no further.
        Data::Remains { .. } if !entry.may_have_acknowledged() => Found::Empty,
        Data::Remains { why } | Data::Damaged { why } => Found::Damaged { why },
        Data::Member(identity) => Found::Data {
            member: identity.member,
            cluster: identity.cluster,
        },
    };
    Report {
        format: FORMAT,
        volume_id: record.id.clone(),
        fresh_id,
        generation,
        volume,
        fired: entry.fired,
        blank,
        started: entry.started,
        replay_limit: None,
        asides: 0,
        aside_bytes: 0,
        epoch: entry.epoch,
        run: entry.run,
        last_index,
        belongs_to: record.belongs_to.clone(),
        newest: record.newest(),
    }
}

/// Who the volume is; and whether that was made up just now.
fn identity(layout: &Layout) -> Result<(Record, bool), Error> {
    match Record::read(layout)? {
        Known::Record(record) => return Ok((record, false)),
        Known::Absent => {}
        Known::Unreadable { .. } => {
            // Kept for people. It says nothing any more, so the volume counts as wiped.
            let path = layout.record();
            let kept = path.with_file_name("volume.json.unreadable");
            std::fs::rename(&path, &kept).map_err(file("rename", &path))?;
            durable::sync_directory(&layout.own()).map_err(file("sync", &layout.own()))?;
        }
    }
    let mut record = Record::fresh()?;
    // Taking the record away makes no such directories: something ran there.
    for there in layout.generations().map_err(file("list", layout.root()))? {
        record.entry_mut(there).fired = true;
    }
    record.write(layout)?;
    Ok((record, true))
}

#[cfg(test)]
mod tests;
