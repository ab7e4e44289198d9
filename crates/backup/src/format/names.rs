//! What the objects of an archive are called.
//!
//! ```text
//! archive.json
//! restored/CLUSTER.json   hold/UNIQUE.json
//! t/00000001/origin.json  t/00000001/head.json
//! t/00000001/log/000000000001.rec   t/00000001/log/000000000001-000000000128.seg
//! t/00000001/full/REVISION-UNIQUE.full   t/00000001/delta/FROM-TO-UNIQUE.delta
//! ```
//!
//! Numbers are padded, so that a listing by name is one by number. Data objects have a unique part: none is ever
//! overwritten.

pub const IDENTITY: &str = "archive.json";
/// What all timelines' names begin with.
pub const TIMELINES: &str = "t";
/// Marks that clusters were made from this archive.
pub const RESTORED: &str = "restored";
/// Marks that something is being read.
pub const HOLDS: &str = "hold";

/// What a timeline's objects begin with.
pub fn timeline(number: u32) -> String {
    format!("{TIMELINES}/{number:08}")
}

/// Where a timeline comes from.
pub fn origin(timeline: u32) -> String {
    format!("{}/origin.json", self::timeline(timeline))
}

/// How far a timeline's log is, and who writes it.
pub fn head(timeline: u32) -> String {
    format!("{}/head.json", self::timeline(timeline))
}

pub fn log(timeline: u32) -> String {
    format!("{}/log", self::timeline(timeline))
}

pub fn record(timeline: u32, number: u64) -> String {
    format!("{}/{number:012}.rec", log(timeline))
}

/// Records, one after the other.
pub fn segment(timeline: u32, first: u64, last: u64) -> String {
    format!("{}/{first:012}-{last:012}.seg", log(timeline))
}

pub fn full(timeline: u32, revision: i64, unique: &str) -> String {
    format!("{}/full/{revision:012}-{unique}.full", self::timeline(timeline))
}

pub fn delta(timeline: u32, from: i64, to: i64, unique: &str) -> String {
    format!(
        "{}/delta/{from:012}-{to:012}-{unique}.delta",
        self::timeline(timeline)
    )
}

/// The mark that this cluster was made from the archive.
pub fn restored(cluster_id: u64) -> String {
    format!("{RESTORED}/{cluster_id:016x}.json")
}

/// The mark that something is being read.
pub fn hold(unique: &str) -> String {
    format!("{HOLDS}/{unique}.json")
}

pub fn unique() -> String {
    let mut bytes = [0; 8];
    if ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).is_err() {
        // A system without random numbers still has a clock and process ids.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_nanos() as u64);
        bytes = (now ^ (u64::from(std::process::id()) << 40)).to_be_bytes();
    }
    crate::format::digest::hex(&bytes)
}

/// An object of a log, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogObject {
    Record(u64),
    /// Records from the first to the last.
    Segment(u64, u64),
}

impl LogObject {
    /// Reads the last part of its name.
    pub fn parse(name: &str) -> Option<LogObject> {
        let name = name.rsplit('/').next()?;
        let number = |text: &str| (text.len() >= 12).then(|| text.parse::<u64>().ok()).flatten();
        if let Some(text) = name.strip_suffix(".rec") {
            return number(text).map(LogObject::Record);
        }
        let (first, last) = name.strip_suffix(".seg")?.split_once('-')?;
        match (number(first)?, number(last)?) {
            (first, last) if first <= last && first > 0 => Some(LogObject::Segment(first, last)),
            _ => None,
        }
    }
}

/// The number of a timeline, by the name of one of its objects.
pub fn timeline_of(name: &str) -> Option<u32> {
    let (number, _) = name.strip_prefix("t/")?.split_once('/')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_made() {
        assert_eq!(LogObject::parse(&record(1, 7)), Some(LogObject::Record(7)));
        assert_eq!(
            LogObject::parse(&segment(1, 1, 128)),
            Some(LogObject::Segment(1, 128))
        );
        assert_eq!(timeline_of(&record(12, 7)), Some(12));
        for foreign in [
            "x",
            "1.rec",
            "000000000009-000000000002.seg",
            "origin.json",
            ".rec",
        ] {
            assert_eq!(LogObject::parse(foreign), None, "{foreign}");
        }
        assert_ne!(unique(), unique());
    }
}
