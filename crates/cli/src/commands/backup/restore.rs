//! `quorate backup restore URL --data-dir DIR`: data directories at any revision or time of an archive.
//!
//! The plan comes first, and is shown; what is not quite what was asked for has to be agreed to.

use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::plan::{Plan, To, Wanted, plan};
use quorate_backup::restore::{judge, restore};
use quorate_datadir::{Members, Progress, Seat};
use serde::Serialize;

use super::place::{self, Found};
use super::{consent, etcdbr, watched};
use crate::arguments::Form;
use crate::arguments::backup::Restore;
use crate::commands::restored_members::Made;
use crate::commands::snapshot::{form, restore::minor};
use crate::failure::Failure;
use crate::render::facts;
use crate::say;

/// What will be used, and where it leads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanShown {
    timeline: u32,
    revision: i64,
    /// When that revision was known to be there.
    known: Option<Timestamp>,
    /// How much older than the time that was asked for it may be, in milliseconds.
    bracket_ms: Option<i64>,
    full: String,
    full_revision: i64,
    cut: Option<i64>,
    deltas: usize,
    fetch_bytes: u64,
    database_bytes: u64,
    users_and_roles_of: Timestamp,
    users_and_roles_are_sure: bool,
    leases_of_unknown_time: Vec<String>,
    /// What has to be agreed to.
    consents: Vec<String>,
    notes: Vec<String>,
}

/// What was made, and how.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(flatten)]
    made: Made,
    timeline: u32,
    notes: Vec<String>,
    plan: PlanShown,
}

/// Plans, asks, and does it.
pub async fn run(arguments: Restore) -> Result<(), Failure> {
    let began = std::time::Instant::now();
    let members = members(&arguments)?;
    let to = match (arguments.to_revision, arguments.to_time) {
        (Some(revision), _) => To::Revision(revision),
        (None, Some(time)) => To::Time(time),
        (None, None) => To::End,
    };
    let archive = match place::found(&arguments.place).await? {
        Found::Ours(archive) => archive,
        Found::Etcdbr(store, listing) => {
            return etcdbr::restored(&arguments, &store, listing, &members, to).await;
        }
    };
    let timeline = arguments.timeline;
    // Nothing that is given up from here on is deleted before it is done.
    let since = Timestamp::now();
    let plan = watched::reading(archive.store(), plan(&archive, Wanted { timeline, to })).await?;
    let people = arguments.output == Form::Table;
    if people {
        say::print(&plan_page(&plan));
    }
    // A dry run reports what is in the way, too.
    judge(&plan, &members)?;
    let consents = plan.consents();
    if arguments.dry_run {
        if people {
            say::line(consent::dry_run(&consents));
            return Ok(());
        }
        return form::show(arguments.output, &plan_shown(&plan), String::new);
    }
    consent::agree(&consents, arguments.yes, people).await?;
    let progress = Arc::new(Progress::new());
    let mut report = |other: &Plan| {
        for note in other.notes() {
            say::warning(&note);
        }
    };
    let work = restore(plan, &members, &progress, since, &mut report);
    let outcome = watched::watch("restored", archive.store(), &progress, work).await?;
    for note in &outcome.notes {
        say::warning(note);
    }
    let made = Made::of(&members, &outcome.members, began)?;
    made.warn();
    let shown = Shown {
        made,
        timeline: outcome.plan.timeline,
        notes: outcome.notes.clone(),
        plan: plan_shown(&outcome.plan),
    };
    form::show(arguments.output, &shown, || format!("\n{}", shown.made.page()))
}

fn members(arguments: &Restore) -> Result<Members, Failure> {
    let member = &arguments.member;
    let seats = match arguments.every_member {
        false => vec![Seat {
            name: member.name.clone(),
            peer_urls: member.initial_advertise_peer_urls.clone(),
            data_dir: arguments.data_dir.clone(),
            wal_dir: member.wal_dir.clone(),
        }],
        true => every_seat(arguments)?,
    };
    Ok(Members {
        initial_cluster: member.initial_cluster.clone(),
        token: member.initial_cluster_token.clone(),
        seats,
        bump: member.bump_revision,
        for_version: member.for_version.as_deref().map(minor).transpose()?,
    })
}

/// A seat for each of `--initial-cluster`.
fn every_seat(arguments: &Restore) -> Result<Vec<Seat>, Failure> {
    let mut seats: Vec<Seat> = Vec::new();
    for part in arguments.member.initial_cluster.split(',') {
        let wrong = || Failure::usage(format!("--initial-cluster: {part:?} is not NAME=URL"));
        let (name, url) = part.trim().split_once('=').ok_or_else(wrong)?;
        // It becomes the name of a directory.
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return Err(wrong());
        }
        match seats.iter_mut().find(|seat| seat.name == name) {
            Some(seat) => seat.peer_urls = format!("{},{url}", seat.peer_urls),
            None => seats.push(Seat {
                name: name.to_owned(),
                peer_urls: url.to_owned(),
                data_dir: arguments.data_dir.join(name),
                wal_dir: None,
            }),
        }
    }
    Ok(seats)
}

fn plan_page(plan: &Plan) -> String {
    facts::page(&plan.facts()) + &consent::notes(&plan.notes(), &plan.consents())
}

fn plan_shown(plan: &Plan) -> PlanShown {
    PlanShown {
        timeline: plan.timeline,
        revision: plan.revision,
        known: plan.known,
        bracket_ms: plan.bracket.map(|bracket| bracket.width_ms()),
        full: plan.full.facts.object.clone(),
        full_revision: plan.full.revision,
        cut: plan.cut,
        deltas: plan.deltas.len(),
        fetch_bytes: plan.fetch_bytes(),
        database_bytes: plan.database_bytes(),
        users_and_roles_of: plan.full.auth().taken,
        users_and_roles_are_sure: plan.auth_is_sure,
        leases_of_unknown_time: plan.unknown_leases().map(|id| format!("{id:x}")).collect(),
        consents: plan.consents(),
        notes: plan.notes(),
    }
}
