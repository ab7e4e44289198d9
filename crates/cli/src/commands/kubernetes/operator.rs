//! `quorate operator`: the Kubernetes ground.

use quorate_operator::Options;
use quorate_operator::cluster::build::Images;
use quorate_operator::tls::{sans, secure::CertificateSettings};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Operator;
use crate::failure::Failure;
use crate::log_lines;

/// Runs the operator until it is asked to stop.
pub async fn run(arguments: Operator) -> Result<(), Failure> {
    log_lines::begin(arguments.log);
    let listen =
        |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let mut certificates = CertificateSettings {
        // In a pod, the resolver knows the cluster's domain.
        domain: std::fs::read_to_string("/etc/resolv.conf")
            .ok()
            .and_then(|text| sans::domain(&text)),
        ..CertificateSettings::default()
    };
    if let Some(lifetime) = arguments.leaf_lifetime {
        certificates.lifetimes = certificates.lifetimes.with_leaves_of(lifetime);
    }
    let options = Options {
        certificates,
        namespace: arguments.namespace,
        identity: arguments.identity,
        watch: arguments.watch,
        images: Images {
            quorate: arguments.image,
            etcd: arguments.etcd_repository,
            ..Images::default()
        },
        listen: arguments.listen,
        webhook: arguments.webhook,
    };
    let run = quorate_operator::run(options, stop).await;
    run.map_err(|error| match std::error::Error::source(&error) {
        Some(cause) => Failure::failed(format!("{error}: {cause}")),
        None => Failure::failed(error.to_string()),
    })
}
