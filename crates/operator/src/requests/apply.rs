//! Effects, done: each one request to the API server that can be repeated.
//!
//! Never: an object other than the one that was meant (uids go along); a failure for finding the effect there already.

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy,
};
use kube::core::Status;
use kube::{Client, ResourceExt};
use quorate_pod::contract::{CLUSTER_LABEL, PEER_LABEL};
use serde::Serialize;
use serde_json::{Value, json};

use crate::names::APP_LABEL;
use crate::requests::effect::{Amendment, Effect, Kind, Object};

/// Who changes fields, as far as the API server is concerned.
pub const FIELD_MANAGER: &str = "quorate";

/// How objects are made and replaced, with the name of who does it.
pub fn as_manager() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// What an effect came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    It,
    /// What was to be made was there already, and is ours; what was to be deleted is gone, or is not what was seen.
    Nothing,
}

/// Does one effect in a namespace.
pub async fn apply(client: &Client, namespace: &str, effect: &Effect) -> Result<Did, kube::Error> {
    let requests = ApiRequests { client, namespace };
    match effect {
        // Its content matters: one of that name that someone else made is no substitute.
        Effect::Create(object @ Object::Secret(_)) => requests.create_ours(object).await.map(|()| Did::It),
        Effect::Create(object) => requests.create(object).await,
        Effect::DeleteClaim { name, uid, version } => {
            requests
                .delete(Kind::Claim, name, uid, Some(version.clone()))
                .await
        }
        effect => requests.change(effect).await.map(|()| Did::It),
    }
}

/// An object as plain data. Requests are made with that, and their answers read as that: otherwise all of it is compiled
/// for each of Kubernetes' types.
pub fn plain(object: &impl Serialize) -> Result<DynamicObject, kube::Error> {
    let value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    serde_json::from_value(value).map_err(kube::Error::SerdeError)
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

/// Does an object carry all the labels that this one would be selected by? The others are added later.
fn carries(present: &DynamicObject, wanted: &DynamicObject) -> bool {
    let same = |key: &str| present.labels().get(key) == wanted.labels().get(key);
    [APP_LABEL.0, CLUSTER_LABEL, PEER_LABEL].into_iter().all(same)
}

/// The name is another's.
fn taken(kind: &str, object: &DynamicObject) -> kube::Error {
    let name = object.name_any();
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

struct ApiRequests<'a> {
    client: &'a Client,
    namespace: &'a str,
}

impl ApiRequests<'_> {
    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.namespace, resource)
    }

    /// Makes an object. One of that name that is there already is taken for it if it carries its labels; another's is
    /// no substitute.
    async fn create(&self, object: &Object) -> Result<Did, kube::Error> {
        let refused = match self.create_ours(object).await {
            Err(error) if is(&error, 409) => error,
            other => return other.map(|()| Did::It),
        };
        let (resource, wanted) = (object.kind().resource(), object.content()?);
        match self.api(&resource).get_opt(&wanted.name_any()).await? {
            Some(present) if carries(&present, &wanted) => Ok(Did::Nothing),
            Some(_) => Err(taken(&resource.kind, &wanted)),
            None => Err(refused), // It has just gone; the next pass makes it.
        }
    }

    /// Everything but making an object and deleting a claim.
    async fn change(&self, effect: &Effect) -> Result<(), kube::Error> {
        match effect {
            Effect::Create(_) | Effect::DeleteClaim { .. } => Ok(()),
            Effect::Apply(object) => self.apply(object).await,
            Effect::Delete { kind, name, uid } => self.delete(*kind, name, uid, None).await.map(drop),
            Effect::Annotate {
                kind,
                name,
                uid,
                annotations,
            } => {
                let annotations = json!({"metadata": {"annotations": annotations}});
                let mut patch = match kind {
                    Kind::Set => json!({"spec": {"template": annotations}, "metadata": {}}),
                    _ => annotations,
                };
                patch["metadata"]["uid"] = json!(uid);
                self.merge(*kind, name, &patch).await
            }
            Effect::Label {
                kind,
                name,
                uid,
                labels,
            } => {
                let mut patch = json!({"metadata": {"uid": uid, "labels": labels}});
                if *kind == Kind::Set {
                    patch["spec"] = json!({"template": {"metadata": {"labels": labels}}});
                }
                self.merge(*kind, name, &patch).await
            }
            Effect::Amend(change) => self.merge(Kind::Secret, &change.name, &amended(change)).await,
            Effect::Adopt {
                name,
                uid,
                version,
                owners,
            } => {
                let metadata = json!({"uid": uid, "resourceVersion": version, "ownerReferences": owners});
                self.merge(Kind::Peer, name, &json!({"metadata": metadata})).await
            }
            Effect::Grow { name, uid, storage } => {
                let resources = json!({"requests": {"storage": storage}});
                let patch = json!({"metadata": {"uid": uid}, "spec": {"resources": resources}});
                self.merge(Kind::Claim, name, &patch).await
            }
            Effect::Finalizers {
                name,
                uid,
                version,
                finalizers,
            } => {
                let metadata = json!({"uid": uid, "resourceVersion": version, "finalizers": finalizers});
                match self.merge(Kind::Peer, name, &json!({"metadata": metadata})).await {
                    Err(error) if is(&error, 404) => Ok(()),
                    other => other,
                }
            }
        }
    }

    async fn create_ours(&self, object: &Object) -> Result<(), kube::Error> {
        let content = object.content()?;
        self.api(&object.kind().resource())
            .create(&as_manager(), &content)
            .await
            .map(drop)
    }

    async fn apply(&self, object: &Object) -> Result<(), kube::Error> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let content = object.content()?;
        self.api(&object.kind().resource())
            .patch(&content.name_any(), &params, &Patch::Apply(&content))
            .await
            .map(drop)
    }

    async fn delete(
        &self,
        kind: Kind,
        name: &str,
        uid: &str,
        resource_version: Option<String>,
    ) -> Result<Did, kube::Error> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version,
            }),
            ..DeleteParams::default()
        };
        match self.api(&kind.resource()).delete(name, &params).await {
            // It is gone, or another is there.
            Err(error) if is(&error, 404) || is(&error, 409) => Ok(Did::Nothing),
            other => other.map(|_| Did::It),
        }
    }

    async fn merge(&self, kind: Kind, name: &str, patch: &Value) -> Result<(), kube::Error> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        self.api(&kind.resource())
            .patch(name, &params, &Patch::Merge(patch))
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Service;

    fn service(labels: &[(&str, &str)]) -> DynamicObject {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let mut service = Service::default();
        service.metadata.name = Some("a-client".to_owned());
        service.metadata.labels = Some(labels.collect());
        plain(&service).unwrap()
    }

    #[test]
    fn an_object_of_another_cluster_is_not_taken_for_ours() {
        let wanted = service(&[(CLUSTER_LABEL, "a-client"), (APP_LABEL.0, "etcd")]);
        let same = service(&[(CLUSTER_LABEL, "a-client"), (APP_LABEL.0, "etcd"), ("more", "x")]);
        assert!(carries(&same, &wanted));
        let others = service(&[(CLUSTER_LABEL, "a"), (APP_LABEL.0, "etcd")]);
        assert!(!carries(&others, &wanted));
        assert!(!carries(&service(&[]), &wanted));
        let error = taken("Service", &wanted);
        assert!(is(&error, 409));
        let text = error.to_string();
        assert!(text.contains(r#"Service "a-client" is there already"#), "{text}");
    }
}
