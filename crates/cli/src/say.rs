//! Saying things: colours only where a terminal shows them, and nobody listening is no reason to fail.
//!
//! `quorate status | head -1` closes our output early; a supervisor whose terminal is gone still has members to mind.
//! So a failed write stops nothing here, and never by a panic. But output that was lost although somebody wants it (onto
//! a full disk, say) is remembered, and the command fails in the end: see [`lost_output`].

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use clap::builder::styling::Style;

use crate::bar;
use crate::failure::Failure;
use crate::render::style;

/// Why some output was lost, if it was.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// That output was lost for another reason than that nobody reads it any more.
pub fn lost_output() -> Option<Failure> {
    let error = LOST.get()?;
    Some(Failure::failed(format!(
        "cannot write the output: {}",
        crate::failure::chain(error)
    )))
}

fn heard(written: io::Result<()>) -> bool {
    match written {
        Ok(()) => true,
        Err(error) => {
            if error.kind() != ErrorKind::BrokenPipe {
                let _ = LOST.set(error);
            }
            false
        }
    }
}

/// Writes text to standard output.
pub fn print(text: &str) {
    let _ = write_all(text);
}

/// Writes text to standard output; false if nobody reads it any more.
pub fn write_all(text: &str) -> bool {
    let _terminal = bar::aside();
    let mut out = anstream::stdout().lock();
    heard(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes bytes as they are to standard output; false if nobody reads them any more.
pub fn write_raw(bytes: &[u8]) -> bool {
    let _terminal = bar::aside();
    let mut out = std::io::stdout().lock();
    heard(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Writes a line to standard output.
pub fn line(text: &str) {
    print(&format!("{text}\n"));
}

/// A line about the work itself, to standard error: standard output is for results.
pub fn note(text: &str) {
    error_line(&format!("{text}\n"));
}

/// Something worth knowing that stops nothing.
pub fn warning(text: &str) {
    error_line(&format!("{}: {text}\n", style::paint(style::WARN, "warning")));
}

/// Why a command failed.
pub fn failure(failure: &Failure) {
    let word = if failure.code() == 3 { "refused" } else { "error" };
    error_line(&format!("{}: {failure}\n", style::paint(style::BAD.bold(), word)));
}

/// Whether a person watches standard output.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

fn error_line(text: &str) {
    let _terminal = bar::aside();
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// The look of `--help`.
pub fn help_styles() -> clap::builder::Styles {
    let heading = Style::new().bold();
    clap::builder::Styles::styled()
        .header(heading)
        .usage(heading)
        .literal(style::NAME)
        .placeholder(style::DIM)
}
