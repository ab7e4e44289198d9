//! The log on its way: a block of records at a time, once what they name is there.

use bytes::Bytes;

use super::Way;
use super::objects::There;
use crate::log::{SEGMENT, SEGMENT_BYTES_MAX};
use crate::record::{RECORD_BYTES_MAX, Signed};
use crate::store::Created;
use crate::{Error, names};

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
        if there.log.contains(&(first, last)) {
            return Ok(());
        }
        let new: Vec<&&Signed> = records
            .iter()
            .filter(|signed| !there.is_recorded(signed.record.number))
            .collect();
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
            self.create(&name, Bytes::from(content)).await?;
            self.copied.records += new.len() as u64;
            return Ok(());
        }
        for signed in new {
            let bytes = self.verbatim(timeline, signed).await?;
            let name = names::record(timeline, signed.record.number);
            self.create(&name, Bytes::from(bytes)).await?;
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

    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        if self.to.create(name, bytes.clone()).await? == Created::New {
            return Ok(());
        }
        // What was there before the listing was compared; this came meanwhile.
        match self.to.get(name, bytes.len() as u64).await {
            Ok(theirs) if theirs == bytes => Ok(()),
            _ => Err(Error::refused(
                format!(
                    "{} is written by another just now: {name} appeared there",
                    self.to.describe()
                ),
                "stop that one, or copy to another place",
            )),
        }
    }
}
