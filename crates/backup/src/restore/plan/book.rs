//! What an archive offers for plans: a timeline's log, and what turned out to be bad.
//!
//! In: a log. Out: a plan whose objects are all there and open. Never: an object planned with that is known to be bad.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::StreamExt as _;

use super::{Plan, Planned, To, Wanted};
use crate::format::object::{Facts, Opened, open};
use crate::format::record::{Delta, Entry, Full, Lease};
use crate::log::History;
use crate::restore::chain::{Base, Chain, Goal, Link, chain, last_known, reachable};
use crate::restore::clock::{Bracket, Clock};
use crate::{Archive, Error, Store};

/// Objects opened at once.
const AT_ONCE: usize = 8;

/// A timeline, as far as its log tells.
#[derive(Clone)]
pub struct Book {
    archive: Archive,
    timeline: u32,
    pub(super) wanted: Wanted,
    history: Arc<History>,
    clock: Arc<Clock>,
    /// Objects that are damaged or gone, and why.
    pub(super) bad: BTreeMap<String, String>,
    opened: HashMap<String, Opened>,
    /// Only these full copies are taken.
    only: Only,
}

/// Which full copies are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Only {
    Any,
    /// Those of revisions before this one.
    Before(i64),
    This(String),
}

impl Book {
    pub async fn open(archive: &Archive, wanted: Wanted) -> Result<Book, Error> {
        let timeline = archive.timeline(wanted.timeline)?.timeline;
        let mut history = archive.history(timeline).await?;
        let clock = Clock::of(&history);
        // There is one for every second: the clock has what is needed of them.
        for signed in &mut history.records {
            if let Entry::Delta(delta) = &mut signed.record.entry {
                delta.samples = Vec::new();
            }
        }
        Ok(Book {
            archive: archive.clone(),
            timeline,
            wanted,
            clock: Arc::new(clock),
            history: Arc::new(history),
            bad: BTreeMap::new(),
            opened: HashMap::new(),
            only: Only::Any,
        })
    }

    /// The same log for another point, with full copies of revisions before this one alone.
    pub(crate) fn before(&self, revision: i64, wanted: Wanted) -> Book {
        Book {
            wanted,
            only: Only::Before(revision),
            ..self.clone()
        }
    }

    /// The same log for another point, with this full copy alone.
    pub(crate) fn only(&self, object: &str, wanted: Wanted) -> Book {
        Book {
            wanted,
            only: Only::This(object.to_owned()),
            ..self.clone()
        }
    }

    fn takes(&self, full: &Full) -> bool {
        match &self.only {
            Only::Any => true,
            Only::Before(revision) => full.revision < *revision,
            Only::This(object) => full.facts.object == *object,
        }
    }

    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    /// The times that are known of.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Makes the plan. Objects that it would use and that are damaged or gone are passed over, as long as another way leads
    /// to the point.
    pub async fn plan(&mut self) -> Result<Plan, Error> {
        let history = Arc::clone(&self.history);
        let (fulls, deltas) = (history.fulls(), history.deltas());
        let all: Vec<Base> = fulls.iter().map(|(_, full)| Base::from(*full)).collect();
        let known: Vec<Link> = deltas.iter().map(|(_, delta)| Link::from(*delta)).collect();
        let last_known = last_known(&all, &known);
        let (goal, bracket) = self.goal(&all)?;
        // Each turn finds at least one more that is bad.
        for _ in 0..=fulls.len() + deltas.len() {
            let sound = |facts: &Facts| !self.bad.contains_key(&facts.object);
            let fulls: Vec<&Full> = fulls
                .iter()
                .map(|(_, full)| *full)
                .filter(|it| sound(&it.facts) && self.takes(it))
                .collect();
            let deltas: Vec<&Delta> = deltas
                .iter()
                .map(|(_, it)| *it)
                .filter(|it| sound(&it.facts))
                .collect();
            let bases: Vec<Base> = fulls.iter().map(|full| Base::from(*full)).collect();
            let links: Vec<Link> = deltas.iter().map(|delta| Link::from(*delta)).collect();
            let Some(found) = chain(&bases, &links, goal) else {
                return Err(self.unreachable(goal, &bases, &links));
            };
            let used = used(&found, &fulls, &deltas);
            if !self.open_all(&used).await? {
                continue;
            }
            return self.settle(found, &fulls, &deltas, bracket, last_known);
        }
        Err(self.unreachable(goal, &[], &[]))
    }

    /// The revision to go to.
    fn goal(&self, fulls: &[Base]) -> Result<(Goal, Option<Bracket>), Error> {
        let store = self.archive.store().describe();
        if fulls.is_empty() {
            return Err(Error::refused(
                format!("there is no full copy in timeline {} of {store}", self.timeline),
                "without one nothing can be restored; `quorate backup list` shows other timelines, `quorate backup now` takes a \
                 full copy",
            ));
        }
        match self.wanted.to {
            To::End => Ok((Goal::End, None)),
            To::Revision(revision) => Ok((Goal::Revision(revision), None)),
            To::Time(time) => match self.clock.at(time) {
                Some(bracket) => Ok((Goal::Revision(bracket.revision), Some(bracket))),
                None => {
                    let first = self.clock.range().map(|(first, _)| first.to_string());
                    Err(Error::refused(
                        format!("nothing in timeline {} is known of {time}", self.timeline),
                        format!(
                            "the first time that is known is {}; `quorate backup list` shows what there is",
                            first.unwrap_or_else(|| "none".to_owned())
                        ),
                    ))
                }
            },
        }
    }

    /// Opens what is not open yet. Out: all of it could be.
    async fn open_all(&mut self, used: &[&Facts]) -> Result<bool, Error> {
        let (store, key) = (self.archive.store(), self.archive.key());
        let missing = used
            .iter()
            .filter(|facts| !self.opened.contains_key(&facts.object));
        let opening = missing.map(|facts| async move { (*facts, open(store, facts, key).await) });
        let mut opening = futures::stream::iter(opening.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        let (mut opened, mut bad) = (Vec::new(), Vec::new());
        while let Some((facts, result)) = opening.next().await {
            match result {
                Ok(object) => opened.push((facts.object.clone(), object)),
                Err(error) => bad.push((facts.object.clone(), fault(store, facts, error).await?)),
            }
        }
        drop(opening);
        let all = bad.is_empty();
        self.opened.extend(opened);
        self.bad.extend(bad);
        Ok(all)
    }

    fn settle(
        &self,
        found: Chain,
        fulls: &[&Full],
        deltas: &[&Delta],
        bracket: Option<Bracket>,
        last_known: i64,
    ) -> Result<Plan, Error> {
        let opened = |facts: &Facts| {
            let found = self.opened.get(&facts.object).cloned();
            found.ok_or_else(|| Error::damaged(facts.object.clone(), "it was not opened"))
        };
        let Some(full) = fulls.get(found.base) else {
            return Err(Error::damaged("the plan", "its full copy is not there"));
        };
        let mut planned = Vec::with_capacity(found.steps.len());
        for step in &found.steps {
            let Some(delta) = deltas.get(step.link) else {
                continue;
            };
            planned.push(Planned {
                delta: Delta {
                    samples: Vec::new(),
                    ..(*delta).clone()
                },
                from: step.from,
                to: step.to,
                opened: opened(&delta.facts)?,
            });
        }
        // Its own are of when it was taken; another one on the far side of the point says whether they changed between.
        let own = full.auth().revision;
        let across = |other: &&&Full| match own <= found.revision {
            true => other.auth().revision >= found.revision,
            false => other.auth().revision <= found.revision,
        };
        let mut others = fulls.iter().filter(across);
        let auth_is_sure = others.any(|other| other.auth_revision == full.auth_revision);
        Ok(Plan {
            book: self.clone(),
            timeline: self.timeline,
            base: opened(&full.facts)?,
            full: (*full).clone(),
            cut: found.cut,
            deltas: planned,
            revision: found.revision,
            known: self.clock.known_by(found.revision),
            bracket,
            last_known,
            auth_is_sure,
            leases: self.leases(full.revision, &found),
            faults: self.history.faults.clone(),
        })
    }

    /// Leases that rows up to the point may go with, and that the full copy may not have.
    fn leases(&self, base: i64, found: &Chain) -> Vec<Lease> {
        let mut leases: BTreeMap<i64, Option<i64>> = BTreeMap::new();
        for (_, delta) in self.history.deltas() {
            let used = match found.cut {
                // Those that had ended when the full copy was taken.
                Some(cut) => delta.from <= cut,
                None => delta.to > base && delta.from <= found.revision,
            };
            for lease in delta.leases.iter().filter(|_| used) {
                let ttl = leases.entry(lease.id).or_default();
                *ttl = ttl.or(lease.ttl);
            }
        }
        leases.into_iter().map(|(id, ttl)| Lease { id, ttl }).collect()
    }

    fn unreachable(&self, goal: Goal, bases: &[Base], links: &[Link]) -> Error {
        let what = match goal {
            Goal::End => "no point".to_owned(),
            Goal::Revision(revision) => format!("revision {revision}"),
        };
        let ranges: Vec<String> = reachable(bases, links)
            .iter()
            .map(|(from, to)| format!("{from} to {to}"))
            .collect();
        let mut why = format!("{what} of timeline {} can not be reached", self.timeline);
        for (object, fault) in self.bad.iter().take(3) {
            why.push_str(&format!("; {object}: {fault}"));
        }
        let gaps: Vec<String> = self
            .history
            .gaps()
            .map(|(_, gap)| format!("{} to {}", gap.from, gap.to))
            .collect();
        if !gaps.is_empty() {
            why.push_str(&format!("; never archived: revisions {}", gaps.join(", ")));
        }
        let advice = match ranges.is_empty() {
            true => "no full copy in it can be read".to_owned(),
            false => format!("what can be reached: revisions {}", ranges.join(", ")),
        };
        Error::refused(why, advice)
    }
}

fn used<'a>(found: &Chain, fulls: &[&'a Full], deltas: &[&'a Delta]) -> Vec<&'a Facts> {
    let full = fulls.get(found.base).map(|full| &full.facts);
    let steps = found.steps.iter().filter_map(|step| deltas.get(step.link));
    full.into_iter().chain(steps.map(|delta| &delta.facts)).collect()
}

/// Why an object cannot be used; the error itself if that is not the object's fault.
pub(crate) async fn fault(store: &Store, facts: &Facts, error: Error) -> Result<String, Error> {
    match &error {
        Error::Damaged { why, .. } => return Ok(why.clone()),
        Error::Store { .. } if error.is_missing() => return Ok("it is gone".to_owned()),
        Error::Store { .. } => {}
        _ => return Err(error),
    }
    // One that was cut off gives too little of what is asked for.
    match store.head(&facts.object).await {
        Ok(found) if found.size != facts.stored_bytes => Ok(format!(
            "it has {} bytes, and {} were written",
            found.size, facts.stored_bytes
        )),
        Err(gone) if gone.is_missing() => Ok("it is gone".to_owned()),
        _ => Err(error),
    }
}
