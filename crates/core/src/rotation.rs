//! CA rotation without a moment in which two members do not trust each other, on every ground.
//!
//! ```text
//! steady ──introduce──▶ introducing ──switch──▶ retiring ──drop──▶ steady
//! trust  A              A and B               A and B           B
//! signer A              A                     B                 B
//! ```
//!
//! In: the stage that the CAs on the ground are in, and what was seen since. Out: the next move, or none. etcd reads what
//! it trusts when it starts and what it shows at every handshake; so the first and the last move have the members
//! restarted, by the planner, one by one, and the second has not. The ground keeps the stage: in a Secret, in files.
//! Never: a certificate of the next CA shown before every member has proven that it trusts it; a CA dropped before every
//! member has proven that it shows nothing of it.

use std::collections::BTreeSet;

use crate::model::Ordinal;

/// Which CAs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    Steady,
    /// The next is trusted, and signs nothing yet.
    Introducing,
    /// The next signs; the former is still trusted.
    Retiring,
}

/// What was seen in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Another CA is needed: the present one ends, its key is lost, or someone asked.
    pub due: bool,
    /// All certificates and lists of CAs are as this stage asks.
    pub written: bool,
    /// Every member that there should be, or is, has proven in a handshake of its own what this stage is for:
    /// introducing, that it trusts the next CA; retiring, that it shows a certificate of it.
    pub proven: bool,
    /// The stage has lasted long enough for clients to take up what changed.
    pub ripe: bool,
}

/// What to do about the CAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Stay,
    /// Make the next CA, and trust it.
    Introduce,
    Switch,
    Drop,
}

pub fn next(stage: Stage, seen: Seen) -> Move {
    let ready = seen.written && seen.proven && seen.ripe;
    match stage {
        Stage::Steady if seen.due => Move::Introduce,
        Stage::Introducing if ready => Move::Switch,
        Stage::Retiring if ready => Move::Drop,
        _ => Move::Stay,
    }
}

/// Who has proven what: worth something only in the stage, and between the CAs, that it was asked for. Another process may
/// have gone on meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    stage: Stage,
    trusted: String,
    members: BTreeSet<Ordinal>,
}

impl Proven {
    /// By these members, in this stage, while these CAs are trusted.
    pub fn new(stage: Stage, trusted: &str, members: BTreeSet<Ordinal>) -> Proven {
        Proven {
            stage,
            trusted: trusted.to_owned(),
            members,
        }
    }

    pub fn add(&mut self, members: BTreeSet<Ordinal>) {
        self.members.extend(members);
    }

    /// Who has proven what this stage is for; nobody, if it was asked for in another.
    pub fn now(&self, stage: Stage, trusted: &str) -> Option<&BTreeSet<Ordinal>> {
        Some(&self.members).filter(|_| self.stage == stage && self.trusted == trusted)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use super::*;

    /// The old and the new CA, as a set.
    const OLD: u8 = 1;
    const NEW: u8 = 2;
    const MEMBERS: usize = 3;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Files {
        trust: u8,
        signer: u8,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Member {
        secret: Files,
        files: Files,
        /// What its process trusts, if it runs.
        runs: Option<u8>,
        /// Whoever decides has its proof for this stage.
        proven: bool,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct World {
        stage: Stage,
        client: Files,
        members: [Member; MEMBERS],
        finished: bool,
    }

    fn asked(stage: Stage, finished: bool) -> Files {
        let (trust, signer) = match stage {
            Stage::Steady if finished => (NEW, NEW),
            Stage::Steady => (OLD, OLD),
            Stage::Introducing => (OLD | NEW, OLD),
            Stage::Retiring => (OLD | NEW, NEW),
        };
        Files { trust, signer }
    }

    impl World {
        fn start() -> World {
            let files = asked(Stage::Steady, false);
            let member = Member {
                secret: files,
                files,
                runs: Some(OLD),
                proven: false,
            };
            World {
                stage: Stage::Steady,
                client: files,
                members: [member; MEMBERS],
                finished: false,
            }
        }

        fn whole(&self) -> bool {
            let shown = self
                .members
                .iter()
                .filter(|m| m.runs.is_some())
                .map(|m| m.files.signer);
            let shown: Vec<u8> = shown.chain([self.client.signer]).collect();
            let trusts = self
                .members
                .iter()
                .filter_map(|m| m.runs)
                .chain([self.client.trust]);
            trusts
                .into_iter()
                .all(|trust| shown.iter().all(|signer| trust & signer != 0))
        }

        /// Everything that can happen next: to a member, to whoever decides, in any order.
        fn steps(&self, judge: fn(Stage, Seen) -> Move) -> Vec<World> {
            let mut all = Vec::new();
            let wanted = asked(self.stage, self.finished);
            for i in 0..MEMBERS {
                let mut change = |to: &dyn Fn(&mut Member)| {
                    let mut world = *self;
                    to(&mut world.members[i]);
                    all.push(world);
                };
                let member = self.members[i];
                change(&|m| m.secret = wanted); // Who decides gets round to it.
                change(&|m| m.files = m.secret); // kubelet gets round to it.
                match member.runs {
                    Some(_) => change(&|m| m.runs = None),
                    None => {
                        change(&|m| m.runs = Some(m.files.trust)); // The same pod.
                        change(&|m| {
                            m.files = m.secret; // Another pod.
                            m.runs = Some(m.files.trust);
                        });
                    }
                }
                let proof = match (self.stage, member.runs) {
                    (Stage::Introducing, Some(trust)) => trust & NEW != 0,
                    (Stage::Retiring, Some(_)) => member.files.signer == NEW,
                    _ => false,
                };
                if proof {
                    change(&|m| m.proven = true);
                }
            }
            let mut world = *self;
            world.client = wanted;
            all.push(world);
            let mut world = *self;
            world.members.iter_mut().for_each(|m| m.proven = false); // Who decides died.
            all.push(world);
            let seen = Seen {
                due: !self.finished,
                written: self.client == wanted && self.members.iter().all(|m| m.secret == wanted),
                proven: self.members.iter().all(|m| m.proven),
                ripe: true,
            };
            let mut world = *self;
            match judge(self.stage, seen) {
                Move::Stay => return all,
                Move::Introduce => world.stage = Stage::Introducing,
                Move::Switch => world.stage = Stage::Retiring,
                Move::Drop => (world.stage, world.finished) = (Stage::Steady, true),
            }
            world.members.iter_mut().for_each(|m| m.proven = false);
            all.push(world);
            all
        }
    }

    /// All worlds that can come about, and for each those it can come from; or one in which someone is refused.
    fn explore(judge: fn(Stage, Seen) -> Move) -> Result<BTreeMap<World, Vec<World>>, World> {
        let mut from: BTreeMap<World, Vec<World>> = BTreeMap::from([(World::start(), Vec::new())]);
        let mut open = VecDeque::from([World::start()]);
        while let Some(world) = open.pop_front() {
            if !world.whole() {
                return Err(world);
            }
            for next in world.steps(judge) {
                let known = from.contains_key(&next);
                from.entry(next).or_default().push(world);
                if !known {
                    open.push_back(next);
                }
            }
        }
        Ok(from)
    }

    #[test]
    fn whatever_happens_in_between_everyone_trusts_everyone_and_it_can_be_finished() {
        let from = explore(next).unwrap();
        assert!(
            from.len() > 1000,
            "{} worlds are too few to mean anything",
            from.len()
        );
        let new = asked(Stage::Steady, true);
        let done = |w: &World| {
            let all = |m: &Member| m.secret == new && m.files == new && m.runs == Some(NEW);
            w.finished && w.client == new && w.members.iter().all(all)
        };
        let mut reach: BTreeSet<World> = from.keys().filter(|w| done(w)).copied().collect();
        assert!(!reach.is_empty());
        let mut open: Vec<World> = reach.iter().copied().collect();
        while let Some(world) = open.pop() {
            open.extend(from[&world].iter().filter(|w| reach.insert(**w)));
        }
        assert_eq!(reach.len(), from.len(), "some world has no way to the end");
    }

    #[test]
    fn each_condition_is_needed() {
        let without_proof: fn(Stage, Seen) -> Move = |stage, seen| next(stage, Seen { proven: true, ..seen });
        let unwritten: fn(Stage, Seen) -> Move = |stage, seen| {
            next(
                stage,
                Seen {
                    written: true,
                    ..seen
                },
            )
        };
        let at_once: fn(Stage, Seen) -> Move = |stage, seen| match next(stage, seen) {
            Move::Introduce => Move::Switch,
            other => other,
        };
        for (what, judge) in [
            ("no proof", without_proof),
            ("not all written", unwritten),
            ("no introduction", at_once),
        ] {
            let broken = explore(judge);
            assert!(broken.is_err(), "{what}: nobody was refused");
        }
    }

    #[test]
    fn a_stage_lasts_until_it_is_ripe_and_nothing_begins_unasked() {
        let seen = Seen {
            due: false,
            written: true,
            proven: true,
            ripe: false,
        };
        for stage in [Stage::Steady, Stage::Introducing, Stage::Retiring] {
            assert_eq!(next(stage, seen), Move::Stay, "{stage:?}");
        }
    }
}
