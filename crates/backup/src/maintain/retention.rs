//! Retention: for how long which points of a timeline stay reachable.
//!
//! In: `7d` (every revision of the last seven days), `30d:1d` (for thirty days one full copy of each day); the full
//! copies and changes of a timeline; what time it is. Out: what stays and why, and what may go. No clock, no store.
//! Never: a revision of the window that was reachable and is no more; the newest chain that was proven, or the newest
//! full copy, given up, however old.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

const UNITS: [(&str, i64); 6] = [
    ("y", 365 * 86_400),
    ("w", 7 * 86_400),
    ("d", 86_400),
    ("h", 3600),
    ("m", 60),
    ("s", 1),
];
/// The longest that can be asked for.
const LONGEST: i64 = 1000 * 365 * 86_400;
/// Parts that a retention may have.
const PARTS_MAX: usize = 32;

/// For how long which points stay reachable.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Retention {
    /// Every revision, for so long.
    pub every: SignedDuration,
    /// Then one full copy each so long.
    pub thinned: Vec<Thinned>,
}

/// One full copy of each stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thinned {
    pub reach: SignedDuration,
    /// One in each of these.
    pub each: SignedDuration,
}

impl FromStr for Retention {
    type Err = String;

    fn from_str(text: &str) -> Result<Retention, String> {
        let mut retention = Retention::default();
        if text.split(',').count() > PARTS_MAX {
            return Err(format!("expected at most {PARTS_MAX} parts"));
        }
        for part in text.split(',') {
            match part.trim().split_once(':') {
                None => {
                    if retention.every != SignedDuration::ZERO {
                        return Err("two parts ask for every revision; one can be".to_owned());
                    }
                    retention.every = duration(part)?;
                }
                Some((reach, each)) => {
                    let thinned = Thinned {
                        reach: duration(reach)?,
                        each: duration(each)?,
                    };
                    if thinned.each > thinned.reach {
                        return Err(format!(
                            "{} keeps one in a time longer than all of it",
                            part.trim()
                        ));
                    }
                    retention.thinned.push(thinned);
                }
            }
        }
        Ok(retention)
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.every != SignedDuration::ZERO {
            parts.push(say(self.every));
        }
        for thinned in &self.thinned {
            parts.push(format!("{}:{}", say(thinned.reach), say(thinned.each)));
        }
        f.write_str(&parts.join(","))
    }
}

impl TryFrom<String> for Retention {
    type Error = String;

    fn try_from(text: String) -> Result<Retention, String> {
        text.parse()
    }
}

impl From<Retention> for String {
    fn from(retention: Retention) -> String {
        retention.to_string()
    }
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("{:?} is no time such as 12h, 7d or 4w", text.trim());
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: i64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = UNITS.iter().find(|(unit, _)| *unit == &text[digits..]);
    let seconds = unit.and_then(|(_, seconds)| number.checked_mul(*seconds));
    match seconds {
        Some(seconds) if (1..=LONGEST).contains(&seconds) => Ok(SignedDuration::from_secs(seconds)),
        _ => Err(wrong()),
    }
}

fn say(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    // In days at most, as people say it here.
    let unit = UNITS[2..].iter().find(|(_, unit)| seconds % unit == 0);
    let (name, unit) = unit.copied().unwrap_or(("s", 1));
    format!("{}{name}", seconds / unit)
}

/// A full copy, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullCopy {
    /// The revision it is of.
    pub revision: i64,
    /// Its state was no newer than this.
    pub taken: Timestamp,
}

/// Changes, as far as they matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// The last revision in them.
    pub to: i64,
}

/// A timeline, as far as it matters here.
#[derive(Debug, Clone, Default)]
pub struct Line {
    pub fulls: Vec<FullCopy>,
    pub deltas: Vec<Changes>,
    /// Revisions of full copies that something was proven from.
    pub proven: Vec<i64>,
    /// Since then the cluster goes on in another timeline.
    pub superseded: Option<Timestamp>,
    /// It is the last resort: its newest chain must stay.
    pub last_resort: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// It is in the window of every revision, or that begins with it.
    Window,
    /// It is the newest that was proven, or the newest of all.
    LastResort,
    /// It is the one of its day, or whatever was asked for.
    OneOfEach,
}

/// What stays of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Of each full copy, why it stays; `None`: it may go.
    pub fulls: Vec<Option<Why>>,
    pub deltas: Vec<Option<Why>>,
    /// Changes behind this revision stay; `None`: all may go.
    pub changes_after: Option<i64>,
}

pub fn judge(retention: &Retention, line: &Line, now: Timestamp) -> Kept {
    let begin = back(now, retention.every);
    let window = match line.superseded {
        Some(at) if at <= begin => None,
        _ => window_from(line, begin),
    };
    let resort = line.last_resort.then(|| resort_from(line)).flatten();
    let newest = line.fulls.iter().map(|full| full.revision).max();
    let mut fulls: Vec<Option<Why>> = line
        .fulls
        .iter()
        .map(|full| {
            let last = line.last_resort && Some(full.revision) == newest || Some(full.revision) == resort;
            match window.is_some_and(|from| full.revision >= from) {
                true => Some(Why::Window),
                false => last.then_some(Why::LastResort),
            }
        })
        .collect();
    for thinned in &retention.thinned {
        for position in one_of_each(&line.fulls, thinned, now) {
            fulls[position].get_or_insert(Why::OneOfEach);
        }
    }
    let delta = |changes: &Changes| match (window, resort) {
        (Some(from), _) if changes.to > from => Some(Why::Window),
        (_, Some(from)) if changes.to > from => Some(Why::LastResort),
        _ => None,
    };
    Kept {
        fulls,
        deltas: line.deltas.iter().map(delta).collect(),
        changes_after: window.into_iter().chain(resort).min(),
    }
}

/// The revision from which everything is needed to reach each state since `begin`: that of the last full copy before.
fn window_from(line: &Line, begin: Timestamp) -> Option<i64> {
    let before = line.fulls.iter().filter(|full| full.taken <= begin);
    let from = before.map(|full| full.revision).max();
    // Without one nothing is older than the window.
    Some(from.unwrap_or(0))
}

/// The revision of the newest full copy that something was proven from, or else of the newest.
fn resort_from(line: &Line) -> Option<i64> {
    let revisions = || line.fulls.iter().map(|full| full.revision);
    let proven = revisions()
        .filter(|revision| line.proven.contains(revision))
        .max();
    proven.or_else(|| revisions().max())
}

/// The positions of the first full copy of each stretch of time.
fn one_of_each(fulls: &[FullCopy], thinned: &Thinned, now: Timestamp) -> Vec<usize> {
    let oldest = back(now, thinned.reach);
    let each = thinned.each.as_secs().max(1);
    let stretch = |full: &FullCopy| full.taken.as_second().div_euclid(each);
    let mut order: Vec<usize> = (0..fulls.len()).collect();
    order.sort_by_key(|position| (fulls[*position].taken, fulls[*position].revision));
    let mut last = None;
    order.retain(|position| {
        let full = &fulls[*position];
        let first = full.taken >= oldest && last != Some(stretch(full));
        if first {
            last = Some(stretch(full));
        }
        first
    });
    order
}

fn back(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = 3600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn it_is_said_as_it_is_read() {
        for text in ["7d", "12h,30d:1d", "90s,28d:1d,365d:30d", "30d:1d"] {
            assert_eq!(text.parse::<Retention>().unwrap().to_string(), text);
        }
        let spaced: Retention = " 7d , 30d:1d ".parse().unwrap();
        assert_eq!(spaced, "1w,30d:24h".parse().unwrap());
        for wrong in [
            "",
            "7",
            "d",
            "7x",
            "-7d",
            "0d",
            "7d,",
            "7d,8d",
            "1d:7d",
            "7d:",
            "7d:1d:1h",
            "99999999999999999y",
            "9999y",
        ] {
            assert!(wrong.parse::<Retention>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_old_goes_and_one_a_day_stays() {
        let fulls: Vec<FullCopy> = (0..240)
            .map(|n| FullCopy {
                revision: 10 * n + 1,
                taken: at(n * 6 * HOUR),
            })
            .collect();
        let deltas: Vec<Changes> = (0..240).map(|n| Changes { to: 10 * n + 10 }).collect();
        let line = Line {
            fulls,
            deltas,
            last_resort: true,
            ..Line::default()
        };
        let now = at(239 * 6 * HOUR);
        let kept = judge(&"7d,30d:1d".parse().unwrap(), &line, now);
        let because = |why| kept.fulls.iter().filter(|kept| **kept == why).count();
        assert_eq!(
            because(Some(Why::Window)),
            29,
            "seven days of four, and the one before"
        );
        assert!((22..=24).contains(&because(Some(Why::OneOfEach))), "{kept:?}");
        assert_eq!(kept.changes_after, Some(2111));
        assert_eq!(kept.deltas.iter().flatten().count(), 29);
    }

    #[test]
    fn the_last_resort_stays_however_old() {
        let line = Line {
            fulls: [1, 50, 90]
                .map(|revision| FullCopy {
                    revision,
                    taken: at(revision),
                })
                .to_vec(),
            deltas: [20, 50, 70, 95].map(|to| Changes { to }).to_vec(),
            proven: vec![50],
            superseded: Some(at(100)),
            last_resort: true,
        };
        let years = at(10 * 365 * 86_400);
        let kept = judge(&"1d".parse().unwrap(), &line, years);
        assert_eq!(kept.fulls, [None, Some(Why::LastResort), Some(Why::LastResort)]);
        assert_eq!(
            kept.deltas,
            [None, None, Some(Why::LastResort), Some(Why::LastResort)]
        );
        let unproven = Line {
            proven: Vec::new(),
            ..line.clone()
        };
        let kept = judge(&"1d".parse().unwrap(), &unproven, years);
        assert_eq!(kept.fulls, [None, None, Some(Why::LastResort)]);
        assert_eq!(kept.changes_after, Some(90));
        let other = Line {
            last_resort: false,
            ..line
        };
        assert_eq!(judge(&"1d".parse().unwrap(), &other, years).fulls, [None; 3]);
    }

    /// Revision r was written at second r; a delta each 5, so the state at second s is revision s.
    fn reachable(fulls: &[FullCopy], deltas: &[Changes], revision: i64) -> bool {
        let ends: BTreeSet<i64> = deltas.iter().map(|delta| delta.to).collect();
        fulls.iter().any(|full| {
            full.revision <= revision
                && (full.revision + 1..=revision).all(|needed| ends.contains(&((needed + 4) / 5 * 5)))
        })
    }

    proptest! {
        #[test]
        fn what_was_reachable_in_the_window_still_is(
            taken in prop::collection::btree_set(1i64..400, 1..20),
            lost in prop::collection::btree_set(0usize..80, 0..6),
            proven in prop::collection::vec(1i64..400, 0..4),
            every in 0i64..300,
            (reach, each) in (1i64..400, 1i64..100),
            waits in prop::collection::vec(0i64..200, 1..5),
        ) {
            let fulls: Vec<FullCopy> = taken.iter().map(|r| FullCopy { revision: *r, taken: at(*r) }).collect();
            let deltas = (0..80).filter(|n| !lost.contains(n)).map(|n| Changes { to: 5 * n as i64 + 5 }).collect();
            let retention = Retention {
                every: SignedDuration::from_secs(every),
                thinned: vec![Thinned {
                    reach: SignedDuration::from_secs(reach.max(each)),
                    each: SignedDuration::from_secs(each),
                }],
            };
            let mut line = Line { fulls, deltas, proven, superseded: None, last_resort: true };
            let mut now = 400;
            for wait in waits {
                now += wait;
                let kept = judge(&retention, &line, at(now));
                let stay = |whys: &[Option<Why>]| whys.iter().map(Option::is_some).collect::<Vec<_>>();
                let (fulls_stay, deltas_stay) = (stay(&kept.fulls), stay(&kept.deltas));
                let mut after = line.clone();
                let mut stays = fulls_stay.iter();
                after.fulls.retain(|_| *stays.next().unwrap());
                let mut stays = deltas_stay.iter();
                after.deltas.retain(|_| *stays.next().unwrap());
                for revision in (now - every).max(1)..=400 {
                    prop_assert!(
                        !reachable(&line.fulls, &line.deltas, revision)
                            || reachable(&after.fulls, &after.deltas, revision),
                        "{revision} at {now}"
                    );
                }
                // The newest state stays, whatever was asked for.
                prop_assert_eq!(line.fulls.last(), after.fulls.last());
                prop_assert!(!reachable(&line.fulls, &line.deltas, 400) || reachable(&after.fulls, &after.deltas, 400));
                // So does the newest that was proven, and all behind it.
                if let Some(full) = line.fulls.iter().rfind(|full| line.proven.contains(&full.revision)) {
                    prop_assert!(after.fulls.contains(full));
                    prop_assert!(line.deltas.iter().all(|d| d.to <= full.revision || after.deltas.contains(d)));
                }
                // One of each stretch.
                for full in line.fulls.iter().filter(|full| full.taken >= at(now - reach.max(each))) {
                    let stretch = |full: &FullCopy| full.taken.as_second().div_euclid(each);
                    prop_assert!(after.fulls.iter().any(|other| stretch(other) == stretch(full)));
                }
                // Again at the same time nothing more goes.
                let again = judge(&retention, &after, at(now));
                prop_assert!(again.fulls.iter().chain(&again.deltas).all(Option::is_some));
                line = after;
            }
        }
    }
}
