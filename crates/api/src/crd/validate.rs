//! The rules of objects that an API server holds, judged again by the operator.
//!
//! In: an EtcdCluster or an EtcdPeer, and for an update the one before it. Out: all refusals and warnings at once, or
//! the checked values. The rules are those of a manifest on a machine; what is added here are the rules of changes.
//!
//! What must never happen: an object acted on because its definition was older than the operator and let it in.

use super::change;
use super::peer::{EtcdPeer, PeerSpec};
use super::refusal::{Refusal, Rejection};
use crate::cluster::{ClusterSpec, EtcdCluster};
use crate::fault::Warning;
use crate::manifest::{self, Metadata};
use crate::path::FieldPath;
use crate::resolve::{self, Cluster};
use crate::validate::{Findings, Ground};

/// Everything that is wrong with `cluster`, and everything worth knowing.
pub fn validate(cluster: &EtcdCluster) -> (Vec<Refusal>, Vec<Warning>) {
    let (found, _) = read(cluster);
    (found.faults.iter().map(Refusal::from).collect(), found.warnings)
}

/// Everything that is wrong with `new`, and with the change from `old` to it.
pub fn validate_update(old: &EtcdCluster, new: &EtcdCluster) -> (Vec<Refusal>, Vec<Warning>) {
    let (mut refusals, warnings) = validate(new);
    refusals.extend(change::version(old, new));
    refusals.extend(change::storage(&old.spec, &new.spec));
    refusals.extend(change::pods(&old.spec, &new.spec));
    refusals.extend(change::tls(&old.spec, &new.spec));
    (refusals, warnings)
}

/// The checked values of `cluster`, with what is worth knowing.
pub fn resolve(cluster: &EtcdCluster) -> Result<(Cluster, Vec<Warning>), Rejection> {
    let (found, values) = read(cluster);
    if found.faults.is_empty() {
        Ok((values, found.warnings))
    } else {
        Err(Rejection(found.faults.iter().map(Refusal::from).collect()))
    }
}

/// Everything that is wrong with `peer`.
pub fn validate_peer(peer: &EtcdPeer) -> Vec<Refusal> {
    let PeerSpec {
        cluster_name,
        version,
        bootstrap,
        storage,
        pod_template,
        start: _,
    } = &peer.spec;
    let as_cluster = manifest::EtcdCluster {
        metadata: Metadata {
            name: Some(cluster_name.clone()),
            ..Metadata::default()
        },
        spec: ClusterSpec {
            replicas: Some(1),
            version: Some(version.clone()),
            storage: storage.clone(),
            pod_template: pod_template.clone(),
            ..ClusterSpec::default()
        },
        ..manifest::EtcdCluster::default()
    };
    let mut found = Findings::on(Ground::Kubernetes);
    resolve::read(&as_cluster, &mut found);
    for fault in &mut found.faults {
        if fault.path == FieldPath::of("metadata.name") {
            fault.path = FieldPath::of("spec.clusterName");
        }
    }
    let mut refusals: Vec<Refusal> = found.faults.iter().map(Refusal::from).collect();
    let known = bootstrap
        .as_ref()
        .and_then(|bootstrap| bootstrap.static_.as_ref());
    if known.is_some_and(|known| known.initial_cluster.is_empty()) {
        refusals.push(Refusal {
            path: FieldPath::of("spec.bootstrap.static.initialCluster"),
            text: "Required value: at least one member.".to_owned(),
        });
    }
    refusals
}

/// Everything that is wrong with `new`, and with the change from `old` to it: there may be none.
pub fn validate_peer_update(old: &EtcdPeer, new: &EtcdPeer) -> Vec<Refusal> {
    let mut refusals = validate_peer(new);
    refusals.extend(change::immutable(
        "spec",
        &old.spec,
        &new.spec,
        "an EtcdPeer's spec never changes; delete it and make another.",
    ));
    refusals
}

fn read(cluster: &EtcdCluster) -> (Findings, Cluster) {
    let mut found = Findings::on(Ground::Kubernetes);
    let values = resolve::read(&manifest::EtcdCluster::from(cluster), &mut found);
    (found, values)
}

impl From<&EtcdCluster> for manifest::EtcdCluster {
    fn from(cluster: &EtcdCluster) -> manifest::EtcdCluster {
        let metadata = &cluster.metadata;
        manifest::EtcdCluster {
            api_version: Some(manifest::API_VERSION.to_owned()),
            kind: Some(manifest::KIND.to_owned()),
            metadata: Metadata {
                name: metadata.name.clone(),
                namespace: metadata.namespace.clone(),
                labels: metadata.labels.clone().unwrap_or_default(),
                annotations: metadata.annotations.clone().unwrap_or_default(),
            },
            spec: cluster.spec.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
