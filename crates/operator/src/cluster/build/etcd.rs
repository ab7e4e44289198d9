//! etcd's command line in a pod, and the digest of everything that a running member would have to be restarted for.
//!
//! Never: anything about how it starts (state, initial cluster, token, data directory). That comes with the go-ahead, at
//! each start: what is written into a pod is out of date when the pod is made again.

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use quorate_api::{PodTemplate, Quantity};
use quorate_core::model::{Ordinal, Version};
use sha2::{Digest, Sha256};

use super::BuildContext;
use crate::cluster::resources::as_text;
use crate::names::{CLIENT_PORT, METRICS_PORT, PEER_PORT, scheme};

/// Where the certificates of a member are mounted.
pub const CERTS_PATH: &str = "/etc/etcd/certs";

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

/// The arguments for a member, but for those of its start.
pub fn arguments(context: &BuildContext<'_>, ordinal: Ordinal) -> Vec<String> {
    let (tls, names) = (context.cluster.tls, context.names);
    let scheme = scheme(tls);
    let mut all = vec![
        flag("name", names.member(ordinal)),
        flag(
            "listen-client-urls",
            format_args!("{scheme}://0.0.0.0:{CLIENT_PORT}"),
        ),
        flag("advertise-client-urls", names.client_url(ordinal, tls)),
        flag("listen-peer-urls", format_args!("{scheme}://0.0.0.0:{PEER_PORT}")),
        flag("initial-advertise-peer-urls", names.peer_url(ordinal, tls)),
        flag("logger", "zap"),
        flag("log-outputs", "stderr"),
    ];
    if tls {
        let file = |name: &str| format!("{CERTS_PATH}/{name}");
        all.extend([
            flag("cert-file", file("server.crt")),
            flag("key-file", file("server.key")),
            flag("trusted-ca-file", file("ca.crt")),
            flag("client-cert-auth", true),
            flag("peer-cert-file", file("peer.crt")),
            flag("peer-key-file", file("peer.key")),
            flag("peer-trusted-ca-file", file("peer-ca.crt")),
            flag("peer-client-cert-auth", true),
            // Readiness and metrics stay readable without a certificate.
            flag(
                "listen-metrics-urls",
                format_args!("http://0.0.0.0:{METRICS_PORT}"),
            ),
        ]);
    }
    let settings = context.cluster.options.settings();
    all.extend(settings.into_iter().map(|(name, value)| flag(name, value)));
    all.extend(
        context
            .cluster
            .quota_bytes
            .map(|quota| flag("quota-backend-bytes", quota)),
    );
    all
}

/// The readiness endpoint of a version, where it has one. Whether the others answer is left out: a cluster that lost
/// its quorum would have no member ready, and no address for clients that read what is still there.
pub fn ready_path(version: Version) -> Option<&'static str> {
    let since = match version.minor {
        4 => 29,
        5 => 11,
        minor if minor >= 6 => 0,
        _ => return None,
    };
    (version.patch >= since).then_some("/readyz?exclude=linearizable_read")
}

/// As many threads as whole cores of the CPU limit, and at least one; nothing without a limit.
pub fn threads(resources: Option<&ResourceRequirements>) -> Option<EnvVar> {
    let limit = resources?.limits.as_ref()?.get("cpu")?;
    let thousandths = Quantity::new(&limit.0).thousandths().ok()?;
    let cores = (thousandths > 0).then(|| (thousandths / 1000).max(1))?;
    Some(EnvVar {
        name: "GOMAXPROCS".to_owned(),
        value: Some(cores.to_string()),
        ..EnvVar::default()
    })
}

/// The digest of what members run with, besides their version and their place.
pub fn digest(context: &BuildContext<'_>) -> String {
    let settings = settings(context);
    match context.cluster.pod.resources.as_ref() {
        Some(resources) => format!("{settings}+{}", hash(0, [as_text(Some(resources))])),
        None => settings,
    }
}

/// The part of a digest that a member is restarted for in any case. The rest are its resources, which may change while it
/// runs.
pub fn settings_of(config: &str) -> &str {
    config.split_once('+').map_or(config, |(settings, _)| settings)
}

fn settings(context: &BuildContext<'_>) -> String {
    let mut parts = arguments(context, Ordinal(0));
    // They change while a member runs, but for the threads that it was started with.
    let resources = context.cluster.pod.resources.as_ref();
    let pod = PodTemplate {
        resources: None,
        ..context.cluster.pod.clone()
    };
    parts.push(serde_json::to_string(&pod).unwrap_or_default());
    parts.extend(threads(resources).and_then(|env| Some(format!("{}={}", env.name, env.value?))));
    parts.extend(context.cluster.force_redeployment_reason.clone());
    // etcd reads whom it trusts when it starts; what it shows itself, at each handshake.
    parts.extend(context.trusted.map(|trusted| format!("trusted={trusted}")));
    hash(context.images.revision, parts)
}

fn hash(revision: u32, parts: impl IntoIterator<Item = String>) -> String {
    let mut hash = Sha256::new();
    hash.update(revision.to_le_bytes());
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
