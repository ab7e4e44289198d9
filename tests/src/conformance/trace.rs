//! What one side did with a script, and how two sides differ.
//!
//! In: the steps of both. Out: the differences, in words, and counts of what was reached. Never: two kinds of refusal
//! taken for one, except that every way of getting no answer in time counts as a timeout.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use quorate_client::Refusal;
use quorate_sim::etcd::EtcdError;

use super::script::{Action, Place, Script};

/// What became of a step: real etcd's driver decides, the model's driver follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// It did not apply.
    Nothing,
    /// A member was asked.
    Asked,
    /// A process was killed.
    Killed,
    /// A process was started on its data.
    Resumed,
    /// A process was started on an empty volume, told of these members.
    Joined(Vec<Place>),
    /// A process was killed and its data deleted.
    Wiped,
    /// A place was cut off.
    Cut,
    /// All cuts were healed.
    Healed,
}

/// How an operation was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Accepted,
    /// Not done, or not known to be.
    Refused(EtcdError),
    /// A refusal for which the model has no word.
    Unforeseen(&'static str),
}

impl Answer {
    /// The client's word, in the model's.
    pub fn of(refusal: Refusal) -> Answer {
        Answer::Refused(match refusal {
            Refusal::UnhealthyCluster => EtcdError::UnhealthyCluster,
            Refusal::NotEnoughStarted => EtcdError::NotEnoughStarted,
            Refusal::LearnerNotReady => EtcdError::LearnerNotReady,
            Refusal::TooManyLearners => EtcdError::TooManyLearners,
            Refusal::PeerUrlExists => EtcdError::PeerUrlExists,
            Refusal::MemberNotFound => EtcdError::MemberNotFound,
            Refusal::MemberNotLearner => EtcdError::MemberNotLearner,
            Refusal::NotSupportedForLearner => EtcdError::NotSupportedForLearner,
            Refusal::Timeout | Refusal::NoLeader | Refusal::LeaderChanged | Refusal::DeadlineExceeded => {
                EtcdError::Timeout
            }
            Refusal::Unreachable => EtcdError::Unreachable,
            other => return Answer::Unforeseen(other.reason()),
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Accepted => f.write_str("accepted"),
            Answer::Refused(error) => write!(f, "{error:?}"),
            Answer::Unforeseen(what) => write!(f, "unforeseen {what}"),
        }
    }
}

/// One step, once it has settled. The first step of a trace is the cluster's formation and has no action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the script says.
    pub action: Option<Action>,
    /// What became of it.
    pub did: Did,
    /// How it was answered, if it was asked.
    pub answer: Option<Answer>,
    /// The list, with learners marked, as a linearizable read gives it; `None` without a quorum.
    pub list: Option<BTreeMap<Place, bool>>,
    pub running: BTreeSet<Place>,
    /// Who leads a quorum.
    pub leader: Option<Place>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Some(action) => write!(f, "{action:<24}")?,
            None => write!(f, "{:<24}", "(formed)")?,
        }
        if let Some(answer) = self.answer {
            write!(f, " -> {answer}")?;
        } else {
            write!(f, " ({:?})", self.did)?;
        }
        match &self.list {
            Some(list) => {
                let rows: Vec<String> = list
                    .iter()
                    .map(|(p, learner)| format!("{p}{}", if *learner { "L" } else { "" }))
                    .collect();
                write!(f, "; list {}", rows.join(" "))?;
            }
            None => f.write_str("; no list")?,
        }
        write!(f, "; running {:?}; leader {:?}", self.running, self.leader)
    }
}

/// All steps of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub steps: Vec<Step>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps
            .iter()
            .enumerate()
            .try_for_each(|(n, step)| writeln!(f, "    {n:>2} {step}"))
    }
}

/// Everything in which the model's trace is not the real one; only the first step that differs is reported, because
/// what follows it follows from it.
pub fn differences(real: &Trace, model: &Trace) -> Vec<String> {
    for (n, (real, model)) in real.steps.iter().zip(&model.steps).enumerate() {
        let mut found = Vec::new();
        let mut compare = |what: &str, same: bool| {
            if !same {
                found.push(format!("step {n}, {what}:\n  real:  {real}\n  model: {model}"));
            }
        };
        compare("answer", real.answer == model.answer);
        compare("member list", real.list == model.list);
        compare("running processes", real.running == model.running);
        compare("leader", real.leader == model.leader);
        if !found.is_empty() {
            return found;
        }
    }
    if real.steps.len() == model.steps.len() {
        Vec::new()
    } else {
        vec![format!(
            "{} real steps, {} of the model",
            real.steps.len(),
            model.steps.len()
        )]
    }
}

/// What a run of scripts has reached.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub scripts: usize,
    /// Operations asked, by answer.
    pub answers: BTreeMap<Answer, usize>,
    /// Steps that were no question, by what was done.
    pub faults: BTreeMap<&'static str, usize>,
    /// Steps that ended without a quorum.
    pub without_quorum: usize,
}

impl Tally {
    /// Counts one real trace.
    pub fn add(&mut self, trace: &Trace) {
        self.scripts += 1;
        for step in &trace.steps {
            if let Some(answer) = step.answer {
                *self.answers.entry(answer).or_default() += 1;
            }
            self.without_quorum += usize::from(step.list.is_none());
            let name = match step.did {
                Did::Nothing | Did::Asked => continue,
                Did::Killed => "kill",
                Did::Resumed => "resume",
                Did::Joined(_) => "join",
                Did::Wiped => "wipe",
                Did::Cut => "cut off",
                Did::Healed => "heal",
            };
            *self.faults.entry(name).or_default() += 1;
        }
    }

    /// How many operations were asked.
    pub fn asked(&self) -> usize {
        self.answers.values().sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} scripts, {} operations asked:", self.scripts, self.asked())?;
        self.answers
            .iter()
            .try_for_each(|(answer, count)| writeln!(f, "  {count:>5} {answer}"))?;
        writeln!(
            f,
            "faults and starts ({} steps ended without a quorum):",
            self.without_quorum
        )?;
        self.faults
            .iter()
            .try_for_each(|(name, count)| writeln!(f, "  {count:>5} {name}"))
    }
}

/// A difference as a report: enough to find it again.
pub fn report(
    seed: u64,
    version: &str,
    script: &Script,
    found: &[String],
    real: &Trace,
    model: &Trace,
) -> String {
    format!(
        "seed {seed}, etcd {version}\n  QUORATE_SCRIPT={script:?}\n{}\n  real:\n{real}  model:\n{model}",
        found.join("\n"),
        script = script.to_string(),
    )
}
