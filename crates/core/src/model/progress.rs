//! How far a volume has come: what is known of it, what is found on it, and what it lacks.
//!
//! In: numbers that were once on a disk. Out: what is missing there now, in words; the text by which a user agrees to go on
//! without it. Never: a volume condemned by a number that cannot be read.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::MemberName;

/// Which life of the cluster: raised by a recovery, with the user's consent. A volume of an older one never starts by
/// itself, for what it holds was given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Epoch {
    pub fn is_first(&self) -> bool {
        self.0 == 0
    }
}

/// How far a volume is known to have come. One that is behind was put back to an earlier state, and has forgotten what its
/// member promised since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Progress {
    /// The number of the last start that was seen written on it.
    #[serde(default)]
    pub run: u64,
    /// The last raft index that is known to have been on its disk.
    #[serde(default)]
    pub index: u64,
}

impl Progress {
    pub fn is_none(&self) -> bool {
        *self == Progress::default()
    }
}

/// What is written on a volume about itself, and what its log comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMarks {
    pub epoch: Epoch,
    /// The number of the last start that was written on it; `None` where none ever was, or where that was lost.
    pub run: Option<u64>,
    /// The last index in its log; `None` where that was not read, as while something runs on it.
    pub last_index: Option<u64>,
}

impl VolumeMarks {
    /// What a volume with these marks lacks of what it is known to have had: in words.
    pub fn rollback_evidence(&self, known: Progress) -> Option<String> {
        if let Some(run) = self.run.filter(|run| *run < known.run) {
            let made = known.run;
            return Some(format!(
                "it knows of start {run}, and start {made} was made on it"
            ));
        }
        let last = self.last_index.filter(|last| *last < known.index)?;
        let had = known.index;
        Some(format!("its log ends at index {last}, and it had reached {had}"))
    }

    /// What is known of a volume with these marks once a user has agreed to go on from it.
    pub fn accepted(&self, known: Progress) -> Progress {
        Progress {
            run: self.run.map_or(known.run, |run| run.min(known.run)),
            index: self.last_index.map_or(known.index, |last| last.min(known.index)),
        }
    }

    /// The text by which a user agrees that `member` goes on from a volume with these marks. It says what is given up, and
    /// comes true once: the start that follows gets a number that no volume had before.
    pub fn consent(&self, member: &MemberName, known: Progress) -> String {
        let text = |number: Option<u64>| number.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        let Progress { run, index } = known;
        let (to_run, to_index) = (text(self.run), text(self.last_index));
        format!("{member} from start {run} index {index} to start {to_run} index {to_index}")
    }
}
