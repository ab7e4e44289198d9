//! `quorate snapshot status FILE`: the numbers of `etcdutl snapshot status`, under its names, and a few more.

use quorate_datadir::status;
use serde::Serialize;

use super::{form, offline};
use crate::arguments::snapshot::Status as Arguments;
use crate::failure::Failure;
use crate::render::facts;

/// The first five are etcdutl's.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    hash: u32,
    revision: i64,
    total_key: u64,
    total_size: u64,
    version: String,
    compact_revision: Option<i64>,
    rows: u64,
    has_digest: bool,
}

/// Reads and shows them.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let source = offline::open(&arguments.path)?;
    let status = offline::run("read", |progress| Ok(status(&source, progress)?))?;
    let shown = Shown {
        hash: status.hash,
        revision: status.revision,
        total_key: status.keys,
        total_size: status.size,
        version: status.version,
        compact_revision: status.compact_revision,
        rows: status.rows,
        has_digest: status.has_digest,
    };
    form::show(arguments.output, &shown, || page(&shown))
}

fn page(shown: &Shown) -> String {
    let compacted = shown
        .compact_revision
        .map_or("never".to_owned(), |r| format!("up to revision {r}"));
    let version = if shown.version.is_empty() {
        "unknown (before 3.6)"
    } else {
        &shown.version
    };
    facts::page(&[
        ("hash", format!("{:08x}", shown.hash)),
        ("revision", shown.revision.to_string()),
        ("keys", shown.total_key.to_string()),
        ("size", facts::size(shown.total_size)),
        ("version", version.to_owned()),
        ("compacted", compacted),
        ("rows", shown.rows.to_string()),
        (
            "digest",
            if shown.has_digest { "there" } else { "none" }.to_owned(),
        ),
    ])
}
