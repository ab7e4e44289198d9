//! `quorate snapshot hash FILE|DIR`: the HashKV that a member with the same history answers.

use quorate_datadir::hash_kv;
use serde::Serialize;

use super::{form, offline};
use crate::arguments::snapshot::Hash as Arguments;
use crate::failure::Failure;
use crate::render::facts;

/// Under the names of etcd's answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    hash: u32,
    hash_revision: i64,
    compact_revision: i64,
}

/// Computes and shows it.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let source = offline::open(&arguments.path)?;
    let hashed = offline::run("hashed", |progress| {
        Ok(hash_kv(
            &source,
            arguments.rev.unwrap_or(0),
            arguments.compact_revision,
            progress,
        )?)
    })?;
    let shown = Shown {
        hash: hashed.hash,
        hash_revision: hashed.revision,
        compact_revision: hashed.compact_revision,
    };
    form::show(arguments.output, &shown, || {
        facts::page(&[
            ("hash", shown.hash.to_string()),
            ("revision", shown.hash_revision.to_string()),
            ("compact revision", shown.compact_revision.to_string()),
        ])
    })
}
