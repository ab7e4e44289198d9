//! The repository's own chores: `cargo xtask tidy` checks rules that no compiler knows.

mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let done = match task.as_str() {
        "tidy" => tidy::run(),
        _ => Err(anyhow::anyhow!("usage: cargo xtask tidy")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
