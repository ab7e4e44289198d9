//! `quorate backup list URL`: what an archive holds, and which points it leads back to.

use jiff::Timestamp;
use quorate_backup::inventory::{Following, Inventory, Timeline, Wanted};
use quorate_backup::record::{Level, Made};

use super::place::{self, Found};
use super::{etcdbr, watched};
use crate::arguments::backup::List;
use crate::commands::snapshot::form;
use crate::duration;
use crate::failure::Failure;
use crate::render::status::bytes_in_words;
use crate::render::table::{Cell, draw};
use crate::render::{facts, style};

/// Gaps, faults and stretches that are shown at most.
const SHOWN_MAX: usize = 20;

pub async fn run(arguments: &List) -> Result<(), Failure> {
    let archive = match place::found(&arguments.place).await? {
        Found::Ours(archive) => archive,
        Found::Etcdbr(store, listing) => {
            return etcdbr::listed(arguments, &store, &listing);
        }
    };
    let now = Timestamp::now();
    let wanted = Wanted {
        timeline: arguments.timeline,
        deltas: arguments.deltas,
    };
    let inventory = watched::reading(archive.store(), Inventory::take(&archive, wanted, now)).await?;
    form::show(arguments.output, &inventory, || page(&inventory, now))?;
    match inventory.is_faulty() {
        false => Ok(()),
        true => Err(Failure::failed("something in the log of the archive is damaged")
            .and("What is sound still counts; `quorate backup verify URL` says what can be restored.")),
    }
}

fn page(inventory: &Inventory, now: Timestamp) -> String {
    let mut text = facts::page(&[
        ("archive", inventory.store.clone()),
        ("id", inventory.id.clone()),
        ("created", when(inventory.created)),
    ]);
    if inventory.timelines.is_empty() {
        text.push_str("\nIt is empty.\n");
    }
    for timeline in &inventory.timelines {
        text.push('\n');
        text.push_str(&timeline_page(timeline, now));
    }
    for mark in &inventory.marks {
        text.push_str(&format!("\nbeing read by {}\n", mark.who));
    }
    text
}

fn timeline_page(timeline: &Timeline, now: Timestamp) -> String {
    let from = match &timeline.parent {
        Some(parent) => format!(
            ", from revision {} of timeline {}",
            parent.revision, parent.timeline
        ),
        None => String::new(),
    };
    let mut lines = vec![
        ("timeline", format!("{}{from}", timeline.timeline)),
        (
            "cluster",
            format!("{}, since {}", timeline.cluster_id, when(timeline.created)),
        ),
    ];
    let spans: Vec<String> = timeline
        .reachable
        .iter()
        .map(|span| match span.from == span.to {
            true => span.from.to_string(),
            false => format!("{} to {}", span.from, span.to),
        })
        .collect();
    lines.push(("revisions", some_of(&spans, "none")));
    if let Some(times) = &timeline.times {
        lines.push(("times", format!("{} to {}", when(times.from), when(times.to))));
    }
    lines.push(("size", facts::size(timeline.bytes)));
    let proven: Vec<String> = timeline
        .proven
        .iter()
        .map(|proven| {
            format!(
                "{} up to revision {}, {}",
                level(proven.level),
                proven.revision,
                ago(proven.at, now)
            )
        })
        .collect();
    lines.push(("proven", some_of(&proven, "never")));
    if let Some(writer) = &timeline.writer {
        let state = match writer.writing {
            true => "writes".to_owned(),
            false => format!("wrote, last heard of {}", ago(writer.at, now)),
        };
        lines.push(("writer", format!("{} {state}", writer.writer)));
    }
    if let Some(at) = timeline.last_record {
        lines.push(("last record", ago(at, now)));
    }
    for gap in timeline.gaps.iter().take(SHOWN_MAX) {
        let text = format!("revisions {} to {}: {}", gap.gap.from, gap.gap.to, gap.gap.why);
        lines.push(("missing", style::paint(style::WARN, &text)));
    }
    for fault in timeline.faults.iter().take(SHOWN_MAX) {
        let text = format!("{}: {}", fault.object, fault.why);
        lines.push(("damaged", style::paint(style::BAD, &text)));
    }
    let mut text = facts::page(&lines);
    text.push_str(&fulls(timeline));
    if !timeline.deltas.is_empty() {
        text.push_str(&deltas(timeline));
    }
    text
}

/// A few of them on one line.
fn some_of(items: &[String], none: &str) -> String {
    match items {
        [] => none.to_owned(),
        items if items.len() > SHOWN_MAX => {
            let rest = items.len() - SHOWN_MAX;
            format!("{} and {rest} more", items[..SHOWN_MAX].join(", "))
        }
        items => items.join(", "),
    }
}

fn fulls(timeline: &Timeline) -> String {
    let mut rows = Vec::new();
    if timeline.before_first.deltas > 0 {
        let mut row = vec![Cell::number("-"), Cell::text("-"), Cell::text("no full copy")];
        row.extend([Cell::number("-"), Cell::text("-"), Cell::text("-")]);
        row.extend(following(&timeline.before_first));
        rows.push(row);
    }
    for full in &timeline.fulls {
        let made = match full.made {
            Made::Snapshot => "snapshot",
            Made::Compaction => "compaction",
            Made::Conversion => "conversion",
        };
        let proven = full.proven.map_or("-", level);
        let mut row = vec![
            Cell::number(full.revision.to_string()),
            Cell::text(when(full.taken)),
            Cell::text(match full.key {
                Some(_) => format!("{made}, encrypted"),
                None => made.to_owned(),
            }),
            Cell::number(bytes_in_words(full.stored_bytes)),
            Cell::text(full.etcd_version.clone()),
            Cell::text(proven),
        ];
        row.extend(following(&full.following));
        rows.push(row);
    }
    if rows.is_empty() {
        return String::new();
    }
    let headings = [
        "REVISION", "TAKEN", "MADE BY", "SIZE", "ETCD", "PROVEN", "DELTAS", "SIZE", "UP TO",
    ];
    format!("\n{}", draw(&headings, &rows, "  "))
}

fn following(following: &Following) -> [Cell; 3] {
    [
        Cell::number(following.deltas.to_string()),
        Cell::number(bytes_in_words(following.bytes)),
        Cell::text(following.span.map_or("-".to_owned(), |span| span.to.to_string())),
    ]
}

fn deltas(timeline: &Timeline) -> String {
    let rows: Vec<Vec<Cell>> = timeline
        .deltas
        .iter()
        .map(|delta| {
            vec![
                Cell::number(delta.from.to_string()),
                Cell::number(delta.to.to_string()),
                Cell::number(delta.rows.to_string()),
                Cell::number(bytes_in_words(delta.stored_bytes)),
                Cell::text(when(delta.at)),
                Cell::text(delta.object.clone()),
            ]
        })
        .collect();
    let headings = ["FROM", "TO", "ROWS", "SIZE", "RECORDED", "OBJECT"];
    format!("\n{}", draw(&headings, &rows, "  "))
}

/// A level, as people say it.
pub fn level(level: Level) -> &'static str {
    match level {
        Level::Read => "read",
        Level::Rebuilt => "rebuilt",
        Level::Served => "served",
    }
}

/// A time to the second, in UTC.
pub fn when(time: Timestamp) -> String {
    match Timestamp::from_second(time.as_second()) {
        Ok(time) => time.to_string(),
        Err(_) => time.to_string(),
    }
}

fn ago(time: Timestamp, now: Timestamp) -> String {
    // A clock that was set back makes nothing later than now.
    let since = std::time::Duration::try_from(now.duration_since(time)).unwrap_or_default();
    format!("{} ago", duration::say(since))
}
