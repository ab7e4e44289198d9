//! quorate: runs etcd clusters.
//!
//! In: a command line. Out: text for people on standard output, trouble on standard error, and an exit code that is a
//! contract: 0 done, 1 failed, 2 bad usage or input, 3 refused for safety.
//!
//! What must never happen: a panic shown to a user; a file changed before everything that can be judged beforehand
//! was judged; a member disturbed because nobody reads the output.

mod arguments;
mod bar;
mod commands;
mod duration;
mod failure;
mod log_lines;
mod manifest;
mod output_file;
mod progress;
mod render;
mod roots;
mod say;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use self::arguments::Command;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    if !matches!(arguments.command, Some(Command::Operator(_))) {
        abort_on_panic();
    }
    // Whose work goes on when nobody can read what it says.
    let works_on = matches!(arguments.command, Some(Command::Up(_) | Command::Operator(_)));
    let ended = commands::run(arguments).and_then(|()| match say::lost_output() {
        Some(failure) if !works_on => Err(failure),
        _ => Ok(()),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::failure(&failure);
            ExitCode::from(failure.code())
        }
    }
}

/// A panic in any thread or task ends the process, so that the rest does not go on without it. The operator is the
/// exception: it keeps a panic to the pass over one cluster.
fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}
