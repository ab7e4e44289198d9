//! Effects, done: each one request to the API server that can be repeated.
//!
//! Never: an object other than the one that was meant (uids go along); a failure for finding the effect there already.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::Status;
use kube::{Client, Resource, ResourceExt};
use quorate_api::crd::EtcdPeer;
use quorate_pod::contract::CLUSTER_LABEL;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::effect::{Amendment, Effect, Kind, Object};

/// Who changes fields, as far as the API server is concerned.
pub const FIELD_MANAGER: &str = "quorate";

/// What an effect came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    It,
    /// What was to be made was there already, and is ours.
    Nothing,
}

/// Does one effect in a namespace.
pub async fn apply(client: &Client, namespace: &str, effect: &Effect) -> Result<Did, kube::Error> {
    let requests = Requests { client, namespace };
    if let Effect::Create(object) = effect {
        return match object {
            Object::Service(it) => requests.create(&**it).await,
            Object::Claim(it) => requests.create(&**it).await,
            Object::Set(it) => requests.create(&**it).await,
            Object::Budget(it) => requests.create(&**it).await,
            Object::Secret(it) => requests.create_ours(&**it).await.map(|()| Did::It),
            Object::Peer(it) => requests.create(&**it).await,
        };
    }
    requests.change(effect).await.map(|()| Did::It)
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

/// Does an object carry all the labels that this one would?
fn carries<K: ResourceExt>(present: &K, wanted: &K) -> bool {
    let labels = present.labels();
    wanted
        .labels()
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

/// The name is another's.
fn taken<K: Known>(object: &K) -> kube::Error {
    let (kind, name) = (K::kind(&()), object.name_any());
    let cluster = object.labels().get(CLUSTER_LABEL).cloned().unwrap_or_default();
    let message = format!(
        "{kind} {name:?} is there already and does not belong to EtcdCluster {cluster:?}: it lacks that cluster's labels; \
         delete it, or give one of the two another name"
    );
    let status = Status::failure(&message, "AlreadyExists").with_code(409);
    kube::Error::Api(Box::new(status))
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

    /// Makes an object. One of that name that is there already is taken for it if it carries its labels; another's is
    /// no substitute.
    async fn create<K: Known>(&self, object: &K) -> Result<Did, kube::Error> {
        let refused = match self.create_ours(object).await {
            Err(error) if is(&error, 409) => error,
            other => return other.map(|()| Did::It),
        };
        match self.api::<K>().get_opt(&object.name_any()).await? {
            Some(present) if carries(&present, object) => Ok(Did::Nothing),
            Some(_) => Err(taken(object)),
            None => Err(refused), // It has just gone; the next pass makes it.
        }
    }

    /// Everything but making an object.
    async fn change(&self, effect: &Effect) -> Result<(), kube::Error> {
        match effect {
            Effect::Create(_) => Ok(()),
            Effect::Apply(object) => match object {
                Object::Service(it) => self.apply(&**it).await,
                Object::Claim(it) => self.apply(&**it).await,
                Object::Set(it) => self.apply(&**it).await,
                Object::Budget(it) => self.apply(&**it).await,
                Object::Secret(it) => self.apply(&**it).await,
                Object::Peer(it) => self.apply(&**it).await,
            },
            Effect::Delete { kind, name, uid } => match kind {
                Kind::Peer => self.delete::<EtcdPeer>(name, uid).await,
                Kind::Claim => self.delete::<PersistentVolumeClaim>(name, uid).await,
                Kind::Set => self.delete::<ReplicaSet>(name, uid).await,
                Kind::Pod => self.delete::<Pod>(name, uid).await,
                Kind::Budget => self.delete::<PodDisruptionBudget>(name, uid).await,
                Kind::Secret => self.delete::<Secret>(name, uid).await,
            },
            Effect::Annotate {
                kind,
                name,
                uid,
                annotations,
            } => {
                let patch = json!({"metadata": {"uid": uid, "annotations": annotations}});
                match kind {
                    Kind::Peer => self.merge::<EtcdPeer>(name, patch).await,
                    Kind::Claim => self.merge::<PersistentVolumeClaim>(name, patch).await,
                    Kind::Set => self.merge::<ReplicaSet>(name, patch).await,
                    Kind::Pod => self.merge::<Pod>(name, patch).await,
                    Kind::Budget => self.merge::<PodDisruptionBudget>(name, patch).await,
                    Kind::Secret => self.merge::<Secret>(name, patch).await,
                }
            }
            Effect::Amend(change) => self.merge::<Secret>(&change.name, amended(change)).await,
            Effect::Adopt { name, uid, owners } => {
                let patch = json!({"metadata": {"uid": uid, "ownerReferences": owners}});
                self.merge::<EtcdPeer>(name, patch).await
            }
            Effect::Grow { name, uid, storage } => {
                let resources = json!({"requests": {"storage": storage}});
                let patch = json!({"metadata": {"uid": uid}, "spec": {"resources": resources}});
                self.merge::<PersistentVolumeClaim>(name, patch).await
            }
            Effect::Finalizers {
                name,
                uid,
                finalizers,
            } => {
                let patch = json!({"metadata": {"uid": uid, "finalizers": finalizers}});
                match self.merge::<EtcdPeer>(name, patch).await {
                    Err(error) if is(&error, 404) => Ok(()),
                    other => other,
                }
            }
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;

    use super::*;

    fn service(labels: &[(&str, &str)]) -> Service {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let mut service = Service::default();
        service.metadata.name = Some("a-client".to_owned());
        service.metadata.labels = Some(labels.collect());
        service
    }

    #[test]
    fn an_object_of_another_cluster_is_not_taken_for_ours() {
        let wanted = service(&[(CLUSTER_LABEL, "a-client"), ("app", "etcd")]);
        let same = service(&[(CLUSTER_LABEL, "a-client"), ("app", "etcd"), ("more", "x")]);
        assert!(carries(&same, &wanted));
        let others = service(&[(CLUSTER_LABEL, "a"), ("app", "etcd")]);
        assert!(!carries(&others, &wanted));
        assert!(!carries(&service(&[]), &wanted));
        let error = taken(&wanted);
        assert!(is(&error, 409));
        let text = error.to_string();
        assert!(text.contains(r#"Service "a-client" is there already"#), "{text}");
    }
}
