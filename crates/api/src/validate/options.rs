//! The rules of `spec.options` and `spec.quota`.

use super::{Findings, storage};
use crate::cluster::options::{CompactionMode, LogLevel, Metrics, Options};
use crate::cluster::quantity::Quantity;
use crate::path::FieldPath;
use crate::resolve::OptionValues;

/// etcd's defaults, which a lone setting is held against.
const HEARTBEAT_MS: i64 = 100;
const ELECTION_MS: i64 = 1000;
/// etcd refuses a longer election timeout.
const MOST_ELECTION_MS: i64 = 50_000;
/// etcd advises against a larger database.
const ADVISED_QUOTA: u64 = 8 << 30;
/// etcd advises against larger requests.
const ADVISED_REQUEST: u64 = 10 << 20;
/// Members take no message above 512 MiB of each other: a larger entry of the log could never be replicated.
const MOST_REQUEST: u64 = 256 << 20;
/// An empty database is some tens of KiB: with a smaller quota none would ever take a write.
const LEAST_QUOTA: u64 = 1 << 20;
/// etcd reads the quota as a signed number, and does not start with more.
const MOST_QUOTA: u64 = i64::MAX as u64;
/// What members report of themselves to each other is a request too; with less, none of them ever serves.
const LEAST_REQUEST: u64 = 4 << 10;
/// A longer time is more nanoseconds than etcd can count, and it does not start.
const MOST_HOURS: u64 = 2_562_047;

/// The largest database; `None` leaves it to etcd.
pub(crate) fn quota(quota: Option<&Quantity>, volume: u64, found: &mut Findings) -> Option<u64> {
    let path = FieldPath::of("spec.quota");
    let bytes = storage::bytes(path.clone(), quota?, found);
    if bytes == 0 {
        return None;
    }
    if !(LEAST_QUOTA..=MOST_QUOTA).contains(&bytes) {
        let fix = "etcd takes no write with less and does not start with more; 2Gi is its default, 8Gi the most it advises.";
        found.fault(
            path,
            quota?.as_str().to_owned(),
            "at least 1Mi and less than 8Ei",
            fix,
        );
        return None;
    }
    if volume > 0 && bytes > volume {
        found.warn(
            path,
            "larger than the volume: the disk would be full before etcd stops accepting writes.",
        );
    } else if bytes > ADVISED_QUOTA {
        found.warn(
            path,
            "above 8Gi, the most etcd advises: restarts and recovery take long.",
        );
    }
    Some(bytes)
}

pub(crate) fn options(options: Option<&Options>, found: &mut Findings) -> OptionValues {
    let Some(options) = options else {
        return OptionValues::default();
    };
    let path = FieldPath::of("spec.options");
    timing(options, found);
    let mut number = |name: &str, value: Option<i64>, least: i64| {
        let value = value?;
        if value < least {
            let fix = "Write a larger number, or leave it out for etcd's default.";
            found.fault(
                path.key(name),
                value.to_string(),
                &format!("at least {least}"),
                fix,
            );
        }
        u64::try_from(value).ok()
    };
    let heartbeat_ms = number("heartbeatInterval", options.heartbeat_interval, 1);
    let election_ms = number("electionTimeout", options.election_timeout, 1);
    let snapshot_count = number("snapshotCount", options.snapshot_count, 1);
    let max_txn_ops = number("maxTxnOps", options.max_txn_ops, 1);
    let max_snapshots = number("maxSnapshots", options.max_snapshots, 1);
    let max_wals = number("maxWals", options.max_wals, 1);
    let max_request_bytes = options.max_request_bytes.as_ref().map(|size| {
        let path = path.key("maxRequestBytes");
        let bytes = storage::bytes(path.clone(), size, found);
        if (1..LEAST_REQUEST).contains(&bytes) {
            let fix = "With less, members cannot report to each other; 1536Ki is etcd's default.";
            found.fault(path, size.as_str().to_owned(), "at least 4Ki", fix);
        } else if bytes > MOST_REQUEST {
            let fix = "Members take no larger message of each other, and much larger ones overflow; 1536Ki is etcd's default.";
            found.fault(path, size.as_str().to_owned(), "at most 256Mi", fix);
        } else if bytes > ADVISED_REQUEST {
            found.warn(
                path,
                "above 10Mi, the most etcd advises: large requests delay heartbeats.",
            );
        }
        bytes
    });
    let auto_compaction_mode = word(
        path.key("autoCompactionMode"),
        options.auto_compaction_mode.as_deref(),
        CompactionMode::ALL,
        CompactionMode::from_word,
        found,
    );
    let auto_compaction_retention = retention(
        options.auto_compaction_retention.as_ref(),
        auto_compaction_mode,
        found,
    );
    let log_level = word(
        path.key("logLevel"),
        options.log_level.as_deref(),
        LogLevel::ALL,
        LogLevel::from_word,
        found,
    );
    let metrics = word(
        path.key("metrics"),
        options.metrics.as_deref(),
        Metrics::ALL,
        Metrics::from_word,
        found,
    );
    OptionValues {
        heartbeat_ms,
        election_ms,
        snapshot_count,
        auto_compaction_mode,
        auto_compaction_retention,
        max_request_bytes,
        max_txn_ops,
        max_snapshots,
        max_wals,
        log_level,
        metrics,
    }
}

/// etcd refuses to start unless an election waits for five heartbeats, and for at most 50 s.
fn timing(options: &Options, found: &mut Findings) {
    let heartbeat = options.heartbeat_interval.unwrap_or(HEARTBEAT_MS);
    let election = options.election_timeout.unwrap_or(ELECTION_MS);
    if heartbeat < 1 || election < 1 {
        return;
    }
    let path = FieldPath::of("spec.options.electionTimeout");
    if election > MOST_ELECTION_MS {
        let expected = format!("at most {MOST_ELECTION_MS} ms");
        found.fault(
            path,
            format!("{election} ms"),
            &expected,
            "etcd does not start with more; 1000 is its default.",
        );
    } else if election < heartbeat.saturating_mul(5) {
        found.fault(
            path,
            format!("{election} ms with a heartbeat every {heartbeat} ms"),
            "at least five heartbeats",
            "etcd does not start with less; ten heartbeats are usual.",
        );
    }
}

fn retention(
    retention: Option<&Quantity>,
    mode: Option<CompactionMode>,
    found: &mut Findings,
) -> Option<String> {
    let path = FieldPath::of("spec.options.autoCompactionRetention");
    let Some(retention) = retention else {
        if mode.is_some() {
            found.warn(
                path,
                "not set, so nothing is compacted automatically; set it, for example 1h or 1000.",
            );
        }
        return None;
    };
    let text = retention.as_str();
    let whole = !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    let revisions = mode == Some(CompactionMode::Revision);
    if !(whole || (!revisions && is_duration(text))) {
        let (expected, fix) = if revisions {
            ("a number of revisions", "Write a whole number, for example 1000.")
        } else {
            (
                "a time such as 1h or 30m",
                "Write a number and h, m or s; a plain number is hours, and 0 is off.",
            )
        };
        found.fault(path, format!("the text {text:?}"), expected, fix);
    } else if !revisions && hours(text).is_none_or(|hours| hours > MOST_HOURS) {
        found.fault(
            path,
            format!("the text {text:?}"),
            &format!("at most {MOST_HOURS}h"),
            "etcd does not start with more; a few hours are usual, and 0 is off.",
        );
    }
    Some(text.to_owned())
}

/// How many hours a time is, rounded up; a plain number is hours.
fn hours(text: &str) -> Option<u64> {
    if let Ok(hours) = text.parse() {
        return Some(hours);
    }
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let (unit, milliseconds) = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)]
            .into_iter()
            .find(|(unit, _)| after.starts_with(unit))?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(milliseconds)?)?;
        rest = &after[unit.len()..];
    }
    Some(total.div_ceil(3_600_000))
}

/// Numbers each with a unit, as in `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || digits > 9 {
            return false;
        }
        let after = &rest[digits..];
        let Some(next) = ["ms", "h", "m", "s"]
            .iter()
            .find_map(|unit| after.strip_prefix(unit))
        else {
            return false;
        };
        rest = next;
    }
    !text.is_empty()
}

fn word<T>(
    path: FieldPath,
    word: Option<&str>,
    all: &[&str],
    read: impl Fn(&str) -> Option<T>,
    found: &mut Findings,
) -> Option<T> {
    let word = word?;
    let value = read(word);
    if value.is_none() {
        let words = all.join(", ");
        found.fault(
            path,
            format!("the text {word:?}"),
            &format!("one of {words}"),
            "Write one of these words.",
        );
    }
    value
}
