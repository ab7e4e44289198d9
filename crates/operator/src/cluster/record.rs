//! What the operator writes on a claim about the volume in it, so that it outlives the EtcdCluster: a cluster that is
//! deleted and created again finds its members by these records.
//!
//! In: the memory. Out: an annotation per claim, and from all of them a memory again. Never: a record of a wiped volume
//! written over that of the volume it was; "never started" from a claim without a record; a record that cannot be read,
//! taken for none.

use std::collections::BTreeMap;

use quorate_core::Memory;
use quorate_core::memory::{Bootstrap, Mark, Slot};
use quorate_core::model::{
    ClusterId, Epoch, Generation, MemberId, Ordinal, PeerUrl, Progress, Token, Version,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRecord {
    #[serde(default)]
    pub format: RecordFormat,
    /// The id that lies on the volume.
    pub volume_id: String,
    /// Which generation of the slot this is about.
    pub generation: Generation,
    /// Whether it was ever started.
    pub mark: Mark,
    /// The token of the bootstrap.
    pub token: Option<Token>,
    /// Who took part in that. Claims may be there that did not: they were made for members that were given up again.
    #[serde(default)]
    pub first_members: Vec<Ordinal>,
    /// Its member, once there is one.
    pub member: Option<MemberId>,
    /// Its cluster, once that has answered.
    pub cluster: Option<ClusterId>,
    /// The newest version started on it.
    pub version: Option<Version>,
    /// The newest version that served from it.
    pub served: Option<Version>,
    /// Whether its member speaks TLS: its address in etcd's own list says so, and stays.
    #[serde(default)]
    pub tls: Option<bool>,
    /// The epoch of its cluster.
    #[serde(default, skip_serializing_if = "Epoch::is_first")]
    pub epoch: Epoch,
    /// The number of the last start that was planned on it.
    #[serde(default)]
    pub run: u64,
    /// How far it is known to have come.
    #[serde(default, skip_serializing_if = "Progress::is_none")]
    pub reached: Progress,
}

/// The format that a record was written in; one without a number is of the first. A newer one cannot be read, so that
/// nobody acts on half of it, or writes it back without what they did not understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct RecordFormat(u32);

impl RecordFormat {
    const KNOWN: RecordFormat = RecordFormat(1);
}

impl Default for RecordFormat {
    fn default() -> RecordFormat {
        RecordFormat::KNOWN
    }
}

impl TryFrom<u32> for RecordFormat {
    type Error = String;

    fn try_from(format: u32) -> Result<RecordFormat, String> {
        match format {
            1 => Ok(RecordFormat::KNOWN),
            other => Err(format!(
                "it is of format {other}, and this quorate knows format {}",
                RecordFormat::KNOWN.0
            )),
        }
    }
}

impl VolumeRecord {
    /// What the memory says of a slot, on the volume `volume_id`.
    pub fn of(memory: &Memory, ordinal: Ordinal, volume_id: &str) -> VolumeRecord {
        let slot = memory.slot(ordinal);
        VolumeRecord {
            format: RecordFormat::KNOWN,
            volume_id: volume_id.to_owned(),
            generation: slot.generation,
            mark: slot.mark,
            token: memory.bootstrap.as_ref().map(|b| b.token.clone()),
            first_members: memory
                .bootstrap
                .iter()
                .flat_map(|b| b.members.keys().copied())
                .collect(),
            member: slot.member,
            cluster: memory.cluster,
            version: slot.version,
            served: slot.served,
            tls: speaks_tls(memory),
            epoch: memory.epoch,
            run: slot.run,
            reached: slot.reached,
        }
    }

    /// Is it about a volume of this generation, and final? One on which nothing was started yet gets the id of the volume
    /// when that is first looked at. One that says otherwise never does: its volume is not the one that was started.
    pub fn is_of(&self, generation: Generation) -> bool {
        self.generation == generation && (!self.volume_id.is_empty() || self.mark != Mark::Never)
    }

    /// Reads an annotation. An error is for people.
    pub fn read(text: &str) -> Result<VolumeRecord, String> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default, rename = "format")]
            _format: RecordFormat,
        }
        // First of all, so that a newer one is called that, whatever else in it is not known here.
        let read = serde_json::from_str::<Head>(text).and_then(|_| serde_json::from_str(text));
        read.map_err(|error| error.to_string())
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Whether the members of a cluster were first started with TLS.
pub fn speaks_tls(memory: &Memory) -> Option<bool> {
    let url = memory.bootstrap.as_ref()?.members.values().next()?;
    Some(url.0.starts_with("https:"))
}

/// The memory of a cluster whose EtcdCluster was recreated over claims that were there already: what each claim
/// says, and of a claim without a record that it was started, for nobody knows better; as of a claim that is gone, of a
/// first member of a cluster that may still be forming. `url` is where a member is, with
/// or without TLS if a claim says so.
pub fn recall(
    claims: &BTreeMap<Ordinal, Option<VolumeRecord>>,
    url: impl Fn(Ordinal, Option<bool>) -> PeerUrl,
) -> Option<Memory> {
    let started = |record: &Option<VolumeRecord>| record.as_ref().is_none_or(|r| r.mark != Mark::Never);
    if !claims.values().any(started) {
        return None; // Made for a cluster that never began.
    }
    let records = || claims.values().flatten();
    let token = records().find_map(|r| r.token.clone());
    let tls = records().find_map(|r| r.tls);
    // Nobody else may be started as a first member. Records of before do not say who they were.
    let first = records().find(|r| r.mark != Mark::Never && !r.first_members.is_empty());
    let first: Vec<Ordinal> = match first {
        Some(record) => record.first_members.clone(),
        None => claims.keys().copied().collect(),
    };
    let started_once = || Slot {
        mark: Mark::Started,
        ..Slot::default()
    };
    let slots = claims.iter().map(|(ordinal, record)| {
        let slot = match record {
            Some(record) => Slot {
                generation: record.generation,
                mark: record.mark,
                member: record.member,
                voter: record.member.is_some(),
                version: record.version,
                served: record.served,
                run: record.run,
                reached: record.reached,
                ..Slot::default()
            },
            None => started_once(),
        };
        (*ordinal, slot)
    });
    let cluster = records().find_map(|r| r.cluster);
    let mut slots: BTreeMap<Ordinal, Slot> = slots.collect();
    if cluster.is_none() {
        for ordinal in &first {
            slots.entry(*ordinal).or_insert_with(started_once);
        }
    }
    Some(Memory {
        bootstrap: Some(Bootstrap {
            token: token.unwrap_or_else(|| Token("unknown".to_owned())),
            members: first.into_iter().map(|o| (o, url(o, tls))).collect(),
        }),
        cluster,
        // A claim that was away during a recovery does not know of it.
        epoch: records().map(|r| r.epoch).max().unwrap_or_default(),
        slots,
        ..Memory::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(mark: Mark, member: Option<u64>) -> VolumeRecord {
        VolumeRecord {
            format: RecordFormat::KNOWN,
            volume_id: "v".to_owned(),
            generation: Generation(2),
            mark,
            token: Some(Token("t".to_owned())),
            first_members: Vec::new(),
            member: member.map(MemberId),
            cluster: member.map(|_| ClusterId(9)),
            version: Some(Version::new(3, 6, 1)),
            served: None,
            tls: member.map(|_| true),
            epoch: Epoch(0),
            run: 4,
            reached: Progress { run: 3, index: 70 },
        }
    }

    fn url(ordinal: Ordinal, tls: Option<bool>) -> PeerUrl {
        PeerUrl(format!(
            "{}://{ordinal}",
            crate::names::scheme(tls.unwrap_or(false))
        ))
    }

    #[test]
    fn a_record_reads_back() {
        let record = record(Mark::Started, Some(7));
        assert_eq!(VolumeRecord::read(&record.text()), Ok(record));
    }

    #[test]
    fn a_record_without_a_format_is_of_the_first_and_a_newer_one_is_not_read() {
        let record = record(Mark::Started, Some(7));
        let text = record.text();
        assert!(text.starts_with(r#"{"format":1,"#), "{text}");
        let of_before = text.replacen(r#""format":1,"#, "", 1);
        assert_eq!(VolumeRecord::read(&of_before), Ok(record));
        let newer = r#"{"format":2,"volumes":[]}"#;
        let error = VolumeRecord::read(newer).unwrap_err();
        assert!(
            error.contains("it is of format 2, and this quorate knows format 1"),
            "{error}"
        );
        for spoilt in [
            "",
            "gibberish",
            "{}",
            "[]",
            r#"{"format":"1"}"#,
            &text[..text.len() - 1],
        ] {
            assert!(VolumeRecord::read(spoilt).is_err(), "{spoilt}");
        }
    }

    #[test]
    fn a_cluster_is_recalled_from_its_claims() {
        let claims = BTreeMap::from([
            (Ordinal(0), Some(record(Mark::Started, Some(7)))),
            (Ordinal(1), Some(record(Mark::Intended, None))),
            (Ordinal(2), None),
        ]);
        let memory = recall(&claims, url).unwrap();
        assert_eq!(memory.cluster, Some(ClusterId(9)));
        assert_eq!(speaks_tls(&memory), Some(true));
        assert_eq!(memory.bootstrap.as_ref().unwrap().members.len(), 3);
        assert_eq!(memory.slot(Ordinal(0)).member, Some(MemberId(7)));
        assert_eq!(memory.slot(Ordinal(0)).generation, Generation(2));
        assert_eq!(memory.slot(Ordinal(1)).mark, Mark::Intended);
        assert_eq!(memory.slot(Ordinal(2)).mark, Mark::Started, "nobody knows better");
    }

    #[test]
    fn only_those_who_began_a_cluster_are_its_first_members() {
        let first = VolumeRecord {
            first_members: vec![Ordinal(0)],
            ..record(Mark::Intended, None)
        };
        // Made for members that were given up before the cluster began.
        let unused = record(Mark::Never, None);
        let claims = BTreeMap::from([
            (Ordinal(0), Some(first)),
            (Ordinal(1), Some(unused.clone())),
            (Ordinal(2), Some(unused)),
        ]);
        let memory = recall(&claims, url).unwrap();
        let members = memory.bootstrap.unwrap().members;
        assert_eq!(members.keys().collect::<Vec<_>>(), [&Ordinal(0)]);
        assert_eq!(memory.slots.len(), 3);
    }

    #[test]
    fn a_first_member_whose_claim_is_gone_may_have_voted() {
        let first = |member| VolumeRecord {
            first_members: vec![Ordinal(0), Ordinal(1)],
            ..record(Mark::Started, member)
        };
        let claims = |member| BTreeMap::from([(Ordinal(1), Some(first(member)))]);
        let memory = recall(&claims(None), url).unwrap();
        assert_eq!(memory.slot(Ordinal(0)).mark, Mark::Started);
        // It may have left by then.
        let memory = recall(&claims(Some(7)), url).unwrap();
        assert_eq!(memory.slots.len(), 1);
    }

    #[test]
    fn claims_that_never_saw_a_start_are_no_cluster() {
        assert_eq!(recall(&BTreeMap::new(), url), None);
        let claims = BTreeMap::from([(Ordinal(0), Some(record(Mark::Never, None)))]);
        assert_eq!(recall(&claims, url), None);
    }
}
