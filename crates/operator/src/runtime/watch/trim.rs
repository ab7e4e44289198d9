//! What is kept of a watched object: nothing that no pass reads.
//!
//! In: an object as the API server sent it. Out: the same, smaller, before it is stored. Whoever may write objects with
//! our labels decides how many of them there are, but not what each costs. How many a namespace may have is for its
//! ResourceQuota to say (`count/secrets`, `pods`, …); what is kept of each is bounded here: of an object that is chosen by
//! label [`LABELLED_MAX`] besides its name, owners and our own labels and annotations, of a Secret the certificates and keys
//! that quorate itself writes, of an EtcdCluster a spec of [`SPEC_MAX`] and its status, which the operator writes. Lists are read in pages, small ones for Secrets, so that a page of the largest there can be
//! fits into the operator's memory as well.

use kube::ResourceExt;
use kube::api::DynamicObject;
use quorate_pod::contract::ETCD_CONTAINER;
use serde_json::Value;

use crate::cluster::pass::{SPEC_LEFT_OUT, SPEC_MAX};

/// Annotations that others put on an object are not read.
const OURS: &str = "etcd.improbable.io/";
/// Nor are labels, but for these besides ours.
const COMMON: &str = "app.kubernetes.io/";
/// What is kept of an object that is chosen by label. What is read of a pod takes a twentieth of it.
const LABELLED_MAX: usize = 64 * 1024;
/// What is kept of the spec of an EtcdPeer: as much again as that of its EtcdCluster, which it is made from.
const PEER_MAX: usize = 2 * SPEC_MAX;
/// The data of one Secret that is kept, in base64: two pairs and two bundles of CAs take a fifth of it.
const SECRET_MAX: usize = 64 * 1024;
/// Objects in a page of a list. A page is plain data, many times as large as what is kept of it, and there is one of each
/// kind at a time; what it took stays the process's.
pub const PAGE: u32 = 50;
/// Secrets in a page of a list. The API server stores at most one and a half million bytes of each.
pub const SECRETS_PAGE: u32 = 16;

/// What is left of an EtcdCluster. Without its spec it says so, and how long that is.
pub fn cluster(object: &mut DynamicObject) {
    any(object);
    object.annotations_mut().remove(SPEC_LEFT_OUT);
    let length = object.data["spec"].to_string().len();
    if length > SPEC_MAX {
        object.data["spec"] = Value::Object(Default::default());
        let annotations = object.annotations_mut();
        annotations.insert(SPEC_LEFT_OUT.to_owned(), length.to_string());
    }
}

/// What is left of an EtcdPeer. One that is longer than any of ours is not what is wanted of it.
pub fn peer(object: &mut DynamicObject) {
    any(object);
    if object.data["spec"].to_string().len() > PEER_MAX {
        keep_in(&mut object.data["spec"], &["clusterName", "version"]);
    }
}

/// What is left of an object of any kind.
pub fn any(object: &mut DynamicObject) {
    object.managed_fields_mut().clear();
    object.annotations_mut().retain(|key, _| key.starts_with(OURS));
}

/// What is left of an object that is chosen by its labels.
pub fn labelled(object: &mut DynamicObject) {
    labelled_head(object);
    if object.data.to_string().len() > LABELLED_MAX {
        object.data = Value::Object(Default::default());
    }
}

fn labelled_head(object: &mut DynamicObject) {
    any(object);
    let labels = object.labels_mut();
    labels.retain(|key, _| key.starts_with(OURS) || key.starts_with(COMMON));
}

/// What is left of a pod: where it is, how far it has got, and the resources of etcd.
pub fn pod(object: &mut DynamicObject) {
    keep_in(&mut object.data, &["spec", "status"]);
    if let Some(spec) = object.data.get_mut("spec") {
        keep_in(spec, &["nodeName", "containers"]);
        only_etcd(spec);
    }
    if let Some(status) = object.data.get_mut("status") {
        let read = [
            "phase",
            "podIP",
            "conditions",
            "observedGeneration",
            "initContainerStatuses",
            "containerStatuses",
        ];
        keep_in(status, &read);
    }
    labelled(object);
}

/// What is left of a ReplicaSet: what its pods are made for, and why it can make none.
pub fn set(object: &mut DynamicObject) {
    keep_in(&mut object.data, &["spec", "status"]);
    if let Some(spec) = object.data.get_mut("spec") {
        keep_in(spec, &["selector", "template"]);
    }
    if let Some(template) = object.data.pointer_mut("/spec/template") {
        if let Some(annotations) = template.pointer_mut("/metadata/annotations") {
            retain_in(annotations, |key| key.starts_with(OURS));
        }
        if let Some(spec) = template.get_mut("spec") {
            keep_in(spec, &["containers"]);
            only_etcd(spec);
        }
    }
    if let Some(status) = object.data.get_mut("status") {
        keep_in(status, &["replicas", "conditions"]);
    }
    labelled(object);
}

/// What is left of a Secret.
pub fn secret(object: &mut DynamicObject) {
    labelled_head(object);
    let Some(data) = object.data.get_mut("data").and_then(Value::as_object_mut) else {
        return;
    };
    data.retain(|key, _| key.ends_with(".crt") || key.ends_with(".key"));
    let size: usize = data
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > SECRET_MAX {
        data.clear();
    }
}

/// Of the containers only that of etcd, and of that its name and resources.
fn only_etcd(spec: &mut Value) {
    let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) else {
        return;
    };
    containers.retain(|container| container["name"] == ETCD_CONTAINER);
    for container in containers {
        keep_in(container, &["name", "resources"]);
    }
}

fn keep_in(value: &mut Value, keys: &[&str]) {
    retain_in(value, |key| keys.contains(&key));
}

fn retain_in(value: &mut Value, stays: impl Fn(&str) -> bool) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|key, _| stays(key));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::Pod;
    use quorate_api::from_plain;
    use serde_json::json;

    use super::*;
    use crate::cluster::observe::pod_state::PodState;
    use crate::cluster::observe::pod_state::tests::{etcd_in, pod as pod_with};
    use crate::cluster::resources::TemplateResources;

    fn object(data: Value) -> DynamicObject {
        serde_json::from_value(data).unwrap()
    }

    fn size(object: &DynamicObject) -> usize {
        serde_json::to_string(object).unwrap().len()
    }

    /// With as much as the API server stores, wherever others may write it.
    fn stuffed(mut plain: Value) -> DynamicObject {
        let much = "x".repeat(200_000);
        plain["metadata"]["annotations"]["others"] = json!(much);
        plain["metadata"]["labels"]["others"] = json!("short");
        plain["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update"}]);
        plain["spec"]["nodeName"] = json!("node2");
        let env = json!([{"name": "E", "value": much}]);
        let resources = json!({"limits": {"cpu": "1"}});
        plain["spec"]["containers"] = json!([
            {"name": "sidecar", "env": env}, {"name": "etcd", "env": env, "resources": resources},
        ]);
        object(plain)
    }

    #[test]
    fn of_a_pod_all_is_kept_that_is_read_and_little_else() {
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:10Z"}});
        let plain = serde_json::to_value(pod_with(etcd_in(running))).unwrap();
        let mut stored = stuffed(plain);
        let read =
            |object: &DynamicObject| -> Pod { from_plain(&serde_json::to_value(object).unwrap()).unwrap() };
        let before = PodState::of(&read(&stored));
        pod(&mut stored);
        assert_eq!(PodState::of(&read(&stored)), before);
        assert_eq!(before.node.as_deref(), Some("node2"));
        assert!(
            before
                .resources
                .asked
                .as_ref()
                .is_some_and(|r| r.limits.is_some())
        );
        assert!(size(&stored) < LABELLED_MAX / 10, "{}", size(&stored));
        assert!(!stored.labels().contains_key("others") && stored.labels().len() > 3);
    }

    #[test]
    fn of_a_replica_set_all_is_kept_that_is_read_and_little_else() {
        let much = "x".repeat(200_000);
        let mut stored = object(json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "c-0", "uid": "s", "annotations": {"others": much}},
            "spec": {"selector": {"matchLabels": {"l": "v"}}, "template": {
                "metadata": {"labels": {"l": "v"}, "annotations": {"others": much, "etcd.improbable.io/config": "d"}},
                "spec": {"containers": [{"name": "etcd", "args": [much], "resources": {"limits": {"cpu": "1"}}}]},
            }},
            "status": {"replicas": 1, "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]},
        }));
        let read = |object: &DynamicObject| -> ReplicaSet {
            from_plain(&serde_json::to_value(object).unwrap()).unwrap()
        };
        let before = read(&stored);
        set(&mut stored);
        let after = read(&stored);
        assert_eq!(TemplateResources::read(&after), TemplateResources::read(&before));
        assert_eq!(
            after.status.unwrap().conditions,
            before.status.unwrap().conditions
        );
        let labels = |s: Option<k8s_openapi::api::apps::v1::ReplicaSetSpec>| s?.template?.metadata?.labels;
        assert_eq!(labels(after.spec), labels(before.spec));
        assert!(size(&stored) < LABELLED_MAX / 10, "{}", size(&stored));
    }

    #[test]
    fn of_what_is_larger_than_any_of_ours_only_the_name_is_kept() {
        let mut stored = object(json!({
            "metadata": {"name": "c", "labels": {"etcd.improbable.io/cluster-name": "c"}},
            "spec": {"externalName": "x".repeat(1_000_000)},
        }));
        labelled(&mut stored);
        assert!(size(&stored) < 1024);
        assert_eq!((stored.name_any().as_str(), stored.labels().len()), ("c", 1));
    }

    #[test]
    fn of_a_spec_that_is_too_long_it_is_kept_that_it_is() {
        use quorate_api::crd::{EtcdCluster, EtcdPeer};
        let stored = |length: usize| {
            let text = "x".repeat(length);
            object(json!({
                "metadata": {"name": "c-0", "namespace": "n", "annotations": {SPEC_LEFT_OUT: "1"}},
                "spec": {"clusterName": "c", "version": "3.6.1", "forceRedeploymentReason": text},
                "status": {"memory": "kept"},
            }))
        };
        let read = |object: &DynamicObject| serde_json::to_value(object).unwrap();
        let mut good = stored(1000);
        cluster(&mut good);
        assert!(size(&good) > 1000 && good.annotations().is_empty());
        let mut long = stored(SPEC_MAX);
        cluster(&mut long);
        assert!(size(&long) < 1024);
        let long: EtcdCluster = from_plain(&read(&long)).unwrap();
        assert!(long.annotations()[SPEC_LEFT_OUT].parse::<usize>().unwrap() > SPEC_MAX);
        assert_eq!(long.status.unwrap().memory.as_deref(), Some("kept"));
        let mut foreign = stored(PEER_MAX);
        peer(&mut foreign);
        assert!(size(&foreign) < 1024);
        let foreign: EtcdPeer = from_plain(&read(&foreign)).unwrap();
        assert_eq!(foreign.spec.cluster_name, "c");
    }

    fn left(data: Value) -> Value {
        let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": "x".repeat(100_000),
            "etcd.improbable.io/rotate": "now"});
        let managed = json!([{"manager": "m", "operation": "Update"}]);
        let metadata = json!({"name": "s", "annotations": annotations, "managedFields": managed});
        let mut object = object(json!({"metadata": metadata, "data": data}));
        secret(&mut object);
        assert_eq!(object.annotations().len(), 1);
        assert!(object.managed_fields().is_empty());
        object.data["data"].clone()
    }

    #[test]
    fn of_a_secret_no_more_is_kept_than_what_quorate_writes() {
        let pair = json!({"tls.crt": "YQ==", "tls.key": "Yg==", "ca.crt": "Yw=="});
        assert_eq!(left(pair.clone()), pair);
        let mut more = pair.clone();
        more["archive"] = json!("A".repeat(1_000_000));
        assert_eq!(left(more), pair);
        let mut longer = pair;
        longer["huge.crt"] = json!("A".repeat(1_000_000));
        assert_eq!(left(longer), json!({}));
    }
}
