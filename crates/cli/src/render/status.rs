//! `quorate status` for people.
//!
//! In: a [`Status`], which says how old it is. Out: a headline that says how the cluster is, its members, what is being done,
//! what is waited for and what blocks it, each with its reason.

use std::time::Duration;

use clap::builder::styling::Style;
use jiff::Timestamp;
use quorate_host::{Member, Status};

use super::backups;
use super::count::count;
use super::paragraph::{self, WIDTH};
use super::style::{self, paint};
use super::table::{self, Cell};
use crate::duration;

pub fn page(status: &Status) -> String {
    let mut text = format!("{}\n", headline(status));
    if let Some(words) = caution(status) {
        text += &format!(
            "{}\n",
            paint(style::WARN, &paragraph::wrap(&words, WIDTH, "", ""))
        );
    }
    if !status.members.is_empty() {
        text += &format!("\n{}", members(status));
    }
    text += &endings(status);
    text += &section(
        "Doing",
        style::NAME,
        status.plan.iter().map(|step| (String::new(), step.clone())),
    );
    let waits = status.waits.iter().map(|wait| {
        (
            wait.reason.clone(),
            with_member(wait.member.as_deref(), &wait.detail),
        )
    });
    text += &section("Waiting for", style::WARN, waits);
    let blocks = status.blocks.iter().map(|block| {
        (
            block.reason.clone(),
            with_member(block.member.as_deref(), &block.detail),
        )
    });
    text += &section("Blocked by", style::BAD, blocks);
    let backups = status
        .backup
        .iter()
        .flat_map(|backup| backups::sentences(backup, Timestamp::now()));
    text += &section(
        "Backups",
        style::NAME,
        backups.map(|sentence| (String::new(), sentence)),
    );
    text += &section(
        "Old data",
        style::NAME,
        old_data(status).map(|words| (String::new(), words)),
    );
    text += &section(
        "Problems",
        style::WARN,
        status.problems.iter().map(|text| by_reason(text)),
    );
    text
}

/// A problem that has a page begins with its name.
fn by_reason(text: &str) -> (String, String) {
    let known = |name: &str| quorate_core::reason::names().any(|known| known == name);
    match text.split_once(": ") {
        Some((name, detail)) if known(name) => (name.to_owned(), detail.to_owned()),
        _ => (String::new(), text.to_owned()),
    }
}

/// What was set aside when members were replaced or went. Some of it is kept for as long as nobody deletes it.
fn old_data(status: &Status) -> impl Iterator<Item = String> {
    let sets = status.asides.len();
    let bytes = status.asides.iter().map(|aside| aside.bytes).sum();
    let directory = status.asides.first().and_then(|aside| aside.path.parent());
    directory.into_iter().map(move |directory| {
        let room = bytes_in_words(bytes);
        let sets = count(sets, "set", "sets");
        format!(
            "{sets} of members that were replaced or went, {room}, in {}; delete what you do not need",
            directory.display()
        )
    })
}

/// The cluster, its id, its version and its health on one line.
fn headline(status: &Status) -> String {
    let (style, words) = health(status);
    let mut known = Vec::new();
    known.extend(status.cluster_id.as_ref().map(|id| format!("id {id}")));
    known.push(versions(status));
    format!(
        "{} ({}) {}",
        paint(style::HEAD, &status.cluster),
        known.join(", "),
        paint(style, &words)
    )
}

/// `etcd 3.6.16`, or `etcd 3.5.35 and 3.6.16, wanted 3.6.16` while it moves.
fn versions(status: &Status) -> String {
    let mut running: Vec<&str> = status
        .members
        .iter()
        .filter_map(|member| member.version.as_deref())
        .collect();
    running.sort_unstable();
    running.dedup();
    let wanted = status.spec.version.as_str();
    match running.as_slice() {
        [] => format!("etcd {wanted}"),
        [one] if *one == wanted => format!("etcd {wanted}"),
        several => format!("etcd {}, wanted {wanted}", several.join(" and ")),
    }
}

/// How the cluster is, in words.
pub fn health(status: &Status) -> (Style, String) {
    let voters: Vec<&Member> = voters(status).collect();
    let healthy = voters.iter().filter(|member| member.healthy).count();
    let all = |count: usize| match count {
        1 => "its only member serves".to_owned(),
        2 => "both members serve".to_owned(),
        count => format!("all {count} members serve"),
    };
    if !status.supervisor.running {
        let words = if is_stopped(status) {
            "is stopped"
        } else {
            "is not supervised"
        };
        return (style::WARN, words.to_owned());
    }
    if status.stale {
        return (style::BAD, "is not known to be healthy".to_owned());
    }
    if status.ready {
        return (style::GOOD, format!("is healthy: {}", all(voters.len())));
    }
    if let Some(words) = no_quorum(status) {
        return (style::BAD, words);
    }
    if voters.is_empty() {
        return match status.blocks.is_empty() {
            true => (style::WARN, "is starting".to_owned()),
            false => (style::BAD, "cannot start".to_owned()),
        };
    }
    let serving = match healthy == voters.len() {
        true => all(healthy),
        false => format!("serves with {healthy} of {} voting members healthy", voters.len()),
    };
    if !status.blocks.is_empty() {
        return (style::BAD, format!("is blocked: {serving}"));
    }
    match (healthy == voters.len(), status.spec.paused) {
        (true, true) => (style::WARN, format!("is paused: {serving}")),
        (true, false) => (style::WARN, format!("is changing: {serving}")),
        (false, _) => (style::WARN, serving),
    }
}

fn voters(status: &Status) -> impl Iterator<Item = &Member> {
    let members = status.members.iter();
    members.filter(|member| matches!(member.role.as_str(), "leader" | "voter"))
}

/// That a cluster which is looked after has no quorum, in words; not of one that has yet to begin.
pub fn no_quorum(status: &Status) -> Option<String> {
    if status.stale || !status.supervisor.running {
        return None;
    }
    let voting = voters(status).count();
    if voting == 0 {
        // Without a quorum nobody can say who votes.
        let members = status.members.iter();
        let running = members.filter(|member| member.pid.is_some()).count();
        let all = status.members.len();
        let begun = status.cluster_id.is_some();
        return begun.then(|| format!("has no quorum: {running} of {all} members run"));
    }
    let healthy = voters(status).filter(|member| member.healthy).count();
    let quorum = voting / 2 + 1;
    (healthy < quorum)
        .then(|| format!("has no quorum: {healthy} of {voting} voting members healthy, {quorum} needed"))
}

/// Do clients get answers, as far as is known? A cluster that changes, or lacks a member, serves; one whose alarm is on
/// takes no writes.
pub fn serves(status: &Status) -> bool {
    let (all, healthy) = voters(status).fold((0, 0), |(all, healthy), m| {
        (all + 1, healthy + usize::from(m.healthy))
    });
    let alarm = |reason: &str| matches!(reason, "NoSpace" | "Corrupt");
    let alarmed = status.blocks.iter().any(|block| alarm(&block.reason));
    !status.stale && !alarmed && healthy > all / 2
}

/// Why this should not be taken for the present.
fn caution(status: &Status) -> Option<String> {
    let ago = status.age.map_or("some time ago".to_owned(), |age| {
        format!("{} ago", duration::say(Duration::from_secs(age)))
    });
    if !status.supervisor.running && is_stopped(status) {
        return Some(format!(
            "Nothing runs; it was last seen {ago}. `quorate up` starts it again from its data."
        ));
    }
    if !status.supervisor.running {
        return Some(format!(
            "No supervisor runs; the members were last looked at {ago}, and those that run go on serving. \
             `quorate up` takes them over, `quorate down` stops them."
        ));
    }
    status.stale.then(|| {
        let pid = status.supervisor.pid;
        format!(
            "This is from {ago}, although the supervisor (pid {pid}) runs: it is stuck or starved, or cannot write. How \
             the members are now is not known."
        )
    })
}

/// The last supervisor stopped every member.
fn is_stopped(status: &Status) -> bool {
    status.members.iter().all(|member| member.pid.is_none())
}

fn members(status: &Status) -> String {
    let size = |bytes: Option<u64>| Cell::number(bytes.map_or("-".to_owned(), bytes_in_words));
    let row = |member: &Member| {
        vec![
            Cell::styled(style::HEAD, &member.name),
            Cell::text(member.id.as_deref().unwrap_or("-")),
            Cell::text(role(member)),
            health_of(member, status.supervisor.running),
            Cell::text(member.version.as_deref().unwrap_or("-")),
            size(member.db_size),
            size(member.db_size_in_use),
            Cell::number(member.pid.map_or("-".to_owned(), |pid| pid.to_string())),
            Cell::text(&member.client_url),
        ]
    };
    let rows: Vec<Vec<Cell>> = status.members.iter().map(row).collect();
    let headings = [
        "NAME",
        "ID",
        "ROLE",
        "HEALTH",
        "VERSION",
        "DB",
        "IN USE",
        "PID",
        "CLIENT URL",
    ];
    table::draw(&headings, &rows, "")
}

/// Who led when it was stopped leads no more.
fn role(member: &Member) -> &str {
    if member.role == "leader" && !member.leader {
        "voter"
    } else {
        &member.role
    }
}

/// One word. Without a supervisor nobody asks a member how it is.
fn health_of(member: &Member, supervised: bool) -> Cell {
    match (member.healthy, member.process.as_str()) {
        (true, _) => Cell::styled(style::GOOD, "healthy"),
        (false, "running") if supervised => Cell::styled(style::WARN, "unhealthy"),
        (false, word @ ("running" | "stopping" | "stopped")) => Cell::styled(style::WARN, word),
        (false, _) => Cell::styled(style::BAD, "down"),
    }
}

/// How members that are down came to be so.
fn endings(status: &Status) -> String {
    let known = |process: &str| matches!(process, "" | "running" | "stopping" | "stopped");
    let line = |member: &Member| {
        let how = member.process.strip_prefix("ended: ").unwrap_or(&member.process);
        let words = format!(
            "{} is down: {how}; see `quorate logs {}`",
            member.name, member.name
        );
        format!("{}\n", paragraph::wrap(&words, WIDTH, "  ", "    "))
    };
    let ended = status
        .members
        .iter()
        .filter(|member| !member.healthy && !known(&member.process));
    let lines: String = ended.map(line).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}

/// A heading and a line for each item, or nothing where there is none. Reasons come with the way to their page.
fn section(title: &str, style: Style, items: impl Iterator<Item = (String, String)>) -> String {
    let mut text = String::new();
    let mut reasons: Vec<String> = Vec::new();
    for (reason, detail) in items {
        let words = if reason.is_empty() {
            detail
        } else {
            format!("{reason}: {detail}")
        };
        let wrapped = paragraph::wrap(&words, WIDTH, "  ", "    ");
        text += &format!("{}\n", wrapped.replacen(&reason, &paint(style, &reason), 1));
        if !reason.is_empty() && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if text.is_empty() {
        return text;
    }
    for reason in &reasons {
        text += &format!("  {}\n", paint(style::DIM, &format!("quorate explain {reason}")));
    }
    format!("\n{}\n{text}", paint(style::HEAD, title))
}

fn with_member(member: Option<&str>, detail: &str) -> String {
    match member {
        // The detail often names it already.
        Some(member) if !detail.contains(member) => format!("{member}: {detail}"),
        _ => detail.to_owned(),
    }
}

/// `20 KiB`, `1.5 GiB`.
pub fn bytes_in_words(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // Rounded up, 1023.95 of one unit would read as 1024.0.
    while value >= 1023.95 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

#[cfg(test)]
mod tests;
