//! Rules of the repository, one file each. A rule returns a line for each breach; none is a pass.

mod advisories;
mod banned_text;
mod deny_lists;
mod dependency_rule;
mod doc_comments;
mod duplicate_versions;
mod file_length;
mod file_names;
mod leftovers;
mod licences;
mod named_files;
mod panic_profile;
mod pure_crates;
mod sources;
mod sources_of_crates;
mod workspace;

use crate::Result;

/// Runs every rule, prints every breach, and fails if there was one.
pub fn run() -> Result<()> {
    let workspace = workspace::Workspace::load()?;
    let files = sources::load(&workspace.root)?;
    let rules = [
        ("dependency rule", dependency_rule::check(&workspace.direct)),
        ("pure crates", pure_crates::check(&workspace.normal)),
        ("file length", file_length::check(&files)),
        ("file names", file_names::check(&files)),
        ("named files", named_files::check(&files)),
        ("banned text", banned_text::check(&files)),
        ("leftovers", leftovers::check(&files)),
        ("doc comments", doc_comments::check(&files)),
        ("panic profile", panic_profile::check(&files)),
        ("licences", licences::check(&files)),
        ("sources of crates", sources_of_crates::check(&files)),
        ("duplicate versions", duplicate_versions::check(&files)),
        ("advisories", advisories::check()),
    ];
    let mut breaches = 0;
    for (rule, found) in &rules {
        for breach in found {
            eprintln!("{rule}: {breach}");
        }
        breaches += found.len();
    }
    if breaches > 0 {
        return Err(format!("tidy: {breaches} breach(es) in {} files", files.len()));
    }
    println!("tidy: {} rules hold over {} files", rules.len(), files.len());
    Ok(())
}
