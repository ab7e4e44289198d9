//! `quorate certs rotate`: another CA, without an outage.

use quorate_host::{Root, control};

use crate::failure::Failure;
use crate::{arguments, progress, say};

/// Leaves a request beside the certificates; the supervisor carries it out.
pub async fn run(root: &Root, arguments: &arguments::Certs) -> Result<(), Failure> {
    let arguments::CertsCommand::Rotate(rotate) = &arguments.command;
    let status = control::read_status(root.path())?;
    let running = status.as_ref().is_some_and(|status| status.supervisor.running);
    progress::can_wait(rotate.wait, running, root)?;
    let Some(certs) = status.and_then(|status| status.certs) else {
        let words = format!("the cluster under {} has no certificates", root.path().display());
        return Err(Failure::usage(words).and("Its manifest says tls: false, or it was never started."));
    };
    control::rotate_ca(root.path())?;
    say::line(&format!(
        "A new CA replaces the present one in stages; members restart one at a time, twice. Clients that stay connected \
         must read {} again.",
        certs.ca.display()
    ));
    let asked = || control::rotation_asked(root.path());
    progress::follow(rotate.wait, root, running, |_| !asked()).await
}
