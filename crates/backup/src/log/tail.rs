//! What a log comes to, as far as its next record is concerned.
//!
//! In: its records, in order. Out: what must follow, and where the sequence of changes stands. Memory does not grow with
//! the log.

use jiff::Timestamp;

use crate::Sha256Hex;
use crate::format::record::{Claim, Entry, Full, Imprint, Proof, Signed};

/// The end of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// The number of the next record.
    pub next: u64,
    /// The hash of the last.
    pub hash: Sha256Hex,
    /// When the last was written.
    pub at: Timestamp,
    pub epoch: u64,
    /// Who claimed it, and when.
    pub claim: Option<(Claim, String, Timestamp)>,
    /// The last revision of the sequence of changes; the next delta begins behind it.
    pub end: Option<i64>,
    /// What that revision was like, if a delta ends with it and tells.
    pub end_imprint: Option<Imprint>,
    /// The last delta: its last revision, and when it was written.
    pub last_delta: Option<(i64, Timestamp)>,
    /// The newest full copy that a member streamed or that was made from others, and when it was written.
    pub last_full: Option<(Full, Timestamp)>,
    /// What was last proven, and when.
    pub last_proof: Option<(Proof, Timestamp)>,
    /// The end of the last sample of time, in milliseconds.
    pub last_sample: i64,
    /// Revisions that are missing, in all.
    pub missing: i64,
    /// The last of them.
    pub last_gap: Option<i64>,
}

impl Default for Tail {
    fn default() -> Tail {
        Tail {
            next: 1,
            hash: Sha256Hex::default(),
            at: Timestamp::UNIX_EPOCH,
            epoch: 0,
            claim: None,
            end: None,
            end_imprint: None,
            last_delta: None,
            last_full: None,
            last_proof: None,
            last_sample: i64::MIN,
            missing: 0,
            last_gap: None,
        }
    }
}

impl Tail {
    /// May this record be the next?
    pub fn follows(&self, signed: &Signed) -> Result<(), &'static str> {
        if signed.record.number != self.next {
            return Err("its number is not the one that its name says");
        }
        if signed.record.previous != self.hash {
            return Err("it does not follow the record before it");
        }
        Ok(())
    }

    /// Takes the next record. What comes behind a record that cannot be read is taken as it is.
    pub fn take(&mut self, signed: &Signed) {
        let record = &signed.record;
        self.next = record.number + 1;
        self.hash = signed.hash;
        self.at = self.at.max(record.at);
        self.epoch = self.epoch.max(record.epoch);
        match &record.entry {
            Entry::Claim(claim) => {
                self.epoch = self.epoch.max(claim.epoch);
                self.claim = Some((claim.clone(), record.writer.clone(), record.at));
            }
            Entry::Full(full) => {
                if self
                    .last_full
                    .as_ref()
                    .is_none_or(|(last, _)| last.revision <= full.revision)
                {
                    self.last_full = Some((full.clone(), record.at));
                }
                // Changes are counted from the first full copy on; later ones change nothing about them.
                self.end.get_or_insert(full.revision);
            }
            Entry::Delta(delta) => {
                (self.end, self.end_imprint) = (Some(delta.to), delta.last);
                self.last_delta = Some((delta.to, record.at));
                if let Some(sample) = delta.samples.last() {
                    self.last_sample = self.last_sample.max(sample.after);
                }
            }
            Entry::Gap(gap) => {
                (self.end, self.end_imprint) = (Some(gap.to), None);
                self.last_gap = Some(gap.to);
                self.missing += gap.to - gap.from + 1;
            }
            Entry::Proof(proof) => self.last_proof = Some((proof.clone(), record.at)),
            Entry::Prune(_) => {}
        }
    }
}
