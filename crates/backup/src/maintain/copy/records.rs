//! The log on its way: a block of records at a time, once what they name is there.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::objects::There;
use super::{Damage, Way};
use crate::Error;
use crate::format::record::{RECORD_BYTES_MAX, Signed};
use crate::format::{lines, names};
use crate::log::{History, SEGMENT, SEGMENT_BYTES_MAX};
use crate::store::Created;

impl Way<'_> {
    /// Copies records of a block: as a segment if all of them are there, otherwise one by one.
    pub(super) async fn records(
        &mut self,
        timeline: u32,
        block: u64,
        records: &[&Signed],
        there: &There,
    ) -> Result<(), Error> {
        let (first, last) = (block * SEGMENT + 1, (block + 1) * SEGMENT);
        let new: Vec<&&Signed> = records
            .iter()
            .filter(|signed| !there.is_recorded(signed.record.number))
            .collect();
        if new.is_empty() && there.has_segment(timeline, (first, last)) {
            return Ok(());
        }
        let whole = records.len() as u64 == SEGMENT;
        let mut content = Vec::new();
        if whole {
            for signed in records {
                content.extend_from_slice(&self.verbatim(timeline, signed).await?);
                if content.len() >= SEGMENT_BYTES_MAX {
                    break;
                }
            }
        }
        if whole && content.len() < SEGMENT_BYTES_MAX {
            let name = names::segment(timeline, first, last);
            self.create(&name, Bytes::from(content), SEGMENT).await?;
            self.copied.records += new.len() as u64;
            return Ok(());
        }
        for signed in new {
            let bytes = self.verbatim(timeline, signed).await?;
            let name = names::record(timeline, signed.record.number);
            self.create(&name, Bytes::from(bytes), 1).await?;
            self.copied.records += 1;
        }
        Ok(())
    }

    /// A record as it was written. One of a later version may say more than this one knows to write.
    async fn verbatim(&self, timeline: u32, signed: &Signed) -> Result<Vec<u8>, Error> {
        let (bytes, hash) = signed.record.bytes();
        if hash == signed.hash {
            return Ok(bytes);
        }
        let name = names::record(timeline, signed.record.number);
        let stored = self.from.get(&name, RECORD_BYTES_MAX as u64).await;
        match stored.map(|bytes| bytes.to_vec()) {
            Ok(bytes) if Signed::read_all(&bytes, 1).is_ok_and(|read| read[0].hash == signed.hash) => {
                Ok(bytes)
            }
            _ => Err(Error::refused(
                format!("{name} was written by a later version of quorate"),
                "copy with that version",
            )),
        }
    }

    /// Creates an object of so many records. One that is there is written over only if it is damaged.
    async fn create(&mut self, name: &str, bytes: Bytes, count: u64) -> Result<(), Error> {
        if self.to.create(name, bytes.clone()).await? == Created::New {
            return Ok(());
        }
        let theirs = self.to.get(name, 2 * SEGMENT_BYTES_MAX as u64).await?;
        if theirs == bytes {
            return Ok(());
        }
        if is_intact(&theirs, count) {
            return Err(Error::refused(
                format!(
                    "{name} in {} is sound and not the source's: another writes there",
                    self.to.describe()
                ),
                "stop that one, or copy to another place",
            ));
        }
        if let Err(error) = self.to.put(name, bytes).await {
            self.copied.damaged.push(Damage {
                object: name.to_owned(),
                why: format!("it is damaged in the copy, and was not written anew: {error}"),
            });
        }
        Ok(())
    }

    /// Tells what was wrong with the log of the copy: what is sound now, and what is not. What is wrong with the source's
    /// own is told already.
    pub(super) async fn tell(&mut self, timeline: u32, before: &History) -> Result<(), Error> {
        if before.faults.is_empty() {
            return Ok(());
        }
        let after = History::read(self.to, timeline).await?;
        let left: BTreeSet<&str> = after.faults.iter().map(|fault| fault.object.as_str()).collect();
        for fault in &before.faults {
            // What was not there is copied as anything new is.
            if !fault.gone && !left.contains(fault.object.as_str()) {
                self.copied.repaired.push(Damage {
                    object: fault.object.clone(),
                    why: fault.why.clone(),
                });
            }
        }
        let told: BTreeSet<String> = self
            .copied
            .damaged
            .iter()
            .map(|told| told.object.clone())
            .collect();
        for fault in after.faults.iter().filter(|fault| !told.contains(&fault.object)) {
            self.copied.damaged.push(Damage {
                object: fault.object.clone(),
                why: format!("in the copy: {}", fault.why),
            });
        }
        Ok(())
    }
}

/// Whether so many records are as they were written, also such as this version does not know.
fn is_intact(mut bytes: &[u8], count: u64) -> bool {
    for _ in 0..count {
        match lines::read_first::<serde::de::IgnoredAny>(bytes) {
            Ok((_, _, rest)) => bytes = rest,
            Err(_) => return false,
        }
    }
    bytes.is_empty()
}
