//! Random scripts of member operations and faults.
//!
//! In: a seed, or the text of a script. Out: how many members to begin with, and what to do then. Members are named
//! by the place they live at, so that both sides can find their own ids. The generator guesses how the cluster
//! stands and mostly asks for sensible things; about a third is nonsense on purpose. Never: a script that depends on
//! anything but its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};

/// Where members live: 1 to [`PLACES`].
pub type Place = u32;
/// How many places there are.
pub const PLACES: Place = 6;

/// Which member is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The member listed at a place, or the last one that was.
    At(Place),
    /// An id that no member ever had.
    Nobody,
}

/// What a member is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Add a learner at a place.
    AddLearner(Place),
    /// Add a voter at a place.
    AddVoter(Place),
    /// Give a learner its vote.
    Promote(Who),
    Remove(Who),
}

/// One step of a script. What does not apply (to kill what does not run) is a step in which nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the member at `via`.
    Ask { via: Place, ask: Ask },
    /// The process ends without a word.
    Kill(Place),
    /// The process starts again on its data, or for the first time if the list has a new member here.
    Start(Place),
    /// The process ends and its data is gone.
    Wipe(Place),
    /// The place loses its connection to all others; clients still reach it.
    CutOff(Place),
    /// All places are connected again.
    Heal,
}

/// A cluster of so many members, and what happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// How many members it begins with, at places 1 to this.
    pub initial: u32,
    /// One after the other.
    pub actions: Vec<Action>,
}

/// How the generator believes the cluster stands.
struct Guess {
    rng: fastrand::Rng,
    listed: BTreeMap<Place, bool>,
    running: BTreeSet<Place>,
    cut: BTreeSet<Place>,
}

impl Guess {
    fn one_of(&mut self, places: Vec<Place>) -> Option<Place> {
        self.rng.choice(places)
    }

    fn anywhere(&mut self) -> Place {
        self.rng.u32(1..=PLACES)
    }

    fn voters(&self) -> Vec<Place> {
        self.listed
            .iter()
            .filter(|(_, learner)| !**learner)
            .map(|(p, _)| *p)
            .collect()
    }

    /// Mostly a voter that runs; sometimes anyone.
    fn via(&mut self) -> Place {
        if self.rng.u8(..10) == 0 {
            return self.anywhere();
        }
        let well: Vec<Place> = self
            .voters()
            .into_iter()
            .filter(|p| self.running.contains(p))
            .collect();
        let uncut: Vec<Place> = well.iter().copied().filter(|p| !self.cut.contains(p)).collect();
        let pick = if self.rng.u8(..6) == 0 || uncut.is_empty() {
            well
        } else {
            uncut
        };
        self.one_of(pick).unwrap_or_else(|| self.anywhere())
    }

    fn who(&mut self, sensible: Vec<Place>) -> Who {
        if self.rng.u8(..16) == 0 {
            return Who::Nobody;
        }
        if self.rng.u8(..5) == 0 {
            return Who::At(self.anywhere());
        }
        Who::At(self.one_of(sensible).unwrap_or_else(|| self.anywhere()))
    }

    fn ask(&mut self) -> Ask {
        let learners: Vec<Place> = self.listed.iter().filter(|(_, l)| **l).map(|(p, _)| *p).collect();
        let free: Vec<Place> = (1..=PLACES).filter(|p| !self.listed.contains_key(p)).collect();
        let pick = if !learners.is_empty() && self.rng.u8(..2) == 0 {
            8
        } else {
            self.rng.u8(..10)
        };
        match pick {
            0..5 => {
                let place = if self.rng.u8(..6) == 0 {
                    None
                } else {
                    self.one_of(free)
                }
                .unwrap_or_else(|| self.anywhere());
                if pick < 3 {
                    Ask::AddLearner(place)
                } else {
                    Ask::AddVoter(place)
                }
            }
            5..8 => {
                let all = self.listed.keys().copied().collect();
                Ask::Remove(self.who(all))
            }
            _ => Ask::Promote(self.who(learners)),
        }
    }

    /// What the cluster is probably like afterwards.
    fn note(&mut self, action: Action) {
        match action {
            Action::Ask { ask, .. } => match ask {
                Ask::AddLearner(p) if self.listed.values().all(|learner| !learner) => {
                    self.listed.entry(p).or_insert(true);
                }
                Ask::AddVoter(p) => {
                    self.listed.entry(p).or_insert(false);
                }
                Ask::Promote(Who::At(p)) if self.running.contains(&p) => {
                    self.listed.entry(p).and_modify(|learner| *learner = false);
                }
                Ask::Remove(Who::At(p)) if self.listed.len() > 1 => {
                    self.listed.remove(&p);
                    self.running.remove(&p);
                }
                _ => {}
            },
            Action::Kill(p) | Action::Wipe(p) => {
                self.running.remove(&p);
            }
            Action::Start(p) => {
                self.running.insert(p);
            }
            Action::CutOff(p) => {
                self.cut.insert(p);
            }
            Action::Heal => self.cut.clear(),
        }
    }

    fn action(&mut self) -> Action {
        let down: Vec<Place> = self
            .listed
            .keys()
            .copied()
            .filter(|p| !self.running.contains(p))
            .collect();
        if !down.is_empty() && self.rng.u8(..5) < 2 {
            return Action::Start(self.one_of(down).unwrap_or(1));
        }
        if !self.cut.is_empty() && self.rng.u8(..5) == 0 {
            return Action::Heal;
        }
        let up: Vec<Place> = self.running.iter().copied().collect();
        let linked: Vec<Place> = up.iter().copied().filter(|p| !self.cut.contains(p)).collect();
        match self.rng.u8(..20) {
            0..2 => Action::Kill(self.one_of(up).unwrap_or(1)),
            2..4 => Action::Wipe(self.one_of(up).unwrap_or(1)),
            4..7 => Action::CutOff(self.one_of(linked).unwrap_or(1)),
            7 => Action::Start(self.anywhere()),
            _ => Action::Ask {
                via: self.via(),
                ask: self.ask(),
            },
        }
    }
}

impl Script {
    /// The script of a seed.
    pub fn random(seed: u64) -> Script {
        let mut rng = fastrand::Rng::with_seed(seed);
        let initial = rng.choice([1, 2, 3, 3, 3, 4, 5, 5]).unwrap_or(3);
        let length = rng.usize(7..=11);
        let first: BTreeMap<Place, bool> = (1..=initial).map(|p| (p, false)).collect();
        let mut guess = Guess {
            rng,
            running: first.keys().copied().collect(),
            listed: first,
            cut: BTreeSet::new(),
        };
        let mut actions = Vec::with_capacity(length);
        for _ in 0..length {
            let action = guess.action();
            guess.note(action);
            actions.push(action);
        }
        Script { initial, actions }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::At(p) => write!(f, "{p}"),
            Who::Nobody => f.write_str("nobody"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Ask { via, ask } => match ask {
                Ask::AddLearner(p) => write!(f, "ask {via} add-learner {p}"),
                Ask::AddVoter(p) => write!(f, "ask {via} add-voter {p}"),
                Ask::Promote(who) => write!(f, "ask {via} promote {who}"),
                Ask::Remove(who) => write!(f, "ask {via} remove {who}"),
            },
            Action::Kill(p) => write!(f, "kill {p}"),
            Action::Start(p) => write!(f, "start {p}"),
            Action::Wipe(p) => write!(f, "wipe {p}"),
            Action::CutOff(p) => write!(f, "cut-off {p}"),
            Action::Heal => f.write_str("heal"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "members {}", self.initial)?;
        self.actions.iter().try_for_each(|action| write!(f, "; {action}"))
    }
}

fn place(text: &str) -> anyhow::Result<Place> {
    let place = text.parse().with_context(|| format!("{text:?} is not a place"))?;
    if !(1..=PLACES).contains(&place) {
        bail!("there is no place {place}");
    }
    Ok(place)
}

impl FromStr for Who {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Who> {
        if text == "nobody" {
            Ok(Who::Nobody)
        } else {
            place(text).map(Who::At)
        }
    }
}

impl FromStr for Action {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Action> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words[..] {
            ["ask", via, "add-learner", p] => Action::Ask {
                via: place(via)?,
                ask: Ask::AddLearner(place(p)?),
            },
            ["ask", via, "add-voter", p] => Action::Ask {
                via: place(via)?,
                ask: Ask::AddVoter(place(p)?),
            },
            ["ask", via, "promote", who] => Action::Ask {
                via: place(via)?,
                ask: Ask::Promote(who.parse()?),
            },
            ["ask", via, "remove", who] => Action::Ask {
                via: place(via)?,
                ask: Ask::Remove(who.parse()?),
            },
            ["kill", p] => Action::Kill(place(p)?),
            ["start", p] => Action::Start(place(p)?),
            ["wipe", p] => Action::Wipe(place(p)?),
            ["cut-off", p] => Action::CutOff(place(p)?),
            ["heal"] => Action::Heal,
            _ => bail!("{text:?} is not an action"),
        })
    }
}

impl FromStr for Script {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Script> {
        let (first, rest) = text.split_once(';').unwrap_or((text, ""));
        let initial = first
            .trim()
            .strip_prefix("members ")
            .context("a script begins with \"members N\"")?;
        let actions = rest
            .split(';')
            .map(str::trim)
            .filter(|a| !a.is_empty())
            .map(str::parse);
        Ok(Script {
            initial: place(initial)?,
            actions: actions.collect::<anyhow::Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_its_text() {
        for seed in 0..200 {
            let script = Script::random(seed);
            assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
            assert_eq!(Script::random(seed), script);
        }
    }

    #[test]
    fn nonsense_is_not_read() {
        for text in [
            "",
            "members 9",
            "members 3; ask 1 add 2",
            "members 3; kill 0",
            "kill 1",
        ] {
            assert!(text.parse::<Script>().is_err(), "{text:?}");
        }
    }
}
