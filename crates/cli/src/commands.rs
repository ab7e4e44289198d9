//! The commands, one file each, in folders by what they are for.

mod backup;
mod explain;
mod host;
mod kubernetes;
mod restored_members;
mod snapshot;
mod version;

use crate::arguments::{Arguments, Command};
use crate::failure::Failure;
use crate::roots;

/// Runs the command that was asked for.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { command, root } = arguments;
    let Some(command) = command else {
        return Err(Failure::usage(format!(
            "no command was given\n\n{}",
            Arguments::help().trim_end()
        )));
    };
    // These have nothing to do with a cluster, and must work where no root can be named.
    match command {
        Command::Explain(arguments) => return explain::run(root, &arguments),
        Command::Version => return version::run(),
        Command::Install(arguments) => return kubernetes::install::run(arguments),
        Command::LaunchMember(arguments) => return host::launch_member::run(&arguments),
        Command::Operator(arguments) => return in_runtime(kubernetes::operator::run(arguments)),
        Command::Prepare(arguments) => return in_runtime(kubernetes::prepare::run(arguments)),
        Command::LaunchInPod(arguments) => return kubernetes::launch_in_pod::run(&arguments),
        Command::Snapshot(arguments) => return snapshot::run(root, arguments.command),
        Command::Backup(arguments) => return backup::run(root, arguments.command),
        _ => {}
    }
    let root = roots::resolve(root)?;
    in_runtime(async {
        match command {
            Command::Up(arguments) => host::up::run(&root, arguments).await,
            Command::Status(arguments) => host::status::run(&root, &arguments).await,
            Command::Healthcheck => host::healthcheck::run(&root),
            Command::Logs(arguments) => host::logs::run(&root, &arguments).await,
            Command::Scale(arguments) => host::scale::run(&root, &arguments).await,
            Command::Upgrade(arguments) => host::upgrade::run(&root, &arguments).await,
            Command::Redeploy(arguments) => host::redeploy::run(&root, &arguments).await,
            Command::Certs(arguments) => host::certs::run(&root, &arguments).await,
            Command::Down => host::down::run(&root).await,
            Command::Explain(_)
            | Command::Version
            | Command::Install(_)
            | Command::LaunchMember(_)
            | Command::Operator(_)
            | Command::Prepare(_)
            | Command::LaunchInPod(_)
            | Command::Snapshot(_)
            | Command::Backup(_) => Ok(()),
        }
    })
}

/// One thread is enough for a supervisor, and keeps it small.
fn in_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(work)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))
}
