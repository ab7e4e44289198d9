//! `quorate backup prune URL --keep 7d,30d:1d`: what is older is given up, and later deleted.

use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::Error;
use quorate_backup::prune::{self, Done, Options, Plan, Tally};
use quorate_backup::retention::{Retention, Why};
use quorate_datadir::Progress;
use serde::Serialize;

use super::list::when;
use super::{place, watched};
use crate::arguments::Form;
use crate::arguments::backup::Prune;
use crate::commands::snapshot::form;
use crate::failure::Failure;
use crate::render::count::count;
use crate::render::facts;
use crate::render::status::bytes_in_words;
use crate::say;

/// For programs: what was planned, and what was done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    plan: Plan,
    done: Option<Done>,
}

/// Plans, says so, and does it.
pub async fn run(arguments: &Prune) -> Result<(), Failure> {
    let options = Options {
        retention: retention(&arguments.keep)?,
        grace: arguments.grace,
        writer: place::writer(),
    };
    let archive = place::archive(&arguments.place).await?;
    let now = Timestamp::now();
    let plan = watched::reading(archive.store(), prune::plan(&archive, &options, now)).await?;
    let people = arguments.output == Form::Table;
    if people {
        say::print(&plan_page(&plan));
    }
    if arguments.dry_run {
        if people {
            say::line("Nothing was done: this was a dry run.");
            return Ok(());
        }
        return form::show(arguments.output, &Shown { plan, done: None }, String::new);
    }
    let progress = Arc::new(Progress::new());
    progress.expect(Tally::of(&plan.due).bytes + Tally::of(&plan.orphans).bytes);
    if options.grace.is_zero() {
        // What is given up goes at once.
        let going = plan.timelines.iter().map(|timeline| Tally::of(&timeline.going));
        progress.expect(going.map(|tally| tally.bytes).sum());
    }
    let seen = |bytes| progress.add(bytes).map_err(|_| Error::Cancelled);
    let work = prune::run(&archive, &options, &plan, now, seen);
    let done = watched::watch("deleted", archive.store(), &progress, work).await?;
    let troubles = done.troubles.clone();
    let shown = Shown {
        plan,
        done: Some(done),
    };
    form::show(arguments.output, &shown, || {
        shown.done.as_ref().map_or_else(String::new, done_page)
    })?;
    match troubles.first() {
        None => Ok(()),
        Some(first) => Err(Failure::failed(format!("not everything could be done: {first}"))),
    }
}

/// What `--keep` says, all of it together.
pub fn retention(keep: &[String]) -> Result<Option<Retention>, Failure> {
    if keep.is_empty() {
        return Ok(None);
    }
    let parsed = keep.join(",").parse::<Retention>();
    parsed
        .map(Some)
        .map_err(|why| Failure::usage(format!("--keep {}: {why}", keep.join(","))))
}

fn tally(tally: Tally) -> String {
    match tally.objects {
        0 => "nothing".to_owned(),
        objects => {
            let objects = count(objects, "object", "objects");
            format!("{objects}, {}", bytes_in_words(tally.bytes))
        }
    }
}

fn plan_page(plan: &Plan) -> String {
    let mut lines = Vec::new();
    for timeline in &plan.timelines {
        lines.push(("timeline", timeline.timeline.to_string()));
        for staying in &timeline.staying {
            let why = match staying.why {
                Why::Window => "in the window of every revision",
                Why::LastResort => "the newest, which always stays",
                Why::OneOfEach => "one of each",
            };
            let text = format!(
                "{}, {}, {}: {why}",
                count(staying.fulls.objects, "full copy", "full copies"),
                count(staying.deltas.objects, "delta", "deltas"),
                bytes_in_words(staying.fulls.bytes + staying.deltas.bytes)
            );
            lines.push(("  stays", text));
        }
        lines.push(("  goes", tally(Tally::of(&timeline.going))));
        for fault in &timeline.faults {
            lines.push(("  damaged", format!("{fault}; its log stays as it is")));
        }
    }
    lines.push(("deleted now", tally(Tally::of(&plan.due))));
    if plan.waiting.objects > 0 {
        let next = plan
            .next
            .map_or_else(String::new, |next| format!(", from {} on", when(next)));
        lines.push(("deleted later", format!("{}{next}", tally(plan.waiting))));
    }
    if plan.held.objects > 0 {
        let who: Vec<&str> = plan.marks.iter().map(|mark| mark.who.as_str()).collect();
        lines.push(("held", format!("{}, by {}", tally(plan.held), who.join(", "))));
    }
    if !plan.orphans.is_empty() {
        lines.push((
            "left over",
            format!("{}, named by no record", tally(Tally::of(&plan.orphans))),
        ));
    }
    facts::page(&lines)
}

fn done_page(done: &Done) -> String {
    let mut lines = Vec::new();
    if done.given_up.objects > 0 {
        let after = done.delete_after.map_or_else(String::new, |after| {
            format!("; the first prune after {} deletes them", when(after))
        });
        lines.push(("given up", format!("{}{after}", tally(done.given_up))));
    }
    let deleted = Tally {
        objects: done.deleted.objects + done.orphans.objects,
        bytes: done.deleted.bytes + done.orphans.bytes,
    };
    lines.push(("deleted", tally(deleted)));
    for locked in &done.locked {
        lines.push((
            "locked",
            format!("{locked}: the store keeps it; tried again next time"),
        ));
    }
    for trouble in &done.troubles {
        lines.push(("not done", trouble.clone()));
    }
    format!("\n{}", facts::page(&lines))
}
