//! `quorate snapshot verify FILE|DIR`: intact, or where the first fault is.

use quorate_datadir::{Error, MemberVerdict, Source, Verdict, db_path, verify, verify_member};
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
    /// Of a data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<Member>,
}

/// What the log of a member says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    /// In hexadecimal digits, as etcd shows it.
    member_id: Option<String>,
    cluster_id: Option<String>,
    term: u64,
    commit: u64,
    /// The last entry whose effect is in the database.
    applied: u64,
    last_index: u64,
    last_term: u64,
    segments: u64,
    log: String,
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
        if path.is_dir() {
            // A directory without a database is not the same as a damaged one.
            if !db_path(path).exists() {
                offline::open(path)?;
            }
            return Ok(verify_member(path, progress).map(of_member));
        }
        let verified = Source::open(path).and_then(|source| verify(&source, progress));
        Ok(verified.map(|verdict| shown(&verdict, None)))
    })?;
    match outcome {
        Ok(shown) => form::show(arguments.output, &shown, || {
            page(&arguments.path.display().to_string(), &shown)
        }),
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

fn shown(verdict: &Verdict, member: Option<Member>) -> Intact {
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
        member,
    }
}

fn of_member(verdict: MemberVerdict) -> Intact {
    let log = verdict.log;
    let member = Member {
        member_id: log.member_id.map(|id| format!("{id:x}")),
        cluster_id: log.cluster_id.map(|id| format!("{id:x}")),
        term: log.state.term,
        commit: log.state.commit,
        applied: verdict.applied,
        last_index: log.last_index,
        last_term: log.last_term,
        segments: log.segments,
        log: log.end.to_string(),
    };
    shown(&verdict.database, Some(member))
}

fn page(path: &str, shown: &Intact) -> String {
    let sha256 = shown
        .sha256
        .clone()
        .unwrap_or_else(|| "none in the file".to_owned());
    let mut facts = vec![
        ("sha256", sha256),
        ("hash", format!("{:08x}", shown.hash)),
        ("hashkv", shown.hash_kv.to_string()),
        ("revision", shown.revision.to_string()),
        ("compact revision", shown.compact_revision.to_string()),
        ("keys", shown.keys.to_string()),
        ("versions of keys", shown.versions.to_string()),
    ];
    if let Some(member) = &shown.member {
        let id = |id: &Option<String>| id.clone().unwrap_or_else(|| "-".to_owned());
        facts.push(("member", id(&member.member_id)));
        facts.push(("cluster", id(&member.cluster_id)));
        facts.push((
            "last entry",
            format!("{} of term {}", member.last_index, member.last_term),
        ));
        facts.push(("log", member.log.clone()));
    }
    facts.push(("not known", shown.unknown.to_owned()));
    let facts = facts::page(&facts);
    format!("{path} is {}\n{facts}", style::paint(style::GOOD, "intact"))
}
