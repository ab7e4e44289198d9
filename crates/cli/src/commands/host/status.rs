//! `quorate status`: once, or again and again.

use std::time::Duration;

use quorate_host::{Root, Status};

use crate::arguments::{self, Form};
use crate::failure::Failure;
use crate::{render, roots, say};

/// How often a watched status is looked at.
const LOOK: Duration = Duration::from_secs(1);

pub async fn run(root: &Root, arguments: &arguments::Status) -> Result<(), Failure> {
    if !arguments.watch {
        let status = roots::status(root)?;
        say::print(&once(&status, arguments.output)?);
        return match arguments.exit_code && !status.ready {
            true => Err(Failure::failed(format!(
                "{} {}",
                status.cluster,
                render::status::health(&status).1
            ))),
            false => Ok(()),
        };
    }
    if say::is_terminal() {
        redraw(root, arguments.output).await
    } else {
        changes(root, arguments.output).await
    }
}

fn once(status: &Status, form: Form) -> Result<String, Failure> {
    let unwritable = |error: String| Failure::failed(format!("cannot write the status: {error}"));
    match form {
        Form::Table => Ok(render::status::page(status)),
        Form::Json => serde_json::to_string_pretty(status)
            .map(|t| t + "\n")
            .map_err(|e| unwritable(e.to_string())),
        Form::Yaml => serde_saphyr::to_string(status).map_err(|e| unwritable(e.to_string())),
    }
}

/// Draws it over and over in the same place.
async fn redraw(root: &Root, form: Form) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(LOOK);
    loop {
        ticks.tick().await;
        let page = once(&roots::status(root)?, form)?;
        let hint = render::style::paint(render::style::DIM, "Ctrl-C ends the watching, not the cluster.");
        // Each line clears what was right of it, the last one what was below: no flicker as from a cleared screen.
        let lines = format!("{page}\n{hint}\n").replace('\n', "\x1b[K\n");
        if !say::write_all(&format!("\x1b[H{lines}\x1b[J")) {
            return Ok(());
        }
    }
}

/// Prints it whenever it differs from the last.
async fn changes(root: &Root, form: Form) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(LOOK);
    let mut last: Option<Status> = None;
    loop {
        ticks.tick().await;
        let status = roots::status(root)?;
        let timeless = Status {
            updated_at: String::new(),
            age: None,
            ..status.clone()
        };
        if last.as_ref() == Some(&timeless) {
            continue;
        }
        let text = match form {
            Form::Table => once(&status, form)? + "\n",
            Form::Json => serde_json::to_string(&status).map_err(|e| Failure::failed(e.to_string()))? + "\n",
            Form::Yaml => format!("---\n{}", once(&status, form)?),
        };
        if !say::write_all(&text) {
            return Ok(());
        }
        last = Some(timeless);
    }
}
