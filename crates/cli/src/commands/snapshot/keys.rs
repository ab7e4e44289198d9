//! `quorate snapshot keys FILE`: which keys there are.
//!
//! In: a snapshot or a stopped member, which keys, a revision. Out: a line for each, in their order. Values are looked at
//! one at a time, for what Kubernetes objects they are. Columns line up within a stretch of lines, so that the first ones
//! are there before the last value was read.

use quorate_datadir::view::{Found, Values, find};
use serde::Serialize;

use super::chosen::chosen;
use super::offline;
use crate::arguments::snapshot::{Keys as Arguments, Lines};
use crate::failure::Failure;
use crate::render::bytes::{hex, readable};
use crate::render::count::count;
use crate::render::kubernetes::{Object, object};
use crate::render::table::{Cell, draw};
use crate::say;

/// How many lines line up.
const STRETCH: usize = 1000;

/// A key, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Where it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    create_revision: i64,
    mod_revision: i64,
    version: i64,
    /// In hexadecimal digits, as etcdctl shows it: JSON's numbers are too short for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<String>,
    bytes: u64,
    #[serde(flatten)]
    object: Option<Object>,
}

impl Key {
    /// What was found, and what object it is.
    pub fn of(found: &Found, object: Option<Object>) -> Key {
        let (key, key_hex) = name(&found.key);
        Key {
            key,
            key_hex,
            create_revision: found.create_revision,
            mod_revision: found.mod_revision,
            version: found.version,
            lease: (found.lease != 0).then(|| format!("{:x}", found.lease)),
            bytes: found.value_bytes,
            object,
        }
    }
}

/// A key as text, or in digits where it is none.
pub fn name(key: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(key) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(hex(key))),
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let selection = chosen(
        arguments.key.as_deref(),
        arguments.end.as_deref(),
        &arguments.which,
    )?;
    let source = offline::open(&arguments.path)?;
    let revision = source.revision(arguments.which.rev.unwrap_or(0))?;
    offline::run("read", |progress| {
        let found = find(&source, &selection, revision, progress)?;
        let mut values = Values::of(&source)?;
        let limit = arguments
            .which
            .limit
            .and_then(|limit| usize::try_from(limit).ok());
        let shown = &found[..found.len().min(limit.unwrap_or(usize::MAX))];
        for (number, stretch) in shown.chunks(STRETCH).enumerate() {
            let mut objects = Vec::with_capacity(stretch.len());
            for found in stretch {
                progress.add(0)?;
                objects.push(object(&values.get(found)?));
            }
            let text = match arguments.output {
                Lines::Table => table(stretch, objects, number == 0),
                Lines::Json => lines(stretch, objects)?,
            };
            if !say::write_all(&text) {
                return Ok(());
            }
        }
        if arguments.output == Lines::Table {
            say::note(&summary(shown.len(), found.len(), revision));
        }
        Ok(())
    })
}

fn summary(shown: usize, found: usize, revision: i64) -> String {
    let keys = count(found, "key", "keys");
    if shown < found {
        format!("{shown} of {keys} at revision {revision}")
    } else {
        format!("{keys} at revision {revision}")
    }
}

fn lines(stretch: &[Found], objects: Vec<Option<Object>>) -> Result<String, Failure> {
    let mut text = String::new();
    for (found, object) in stretch.iter().zip(objects) {
        let line = serde_json::to_string(&Key::of(found, object));
        text.push_str(&line.map_err(|error| Failure::failed(format!("cannot write a key: {error}")))?);
        text.push('\n');
    }
    Ok(text)
}

/// A table of what there is to show: leases and objects only where there are any.
fn table(stretch: &[Found], objects: Vec<Option<Object>>, headed: bool) -> String {
    let leases = stretch.iter().any(|found| found.lease != 0);
    let of_kubernetes = objects.iter().any(Option::is_some);
    let mut headings = vec!["REVISION", "VERSION", "BYTES"];
    if leases {
        headings.push("LEASE");
    }
    if of_kubernetes {
        headings.extend(["KIND", "NAMESPACE", "NAME"]);
    }
    headings.push("KEY");
    let blank = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let row = |(found, object): (&Found, Option<Object>)| {
        let mut cells = vec![
            Cell::number(found.mod_revision.to_string()),
            Cell::number(found.version.to_string()),
            Cell::number(found.value_bytes.to_string()),
        ];
        if leases {
            let lease = (found.lease != 0).then(|| format!("{:x}", found.lease));
            cells.push(Cell::text(blank(lease.unwrap_or_default())));
        }
        if of_kubernetes {
            let object = object.unwrap_or_default();
            cells.extend(
                [object.kind, object.namespace, object.name]
                    .map(|text| Cell::text(blank(readable(text.as_bytes())))),
            );
        }
        cells.push(Cell::text(readable(&found.key)));
        cells
    };
    let rows: Vec<Vec<Cell>> = stretch.iter().zip(objects).map(row).collect();
    let drawn = draw(&headings, &rows, "");
    match (headed, drawn.split_once('\n')) {
        (false, Some((_, rest))) => rest.to_owned(),
        _ => drawn,
    }
}
