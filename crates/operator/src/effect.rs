//! What is asked of the API server: plain data, so that deciding is apart from doing.
//!
//! Never: a deletion of anything but the very object that was seen (its uid goes along); an update of something that
//! someone else decides.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use quorate_api::crd::EtcdPeer;
use std::collections::BTreeMap;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make an object, if there is none of that name.
    Create(Object),
    /// Bring an object of ours to what it should be.
    Apply(Object),
    /// Delete an object: this one, not another of its name.
    Delete {
        /// Of which kind.
        kind: Kind,
        /// Which.
        name: String,
        /// That very one.
        uid: String,
    },
    /// Set annotations.
    Annotate {
        /// Of which kind.
        kind: Kind,
        /// Which.
        name: String,
        /// That very one.
        uid: String,
        /// To what.
        annotations: BTreeMap<String, String>,
    },
    /// Set the finalizers of an EtcdPeer.
    Finalizers {
        /// Which.
        name: String,
        /// That very one.
        uid: String,
        /// To these.
        finalizers: Vec<String>,
    },
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Effect::Create(object) => write!(f, "create {object}"),
            Effect::Apply(object) => write!(f, "update {object}"),
            Effect::Delete { kind, name, .. } => write!(f, "delete {kind:?} {name}"),
            Effect::Annotate { kind, name, .. } => write!(f, "annotate {kind:?} {name}"),
            Effect::Finalizers { name, .. } => write!(f, "set the finalizers of EtcdPeer {name}"),
        }
    }
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, meta) = match self {
            Object::Service(it) => ("Service", &it.metadata),
            Object::Claim(it) => ("PersistentVolumeClaim", &it.metadata),
            Object::Set(it) => ("ReplicaSet", &it.metadata),
            Object::Budget(it) => ("PodDisruptionBudget", &it.metadata),
            Object::Secret(it) => ("Secret", &it.metadata),
            Object::Peer(it) => ("EtcdPeer", &it.metadata),
        };
        write!(f, "{kind} {}", meta.name.as_deref().unwrap_or_default())
    }
}

/// Objects that are made.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Object {
    Service(Box<Service>),
    Claim(Box<PersistentVolumeClaim>),
    Set(Box<ReplicaSet>),
    Budget(Box<PodDisruptionBudget>),
    Secret(Box<Secret>),
    Peer(Box<EtcdPeer>),
}

/// Kinds that are deleted or annotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Peer,
    Claim,
    Set,
    Pod,
    Budget,
}

/// An event for people, about the cluster or one of its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// A word for programs.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// The object it is about, by kind and name: without it, events of one reason are counted as one.
    pub about: (&'static str, String),
    /// Something is wrong.
    pub warning: bool,
}

impl News {
    /// Something was done.
    pub fn done(reason: &'static str, about: (&'static str, &str), message: String) -> News {
        News {
            reason,
            message,
            about: (about.0, about.1.to_owned()),
            warning: false,
        }
    }
}
