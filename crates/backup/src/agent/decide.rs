//! What the agent decides, apart from what it does.
//!
//! In: facts. Out: what to do next and why. No clock, no store, no etcd: times come in as ages.
//! Never: a flush inside a revision; a full copy that is not called for; a read that memory has no room for.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::full::schedule::Schedule;
use super::instance::Instance;
use crate::log::Head;
use crate::{Origin, Point, Restored};

/// How long a delta waits for the terms of the leases in it, beyond its time.
const LEASE_GRACE: Duration = Duration::from_secs(2);
/// So many leases to tell of are enough for a delta, whatever its size; a record has room for some more.
const LEASES_ENOUGH: usize = 50_000;
/// Clocks of agents may differ by so much.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(1);
/// An agent whose sign of life does not change for so long is silent.
pub const SILENT: Duration = Duration::from_secs(60);
/// A sign of life older than this by its own clock counts as silence at once; clocks differ by less.
const LONG_SILENT: SignedDuration = SignedDuration::from_mins(10);
/// A cluster that is ahead of its watch for so long without a word from it has a watch that hangs.
pub const STALLED: Duration = Duration::from_secs(30);

/// How often and how much is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// No event waits longer.
    pub period: Duration,
    /// No delta is much larger, in bytes as stored.
    pub size: u64,
}

/// What waits to be flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    pub rows: u64,
    /// Their bytes as they will be stored, as far as that is known.
    pub stored: u64,
    /// How long the oldest has waited.
    pub age: Duration,
    /// It ends with the last event of a revision.
    pub whole: bool,
    /// Leases whose term is being asked for.
    pub leases: usize,
    /// Leases that its record is to tell of.
    pub untold: usize,
    /// A delta before it is still on its way.
    pub busy: bool,
    /// The agent is stopping.
    pub stopping: bool,
}

/// What to do with what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Nothing until something happens.
    Nothing,
    /// Nothing for so long.
    Wait(Duration),
    /// Close it and send it.
    Now,
    /// One revision is larger than a delta should be: send it as it comes, up to its end.
    Stream,
}

pub fn flush(waiting: &Waiting, pace: &Pace) -> Flush {
    if waiting.rows == 0 || waiting.busy {
        return Flush::Nothing;
    }
    if !waiting.whole {
        return match waiting.stored >= pace.size {
            true => Flush::Stream,
            false => Flush::Nothing,
        };
    }
    if is_full(waiting, pace) || waiting.stopping {
        return Flush::Now;
    }
    let patience = match waiting.leases {
        0 => pace.period,
        _ => pace.period + LEASE_GRACE,
    };
    match patience.checked_sub(waiting.age) {
        None | Some(Duration::ZERO) => Flush::Now,
        Some(left) => Flush::Wait(left),
    }
}

fn is_full(waiting: &Waiting, pace: &Pace) -> bool {
    waiting.stored >= pace.size || waiting.untold >= LEASES_ENOUGH
}

/// Whether there is room for more events: at most one delta on its way and one that is full.
pub fn may_read(waiting: &Waiting, pace: &Pace) -> bool {
    let no_room = waiting.busy && is_full(waiting, pace);
    !waiting.stopping && !no_room
}

/// Why a full copy is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyFull {
    First,
    /// Changes were lost; only a new one leads past them.
    Gap,
    /// Users or roles changed, which no watch tells of.
    Auth,
    Schedule,
}

impl WhyFull {
    pub fn text(self) -> &'static str {
        match self {
            WhyFull::First => "there is none",
            WhyFull::Gap => "changes were lost before it",
            WhyFull::Auth => "users or roles changed",
            WhyFull::Schedule => "it is time",
        }
    }
}

/// What is known of full copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fulls {
    /// The newest: its revision, and when it was taken.
    pub last: Option<(i64, Timestamp)>,
    /// The last revision that is missing, if any are.
    pub gap_to: Option<i64>,
    /// The revision of users and roles when the newest was taken, and now, where known.
    pub auth: Option<(u64, u64)>,
    /// One is being taken.
    pub running: bool,
    /// So many attempts failed in a row, and so long ago was the last.
    pub failed: Option<(u32, Duration)>,
}

/// Whether to take a full copy now.
pub fn full(fulls: &Fulls, schedule: &Schedule, now: Timestamp) -> Option<WhyFull> {
    if fulls.running || fulls.failed.is_some_and(|(tries, ago)| ago < full_pause(tries)) {
        return None;
    }
    let Some((revision, at)) = fulls.last else {
        return Some(WhyFull::First);
    };
    if fulls.gap_to.is_some_and(|gap| revision < gap) {
        return Some(WhyFull::Gap);
    }
    if fulls.auth.is_some_and(|(then, now)| then != now) {
        return Some(WhyFull::Auth);
    }
    // One from a time to come was taken while the clock was wrong.
    let to_come = at.duration_since(now) > CLOCKS_APART;
    let due = schedule.after(at).is_some_and(|due| due <= now || to_come);
    due.then_some(WhyFull::Schedule)
}

fn full_pause(tries: u32) -> Duration {
    pause(tries, Duration::from_secs(2), Duration::from_secs(300))
}

/// How long to wait after so many failures in a row.
pub fn pause(tries: u32, first: Duration, longest: Duration) -> Duration {
    let doublings = tries.saturating_sub(1).min(16);
    first.saturating_mul(1 << doublings).min(longest)
}

/// Which timeline a cluster's history belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timeline {
    Continue(u32),
    /// One to be begun.
    Begin {
        /// What the cluster was restored from.
        parent: Option<Point>,
        why: String,
        not_before: Timestamp,
    },
    /// None: the archive is another cluster's.
    Foreign {
        theirs: String,
    },
}

/// Chooses the timeline of the cluster with this id.
pub fn timeline(origins: &[Origin], cluster_id: u64, mark: Option<&Restored>, adopt: bool) -> Timeline {
    let own = origins
        .iter()
        .rfind(|origin| origin.cluster() == Some(cluster_id));
    let begin = |parent, why: &str, not_before| Timeline::Begin {
        parent,
        why: why.to_owned(),
        not_before,
    };
    match (own, mark, origins.last()) {
        // A restore with the same members and token gives the same cluster id, and another history.
        (own, Some(mark), _) if own.is_none_or(|own| own.created < mark.at) => {
            begin(Some(mark.from), "the cluster was restored", mark.at)
        }
        (Some(own), _, _) => Timeline::Continue(own.timeline),
        (None, _, None) => begin(None, "the first", Timestamp::UNIX_EPOCH),
        (None, _, Some(_)) if adopt => {
            let why = "another cluster goes on here because it was told to";
            begin(None, why, Timestamp::UNIX_EPOCH)
        }
        (None, _, Some(newest)) => Timeline::Foreign {
            theirs: newest.cluster_id.clone(),
        },
    }
}

/// Whether the cluster's history is another than the archive's, and why: it is behind what was recorded of it.
pub fn went_back(end: Option<i64>, revision: i64) -> Option<String> {
    let end = end.filter(|end| revision < *end)?;
    Some(format!(
        "the cluster is at revision {revision} and was at {end} before: its history was cut"
    ))
}

/// Whether to write the archive, or to let another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Write, for this reason.
    Claim(String),
    StandBy,
}

/// An agent that wants to write.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    pub instance: &'a Instance,
    /// Another has taken over from it before.
    pub relieved: bool,
    /// The user asked for it.
    pub take_over: bool,
}

/// What the last heartbeat means. `ended`: the process that wrote it provably has; `unchanged`: for how long there was no
/// other. That two agents have the same name says nothing: two may be started on one machine.
pub fn standing(
    head: Option<&Head>,
    me: Claimant<'_>,
    ended: bool,
    unchanged: Duration,
    now: Timestamp,
) -> Standing {
    let claim = |why: String| Standing::Claim(why);
    match head.filter(|head| head.number > 0) {
        None => claim("no agent wrote before".to_owned()),
        Some(head) if head.every == 0 => claim(format!("{} stopped", head.writer)),
        Some(head) if head.instance.as_ref() == Some(me.instance) && !me.relieved => {
            claim("it was this agent's before".to_owned())
        }
        Some(head) if ended => claim(format!("the process of {} has ended", head.writer)),
        Some(head) if me.take_over && !me.relieved => {
            claim(format!("it was told to take over from {}", head.writer))
        }
        Some(head) if unchanged >= SILENT || now.duration_since(head.at) > LONG_SILENT => {
            claim(format!("{} is silent", head.writer))
        }
        Some(_) => Standing::StandBy,
    }
}

/// A member, as far as choosing one goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub leader: bool,
    /// It has no vote.
    pub learner: bool,
    /// It knows of a leader: without one it may be cut off from its peers, and behind them for long.
    pub led: bool,
    /// What it has applied.
    pub applied: u64,
}

/// Whom to ask for a stream: followers first, those that lag least among them, and last those without a leader. Places
/// in `members`.
pub fn stream_order(members: &[Candidate]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..members.len())
        .filter(|place| !members[*place].learner)
        .collect();
    order.sort_by_key(|place| {
        let member = &members[*place];
        (!member.led, member.leader, std::cmp::Reverse(member.applied))
    });
    order
}

/// Whether this member may be asked for a hash, which stalls its writes.
pub fn may_hash(member: &Candidate, members: usize, even_leader: bool) -> bool {
    !member.learner && (even_leader || (!member.leader && members > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        period: Duration::from_secs(20),
        size: 1000,
    };

    fn waiting() -> Waiting {
        Waiting {
            rows: 5,
            stored: 10,
            age: Duration::from_secs(5),
            whole: true,
            ..Waiting::default()
        }
    }

    #[test]
    fn flushes_by_time_and_size_at_the_end_of_a_revision() {
        let seconds = Duration::from_secs;
        let after = |age| Waiting {
            age: seconds(age),
            ..waiting()
        };
        assert_eq!(flush(&waiting(), &PACE), Flush::Wait(seconds(15)));
        assert_eq!(flush(&after(20), &PACE), Flush::Now);
        assert_eq!(flush(&after(99), &PACE), Flush::Now);
        let large = Waiting {
            stored: 1000,
            ..waiting()
        };
        assert_eq!(flush(&large, &PACE), Flush::Now);
        let empty = Waiting { rows: 0, ..after(99) };
        assert_eq!(flush(&empty, &PACE), Flush::Nothing);
        let busy = Waiting { busy: true, ..large };
        assert_eq!(flush(&busy, &PACE), Flush::Nothing);
        let within = Waiting {
            whole: false,
            ..after(99)
        };
        assert_eq!(flush(&within, &PACE), Flush::Nothing);
        let huge = Waiting {
            whole: false,
            ..large
        };
        assert_eq!(flush(&huge, &PACE), Flush::Stream);
        let stopping = Waiting {
            stopping: true,
            ..waiting()
        };
        assert_eq!(flush(&stopping, &PACE), Flush::Now);
        // Terms of leases are waited for, and not for long.
        let leased = Waiting {
            leases: 3,
            ..after(20)
        };
        assert_eq!(flush(&leased, &PACE), Flush::Wait(LEASE_GRACE));
        let leased = Waiting {
            leases: 3,
            ..after(22)
        };
        assert_eq!(flush(&leased, &PACE), Flush::Now);
        let many = Waiting {
            untold: LEASES_ENOUGH,
            ..waiting()
        };
        assert_eq!(flush(&many, &PACE), Flush::Now);
        assert!(may_read(&many, &PACE) && !may_read(&Waiting { busy: true, ..many }, &PACE));
    }

    #[test]
    fn reading_stops_when_there_is_no_room() {
        let full = Waiting {
            stored: 1000,
            ..waiting()
        };
        assert!(may_read(&full, &PACE));
        assert!(may_read(
            &Waiting {
                busy: true,
                ..waiting()
            },
            &PACE
        ));
        assert!(!may_read(&Waiting { busy: true, ..full }, &PACE));
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn fulls_are_taken_when_called_for() {
        let hourly = Schedule::parse("0 * * * *").unwrap();
        let noon = at(1_799_971_200);
        let known = Fulls {
            last: Some((100, noon)),
            auth: Some((1, 1)),
            ..Fulls::default()
        };
        let later = noon + SignedDuration::from_mins(59);
        assert_eq!(full(&Fulls::default(), &hourly, noon), Some(WhyFull::First));
        assert_eq!(full(&known, &hourly, later), None);
        let due = noon + SignedDuration::from_mins(60);
        assert_eq!(full(&known, &hourly, due), Some(WhyFull::Schedule));
        assert_eq!(full(&known, &Schedule::never(), due), None);
        // The clock was wrong when it was taken.
        let earlier = noon - SignedDuration::from_hours(24 * 30);
        assert_eq!(full(&known, &hourly, earlier), Some(WhyFull::Schedule));
        assert_eq!(full(&known, &Schedule::never(), earlier), None);
        assert_eq!(full(&known, &hourly, noon - SignedDuration::from_secs(5)), None);
        let gap = Fulls {
            gap_to: Some(101),
            ..known
        };
        assert_eq!(full(&gap, &hourly, later), Some(WhyFull::Gap));
        let behind = Fulls {
            gap_to: Some(100),
            ..known
        };
        assert_eq!(full(&behind, &hourly, later), None);
        let auth = Fulls {
            auth: Some((1, 2)),
            ..known
        };
        assert_eq!(full(&auth, &hourly, later), Some(WhyFull::Auth));
        assert_eq!(
            full(
                &Fulls {
                    running: true,
                    ..auth
                },
                &hourly,
                later
            ),
            None
        );
        let failed = |ago| Fulls {
            failed: Some((3, Duration::from_secs(ago))),
            ..auth
        };
        assert_eq!(full(&failed(7), &hourly, later), None);
        assert_eq!(full(&failed(8), &hourly, later), Some(WhyFull::Auth));
    }

    fn origin(timeline: u32, cluster: u64, created: i64) -> Origin {
        Origin {
            timeline,
            cluster_id: format!("{cluster:x}"),
            created: at(created),
            parent: None,
            why: String::new(),
        }
    }

    #[test]
    fn a_cluster_finds_its_timeline() {
        let first = timeline(&[], 7, None, false);
        assert!(
            matches!(&first, Timeline::Begin { parent: None, .. }),
            "{first:?}"
        );
        let origins = [origin(1, 7, 100), origin(2, 8, 200)];
        assert_eq!(timeline(&origins, 8, None, false), Timeline::Continue(2));
        // The cluster that a restored one came from goes on where it was.
        assert_eq!(timeline(&origins, 7, None, false), Timeline::Continue(1));
        let theirs = "8".to_owned();
        assert_eq!(timeline(&origins, 9, None, false), Timeline::Foreign { theirs });
        assert!(matches!(
            timeline(&origins, 9, None, true),
            Timeline::Begin { parent: None, .. }
        ));
        let from = Point {
            timeline: 1,
            revision: 50,
        };
        let mark = |second| Restored { from, at: at(second) };
        for (cluster, second, begins) in [(9, 50, true), (8, 150, false), (8, 200, false), (8, 201, true)] {
            let chosen = timeline(&origins, cluster, Some(&mark(second)), false);
            let begun = matches!(&chosen, Timeline::Begin { parent: Some(p), .. } if *p == from);
            assert_eq!(begun, begins, "{cluster} {second} {chosen:?}");
        }
    }

    #[test]
    fn history_that_went_back_is_seen() {
        assert_eq!(went_back(None, 5), None);
        assert_eq!(went_back(Some(5), 5), None);
        assert!(went_back(Some(6), 5).is_some());
    }

    #[test]
    fn another_agent_is_let_be_while_it_lives() {
        let head = |writer: &str, every| Head {
            number: 1,
            hash: crate::Sha256Hex::default(),
            epoch: 1,
            writer: writer.to_owned(),
            at: at(1000),
            every,
            sample: None,
            instance: Some(Instance {
                run: u64::from(writer != "me"),
                ..Instance::default()
            }),
        };
        let now = at(1030);
        let zero = Duration::ZERO;
        let instance = Instance::default();
        let me = Claimant {
            instance: &instance,
            relieved: false,
            take_over: false,
        };
        let relieved = Claimant { relieved: true, ..me };
        let claims = |head: Option<&Head>, me, ended, unchanged, now| {
            matches!(standing(head, me, ended, unchanged, now), Standing::Claim(_))
        };
        assert!(claims(None, me, false, zero, now));
        assert!(claims(Some(&head("other", 0)), me, false, zero, now));
        assert!(claims(Some(&head("me", 10)), me, false, zero, now));
        // It does not take back at once what another has taken from it.
        assert!(!claims(Some(&head("me", 10)), relieved, false, zero, now));
        let other = head("other", 10);
        assert!(!claims(Some(&other), me, false, zero, now));
        assert!(claims(Some(&other), me, true, zero, now));
        assert!(claims(Some(&other), me, false, SILENT, now));
        assert!(claims(Some(&other), me, false, zero, at(5000)));
        // One of the same name is another all the same, and so is one of an older version, which does not say who it is.
        let namesake = Head {
            instance: None,
            ..head("me", 10)
        };
        assert!(!claims(Some(&namesake), me, false, zero, now));
        let told = Claimant {
            take_over: true,
            ..me
        };
        assert!(claims(Some(&other), told, false, zero, now));
        let again = Claimant {
            take_over: true,
            ..relieved
        };
        assert!(!claims(Some(&other), again, false, zero, now), "once");
    }

    #[test]
    fn followers_are_asked_first_and_learners_never() {
        let member = |leader, learner, applied| Candidate {
            leader,
            learner,
            led: true,
            applied,
        };
        let members = [
            member(true, false, 10),
            member(false, true, 10),
            member(false, false, 8),
            member(false, false, 9),
        ];
        assert_eq!(stream_order(&members), [3, 2, 0]);
        assert_eq!(stream_order(&members[..1]), [0]);
        let mut cut_off = members;
        cut_off[3].led = false;
        assert_eq!(stream_order(&cut_off), [2, 0, 3]);
        assert!(may_hash(&members[2], 4, false));
        assert!(!may_hash(&members[0], 4, false));
        assert!(!may_hash(&members[2], 1, false));
        assert!(may_hash(&members[0], 1, true));
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(1, second, 60 * second), second);
        assert_eq!(pause(4, second, 60 * second), 8 * second);
        assert_eq!(pause(u32::MAX, second, 60 * second), 60 * second);
    }
}
