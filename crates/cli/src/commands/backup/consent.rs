//! What is not quite what was asked for has to be agreed to.

use std::io::{IsTerminal, Write};

use super::watched;
use crate::failure::Failure;

/// Lines below a plan: what should be known of it, and what has to be agreed to.
pub fn notes(notes: &[String], consents: &[String]) -> String {
    let notes = notes.iter().map(|note| format!("note: {note}\n"));
    let consents = consents.iter().map(|consent| format!("needs --yes: {consent}\n"));
    notes.chain(consents).collect()
}

/// What a dry run ends with.
pub fn dry_run(consents: &[String]) -> &'static str {
    match consents.is_empty() {
        true => "\nNothing was done: this was a dry run.",
        false => "\nNothing was done: this was a dry run. With --yes it would be done.",
    }
}

/// Goes on only if what is not quite what was asked for is agreed to.
pub async fn agree(consents: &[String], yes: bool, people: bool) -> Result<(), Failure> {
    if consents.is_empty() || yes {
        return Ok(());
    }
    let refused = || {
        Failure::refused(consents.join("; "))
            .and("Nothing was done. If that is good enough, say so with --yes.")
    };
    if !people || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(refused());
    }
    let ask = |text: &[u8]| {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text).and_then(|()| err.flush());
    };
    let answer = watched::typed(|| ask(b"Go on? [y/N] ")).await;
    if !answer.ends_with('\n') {
        ask(b"\n");
    }
    match matches!(answer.trim(), "y" | "Y" | "yes") {
        true => Ok(()),
        false => Err(refused()),
    }
}
