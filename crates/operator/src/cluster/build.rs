//! The objects of a cluster, made from what is wanted. Pure: the same input gives the same object.

pub mod budget;
pub mod claim;
pub mod etcd;
pub mod peer;
pub mod pod;
pub mod replica_set;
pub mod service;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use quorate_api::Cluster;
use quorate_core::model::Ordinal;

use crate::names::Names;

/// What all objects of a cluster are made from.
#[derive(Clone, Debug)]
pub struct BuildContext<'a> {
    pub names: &'a Names,
    pub cluster: &'a Cluster,
    /// What it is owned by.
    pub owner: &'a OwnerReference,
    pub images: &'a Images,
    /// Whom members trust, if they speak TLS and it is known.
    pub trusted: Option<&'a str>,
    pub fallback: Option<&'a Fallback>,
}

/// What a cluster last served with, where that is not what is wanted.
#[derive(Clone, Debug)]
pub struct Fallback {
    pub cluster: Cluster,
    /// The digest of its members, if they were made now.
    pub config: String,
}

impl BuildContext<'_> {
    /// The same for members with this digest, if that is known.
    pub fn with(&self, config: &str) -> Option<Self> {
        if config == etcd::digest(self) {
            return Some(self.clone());
        }
        let fallback = self.fallback.filter(|fallback| fallback.config == config)?;
        Some(BuildContext {
            cluster: &fallback.cluster,
            ..self.clone()
        })
    }
}

/// Where images come from, and what a release of quorate makes of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    pub quorate: String,
    /// The repository of etcd's; the tag is its version.
    pub etcd: String,
    /// Changes whenever what is built from the same manifest does, so that running members get it in their turn.
    pub revision: u32,
}

impl Default for Images {
    fn default() -> Self {
        Images {
            quorate: format!("quorate:{}", env!("CARGO_PKG_VERSION")),
            etcd: "quay.io/coreos/etcd".to_owned(),
            revision: 2,
        }
    }
}

impl BuildContext<'_> {
    /// The metadata of an object of the cluster, owned by it.
    pub fn meta(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.names.namespace.clone()),
            labels: Some(self.names.object_labels()),
            owner_references: Some(vec![self.owner.clone()]),
            ..ObjectMeta::default()
        }
    }

    /// The metadata of an object of one member, owned by nothing yet.
    pub fn member_meta(&self, ordinal: Ordinal) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.names.member(ordinal).to_string()),
            namespace: Some(self.names.namespace.clone()),
            labels: Some(self.names.member_object_labels(ordinal)),
            ..ObjectMeta::default()
        }
    }
}
