//! What is asked of the API server: plain data, so that deciding is apart from doing.
//!
//! Never: a deletion of anything but the very object that was seen (its uid goes along); an update of something that
//! someone else decides; the content of a Secret in a text.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, Pod, PodTemplateSpec, ResourceRequirements, Secret, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use quorate_api::crd::EtcdPeer;

use crate::requests::apply::plain;

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make an object, if there is none of that name.
    Create(Object),
    /// Bring an object of ours to what it should be.
    Apply(Object),
    /// Delete an object: this one, not another of its name. No claim, and no pod: see
    /// [`Effect::DeleteUnchanged`].
    Delete { kind: Kind, name: String, uid: String },
    /// Delete an object: this one, and only if it is still as it was seen. A claim goes with all that is on its volume; a
    /// pod that had ended may run again.
    DeleteUnchanged {
        kind: Kind,
        name: String,
        uid: String,
        version: String,
    },
    /// Fail if a claim is gone or being deleted, so that nothing is asked for after this that would take it away: a watch may
    /// be late.
    ConfirmClaim { name: String, uid: String },
    Annotate {
        kind: Kind,
        name: String,
        uid: String,
        annotations: BTreeMap<String, String>,
    },
    /// Label an object; of a ReplicaSet, the pods that it makes from now on as well.
    Label {
        kind: Kind,
        name: String,
        uid: String,
        labels: BTreeMap<String, String>,
    },
    /// Change a Secret, if it is still as it was seen.
    Amend(Amendment),
    /// Make an EtcdPeer one of these owners', if it is still as it was seen: the list is replaced as a whole.
    Adopt {
        name: String,
        uid: String,
        version: String,
        /// By all of these.
        owners: Vec<OwnerReference>,
    },
    /// Have a claim ask for more storage.
    Grow {
        name: String,
        uid: String,
        /// How much, as a Kubernetes quantity.
        storage: String,
    },
    /// Change the resources of etcd's container while its pod runs. If the API server does not do that, the pod says so from
    /// then on.
    Resize {
        name: String,
        uid: String,
        resources: Box<ResourceRequirements>,
        /// The digest of what it runs with then.
        config: String,
    },
    /// Have a ReplicaSet make its pods from this from now on.
    Template {
        name: String,
        uid: String,
        template: Box<PodTemplateSpec>,
    },
    /// Set the finalizers of an EtcdPeer, if it is still as it was seen.
    Finalizers {
        name: String,
        uid: String,
        version: String,
        finalizers: Vec<String>,
    },
}

impl Effect {
    /// The name of the object it is about. All objects of one member but its Secret and its pod are called the same.
    pub fn name(&self) -> &str {
        match self {
            Effect::Create(object) | Effect::Apply(object) => {
                object.metadata().name.as_deref().unwrap_or_default()
            }
            Effect::Amend(change) => &change.name,
            Effect::Delete { name, .. }
            | Effect::DeleteUnchanged { name, .. }
            | Effect::ConfirmClaim { name, .. }
            | Effect::Annotate { name, .. }
            | Effect::Label { name, .. }
            | Effect::Adopt { name, .. }
            | Effect::Grow { name, .. }
            | Effect::Resize { name, .. }
            | Effect::Template { name, .. }
            | Effect::Finalizers { name, .. } => name,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Create(object) => write!(f, "create {object}"),
            Effect::Apply(object) => write!(f, "update {object}"),
            Effect::Delete { kind, name, .. } => write!(f, "delete {kind:?} {name}"),
            Effect::DeleteUnchanged { kind, name, .. } => write!(f, "delete {} {name}", kind.resource().kind),
            Effect::ConfirmClaim { name, .. } => {
                write!(f, "confirm that PersistentVolumeClaim {name} stays")
            }
            Effect::Annotate { kind, name, .. } => write!(f, "annotate {kind:?} {name}"),
            Effect::Label { kind, name, .. } => write!(f, "label {kind:?} {name}"),
            Effect::Amend(change) => write!(f, "change Secret {}", change.name),
            Effect::Adopt { name, .. } => write!(f, "adopt EtcdPeer {name}"),
            Effect::Grow { name, storage, .. } => {
                write!(f, "have PersistentVolumeClaim {name} ask for {storage}")
            }
            Effect::Resize { name, config, .. } => write!(f, "resize Pod {name} to {config}"),
            Effect::Template { name, .. } => write!(f, "change the template of ReplicaSet {name}"),
            Effect::Finalizers { name, .. } => write!(f, "set the finalizers of EtcdPeer {name}"),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.metadata().name.as_deref();
        write!(f, "{} {}", self.kind().resource().kind, name.unwrap_or_default())
    }
}

/// A change to a Secret. What is set to `None` goes; what is not named stays.
#[derive(Clone, PartialEq)]
pub struct Amendment {
    pub name: String,
    pub uid: String,
    /// As it was seen.
    pub version: String,
    pub data: BTreeMap<String, Option<ByteString>>,
    pub annotations: BTreeMap<String, Option<String>>,
    /// What it is owned by, if that changes.
    pub owner: Option<OwnerReference>,
}

impl fmt::Debug for Amendment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&String> = self.data.keys().collect();
        f.debug_struct("Amendment")
            .field("name", &self.name)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

impl Amendment {
    /// No change yet to this Secret.
    pub fn of(secret: &Secret) -> Amendment {
        Amendment {
            name: secret.name_any(),
            uid: secret.uid().unwrap_or_default(),
            version: secret.resource_version().unwrap_or_default(),
            data: BTreeMap::new(),
            annotations: BTreeMap::new(),
            owner: None,
        }
    }

    /// Sets a value, or has it go.
    pub fn set(&mut self, key: &str, value: Option<ByteString>) {
        self.data.insert(key.to_owned(), value);
    }

    /// The Secret as it is once the API server has carried this out.
    pub fn apply_to(&self, secret: &mut Secret) {
        fn merge<V: Clone>(into: &mut BTreeMap<String, V>, changes: &BTreeMap<String, Option<V>>) {
            for (key, value) in changes {
                match value {
                    Some(value) => into.insert(key.clone(), value.clone()),
                    None => into.remove(key),
                };
            }
        }
        merge(secret.data.get_or_insert_default(), &self.data);
        merge(secret.annotations_mut(), &self.annotations);
        if let Some(owner) = &self.owner {
            secret.metadata.owner_references = Some(vec![owner.clone()]);
        }
    }
}

/// The kinds that requests are about. A further one is a line in the list, and what the operator may do with it in
/// [`crate::install`].
macro_rules! kinds {
    ($($kind:ident: $type:ty,)*) => {
        /// Which of the kinds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Kind { $($kind,)* }

        /// An object of any of the kinds.
        #[derive(Clone, PartialEq)]
        #[allow(missing_docs)]
        pub enum Object { $($kind(Box<$type>),)* }

        impl Kind {
            /// Where objects of this kind are.
            pub fn resource(self) -> ApiResource {
                match self { $(Kind::$kind => ApiResource::erase::<$type>(&()),)* }
            }
        }

        impl Object {
            pub fn kind(&self) -> Kind {
                match self { $(Object::$kind(_) => Kind::$kind,)* }
            }

            fn metadata(&self) -> &ObjectMeta {
                match self { $(Object::$kind(it) => &it.metadata,)* }
            }

            /// Its content as plain data.
            pub fn content(&self) -> Result<DynamicObject, kube::Error> {
                match self { $(Object::$kind(it) => plain(it),)* }
            }
        }
    };
}

kinds! {
    Peer: EtcdPeer,
    Claim: PersistentVolumeClaim,
    Set: ReplicaSet,
    Pod: Pod,
    Budget: PodDisruptionBudget,
    Secret: Secret,
    Service: Service,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// An event for people, about the cluster or one of its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// A word for programs.
    pub reason: &'static str,
    pub message: String,
    /// The object it is about, by kind and name: without it, events of one reason are counted as one.
    pub about: (&'static str, String),
    pub warning: bool,
}

impl ClusterEvent {
    pub fn done(reason: &'static str, about: (&'static str, &str), message: String) -> ClusterEvent {
        ClusterEvent {
            reason,
            message,
            about: (about.0, about.1.to_owned()),
            warning: false,
        }
    }

    /// Something was not done.
    pub fn warning(reason: &'static str, about: (&'static str, &str), message: String) -> ClusterEvent {
        ClusterEvent {
            warning: true,
            ..ClusterEvent::done(reason, about, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_shows_what_is_in_a_secret() {
        let hidden = ByteString(b"hidden".to_vec());
        let mut secret = Secret::default();
        secret.metadata.name = Some("s".to_owned());
        secret.data = Some([("key".to_owned(), hidden.clone())].into());
        let mut change = Amendment::of(&secret);
        change.set("key", Some(hidden.clone()));
        for effect in [
            Effect::Create(Object::Secret(Box::new(secret))),
            Effect::Amend(change),
        ] {
            let shown = format!("{effect:?} {effect}");
            assert!(shown.ends_with("Secret s"), "{shown}");
            for content in [
                format!("{:?}", hidden.0),
                "hidden".to_owned(),
                "aGlkZGVu".to_owned(),
            ] {
                assert!(!shown.contains(&content), "{shown}");
            }
        }
    }
}
