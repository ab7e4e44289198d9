//! `quorate snapshot verify FILE|DIR`: intact, or where the first fault is.

use quorate_datadir::{Error, Source, Verdict, verify};
use serde::Serialize;

use super::{form, offline};
use crate::arguments::Form;
use crate::arguments::snapshot::Verify as Arguments;
use crate::failure::Failure;
use crate::render::bytes::hex;
use crate::render::{facts, style};

/// What was found intact.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Intact {
    intact: bool,
    sha256: Option<String>,
    hash: u32,
    hash_kv: u32,
    revision: i64,
    compact_revision: i64,
    keys: u64,
    versions: u64,
    unknown: &'static str,
}

/// What was found damaged.
#[derive(Debug, Serialize)]
struct Damaged<'a> {
    intact: bool,
    path: String,
    place: &'a str,
    why: &'a str,
}

/// Looks at all of it and says what it is.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.path;
    let outcome = offline::run("checked", |progress| {
        let source = match Source::open(path) {
            Ok(source) => source,
            Err(Error::Damaged { path, place, why }) => return Ok(Err(Error::Damaged { path, place, why })),
            Err(_) => offline::open(path)?,
        };
        Ok(verify(&source, progress))
    })?;
    match outcome {
        Ok(verdict) => {
            let shown = shown(&verdict);
            form::show(arguments.output, &shown, || {
                page(&arguments.path.display().to_string(), &shown)
            })
        }
        Err(error) => {
            if let Error::Damaged { path, place, why } = &error
                && arguments.output != Form::Table
            {
                let path = path.display().to_string();
                let intact = false;
                form::show(
                    arguments.output,
                    &Damaged {
                        intact,
                        path,
                        place,
                        why,
                    },
                    String::new,
                )?;
            }
            Err(error.into())
        }
    }
}

fn shown(verdict: &Verdict) -> Intact {
    Intact {
        intact: true,
        sha256: verdict.digest.as_ref().map(|digest| hex(digest)),
        hash: verdict.hash,
        hash_kv: verdict.hash_kv.hash,
        revision: verdict.hash_kv.revision,
        compact_revision: verdict.hash_kv.compact_revision,
        keys: verdict.keys,
        versions: verdict.versions,
        unknown: verdict.unknown(),
    }
}

fn page(path: &str, shown: &Intact) -> String {
    let sha256 = shown
        .sha256
        .clone()
        .unwrap_or_else(|| "none in the file".to_owned());
    let facts = facts::page(&[
        ("sha256", sha256),
        ("hash", format!("{:08x}", shown.hash)),
        ("hashkv", shown.hash_kv.to_string()),
        ("revision", shown.revision.to_string()),
        ("compact revision", shown.compact_revision.to_string()),
        ("keys", shown.keys.to_string()),
        ("versions of keys", shown.versions.to_string()),
        ("not known", shown.unknown.to_owned()),
    ]);
    format!("{path} is {}\n{facts}", style::paint(style::GOOD, "intact"))
}
