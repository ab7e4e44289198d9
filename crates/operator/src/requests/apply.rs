//! Effects, done: each one request to the API server that can be repeated.
//!
//! Never: an object other than the one that was meant (uids go along); a failure for finding the effect there already.

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy,
};
use kube::core::Status;
use kube::{Client, ResourceExt};
use quorate_pod::contract::{CLUSTER_LABEL, ETCD_CONTAINER, PEER_LABEL};
use serde::Serialize;
use serde_json::{Value, json};

use crate::names::{APP_LABEL, CONFIG_ANNOTATION, RESIZE_REFUSED_ANNOTATION};
use crate::requests::effect::{Amendment, Effect, Kind, Object};

/// Who changes fields, as far as the API server is concerned.
pub const FIELD_MANAGER: &str = "quorate";

/// What the API server answers where it does not change the resources of a pod that runs: it is older (404, 405), or this
/// change is none of those that it makes (422). A quota or a lack of rights (403) would keep the next pod from being made as
/// well: it is reported instead.
const CANNOT_RESIZE: [u16; 3] = [404, 405, 422];

/// How objects are made and replaced, with the name of who does it.
pub fn as_manager() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// What an effect came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Changed,
    /// What was to be made was there already, and is ours; what was to be deleted is gone, or is not what was seen.
    Unchanged,
}

/// Does one effect in a namespace.
pub async fn apply(client: &Client, namespace: &str, effect: &Effect) -> Result<Applied, kube::Error> {
    let requests = ApiRequests { client, namespace };
    match effect {
        // Its content matters: one of that name that someone else made is no substitute.
        Effect::Create(object @ Object::Secret(_)) => {
            requests.create_ours(object).await.map(|()| Applied::Changed)
        }
        Effect::Create(object) => requests.create(object).await,
        Effect::DeleteUnchanged {
            kind,
            name,
            uid,
            version,
        } => requests.delete(*kind, name, uid, Some(version.clone())).await,
        Effect::Resize {
            name,
            uid,
            resources,
            config,
        } => requests.resize((name, uid), resources, config).await,
        effect => requests.change(effect).await.map(|()| Applied::Changed),
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

/// What was seen is not so any more; the next pass sees what is.
fn conflict(message: &str) -> kube::Error {
    kube::Error::Api(Box::new(Status::failure(message, "Conflict").with_code(409)))
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
    async fn create(&self, object: &Object) -> Result<Applied, kube::Error> {
        let refused = match self.create_ours(object).await {
            Err(error) if is(&error, 409) => error,
            other => return other.map(|()| Applied::Changed),
        };
        let (resource, wanted) = (object.kind().resource(), object.content()?);
        match self.api(&resource).get_opt(&wanted.name_any()).await? {
            Some(present) if carries(&present, &wanted) => Ok(Applied::Unchanged),
            Some(_) => Err(taken(&resource.kind, &wanted)),
            None => Err(refused), // It has just gone; the next pass makes it.
        }
    }

    /// Everything but making an object, deleting one that is unchanged, and resizing a pod.
    async fn change(&self, effect: &Effect) -> Result<(), kube::Error> {
        match effect {
            Effect::Create(_) | Effect::DeleteUnchanged { .. } | Effect::Resize { .. } => Ok(()),
            Effect::Apply(object) => self.apply(object).await,
            Effect::Delete { kind, name, uid } => self.delete(*kind, name, uid, None).await.map(drop),
            Effect::ConfirmClaim { name, uid } => self.confirm_claim(name, uid).await,
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
            Effect::Template { name, uid, template } => {
                let patch = json!({"metadata": {"uid": uid}, "spec": {"template": template}});
                self.merge(Kind::Set, name, &patch).await
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

    async fn confirm_claim(&self, name: &str, uid: &str) -> Result<(), kube::Error> {
        let claim = self.api(&Kind::Claim.resource()).get(name).await?;
        let stays = claim.metadata.deletion_timestamp.is_none();
        match stays && claim.metadata.uid.as_deref() == Some(uid) {
            true => Ok(()),
            false => Err(conflict(&format!(
                "PersistentVolumeClaim {name:?} was deleted a moment ago, and its data would go with the pod"
            ))),
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
    ) -> Result<Applied, kube::Error> {
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
            Err(error) if is(&error, 404) || is(&error, 409) => Ok(Applied::Unchanged),
            other => other.map(|_| Applied::Changed),
        }
    }

    /// Changes the resources of a pod while it runs. Where that cannot be done, it is written on the pod, so that its member
    /// is restarted in its turn instead.
    async fn resize(
        &self,
        (name, uid): (&str, &str),
        resources: &ResourceRequirements,
        config: &str,
    ) -> Result<Applied, kube::Error> {
        let etcd = json!({"name": ETCD_CONTAINER, "resources": resources});
        let patch = json!({"metadata": {"uid": uid}, "spec": {"containers": [etcd]}});
        let (patch, params) = (Patch::Strategic(&patch), self.params());
        let api = self.api(&Kind::Pod.resource());
        let resized = api.patch_subresource("resize", name, &params, &patch).await;
        let (annotation, did) = match resized {
            Err(error) if CANNOT_RESIZE.iter().any(|code| is(&error, *code)) => {
                (RESIZE_REFUSED_ANNOTATION, Applied::Unchanged)
            }
            other => other.map(|_| (CONFIG_ANNOTATION, Applied::Changed))?,
        };
        let note = json!({"metadata": {"uid": uid, "annotations": {annotation: config}}});
        match self.merge(Kind::Pod, name, &note).await {
            // It is gone, or another is there.
            Err(error) if is(&error, 404) || is(&error, 409) => Ok(Applied::Unchanged),
            other => other.map(|()| did),
        }
    }

    fn params(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        }
    }

    async fn merge(&self, kind: Kind, name: &str, patch: &Value) -> Result<(), kube::Error> {
        self.api(&kind.resource())
            .patch(name, &self.params(), &Patch::Merge(patch))
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

    #[tokio::test]
    async fn a_claim_is_deleted_only_as_it_was_seen() {
        let effect = Effect::DeleteUnchanged {
            kind: Kind::Claim,
            name: "c-0".to_owned(),
            uid: "u".to_owned(),
            version: "7".to_owned(),
        };
        let (did, asked) = applied(&effect, 200).await;
        assert_eq!(did.ok(), Some(Applied::Changed));
        assert_eq!(asked[0], "DELETE /api/v1/namespaces/n/persistentvolumeclaims/c-0");
        let sent: Value = serde_json::from_str(&asked[1]).unwrap();
        let seen = json!({"uid": "u", "resourceVersion": "7"});
        assert_eq!(sent["preconditions"], seen);
        let (did, _) = applied(&effect, 409).await;
        assert_eq!(did.ok(), Some(Applied::Unchanged), "it is another by now");
    }

    #[tokio::test]
    async fn a_claim_that_is_being_deleted_is_not_confirmed() {
        let effect = Effect::ConfirmClaim {
            name: "c-0".to_owned(),
            uid: "u".to_owned(),
        };
        let confirmed = async |metadata: Value| {
            let answers = tower::service_fn(move |request: http::Request<kube::client::Body>| {
                assert_eq!(request.method(), http::Method::GET);
                assert_eq!(
                    request.uri().path(),
                    "/api/v1/namespaces/n/persistentvolumeclaims/c-0"
                );
                let claim =
                    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata});
                let body = kube::client::Body::from(claim.to_string().into_bytes());
                async { Ok::<_, std::convert::Infallible>(http::Response::new(body)) }
            });
            apply(&Client::new(answers, "n"), "n", &effect).await
        };
        let seen = json!({"name": "c-0", "uid": "u"});
        assert!(confirmed(seen).await.is_ok());
        let going = json!({"name": "c-0", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let another = json!({"name": "c-0", "uid": "v"});
        for metadata in [going, another] {
            let refused = confirmed(metadata).await.unwrap_err();
            assert!(
                is(&refused, 409) && refused.to_string().contains("its data would go"),
                "{refused}"
            );
        }
        let (gone, _) = applied(&effect, 404).await;
        assert!(gone.is_err_and(|error| is(&error, 404)));
    }

    /// What a resize comes to where the API server answers it with this code, and what was asked of it.
    async fn resized(code: u16) -> (Result<Applied, kube::Error>, Vec<String>) {
        let effect = Effect::Resize {
            name: "p".to_owned(),
            uid: "u".to_owned(),
            resources: Box::default(),
            config: "d+r".to_owned(),
        };
        applied(&effect, code).await
    }

    /// What an effect comes to where the API server answers its first request with this code, and what was asked of it.
    async fn applied(effect: &Effect, code: u16) -> (Result<Applied, kube::Error>, Vec<String>) {
        use std::sync::{Arc, Mutex};
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers = tower::service_fn({
            let asked = asked.clone();
            move |request: http::Request<kube::client::Body>| {
                let asked = asked.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    let first = asked.lock().unwrap().is_empty();
                    asked.lock().unwrap().push(format!("{} {path}", request.method()));
                    let sent = request.into_body().collect_bytes().await.unwrap();
                    asked
                        .lock()
                        .unwrap()
                        .push(String::from_utf8_lossy(&sent).into_owned());
                    let code = if first { code } else { 200 };
                    let body = match code {
                        200 => json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}),
                        code => json!({"kind": "Status", "status": "Failure", "message": "no", "code": code}),
                    };
                    let body = kube::client::Body::from(body.to_string().into_bytes());
                    let answer = http::Response::builder().status(code).body(body);
                    Ok::<_, std::convert::Infallible>(answer.unwrap())
                }
            }
        });
        let client = Client::new(answers, "n");
        let did = apply(&client, "n", effect).await;
        let asked = asked.lock().unwrap().clone();
        (did, asked)
    }

    #[tokio::test]
    async fn a_pod_says_that_the_api_server_does_not_resize_it() {
        let (did, asked) = resized(200).await;
        assert_eq!((did.ok(), asked.len()), (Some(Applied::Changed), 4));
        assert!(asked[3].contains("etcd.improbable.io/config"), "{}", asked[3]);
        assert_eq!(asked[0], "PATCH /api/v1/namespaces/n/pods/p/resize");
        for code in [404, 405, 422] {
            let (did, asked) = resized(code).await;
            assert_eq!(did.ok(), Some(Applied::Unchanged), "{code}");
            assert_eq!(asked[2], "PATCH /api/v1/namespaces/n/pods/p");
            let refused: Value = serde_json::from_str(&asked[3]).unwrap();
            let annotation = &refused["metadata"]["annotations"][RESIZE_REFUSED_ANNOTATION];
            assert_eq!(
                (annotation, &refused["metadata"]["uid"]),
                (&json!("d+r"), &json!("u"))
            );
        }
        // A quota would keep the next pod from being made, too.
        let (did, asked) = resized(403).await;
        assert!(did.is_err_and(|error| is(&error, 403)));
        assert_eq!(asked.len(), 2, "nothing else is asked");
    }
}
