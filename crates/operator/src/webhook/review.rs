//! One question of the API server, and its answer. Pure.
//!
//! In: an `AdmissionReview` as it was sent. Out: one with the verdict, every refusal both in one message and as a cause of
//! its own, which kubectl shows like the API server's own refusals. Never: a verdict on a part of an object (`status`,
//! `scale`), which the API server judges by itself.

use quorate_api::crd::{Judgement, Refusal, Rejection, judge};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// Causes one by one; the message has all.
const CAUSES_MAX: usize = 64;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum BadReview {
    /// It is something else.
    #[error("what was sent is not an AdmissionReview of {API_VERSION}")]
    Unreadable(#[source] serde_json::Error),
    #[error("the AdmissionReview is of {0:?} and not of {API_VERSION:?}, or holds no request")]
    NoRequest(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewRequest {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    request: Option<Request>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    kind: ReviewedKind,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

#[derive(Deserialize)]
struct ReviewedKind {
    #[serde(default)]
    group: String,
    kind: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Serialize)]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Status {
    status: &'static str,
    code: u16,
    reason: &'static str,
    message: String,
    details: Details,
}

#[derive(Serialize)]
struct Details {
    group: String,
    kind: String,
    name: String,
    causes: Vec<Cause>,
}

#[derive(Serialize)]
struct Cause {
    reason: &'static str,
    message: String,
    field: String,
}

pub fn answer(body: &[u8]) -> Result<Vec<u8>, BadReview> {
    let asked: ReviewRequest = serde_json::from_slice(body).map_err(BadReview::Unreadable)?;
    let request = match asked.request {
        Some(request) if asked.api_version == API_VERSION => request,
        _ => return Err(BadReview::NoRequest(asked.api_version)),
    };
    let answered = Answered {
        api_version: API_VERSION,
        kind: KIND,
        response: verdict(request),
    };
    serde_json::to_vec(&answered).map_err(BadReview::Unreadable)
}

fn verdict(request: Request) -> Response {
    let part = request.sub_resource.as_deref().unwrap_or_default();
    let old = Some(&request.old_object).filter(|old| !old.is_null());
    let judgement = if part.is_empty() && request.object.is_object() {
        judge(&request.kind.kind, &request.object, old)
    } else {
        Judgement::default()
    };
    let Judgement { refusals, warnings } = judgement;
    Response {
        allowed: refusals.is_empty(),
        status: (!refusals.is_empty()).then(|| refused(&request, refusals)),
        warnings: warnings.iter().map(ToString::to_string).collect(),
        uid: request.uid,
    }
}

fn refused(request: &Request, refusals: Vec<Refusal>) -> Status {
    let name = request.object["metadata"]["name"].as_str();
    let name = name.or(request.name.as_deref()).unwrap_or_default().to_owned();
    let causes = refusals.iter().take(CAUSES_MAX).map(|refusal| Cause {
        reason: if refusal.text.starts_with("Required value") {
            "FieldValueRequired"
        } else {
            "FieldValueInvalid"
        },
        message: refusal.text.clone(),
        field: refusal.path.to_string(),
    });
    Status {
        status: "Failure",
        code: 422,
        reason: "Invalid",
        details: Details {
            group: request.kind.group.clone(),
            kind: request.kind.kind.clone(),
            name,
            causes: causes.collect(),
        },
        message: Rejection(refusals).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster() -> Value {
        json!({
            "apiVersion": "etcd.improbable.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": "c", "namespace": "n"},
            "spec": {
                "replicas": 3,
                "version": "3.6.1",
                "storage": {"volumeClaimTemplate": {
                    "storageClassName": "s",
                    "resources": {"requests": {"storage": "1Gi"}},
                }},
            },
        })
    }

    fn ask(object: &Value, old: Option<&Value>, part: Option<&str>) -> Value {
        let review = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "request": {
                "uid": "u-1",
                "kind": {"group": "etcd.improbable.io", "version": "v1alpha1", "kind": "EtcdCluster"},
                "resource": {"group": "etcd.improbable.io", "version": "v1alpha1", "resource": "etcdclusters"},
                "subResource": part,
                "name": "c",
                "namespace": "n",
                "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
                "object": object,
                "oldObject": old,
            },
        });
        let answered = answer(review.to_string().as_bytes()).unwrap();
        let answered: Value = serde_json::from_slice(&answered).unwrap();
        assert_eq!(answered["apiVersion"], API_VERSION);
        assert_eq!(answered["kind"], KIND);
        assert_eq!(answered["response"]["uid"], "u-1");
        answered["response"].clone()
    }

    #[test]
    fn what_is_good_is_let_in_unchanged() {
        assert_eq!(
            ask(&cluster(), None, None),
            json!({"uid": "u-1", "allowed": true})
        );
    }

    #[test]
    fn what_is_refused_is_refused_like_the_api_server_does() {
        let mut wrong = cluster();
        wrong["spec"]["replicas"] = json!(0);
        wrong["spec"]["version"] = json!(4);
        let storage = &mut wrong["spec"]["storage"]["volumeClaimTemplate"];
        storage.as_object_mut().unwrap().remove("storageClassName");
        let answered = ask(&wrong, None, None);
        assert_eq!(answered["allowed"], false);
        let status = &answered["status"];
        assert_eq!(
            (&status["code"], &status["reason"]),
            (&json!(422), &json!("Invalid"))
        );
        assert_eq!(status["details"]["kind"], "EtcdCluster");
        assert_eq!(status["details"]["name"], "c");
        let causes = status["details"]["causes"].as_array().unwrap();
        let fields: Vec<&str> = causes.iter().map(|c| c["field"].as_str().unwrap()).collect();
        let class = "spec.storage.volumeClaimTemplate.storageClassName";
        for field in ["spec.replicas", "spec.version", class] {
            assert!(fields.contains(&field), "{field}: {fields:?}");
            assert!(status["message"].as_str().unwrap().contains(field), "{status}");
        }
        let of_class = causes.iter().find(|c| c["field"] == class).unwrap();
        assert_eq!(of_class["reason"], "FieldValueRequired");
        assert!(
            of_class["message"]
                .as_str()
                .unwrap()
                .starts_with("Required value")
        );
    }

    #[test]
    fn parts_and_unchanged_specs_are_let_through() {
        let mut wrong = cluster();
        wrong["spec"]["version"] = json!("foo");
        assert_eq!(ask(&wrong, None, None)["allowed"], false);
        assert_eq!(ask(&wrong, None, Some(""))["allowed"], false);
        assert_eq!(ask(&wrong, Some(&cluster()), Some("status"))["allowed"], true);
        let mut labelled = wrong.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(ask(&labelled, Some(&wrong), None)["allowed"], true);
    }

    #[test]
    fn warnings_go_along() {
        let mut even = cluster();
        even["spec"]["replicas"] = json!(2);
        let answered = ask(&even, None, None);
        assert_eq!(answered["allowed"], true);
        let warning = answered["warnings"][0].as_str().unwrap();
        assert!(warning.starts_with("spec.replicas: 2 members"), "{warning}");
    }

    #[test]
    fn what_is_no_review_gets_no_verdict() {
        assert!(matches!(answer(b"{"), Err(BadReview::Unreadable(_))));
        assert!(matches!(answer(b"{}"), Err(BadReview::NoRequest(_))));
        let older =
            json!({"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "u", "kind": {"kind": "x"}}});
        let older = answer(older.to_string().as_bytes());
        assert!(matches!(older, Err(BadReview::NoRequest(version)) if version.ends_with("v1beta1")));
    }
}
