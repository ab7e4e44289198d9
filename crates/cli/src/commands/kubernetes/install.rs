//! `quorate install`: what to hand to `kubectl apply -f -`. It talks to no cluster itself.

use quorate_operator::install::{self, Settings};

use crate::arguments;
use crate::failure::{Failure, chain};
use crate::say;

/// Prints the objects that install the operator.
pub fn run(arguments: arguments::Install) -> Result<(), Failure> {
    let mut settings = Settings {
        webhook: arguments.webhook,
        watch_namespace: arguments.watch_namespace,
        network_policy: arguments.network_policy,
        etcd_repository: arguments.etcd_repository,
        pull_secrets: arguments.image_pull_secret,
        ..Settings::default()
    };
    if let Some(namespace) = arguments.namespace {
        settings.namespace = namespace;
    }
    if let Some(image) = arguments.image {
        settings.image = image;
    }
    if let Some(replicas) = arguments.replicas {
        settings.replicas = replicas;
    }
    let text = install::stream(&settings).map_err(|error| Failure::failed(chain(&error)))?;
    say::write_raw(text.as_bytes());
    Ok(())
}
