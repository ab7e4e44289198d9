//! `quorate backup undo URL --prefix P --from T1 --to T2 --into ENDPOINTS`: what vanished or changed, put back.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::plan::To;
use quorate_backup::undo::{self, Done, Fate, Happened, NewKeys, Undoing};
use quorate_datadir::Progress;
use serde::Serialize;

use super::{consent, place, reach, watched};
use crate::arguments::Form;
use crate::arguments::backup::Undo;
use crate::arguments::moment::Point;
use crate::commands::snapshot::form;
use crate::failure::Failure;
use crate::render::bytes::{hex, readable};
use crate::render::count::count;
use crate::render::table::{Cell, draw};
use crate::render::{facts, style};
use crate::say;

/// Keys that a person is shown at most.
const SHOWN_MAX: usize = 200;

/// What was found, and what was done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    timeline: u32,
    from_revision: i64,
    to_revision: i64,
    applied: bool,
    done: Option<Done>,
    /// How many keys have which fate.
    counts: BTreeMap<&'static str, usize>,
    /// Keys that come back without the lease they had.
    without_lease: usize,
    keys: Vec<KeyShown>,
    notes: Vec<String>,
    /// What has to be agreed to.
    consents: Vec<String>,
}

/// A key that differs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyShown {
    key: String,
    /// Where the key is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    happened: Happened,
    fate: Fate,
    had_lease: bool,
    value_bytes: u64,
}

/// Plans, shows, and with `--apply` does it.
pub async fn run(arguments: Undo) -> Result<(), Failure> {
    let archive = place::archive(&arguments.place).await?;
    let cluster = reach::named(arguments.into, arguments.secrets)?;
    let scratch = place::scratch(arguments.scratch.as_deref());
    let point = |point: Point| match point {
        Point::Revision(revision) => To::Revision(revision),
        Point::Time(time) => To::Time(time),
    };
    let wanted = undo::Undo {
        prefix: arguments.prefix.as_bytes(),
        timeline: arguments.timeline,
        from: point(arguments.from),
        to: point(arguments.to),
        new_keys: match arguments.delete_new {
            true => NewKeys::Go,
            false => NewKeys::Stay,
        },
        scratch: &scratch,
    };
    let progress = Arc::new(Progress::new());
    let work = undo::plan(&archive, &wanted, &cluster, &progress, Timestamp::now());
    let mut undoing = watched::watch("compared", archive.store(), &progress, work).await?;
    let people = arguments.output == Form::Table;
    if people {
        say::print(&page(&undoing));
    }
    if !arguments.apply {
        if people {
            say::line("\nNothing was written. --apply does it.");
            return Ok(());
        }
        return form::show(arguments.output, &shown(&undoing, None), String::new);
    }
    consent::agree(&undoing.consents, arguments.yes, people).await?;
    let progress = Arc::new(Progress::new());
    let done = {
        let work = undo::apply(&mut undoing, &cluster, &progress);
        watched::watch("put back", archive.store(), &progress, work).await
    };
    let done = done.map_err(|failure| {
        failure.and("What was put back before stays; done again, it goes on with the rest.")
    })?;
    form::show(arguments.output, &shown(&undoing, Some(done)), || {
        done_page(&undoing, &done)
    })
}

fn shown(undoing: &Undoing, done: Option<Done>) -> Shown {
    let fates = [
        ("putBack", Fate::PutBack),
        ("deleted", Fate::Deleted),
        ("already", Fate::Already),
        ("changedSince", Fate::ChangedSince),
        ("stays", Fate::Stays),
    ];
    let keys = undoing.items.iter().map(|item| KeyShown {
        key: String::from_utf8_lossy(&item.key).into_owned(),
        key_hex: std::str::from_utf8(&item.key).is_err().then(|| hex(&item.key)),
        happened: item.happened,
        fate: item.fate,
        had_lease: item.had_lease,
        value_bytes: item.value_bytes,
    });
    Shown {
        timeline: undoing.timeline,
        from_revision: undoing.from,
        to_revision: undoing.to,
        applied: done.is_some(),
        done,
        counts: fates
            .into_iter()
            .map(|(name, fate)| (name, undoing.count(fate)))
            .collect(),
        without_lease: undoing.without_lease(),
        keys: keys.collect(),
        notes: undoing.notes.clone(),
        consents: undoing.consents.clone(),
    }
}

fn page(undoing: &Undoing) -> String {
    let mut text = facts::page(&[
        ("timeline", undoing.timeline.to_string()),
        ("from", format!("revision {}", undoing.from)),
        ("to", format!("revision {}", undoing.to)),
    ]);
    text.push_str(&consent::notes(&undoing.notes, &undoing.consents));
    if undoing.items.is_empty() {
        return text + "\nNothing differs under this prefix.\n";
    }
    let rows: Vec<Vec<Cell>> = undoing
        .items
        .iter()
        .take(SHOWN_MAX)
        .map(|item| {
            let happened = match item.happened {
                Happened::Vanished => "vanished",
                Happened::Changed => "changed",
                Happened::Appeared => "new",
            };
            let fate = match (item.fate, item.had_lease) {
                (Fate::PutBack, false) => Cell::styled(style::GOOD, "put back"),
                (Fate::PutBack, true) => Cell::styled(style::WARN, "put back, without its lease"),
                (Fate::Deleted, _) => Cell::styled(style::WARN, "deleted"),
                (Fate::Already, _) => Cell::text("is as it was"),
                (Fate::ChangedSince, _) => Cell::styled(style::BAD, "changed since: left alone"),
                (Fate::Stays, _) => Cell::text("stays"),
            };
            vec![
                Cell::text(happened),
                fate,
                Cell::number(item.value_bytes.to_string()),
                Cell::text(readable(&item.key)),
            ]
        })
        .collect();
    text.push('\n');
    text.push_str(&draw(&["IT", "WOULD BE", "BYTES", "KEY"], &rows, ""));
    let more = undoing.items.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        text.push_str(&format!("and {more} more; -o json shows them all\n"));
    }
    text
}

fn done_page(undoing: &Undoing, done: &Done) -> String {
    let mut lines = vec![(
        "put back",
        format!(
            "{}, in {}",
            count(done.put_back, "key", "keys"),
            count(done.transactions, "transaction", "transactions")
        ),
    )];
    if done.deleted > 0 {
        lines.push(("deleted", count(done.deleted, "key", "keys")));
    }
    for (name, fate) in [
        ("were as before", Fate::Already),
        ("left alone", Fate::ChangedSince),
    ] {
        let keys = undoing.count(fate);
        if keys > 0 {
            lines.push((name, count(keys, "key", "keys")));
        }
    }
    if undoing.without_lease() > 0 {
        lines.push((
            "without lease",
            format!("{} that had one", count(undoing.without_lease(), "key", "keys")),
        ));
    }
    if done.revision > 0 {
        lines.push(("revision", done.revision.to_string()));
    }
    format!("\n{}", facts::page(&lines))
}
