//! `quorate healthcheck`: does the cluster serve? For scripts, and for supervisors that restart what does not.

use quorate_host::Root;

use crate::failure::Failure;
use crate::render::status::{health, serves};
use crate::{roots, say};

pub fn run(root: &Root) -> Result<(), Failure> {
    let status = roots::status(root)?;
    let words = format!("{} {}", status.cluster, health(&status).1);
    match serves(&status) {
        true => {
            say::line(&words);
            Ok(())
        }
        false => Err(Failure::failed(words).and("`quorate status` says more.")),
    }
}
