//! `quorate backup verify URL`: would it restore right now?

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::record;
use quorate_backup::verify::{Fulls, Options, Recording, Report, verify};
use quorate_datadir::Progress;

use super::place::{self, Found};
use super::served::Etcds;
use super::{etcdbr, list, watched};
use crate::arguments::backup::{Level, Verify};
use crate::commands::snapshot::form;
use crate::failure::Failure;
use crate::render::count::count;
use crate::render::{facts, style};
use crate::roots;

/// Looks at it and says what it came to.
pub async fn run(root: Option<PathBuf>, arguments: &Verify) -> Result<(), Failure> {
    let scratch = place::scratch(arguments.scratch.as_deref());
    // An etcd may be found without a root as well.
    let root = roots::resolve(root).ok();
    let root = root.as_ref().map(|root| root.path());
    let archive = match place::found(&arguments.place).await? {
        Found::Ours(archive) => archive,
        Found::Etcdbr(store, _) => return etcdbr::verified(arguments, &store, &scratch, root).await,
    };
    let writer = place::writer();
    let progress = Arc::new(Progress::new());
    let etcds = Etcds::of(root, arguments.etcd.as_deref(), &progress);
    let options = Options {
        timeline: arguments.timeline,
        level: match arguments.level {
            Level::Read => record::Level::Read,
            Level::Rebuilt => record::Level::Rebuilt,
            Level::Served => record::Level::Served,
        },
        fulls: match arguments.every_full {
            true => Fulls::All,
            false => Fulls::Newest,
        },
        scratch: &scratch,
        serve: Some(&etcds),
        writer: &writer,
        record: match arguments.no_record {
            true => Recording::Told,
            false => Recording::Recorded,
        },
    };
    let work = verify(&archive, &options, &progress, Timestamp::now());
    let report = watched::watch("verified", archive.store(), &progress, work).await?;
    form::show(arguments.output, &report, || page(&report))?;
    match (report.findings.len(), &report.proof) {
        (0, Some(_)) => Ok(()),
        (0, None) => Err(Failure::failed("nothing was proven: there is no full copy")
            .and("`quorate backup now URL` takes one.")),
        (count, _) => Err(wrong(count)),
    }
}

/// So many things were found wrong.
pub fn wrong(findings: usize) -> Failure {
    let what = count(
        findings,
        "thing is not as it should be",
        "things are not as they should be",
    );
    Failure::failed(what).and("`quorate backup restore URL --dry-run` says what can still be reached.")
}

fn page(report: &Report) -> String {
    let mut lines = vec![(
        "read",
        format!(
            "{}, {}, {}, {}",
            count(report.fulls, "full copy", "full copies"),
            count(report.deltas, "delta", "deltas"),
            count(report.records, "record", "records"),
            facts::size(report.bytes)
        ),
    )];
    if let Some(rebuilt) = &report.rebuilt {
        let text = format!(
            "revision {} from the full copy of {}, HashKV {}",
            rebuilt.revision, rebuilt.base, rebuilt.hash.hash
        );
        lines.push(("rebuilt", text));
        lines.push((
            "compared",
            format!(
                "{}, {}",
                count(rebuilt.hashes, "recorded hash", "recorded hashes"),
                count(rebuilt.fulls, "full copy", "full copies")
            ),
        ));
    }
    for note in &report.notes {
        lines.push(("note", format!("{}: {}", note.object, note.why)));
    }
    for finding in &report.findings {
        let text = format!("{}: {}", finding.object, finding.why);
        lines.push(("wrong", style::paint(style::BAD, &text)));
    }
    if let Some(proof) = &report.proof {
        let text = format!(
            "{} up to revision {}, in {:.1} s",
            list::level(proof.level),
            proof.revision,
            proof.seconds
        );
        lines.push(("proven", style::paint(style::GOOD, &text)));
    }
    facts::page(&lines)
}
