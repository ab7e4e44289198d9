//! The rules of an EtcdPeer, likewise.

use super::*;

fn good() -> Value {
    json!({
        "apiVersion": "etcd.improbable.io/v1alpha1",
        "kind": "EtcdPeer",
        "metadata": {"name": "demo-0", "namespace": "default"},
        "spec": {
            "clusterName": "demo",
            "version": "3.5.35",
            "bootstrap": {
                "initialClusterState": "New",
                "static": {"initialCluster": [{"name": "demo-0", "host": "demo-0.demo"}]},
            },
            "storage": super::good()["spec"]["storage"].clone(),
        },
    })
}

fn peer(object: &Value) -> EtcdPeer {
    serde_json::from_value(object.clone()).unwrap()
}

#[test]
fn good_is_good() {
    let server = ApiServer::of("EtcdPeer");
    for object in [good(), with(good(), "/spec/bootstrap", json!(null))] {
        assert_eq!(validate_peer(&peer(&object)), []);
        assert_eq!(validate_peer_update(&peer(&object), &peer(&object)), []);
        assert_eq!(server.refuses(&object, Some(&object)), [""; 0]);
    }
}

#[test]
fn on_create() {
    let server = ApiServer::of("EtcdPeer");
    let class = "/spec/storage/volumeClaimTemplate/storageClassName";
    let table = [
        ("/spec/version", json!("foo"), "foo is not in dotted-tri format"),
        (
            "/spec/version",
            json!("4.0.0"),
            "only Etcd version 3 is supported",
        ),
        ("/spec/storage", json!(null), "spec.storage: Required value"),
        (
            class,
            json!(null),
            "spec.storage.volumeClaimTemplate.storageClassName: Required value",
        ),
        (
            "/spec/podTemplate",
            json!({"metadata": {"annotations": {"etcd.improbable.io/x": "1"}}}),
            "Annotation name is a reserved name ('etcd.improbable.io' prefix)",
        ),
    ];
    for (pointer, value, text) in table {
        let object = with(good(), pointer, value.clone());
        let reported = texts(&validate_peer(&peer(&object)));
        assert!(
            reported.len() == 1 && reported[0].contains(text),
            "{pointer} {value}: {reported:?}"
        );
        let by_server = server.refuses(&object, None);
        assert!(
            by_server.len() == 1 && by_server[0].contains(text),
            "{pointer} {value}: {by_server:?}"
        );
    }
    let long = with(good(), "/spec/clusterName", json!("a".repeat(65)));
    assert!(texts(&validate_peer(&peer(&long)))[0].starts_with("spec.clusterName: "));
    assert_eq!(server.refuses(&long, None), ["spec.clusterName: longer than 64"]);
}

#[test]
fn nothing_changes() {
    let server = ApiServer::of("EtcdPeer");
    for (pointer, value) in [
        ("/spec/version", json!("3.5.36")),
        ("/spec/clusterName", json!("other")),
        ("/spec/bootstrap", json!(null)),
        ("/spec/start", json!({"generation": 1, "config": "x"})),
    ] {
        let new = with(good(), pointer, value);
        let reported = texts(&validate_peer_update(&peer(&good()), &peer(&new)));
        assert!(
            reported.len() == 1 && reported[0].starts_with("spec: Unsupported changes: (- current, + new) ")
        );
        let by_server = server.refuses(&new, Some(&good()));
        assert!(
            by_server.len() == 1
                && by_server[0].contains("Unsupported changes: an EtcdPeer's spec never changes")
        );
    }
}
