//! `quorate snapshot diff A [B]`: what was added, changed and deleted.
//!
//! In: two snapshots or stopped members, or two revisions of one. Out: a line for each key that differs, as it is found,
//! and how many there were.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use quorate_datadir::view::{Change, Compared, Kind, Selection, Side, Totals, diff};
use serde::Serialize;

use super::keys::name;
use super::offline;
use crate::arguments::snapshot::{Diff as Arguments, Lines};
use crate::failure::Failure;
use crate::render::bytes::readable;
use crate::render::style;
use crate::say;

/// How much is gathered before it is written.
const BUFFER: usize = 16 * 1024;

/// A change, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    before: Option<i64>,
    after: Option<i64>,
}

/// The last line, for programs.
#[derive(Serialize)]
struct Last {
    totals: Counts,
}

#[derive(Serialize)]
struct Counts {
    added: u64,
    changed: u64,
    deleted: u64,
    rewritten: u64,
    same: u64,
}

/// Finds and prints what differs.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let first = offline::open(&arguments.a)?;
    let second = arguments.b.as_deref().map(offline::open).transpose()?;
    let (a, b) = (&first, second.as_ref().unwrap_or(&first));
    let sides = [
        Side {
            source: a,
            revision: a.revision(arguments.from.unwrap_or(0))?,
        },
        Side {
            source: b,
            revision: b.revision(arguments.to.unwrap_or(0))?,
        },
    ];
    let selection = match &arguments.prefix {
        Some(prefix) => Selection::Prefix(prefix.as_bytes().to_vec()),
        None => Selection::All,
    };
    let width = sides
        .map(|side| side.revision.to_string().len())
        .into_iter()
        .max()
        .unwrap_or(0)
        .max(6);
    offline::run("compared", |progress| {
        let mut out = Out {
            form: arguments.output,
            width,
            buffer: String::new(),
            begun: false,
            heard: true,
        };
        let compared = Compared::ValueAndLease;
        let totals = diff(sides, &selection, compared, progress, |change| out.print(change))?;
        out.end(&totals, sides.map(|side| side.revision));
        Ok(())
    })
}

/// Lines on their way out.
struct Out {
    form: Lines,
    width: usize,
    buffer: String,
    begun: bool,
    heard: bool,
}

impl Out {
    fn print(&mut self, change: &Change<'_>) -> ControlFlow<()> {
        match self.form {
            Lines::Table => self.row(change),
            Lines::Json => self.line(change),
        }
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
        match self.heard {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn row(&mut self, change: &Change<'_>) {
        let width = self.width;
        if !self.begun {
            self.begun = true;
            let heading = format!(
                "{:7}  {:>width$}  {:>width$}  {}",
                "CHANGE", "BEFORE", "AFTER", "KEY"
            );
            self.buffer
                .push_str(&format!("{}\n", style::paint(style::DIM, &heading)));
        }
        let revision = |revision: Option<i64>| revision.map_or("-".to_owned(), |r| r.to_string());
        let (before, after) = (revision(change.before), revision(change.after));
        let (word, colour) = match change.kind {
            Kind::Added => ("added", style::GOOD),
            Kind::Changed => ("changed", style::WARN),
            Kind::Deleted => ("deleted", style::BAD),
        };
        let word = style::paint(colour, &format!("{word:7}"));
        let key = readable(change.key);
        self.buffer
            .push_str(&format!("{word}  {before:>width$}  {after:>width$}  {key}\n"));
    }

    fn line(&mut self, change: &Change<'_>) {
        let (key, key_hex) = name(change.key);
        let line = Line {
            change: match change.kind {
                Kind::Added => "added",
                Kind::Changed => "changed",
                Kind::Deleted => "deleted",
            },
            key,
            key_hex,
            before: change.before,
            after: change.after,
        };
        self.json(&line);
    }

    fn json(&mut self, line: &impl Serialize) {
        // Text and numbers can always be written.
        self.buffer
            .push_str(&serde_json::to_string(line).unwrap_or_default());
        self.buffer.push('\n');
    }

    fn end(mut self, totals: &Totals, [from, to]: [i64; 2]) {
        let Totals {
            added,
            changed,
            deleted,
            rewritten,
            same,
        } = *totals;
        match self.form {
            Lines::Json => self.json(&Last {
                totals: Counts {
                    added,
                    changed,
                    deleted,
                    rewritten,
                    same,
                },
            }),
            Lines::Table => {
                let again = match rewritten {
                    0 => String::new(),
                    count => format!(", {count} written again as they were"),
                };
                self.buffer.push_str(&format!(
                    "{added} added, {changed} changed, {deleted} deleted, {same} the same{again} (revision {from} to {to})\n"
                ));
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        self.heard = self.heard && say::write_all(&self.buffer);
        self.buffer.clear();
    }
}
