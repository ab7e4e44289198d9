//! `quorate snapshot defrag DIR|FILE`: the same rows without the free space between.

use quorate_datadir::defrag;
use serde::Serialize;

use super::{form, offline};
use crate::arguments::snapshot::Defrag as Arguments;
use crate::failure::Failure;
use crate::render::facts;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    file: String,
    before: u64,
    after: u64,
}

/// Does it and says what it brought.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let done = offline::run("rewritten", |progress| Ok(defrag(&arguments.path, progress)?))?;
    let shown = Shown {
        file: done.path.display().to_string(),
        before: done.before,
        after: done.after,
    };
    form::show(arguments.output, &shown, || {
        facts::page(&[
            ("file", shown.file.clone()),
            ("before", facts::size(shown.before)),
            ("after", facts::size(shown.after)),
        ])
    })
}
