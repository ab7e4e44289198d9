//! Data directories from one of etcdbrctl's archives.
//!
//! In: a store, a point, who the members are. Out: a directory for each at that point. Objects that turn out to be damaged
//! are passed over where others lead to the same point: an older full, or deltas that overlap.
//! Never: another point than the one that was promised; a point given up without a word of what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use quorate_datadir::{Assembly, Base, LaterRows, Members, Progress, restore_members};

use super::chain::{Plan, Wanted, plan};
use super::fetch::StoreObjects;
use super::full::FullArrival;
use super::list::{Listing, Object};
use super::rows::{EventRows, LeasesSeen, Open, revision_at};
use crate::restore::clock::WIDE_MS;
use crate::restore::fetch::{Work, told};
use crate::restore::plan::To;
use crate::restore::suffice;
use crate::{Error, Store, Trouble};

/// How many objects may turn out to be damaged on the way.
const DAMAGED_MAX: usize = 64;

/// The way to a point.
#[derive(Clone)]
pub struct Way {
    objects: Arc<dyn Open>,
    store: String,
    listing: Listing,
    wanted: Wanted,
    plan: Plan,
    passed_over: BTreeMap<String, String>,
    /// The time that was asked for, if one was.
    time: Option<Timestamp>,
    seen: Option<Timestamp>,
    take_unhashed: bool,
}

/// What came of it.
pub struct Outcome {
    /// The members, in the order of their seats.
    pub members: Vec<quorate_datadir::Restored>,
    /// The way that was taken in the end.
    pub way: Way,
    /// The leases that keys of deltas go with; those that the full does not have got a time to live of
    /// [`crate::restore::plan::LEASE_TTL_DEFAULT`].
    pub leases: LeasesSeen,
    /// When the last change was seen, if it was one of a delta's.
    pub seen: Option<Timestamp>,
}

/// What was made on the way, and what was seen of rows.
pub(crate) struct Made<T> {
    pub(crate) made: T,
    pub(crate) leases: LeasesSeen,
    pub(crate) seen: Option<Timestamp>,
}

impl Way {
    /// Finds it. An archive without anything of etcdbrctl's is refused.
    pub async fn find(store: &Store, to: To) -> Result<Way, Error> {
        let listing = Listing::read(store).await?;
        Way::among(store, listing, to).await
    }

    /// The same, in what was listed already.
    pub async fn among(store: &Store, listing: Listing, to: To) -> Result<Way, Error> {
        let objects: Arc<dyn Open> = Arc::new(StoreObjects::new(store));
        let wanted = match to {
            To::End => Wanted::Newest,
            To::Revision(revision) => Wanted::Revision(revision),
            To::Time(time) => Wanted::Time(time.as_second()),
        };
        let planned = plan(&listing, wanted, &BTreeSet::new()).map_err(|unreachable| {
            let (what, advice) = match unreachable.reaches {
                Some(reaches) => (
                    format!("{}: {unreachable}", store.describe()),
                    format!("ask for what can be reached: --to-revision {reaches}"),
                ),
                None => (
                    format!("{}: {unreachable}", store.describe()),
                    "name the directory above `v2`, and a point that is not older than its oldest full"
                        .to_owned(),
                ),
            };
            Error::refused(what, advice)
        })?;
        let mut way = Way {
            objects,
            store: store.describe().to_owned(),
            listing,
            wanted,
            plan: planned,
            passed_over: BTreeMap::new(),
            time: None,
            seen: None,
            take_unhashed: false,
        };
        if let To::Time(time) = to {
            way.settle_time(time).await?;
        }
        Ok(way)
    }

    /// Finds out which revision a time is, by other deltas if some turn out to be damaged.
    async fn settle_time(&mut self, time: Timestamp) -> Result<(), Error> {
        self.time = Some(time);
        for _ in 0..DAMAGED_MAX {
            let (objects, deltas) = (Arc::clone(&self.objects), self.plan.deltas.clone());
            let found = match blocking(move || revision_at(&objects, &deltas, time)).await {
                Ok(found) => found,
                Err(error) => {
                    self.pass_over(error, false)?;
                    continue;
                }
            };
            // Where even the first change after the full came later, the full is the point.
            let revision = found.map_or(self.plan.base.name.last, |(revision, _)| revision);
            self.seen = found.map(|(_, seen)| seen);
            self.wanted = Wanted::Revision(revision);
            self.plan = self.plan_again()?;
            return Ok(());
        }
        Err(too_damaged())
    }

    fn plan_again(&self) -> Result<Plan, Error> {
        let without: BTreeSet<String> = self.passed_over.keys().cloned().collect();
        plan(&self.listing, self.wanted, &without).map_err(|unreachable| {
            let over: Vec<String> = self
                .passed_over
                .iter()
                .map(|(o, why)| format!("{o}: {why}"))
                .collect();
            let over = match over.is_empty() {
                true => String::new(),
                false => format!(" ({})", over.join("; ")),
            };
            let advice = match unreachable.reaches {
                Some(reaches) => format!("ask for what can be reached: --to-revision {reaches}"),
                None => "nothing can be restored from what is there".to_owned(),
            };
            Error::refused(format!("{unreachable}{over}"), advice)
        })
    }

    /// A full without a hash at its end is taken too, if its pages hold together.
    pub fn or_unhashed(mut self) -> Way {
        self.take_unhashed = true;
        self
    }

    /// What is used, in order.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The revision to be reached, by the names; the full may turn out to be later.
    pub fn revision(&self) -> i64 {
        match self.wanted {
            Wanted::Revision(revision) => revision,
            Wanted::Newest | Wanted::Time(_) => self.plan.reaches,
        }
    }

    /// When that revision was seen, where a time was asked for.
    pub fn seen(&self) -> Option<Timestamp> {
        self.seen
    }

    /// Bytes that are fetched.
    pub fn fetch_bytes(&self) -> u64 {
        self.used().map(|object| object.size).sum()
    }

    /// What is in the archive.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Objects that were passed over, and why.
    pub fn passed_over(&self) -> impl Iterator<Item = (&str, &str)> {
        self.passed_over
            .iter()
            .map(|(object, why)| (&object[..], &why[..]))
    }

    fn used(&self) -> impl Iterator<Item = &Object> {
        std::iter::once(&self.plan.base).chain(&self.plan.deltas)
    }

    /// Lines that say it, for people.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let (base, deltas) = (&self.plan.base, &self.plan.deltas);
        let mut facts = vec![
            ("archive", format!("{}, written by etcdbrctl", self.store)),
            ("to revision", self.revision().to_string()),
        ];
        if let Some(seen) = self.seen {
            facts.push(("seen", format!("{seen}, by etcdbrctl's clock")));
        }
        facts.push(("full", format!("{} ({} bytes)", base.key, base.size)));
        if let (Some(first), Some(last)) = (deltas.first(), deltas.last()) {
            let bytes: u64 = deltas.iter().map(|delta| delta.size).sum();
            let span = format!("{} to {}", first.name.start, last.name.last);
            facts.push((
                "deltas",
                format!("{}, revisions {span} ({bytes} bytes)", deltas.len()),
            ));
        }
        facts
    }

    /// What one should know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .passed_over()
            .map(|(object, why)| format!("{object} is passed over: {why}"))
            .collect();
        if !self.plan.deltas.is_empty() {
            notes.push(
                "users, roles and leases are those of the full: etcdbrctl's deltas do not tell of them"
                    .to_owned(),
            );
        }
        notes
    }

    /// What has to be agreed to, because it is not quite what was asked for.
    pub fn consents(&self) -> Vec<String> {
        let Some(time) = self.time else {
            return Vec::new();
        };
        // A name has the second of its upload: all had been seen by then.
        let all = self.listing.fulls.iter().chain(&self.listing.deltas);
        let known = all.map(|object| object.name.created).max().unwrap_or_default();
        let late = time.as_millisecond().saturating_sub(known.saturating_mul(1000));
        if late <= WIDE_MS {
            return Vec::new();
        }
        let end = Timestamp::from_second(known).map_or_else(|_| known.to_string(), |end| end.to_string());
        vec![format!(
            "what is known of {time} is revision {}, known {:.3} s before: the archive ends at {end}",
            self.revision(),
            late as f64 / 1000.0
        )]
    }

    /// Passes an object over that is to blame for `error`; otherwise it is returned.
    fn pass_over(&mut self, error: Error, base_is_unfit: bool) -> Result<(), Error> {
        let promised = self.revision();
        let named = match &error {
            Error::Damaged { object, .. } => object.clone(),
            Error::Store {
                object,
                trouble: Trouble::Missing,
                ..
            } => object.clone(),
            Error::Refused { .. } | Error::Data(quorate_datadir::Error::Refused { .. }) if base_is_unfit => {
                self.plan.base.key.clone()
            }
            _ => return Err(error),
        };
        let Some(last) = self
            .used()
            .find(|object| object.key == named)
            .map(|object| object.name.last)
        else {
            return Err(error);
        };
        let why = match &error {
            Error::Damaged { why, .. } => why.clone(),
            Error::Store { .. } => "it is gone".to_owned(),
            other => other.to_string(),
        };
        self.passed_over.insert(named, why);
        let again = self.plan_again();
        match again {
            Err(_) if base_is_unfit => return Err(error),
            again => self.plan = again?,
        }
        let is_lost = match self.wanted {
            // What was uploaded after that second tells of it, as well as what has the same revisions.
            Wanted::Time(second) => {
                let tells = |delta: &Object| delta.name.created > second;
                self.plan.reaches < last && !self.plan.deltas.iter().any(tells)
            }
            Wanted::Newest | Wanted::Revision(_) => self.revision() < promised,
        };
        if is_lost {
            return Err(Error::refused(
                format!(
                    "{error}, and without it revision {promised} cannot be reached, only {}",
                    self.revision()
                ),
                format!("ask for what is left: --to-revision {}", self.revision()),
            ));
        }
        Ok(())
    }
}

/// Can it be carried out here? Out: the new cluster's id.
pub fn judge(way: &Way, members: &Members) -> Result<u64, Error> {
    let cluster_id = members.judge().map_err(told)?;
    // What is compressed becomes larger; by how much shows when it is there.
    let bytes = way.fetch_bytes();
    suffice(members.seats.iter().map(|seat| (seat.data_dir.as_path(), bytes)))?;
    Ok(cluster_id)
}

/// Makes the directories. `tell` hears of another way that had to be taken.
pub async fn restore(
    way: Way,
    members: &Members,
    progress: &Arc<Progress>,
    tell: &mut (dyn FnMut(&Way) + Send),
) -> Result<Outcome, Error> {
    judge(&way, members)?;
    let (way, made) = carry_out(way, progress, tell, || {
        let wanted = members.clone();
        Box::new(move |assembly, progress| restore_members(&wanted, assembly, progress))
    })
    .await?;
    Ok(Outcome {
        members: made.made,
        way,
        leases: made.leases,
        seen: made.seen,
    })
}

/// Has `work` make something of what leads to the point, by another way if an object turns out to be damaged.
pub(crate) async fn carry_out<T: Send + 'static>(
    mut way: Way,
    progress: &Arc<Progress>,
    tell: &mut (dyn FnMut(&Way) + Send),
    work: impl Fn() -> Work<T>,
) -> Result<(Way, Made<T>), Error> {
    for _ in 0..DAMAGED_MAX {
        let (tried, work, progress) = (way.clone(), work(), Arc::clone(progress));
        let done = blocking(move || Ok(attempt(&tried, &progress, work))).await?;
        match done {
            Ok(made) => return Ok((way, made)),
            Err((error, base_is_unfit)) => way.pass_over(error, base_is_unfit)?,
        }
        tell(&way);
    }
    Err(too_damaged())
}

fn too_damaged() -> Error {
    Error::refused(
        format!("{DAMAGED_MAX} objects turned out to be damaged"),
        "take another copy of this archive",
    )
}

/// Tries it. With an error: whether it is that the base cannot be cut where it would have to be.
fn attempt<T>(way: &Way, progress: &Progress, work: Work<T>) -> Result<Made<T>, (Error, bool)> {
    let without: BTreeSet<String> = way.passed_over.keys().cloned().collect();
    let mut base = FullArrival::new(Arc::clone(&way.objects), way.plan.base.clone());
    if way.take_unhashed {
        base = base.or_unhashed();
    }
    let objects = Arc::clone(&way.objects);
    let mut rows = EventRows::of_plan(objects, &way.listing, &way.plan, way.wanted, &without);
    let to = match way.wanted {
        Wanted::Revision(revision) => Some(revision),
        Wanted::Newest | Wanted::Time(_) => None,
    };
    let assembly = Assembly {
        to_revision: to,
        later: Some(LaterRows { rows: &mut rows, to }),
        ..Assembly::of(Base::Arriving(&mut base))
    };
    match work(assembly, progress) {
        Ok(made) => Ok(Made {
            made,
            leases: rows.leases_seen().clone(),
            seen: rows.time(),
        }),
        Err(error) => Err((told(error), base.arrived() && !rows.has_begun())),
    }
}

/// Runs what waits for files and for the store on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(Error::refused(
            "the work was broken off",
            "this is a fault of quorate; please report it",
        ))
    })
}
