//! `quorate backup copy URL TO-URL`: an archive into another store.

use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::copy::{Copied, copy};
use quorate_datadir::Progress;

use super::place::{self, Found};
use super::{etcdbr, watched};
use crate::arguments::backup::Copy;
use crate::commands::snapshot::form;
use crate::failure::Failure;
use crate::render::count::count;
use crate::render::{facts, style};

/// Copies it and says what was copied.
pub async fn run(arguments: &Copy) -> Result<(), Failure> {
    let to = place::store(&arguments.to, &arguments.place).await?;
    let archive = match place::found(&arguments.place).await? {
        Found::Ours(archive) => archive,
        Found::Etcdbr(from, _) => return etcdbr::converted(arguments, &from, &to).await,
    };
    let progress = Arc::new(Progress::new());
    let writer = place::writer();
    let work = copy(&archive, &to, &writer, &progress, Timestamp::now());
    let copied = watched::watch("copied", archive.store(), &progress, work).await?;
    form::show(arguments.output, &copied, || page(&copied))?;
    match copied.damaged.len() {
        0 => Ok(()),
        1 => Err(Failure::failed("one thing was damaged, and is not in the copy").and("All else is.")),
        count => Err(
            Failure::failed(format!("{count} things were damaged, and are not in the copy"))
                .and("All else is."),
        ),
    }
}

fn page(copied: &Copied) -> String {
    let mut lines = vec![
        (
            "copied",
            format!(
                "{}, {}",
                count(copied.objects, "object", "objects"),
                facts::size(copied.bytes)
            ),
        ),
        ("were there", count(copied.were_there, "object", "objects")),
        ("records", copied.records.to_string()),
    ];
    if copied.deleted > 0 {
        let objects = count(copied.deleted, "object", "objects");
        lines.push(("deleted", format!("{objects} that the source gave up")));
    }
    for repaired in &copied.repaired {
        lines.push(("repaired", format!("{}: {}", repaired.object, repaired.why)));
    }
    for damage in &copied.damaged {
        let text = format!("{}: {}", damage.object, damage.why);
        lines.push(("damaged", style::paint(style::BAD, &text)));
    }
    facts::page(&lines)
}
