//! `cargo xtask suite`: builds every test once, runs each as a process of its own, several at a time, and says how long
//! each took.
//!
//! In: a tier and what of it to run. Out: one line a test, the output of those that failed, the slowest, a count.
//! Never: a test that is skipped without a word, a second try, a tier of no tests that passes.

mod arguments;
mod build;
mod pick;
mod processes;
mod report;
mod schedule;

use std::path::Path;

use crate::Result;

/// One test function of one test program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    pub program: build::Program,
    pub name: String,
}

impl Test {
    /// What people call it: `package::target::path::of::test`.
    pub fn title(&self) -> String {
        format!("{}::{}", self.program.title(), self.name)
    }
}

pub fn run(arguments: &[String]) -> Result<()> {
    let options = match arguments::parse(arguments)? {
        arguments::Asked::Help => {
            println!("{}", arguments::HELP);
            return Ok(());
        }
        arguments::Asked::Run(options) => options,
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("xtask lies in a repository")?;
    let programs = build::build(root)?;
    let tests = pick::pick(&programs, &options)?;
    if options.list {
        for test in &tests {
            println!("{}", test.title());
        }
        return Ok(());
    }
    let logs = build::target_directory(root)
        .join("suite")
        .join(&options.log_name);
    let outcomes = schedule::run(&tests, &options, &logs)?;
    report::report(&outcomes, &logs, options.show)
}
