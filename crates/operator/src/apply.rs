//! Effects, done: each one request to the API server that can be repeated.
//!
//! Never: an object other than the one that was meant (uids go along); a failure for finding the effect there already.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Client, Resource, ResourceExt};
use quorate_api::crd::EtcdPeer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::effect::{Amendment, Effect, Kind, Object};

/// Who changes fields, as far as the API server is concerned.
pub const FIELD_MANAGER: &str = "quorate";

/// Does one effect in a namespace.
pub async fn apply(client: &Client, namespace: &str, effect: &Effect) -> Result<(), kube::Error> {
    let requests = Requests { client, namespace };
    match effect {
        Effect::Create(object) => match object {
            Object::Service(it) => requests.create(&**it).await,
            Object::Claim(it) => requests.create(&**it).await,
            Object::Set(it) => requests.create(&**it).await,
            Object::Budget(it) => requests.create(&**it).await,
            Object::Secret(it) => requests.create_ours(&**it).await,
            Object::Peer(it) => requests.create(&**it).await,
        },
        Effect::Apply(object) => match object {
            Object::Service(it) => requests.apply(&**it).await,
            Object::Claim(it) => requests.apply(&**it).await,
            Object::Set(it) => requests.apply(&**it).await,
            Object::Budget(it) => requests.apply(&**it).await,
            Object::Secret(it) => requests.apply(&**it).await,
            Object::Peer(it) => requests.apply(&**it).await,
        },
        Effect::Delete { kind, name, uid } => match kind {
            Kind::Peer => requests.delete::<EtcdPeer>(name, uid).await,
            Kind::Claim => requests.delete::<PersistentVolumeClaim>(name, uid).await,
            Kind::Set => requests.delete::<ReplicaSet>(name, uid).await,
            Kind::Pod => requests.delete::<Pod>(name, uid).await,
            Kind::Budget => requests.delete::<PodDisruptionBudget>(name, uid).await,
            Kind::Secret => requests.delete::<Secret>(name, uid).await,
        },
        Effect::Annotate {
            kind,
            name,
            uid,
            annotations,
        } => {
            let patch = json!({"metadata": {"uid": uid, "annotations": annotations}});
            match kind {
                Kind::Peer => requests.merge::<EtcdPeer>(name, patch).await,
                Kind::Claim => requests.merge::<PersistentVolumeClaim>(name, patch).await,
                Kind::Set => requests.merge::<ReplicaSet>(name, patch).await,
                Kind::Pod => requests.merge::<Pod>(name, patch).await,
                Kind::Budget => requests.merge::<PodDisruptionBudget>(name, patch).await,
                Kind::Secret => requests.merge::<Secret>(name, patch).await,
            }
        }
        Effect::Amend(change) => requests.merge::<Secret>(&change.name, amended(change)).await,
        Effect::Finalizers {
            name,
            uid,
            finalizers,
        } => {
            let patch = json!({"metadata": {"uid": uid, "finalizers": finalizers}});
            match requests.merge::<EtcdPeer>(name, patch).await {
                Err(error) if is(&error, 404) => Ok(()),
                other => other,
            }
        }
    }
}

fn amended(change: &Amendment) -> Value {
    let mut metadata = json!({
        "uid": change.uid,
        "resourceVersion": change.version,
        "annotations": change.annotations,
    });
    if let Some(owner) = &change.owner {
        metadata["ownerReferences"] = json!([owner]);
    }
    json!({"metadata": metadata, "data": change.data})
}

/// Is this the API server's answer with that code?
pub fn is(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

struct Requests<'a> {
    client: &'a Client,
    namespace: &'a str,
}

/// What requests are made for.
trait Known:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned
{
}
impl<K> Known for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

impl Requests<'_> {
    fn api<K: Known>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    async fn create<K: Known>(&self, object: &K) -> Result<(), kube::Error> {
        match self.create_ours(object).await {
            Err(error) if is(&error, 409) => Ok(()), // It is there.
            other => other,
        }
    }

    /// Makes an object whose content matters: one of that name that someone else made is no substitute.
    async fn create_ours<K: Known>(&self, object: &K) -> Result<(), kube::Error> {
        let post = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        self.api::<K>().create(&post, object).await.map(drop)
    }

    async fn apply<K: Known>(&self, object: &K) -> Result<(), kube::Error> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let name = object.name_any();
        self.api::<K>()
            .patch(&name, &params, &Patch::Apply(object))
            .await
            .map(drop)
    }

    async fn delete<K: Known>(&self, name: &str, uid: &str) -> Result<(), kube::Error> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.api::<K>().delete(name, &params).await {
            // It is gone, or another is there.
            Err(error) if is(&error, 404) || is(&error, 409) => Ok(()),
            other => other.map(drop),
        }
    }

    async fn merge<K: Known>(&self, name: &str, patch: Value) -> Result<(), kube::Error> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        self.api::<K>()
            .patch(name, &params, &Patch::Merge(patch))
            .await
            .map(drop)
    }
}
