//! `quorate backup …` on an archive that etcdbrctl wrote: it is listed, and restored from, as it lies there; copied, it becomes one
//! of ours.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::etcdbr::compact::compact;
use quorate_backup::etcdbr::convert::{Conversion, Converted, convert};
use quorate_backup::etcdbr::restore::{Way, judge, restore};
use quorate_backup::etcdbr::verify::{Depth, Report, verify};
use quorate_backup::etcdbr::{Listing, Object, Wanted, plan};
use quorate_backup::plan::{LEASE_TTL_DEFAULT, To};
use quorate_backup::{Archive, Store};
use quorate_datadir::{Members, Progress};
use serde::Serialize;

use super::served::Etcds;
use super::verify::wrong;
use super::{consent, place, watched};
use crate::arguments::Form;
use crate::arguments::backup::{Compact, Copy, Level, List, Restore, Verify};
use crate::commands::restored_members::Made;
use crate::commands::snapshot::form;
use crate::failure::Failure;
use crate::render::count::count;
use crate::render::table::{Cell, draw};
use crate::render::{facts, style};
use crate::say;

/// How many leases are shown by id.
const LEASES_SHOWN: usize = 20;

/// What will be used, and where it leads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanShown {
    revision: i64,
    seen: Option<Timestamp>,
    full: String,
    deltas: Vec<String>,
    fetch_bytes: u64,
    /// What has to be agreed to.
    consents: Vec<String>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(flatten)]
    made: Made,
    /// Leases that keys of deltas go with; their time to live is not known.
    leases: Vec<String>,
    plan: PlanShown,
}

/// `quorate backup restore` from it.
pub async fn restored(
    arguments: &Restore,
    store: &Store,
    listing: Listing,
    members: &Members,
    to: To,
) -> Result<(), Failure> {
    let began = std::time::Instant::now();
    no_timelines(arguments.timeline)?;
    let way = watched::reading(store, Way::among(store, listing, to)).await?;
    let people = arguments.output == Form::Table;
    if people {
        say::print(&plan_page(&way));
    }
    judge(&way, members)?;
    let consents = way.consents();
    if arguments.dry_run {
        if people {
            say::line(consent::dry_run(&consents));
            return Ok(());
        }
        return form::show(arguments.output, &plan_shown(&way), String::new);
    }
    consent::agree(&consents, arguments.yes, people).await?;
    let progress = Arc::new(Progress::new());
    let mut report = |other: &Way| {
        for (object, why) in other.passed_over() {
            say::warning(&format!("{object} is passed over: {why}"));
        }
    };
    let work = restore(way, members, &progress, &mut report);
    let outcome = watched::watch("restored", store, &progress, work).await?;
    let made = Made::of(members, &outcome.members, began)?;
    made.warn();
    let leases: Vec<String> = outcome.leases.ids.iter().map(|id| format!("{id:x}")).collect();
    if !leases.is_empty() {
        let some = leases
            .iter()
            .take(LEASES_SHOWN)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        let more = if leases.len() > LEASES_SHOWN || outcome.leases.more {
            ", …"
        } else {
            ""
        };
        say::warning(&format!(
            "deltas speak of leases ({}), and do not say how long they live; those that the full does not have live \
             {LEASE_TTL_DEFAULT} s: {some}{more}",
            leases.len()
        ));
    }
    let shown = Shown {
        made,
        leases,
        plan: plan_shown(&outcome.way),
    };
    form::show(arguments.output, &shown, || format!("\n{}", shown.made.page()))
}

/// It has one history, without a name.
fn no_timelines(named: Option<u32>) -> Result<(), Failure> {
    match named {
        None => Ok(()),
        Some(_) => Err(Failure::usage("an archive of etcdbrctl has no timelines")),
    }
}

fn plan_page(way: &Way) -> String {
    facts::page(&way.facts()) + &consent::notes(&way.notes(), &way.consents())
}

fn plan_shown(way: &Way) -> PlanShown {
    PlanShown {
        revision: way.revision(),
        seen: way.seen(),
        full: way.plan().base.key.clone(),
        deltas: way.plan().deltas.iter().map(|delta| delta.key.clone()).collect(),
        fetch_bytes: way.fetch_bytes(),
        consents: way.consents(),
        notes: way.notes(),
    }
}

/// `quorate backup copy` from it: into an archive of ours.
pub async fn converted(arguments: &Copy, from: &Store, to: &Store) -> Result<(), Failure> {
    let key = place::key(&arguments.place)?;
    let now = Timestamp::now();
    let mut archive = Archive::open_or_begin(to, key, now).await?;
    let (scratch, writer) = (place::scratch(None), place::writer());
    let wanted = Conversion {
        scratch: &scratch,
        writer: &writer,
    };
    let progress = Arc::new(Progress::new());
    let work = convert(from, &mut archive, wanted, &progress, now);
    let converted = watched::watch("converted", from, &progress, work).await?;
    for (object, why) in &converted.passed_over {
        say::warning(&format!("{object} is passed over: {why}"));
    }
    form::show(arguments.output, &converted, || converted_page(&converted))
}

fn converted_page(converted: &Converted) -> String {
    let mut lines = vec![
        ("timeline", converted.timeline.to_string()),
        ("full copies", converted.fulls.to_string()),
        (
            "deltas",
            format!(
                "{}, {}",
                converted.deltas,
                count(converted.rows, "change", "changes")
            ),
        ),
        ("up to revision", converted.revision.to_string()),
    ];
    for gap in &converted.missing {
        let text = format!("revisions {} to {}: {}", gap.from, gap.to, gap.why);
        lines.push(("missing", text));
    }
    if converted.leases > 0 {
        let text = format!("{} of unknown time to live", converted.leases);
        lines.push(("leases", text));
    }
    facts::page(&lines)
}

/// `quorate backup verify` of it.
pub async fn verified(
    arguments: &Verify,
    store: &Store,
    scratch: &Path,
    root: Option<&Path>,
) -> Result<(), Failure> {
    no_timelines(arguments.timeline)?;
    if arguments.every_full {
        return Err(Failure::usage(
            "fulls of etcdbrctl are read, not held against each other",
        ));
    }
    let progress = Arc::new(Progress::new());
    let etcds = Etcds::of(root, arguments.etcd.as_deref(), &progress);
    let depth = match arguments.level {
        Level::Read => Depth::Read,
        Level::Rebuilt => Depth::Rebuilt(scratch),
        Level::Served => Depth::Served(scratch, &etcds),
    };
    let report = watched::watch("verified", store, &progress, verify(store, depth, &progress)).await?;
    form::show(arguments.output, &report, || verified_page(&report))?;
    match report.findings.len() {
        0 => Ok(()),
        count => Err(wrong(count)),
    }
}

fn verified_page(report: &Report) -> String {
    let text = format!(
        "{}, {}, {}",
        count(report.fulls, "full", "fulls"),
        count(report.deltas, "delta", "deltas"),
        facts::size(report.bytes)
    );
    let mut lines = vec![("read", text)];
    if let Some(rebuilt) = &report.rebuilt {
        let text = format!("revision {}, HashKV {}", rebuilt.revision, rebuilt.hash.hash);
        lines.push(("rebuilt", text));
        if rebuilt.served {
            lines.push(("served", style::paint(style::GOOD, "a real etcd says the same")));
        }
    }
    for finding in &report.findings {
        let text = format!("{}: {}", finding.object, finding.why);
        lines.push(("wrong", style::paint(style::BAD, &text)));
    }
    facts::page(&lines)
}

/// `quorate backup compact` of it: one more full, as etcdbrctl writes them.
pub async fn compacted(arguments: &Compact, store: &Store, scratch: &Path) -> Result<(), Failure> {
    no_timelines(arguments.timeline)?;
    if arguments.to_revision.is_some() || arguments.keep_history {
        return Err(Failure::usage(
            "an archive of etcdbrctl is compacted at its end, and without its history",
        ));
    }
    let progress = Arc::new(Progress::new());
    let work = compact(store, scratch, &progress, Timestamp::now());
    let compacted = watched::watch("compacted", store, &progress, work).await?;
    for (object, why) in &compacted.passed_over {
        say::warning(&format!("{object} is passed over: {why}"));
    }
    form::show(arguments.output, &compacted, || {
        let done = match compacted.was_there {
            true => "was there",
            false => "made",
        };
        facts::page(&[
            (done, compacted.object.clone()),
            ("revision", compacted.revision.to_string()),
            (
                "of",
                format!(
                    "{} and {}",
                    compacted.from,
                    count(compacted.deltas, "delta", "deltas")
                ),
            ),
            ("size", facts::size(compacted.bytes)),
        ])
    })
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListShown {
    archive: String,
    written_by: &'static str,
    fulls: Vec<ObjectShown>,
    deltas: Vec<ObjectShown>,
    /// How far a restore gets, by the names.
    reaches: Option<i64>,
    /// What is missing for more.
    missing: Option<(i64, i64)>,
    pieces_of_uploads: u64,
    foreign: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectShown {
    object: String,
    from: i64,
    to: i64,
    uploaded: Option<Timestamp>,
    bytes: u64,
    last_before_rest: bool,
}

/// `quorate backup list` of it.
pub fn listed(arguments: &List, store: &Store, listing: &Listing) -> Result<(), Failure> {
    no_timelines(arguments.timeline)?;
    let planned = plan(listing, Wanted::Newest, &Default::default());
    let (reaches, missing) = match &planned {
        Ok(plan) => (Some(plan.reaches), None),
        Err(unreachable) => (unreachable.reaches, unreachable.missing),
    };
    let shown = ListShown {
        archive: store.describe().to_owned(),
        written_by: "etcdbrctl",
        fulls: listing.fulls.iter().map(object).collect(),
        deltas: listing.deltas.iter().map(object).collect(),
        reaches,
        missing: missing.map(|missing| (missing.from, missing.to)),
        pieces_of_uploads: listing.chunks,
        foreign: listing.foreign,
    };
    form::show(arguments.output, &shown, || list_page(&shown, arguments.deltas))
}

fn object(object: &Object) -> ObjectShown {
    ObjectShown {
        object: object.key.clone(),
        from: object.name.start,
        to: object.name.last,
        uploaded: Timestamp::from_second(object.name.created).ok(),
        bytes: object.size,
        last_before_rest: object.name.is_final,
    }
}

fn list_page(shown: &ListShown, every_delta: bool) -> String {
    let mut lines = vec![("archive", format!("{}, written by etcdbrctl", shown.archive))];
    match (shown.reaches, shown.missing) {
        (Some(reaches), None) => lines.push(("reaches", format!("revision {reaches}"))),
        (Some(reaches), Some((from, to))) => {
            lines.push((
                "reaches",
                format!("revision {reaches}; {from} to {to} are missing"),
            ));
        }
        (None, _) => lines.push(("reaches", "nothing: there is no full".to_owned())),
    }
    let bytes: u64 = shown.deltas.iter().map(|delta| delta.bytes).sum();
    lines.push((
        "deltas",
        format!("{}, {}", shown.deltas.len(), facts::size(bytes)),
    ));
    let rows = |objects: &[ObjectShown]| -> Vec<Vec<Cell>> {
        let row = |object: &ObjectShown| {
            vec![
                Cell::text(object.object.clone()),
                Cell::text(format!("{} to {}", object.from, object.to)),
                Cell::text(object.uploaded.map(|at| at.to_string()).unwrap_or_default()),
                Cell::number(facts::size(object.bytes)),
            ]
        };
        objects.iter().map(row).collect()
    };
    let mut all = rows(&shown.fulls);
    if every_delta {
        all.extend(rows(&shown.deltas));
    }
    format!(
        "{}\n{}",
        facts::page(&lines),
        draw(&["OBJECT", "REVISIONS", "UPLOADED", "SIZE"], &all, "")
    )
}
