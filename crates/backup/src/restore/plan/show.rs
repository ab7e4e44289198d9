//! A plan in words.
//!
//! In: a plan. Out: labels and what they are, what has to be agreed to, what one should know.

use super::{LEASE_TTL_DEFAULT, Plan, To};
use crate::restore::chain::{Base, Link, reachable};

/// Bytes a second that a restore gets through, by and large; a store may be slower.
const RATE: u64 = 250 << 20;
/// Leases that are named at most.
const NAMED: usize = 8;

impl Plan {
    /// What will be used and where it gets, line by line.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("timeline", self.timeline.to_string())];
        let known = self
            .known
            .map_or_else(String::new, |known| format!(", known by {known}"));
        facts.push(("revision", format!("{}{known}", self.revision)));
        if let Some(bracket) = &self.bracket {
            let text = match bracket.width_ms() {
                0 => format!("{}: exact", bracket.wanted),
                width => format!(
                    "{}: what is restored may be up to {:.3} s older",
                    bracket.wanted,
                    width as f64 / 1000.0
                ),
            };
            facts.push(("time", text));
        }
        let cut = self
            .cut
            .map_or_else(String::new, |cut| format!(", cut off at {cut}"));
        facts.push((
            "full copy",
            format!(
                "revision {}{cut}, taken {}, etcd {}, {}",
                self.full.revision, self.full.taken, self.full.etcd_version, self.full.facts.object
            ),
        ));
        let deltas = match (self.deltas.first(), self.deltas.last()) {
            (Some(first), Some(last)) => {
                format!("{}, revisions {} to {}", self.deltas.len(), first.from, last.to)
            }
            _ => "none".to_owned(),
        };
        facts.push(("deltas", deltas));
        facts.push(("to fetch", size(self.fetch_bytes())));
        facts.push(("database", format!("at most {}", size(self.database_bytes()))));
        let seconds = self.fetch_bytes().max(self.plain_bytes()) / RATE;
        facts.push((
            "time needed",
            format!("about {} s, if the store is fast", seconds + 1),
        ));
        let auth = match self.auth_is_sure {
            true => "unchanged since".to_owned(),
            false => "whatever changed about them since is not in it".to_owned(),
        };
        facts.push((
            "users and roles",
            format!(
                "as of {}, revision {}; {auth}",
                self.full.auth().taken,
                self.full.auth().revision
            ),
        ));
        let unknown: Vec<String> = self.unknown_leases().map(|id| format!("{id:x}")).collect();
        if !unknown.is_empty() {
            let more = unknown.len().saturating_sub(NAMED);
            let mut named = unknown[..unknown.len() - more].join(", ");
            if more > 0 {
                named.push_str(&format!(" and {more} more"));
            }
            let count = unknown.len();
            facts.push((
                "leases",
                format!("{count} whose time to live is not known get {LEASE_TTL_DEFAULT} s: {named}"),
            ));
        }
        facts
    }

    /// What one should know, and need not agree to.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .passed_over()
            .map(|(object, why)| format!("passed over {object}: {why}"))
            .collect();
        notes.extend(
            self.faults
                .iter()
                .map(|fault| format!("{}: {}", fault.object, fault.why)),
        );
        notes
    }

    /// What has to be agreed to, because it is not quite what was asked for.
    pub fn consents(&self) -> Vec<String> {
        let mut consents = Vec::new();
        if let Some(bracket) = self.bracket.filter(|bracket| bracket.is_wide()) {
            let seconds = bracket.width_ms() as f64 / 1000.0;
            let at_most = bracket.at_most.map_or_else(String::new, |at_most| {
                format!(
                    " (revisions {} to {at_most} came some time after)",
                    bracket.revision + 1
                )
            });
            consents.push(format!(
                "what is known of {} is revision {}, known {seconds:.3} s before{at_most}",
                bracket.wanted, bracket.revision
            ));
        }
        if self.book.wanted.to == To::End {
            if self.revision < self.last_known {
                consents.push(format!(
                    "the archive goes up to revision {}, and only {} can be reached: {} to {} would be lost",
                    self.last_known,
                    self.revision,
                    self.revision + 1,
                    self.last_known
                ));
            }
            // Behind the last delta there may have been another one.
            let last = self
                .book
                .history()
                .deltas()
                .iter()
                .map(|(record, _)| record.number)
                .max();
            let behind = self.faults.iter().filter(|fault| fault.number > last);
            consents.extend(behind.map(|fault| {
                format!(
                    "changes may be missing at the end: {}: {}",
                    fault.object, fault.why
                )
            }));
        }
        consents
    }

    /// All that can be reached in this timeline, as ranges of revisions.
    pub fn reachable(&self) -> Vec<(i64, i64)> {
        let history = self.book.history();
        let bases: Vec<Base> = history.fulls().iter().map(|(_, full)| (*full).into()).collect();
        let links: Vec<Link> = history
            .deltas()
            .iter()
            .map(|(_, delta)| (*delta).into())
            .collect();
        reachable(&bases, &links)
    }
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["bytes", "KiB", "MiB", "GiB"];
    let mut unit = 0;
    let mut rest = bytes as f64;
    while rest >= 1024.0 && unit + 1 < UNITS.len() {
        rest /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{rest:.1} {}", UNITS[unit]),
    }
}
