//! `quorate snapshot get FILE KEY`: values, as they are.
//!
//! In: a snapshot or a stopped member, keys, a revision. Out: one key's value byte for byte, or several with their keys.
//! Values are read one at a time. A key that is not there is a failure that says what became of it.

use std::io::{ErrorKind, Write};
use std::path::Path;

use quorate_datadir::durable::Draft;
use quorate_datadir::view::{Found, Selection, Trail, Values, find, trail};
use quorate_datadir::{Progress, Source};
use serde::Serialize;

use super::chosen::chosen;
use super::keys::Key;
use super::offline;
use crate::arguments::snapshot::{Get as Arguments, Written};
use crate::failure::{Failure, chain};
use crate::output_file;
use crate::render::bytes::{hex, readable};
use crate::render::json_text;
use crate::render::kubernetes::{Object, object};

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let selection = chosen(Some(&arguments.key), arguments.end.as_deref(), &arguments.which)?;
    let source = offline::open(&arguments.path)?;
    let revision = source.revision(arguments.which.rev.unwrap_or(0))?;
    offline::run("read", |progress| {
        let found = find(&source, &selection, revision, progress)?;
        if let (Selection::Exact(key), []) = (&selection, &found[..]) {
            let trail = trail(&source, key, revision, progress)?;
            return Err(not_there(key, revision, trail));
        }
        let mut sink = Sink::of(arguments.output_file.as_deref())?;
        let one = matches!(selection, Selection::Exact(_));
        write(&source, &found, arguments, one, &mut sink, progress)?;
        sink.end()
    })
}

fn write(
    source: &Source,
    found: &[Found],
    arguments: &Arguments,
    one: bool,
    sink: &mut Sink,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut values = Values::of(source)?;
    let limit = arguments
        .which
        .limit
        .and_then(|limit| usize::try_from(limit).ok());
    for found in found.iter().take(limit.unwrap_or(usize::MAX)) {
        progress.add(0)?;
        let value = values.get(found)?;
        let more = match (arguments.output, one) {
            (Written::Raw, true) => sink.put(&value)?,
            (Written::Raw, false) => sink.put(&[&found.key, &b"\n"[..], &value, b"\n"].concat())?,
            (Written::Hex, true) => sink.put(format!("{}\n", hex(&value)).as_bytes())?,
            (Written::Hex, false) => sink.put(format!("{} {}\n", hex(&found.key), hex(&value)).as_bytes())?,
            (Written::Json, true) => sink.put(alone(&value)?.as_bytes())?,
            (Written::Json, false) => sink.put(in_line(found, &value)?.as_bytes())?,
        };
        if !more {
            break;
        }
    }
    Ok(())
}

/// A value that is not text, as JSON can carry it.
#[derive(Serialize)]
struct Binary {
    #[serde(flatten)]
    object: Option<Object>,
    hex: String,
}

/// A value as JSON: itself if it is JSON, else a string if it is text, else its digits.
fn as_json(value: &[u8]) -> Result<String, Failure> {
    if let Some(json) = json_text::of(value) {
        return Ok(json.to_owned());
    }
    let written = match std::str::from_utf8(value) {
        Ok(text) if !text.contains('\0') => serde_json::to_string(text),
        _ => serde_json::to_string(&Binary {
            object: object(value),
            hex: hex(value),
        }),
    };
    written.map_err(|error| Failure::failed(format!("cannot write a value as JSON: {error}")))
}

fn alone(value: &[u8]) -> Result<String, Failure> {
    Ok(json_text::pretty(&as_json(value)?) + "\n")
}

fn in_line(found: &Found, value: &[u8]) -> Result<String, Failure> {
    let key = Key::of(found, None);
    let key = serde_json::to_string(&key).map_err(|e| Failure::failed(format!("cannot write a key: {e}")))?;
    let value = json_text::compact(&as_json(value)?);
    // The key is an object; the value becomes its last field, as it stands.
    Ok(format!("{},\"value\":{value}}}\n", key.trim_end_matches('}')))
}

fn not_there(key: &[u8], revision: i64, trail: Trail) -> Failure {
    let key = readable(key);
    let failure = Failure::failed(format!("there is no key {key} at revision {revision}"));
    match trail {
        Trail {
            deleted_at: Some(at),
            last_seen_at: Some(seen),
            ..
        } => failure.and(&format!(
            "It was deleted at revision {at}; `--rev {seen}` shows its last value."
        )),
        Trail {
            written_later: Some(later),
            ..
        } => failure.and(&format!("It was written later, at revision {later}.")),
        Trail {
            deleted_at: Some(at), ..
        } => failure.and(&format!(
            "It was deleted at revision {at}, and what it was before is compacted away."
        )),
        Trail { .. } => {
            failure.and("Nothing in the file mentions it; `quorate snapshot keys` lists what there is.")
        }
    }
}

enum Sink {
    Out,
    File(Draft, String),
}

impl Sink {
    fn of(file: Option<&Path>) -> Result<Sink, Failure> {
        let Some(path) = file else {
            return Ok(Sink::Out);
        };
        output_file::check(path)
            .map_err(|refused| refused.and("Leave --output-file out to print to standard output."))?;
        let name = path.display().to_string();
        let draft = Draft::among_others(path).map_err(|error| unwritable(&name, &error))?;
        Ok(Sink::File(draft, name))
    }

    /// Writes; false if nobody reads any more.
    fn put(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        match self {
            Sink::File(draft, name) => match draft.file().write_all(bytes) {
                Ok(()) => Ok(true),
                Err(error) => Err(unwritable(name, &error)),
            },
            Sink::Out => {
                let _terminal = crate::bar::aside();
                let mut out = std::io::stdout().lock();
                match out.write_all(bytes).and_then(|()| out.flush()) {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
                    // A value that is not whole must not pass for one.
                    Err(error) => Err(unwritable("standard output", &error)),
                }
            }
        }
    }

    fn end(self) -> Result<(), Failure> {
        match self {
            Sink::Out => Ok(()),
            Sink::File(draft, name) => draft.publish().map_err(|error| unwritable(&name, &error)),
        }
    }
}

fn unwritable(name: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {name}: {}", chain(error)))
}
