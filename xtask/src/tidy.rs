//! Rules of the repository, one file each. A rule returns a line for each breach; none is a pass.

mod banned_text;
mod dependency_rule;
mod file_length;
mod file_names;
mod leftovers;
mod panic_profile;
mod pure_crates;
mod sources;
mod workspace;

use anyhow::{Result, bail};

/// Runs every rule, prints every breach, and fails if there was one.
pub fn run() -> Result<()> {
    let workspace = workspace::Workspace::load()?;
    let files = sources::load(&workspace.root)?;
    let rules = [
        ("dependency rule", dependency_rule::check(&workspace.direct)),
        ("pure crates", pure_crates::check(&workspace.normal)),
        ("file length", file_length::check(&files)),
        ("file names", file_names::check(&files)),
        ("banned text", banned_text::check(&files)),
        ("leftovers", leftovers::check(&files)),
        ("panic profile", panic_profile::check(&files)),
    ];
    let mut breaches = 0;
    for (rule, found) in &rules {
        for breach in found {
            eprintln!("{rule}: {breach}");
        }
        breaches += found.len();
    }
    if breaches > 0 {
        bail!("tidy: {breaches} breach(es) in {} files", files.len());
    }
    println!("tidy: {} rules hold over {} files", rules.len(), files.len());
    Ok(())
}
