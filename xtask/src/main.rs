//! The repository's own chores: rules that no compiler knows, and running the tests.

mod json;
mod suite;
mod tidy;

use std::process::ExitCode;

/// What went wrong, for the person at the terminal.
type Result<T> = std::result::Result<T, String>;

const USAGE: &str =
    "usage: cargo xtask tidy | cargo xtask suite TIER [options] (see `cargo xtask suite --help`)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((task, [])) if task == "tidy" => tidy::run(),
        Some((task, rest)) if task == "suite" => suite::run(rest),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
