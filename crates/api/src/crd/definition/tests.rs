//! The definitions as a whole, and the samples against them.

use kube::core::crd::CustomResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::*;
use crate::crd::api_server::ApiServer;
use crate::crd::{self, resolve, validate, validate_peer};

#[test]
fn the_yaml_is_the_definition() {
    for definition in definitions() {
        let text = yaml(&definition).unwrap();
        let again: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(again, definition);
    }
}

#[test]
fn kinds_and_names() {
    let all = definitions();
    let plurals: Vec<&str> = all.iter().map(|one| one.spec.names.plural.as_str()).collect();
    assert_eq!(
        plurals,
        [
            "etcdclusters",
            "etcdpeers",
            "etcdbackups",
            "etcdbackupschedules",
            "etcdrestores"
        ]
    );
    for one in &all {
        assert_eq!(
            one.metadata.name,
            Some(format!("{}.etcd.improbable.io", one.spec.names.plural))
        );
        assert_eq!(one.spec.scope, "Namespaced");
        assert_eq!(one.spec.names.categories, Some(vec!["quorate".to_owned()]));
        let [version] = one.spec.versions.as_slice() else {
            panic!("one version: {one:?}");
        };
        assert_eq!(
            (version.name.as_str(), version.served, version.storage),
            ("v1alpha1", true, true)
        );
        let subresources = version.subresources.as_ref().unwrap();
        assert!(subresources.status.is_some());
        assert_eq!(subresources.scale.is_some(), one.spec.names.kind == "EtcdCluster");
        // `kubectl apply` notes the whole object in an annotation, and those end at 256 KiB.
        assert!(serde_json::to_string(one).unwrap().len() < 200 << 10);
    }
}

/// Every field of ours is reported in words; Kubernetes' own are reported where they come from.
#[test]
fn every_field_of_ours_is_reported() {
    let theirs = [
        "affinity",
        "resources",
        "tolerations",
        "topologySpreadConstraints",
        "securityContext",
        "imagePullSecrets",
        "volumeClaimTemplate",
        "conditions",
        "secretKeyRef",
    ];
    fn walk(path: &str, schema: &JSONSchemaProps, theirs: &[&str], untold: &mut Vec<String>) {
        if path.ends_with(".metadata") && path.matches('.').count() == 1 {
            return;
        }
        if schema
            .description
            .as_ref()
            .is_none_or(|text| text.is_empty() || text.contains('\n'))
        {
            untold.push(path.to_owned());
        }
        if path.rsplit('.').next().is_some_and(|name| theirs.contains(&name)) {
            return;
        }
        for (name, property) in schema.properties.iter().flatten() {
            walk(&format!("{path}.{name}"), property, theirs, untold);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items
            && items.properties.is_some()
        {
            walk(&format!("{path}[]"), items, theirs, untold);
        }
    }
    let mut untold = Vec::new();
    for one in definitions() {
        let schema = one.spec.versions[0].schema.as_ref().unwrap();
        walk(
            &one.spec.names.kind,
            schema.open_api_v3_schema.as_ref().unwrap(),
            &theirs,
            &mut untold,
        );
    }
    assert_eq!(untold, [""; 0]);
}

/// The sample as its type, every field of it known.
fn strictly<T: DeserializeOwned + CustomResourceExt>(text: &str) -> (T, Value) {
    let value: Value = serde_saphyr::from_str(text).unwrap();
    assert_eq!(value["apiVersion"], crate::API_VERSION);
    assert_eq!(value["kind"], T::crd().spec.names.kind.as_str());
    let (object, notes) = crate::reader::read(&value);
    let object = object.unwrap();
    let mut unknown: Vec<String> = notes.unknown.iter().map(ToString::to_string).collect();
    unknown.retain(|path| path != "apiVersion" && path != "kind");
    assert_eq!(unknown, [""; 0]);
    assert_eq!(
        ApiServer::of(&T::crd().spec.names.kind).refuses(&value, None),
        [""; 0]
    );
    (object, value)
}

macro_rules! sample {
    ($kind:literal) => {
        include_str!(concat!(
            "../../../../../config/samples/etcd_v1alpha1_",
            $kind,
            ".yaml"
        ))
    };
}

#[test]
fn the_sample_of_a_cluster() {
    let text = sample!("etcdcluster");
    let (cluster, _) = strictly::<EtcdCluster>(text);
    assert_eq!(validate(&cluster), (vec![], vec![]));
    let (values, _) = resolve(&cluster).unwrap();
    assert_eq!(
        (values.name.as_str(), values.replicas, values.storage_bytes),
        ("my-cluster", 3, 50 << 20)
    );
    assert!(values.pod.affinity.is_some());
    // The same file runs on a machine without Kubernetes.
    let manifest = crate::parse(text, "sample").unwrap();
    assert!(crate::resolve(&manifest, crate::Ground::Host, text, "sample").is_ok());
}

#[test]
fn the_other_samples() {
    let (peer, _) = strictly::<EtcdPeer>(sample!("etcdpeer"));
    assert_eq!(validate_peer(&peer), []);
    strictly::<EtcdBackup>(sample!("etcdbackup"));
    strictly::<EtcdBackupSchedule>(sample!("etcdbackupschedule"));
    let (restore, _) = strictly::<EtcdRestore>(sample!("etcdrestore"));
    assert_eq!(restore.spec.cluster_template.spec.version, None);
}

/// All the shapes in which backups and restores are asked for.
#[test]
fn shapes_of_backups() {
    let backups = ApiServer::of("EtcdBackup");
    let restores = ApiServer::of("EtcdRestore");
    let archive = serde_json::json!({"archive": {"url": "s3://b/p"}});
    let endpoints = serde_json::json!([{"scheme": "http", "host": "a", "port": 2379}]);
    let backup = |spec: Value| serde_json::json!({"metadata": {"name": "a"}, "spec": spec});
    let spec = |source: Value, destination: &Value| {
        backup(serde_json::json!({"source": source, "destination": destination}))
    };
    let by_name = serde_json::json!({"clusterName": "a"});
    let good = [
        spec(by_name.clone(), &archive),
        spec(serde_json::json!({"clusterURL": "http://a:2379"}), &archive),
        spec(
            serde_json::json!({"clusterEndpoints": endpoints.clone()}),
            &archive,
        ),
        backup(
            serde_json::json!({"clusterEndpoints": endpoints, "destination": {"local": {"path": "/tmp"}}}),
        ),
        spec(
            by_name.clone(),
            &serde_json::json!({"objectURLTemplate": "s3://b/{{ .Name }}"}),
        ),
        spec(
            by_name.clone(),
            &serde_json::json!({"bucket": {"bucketURL": "s3://b"}}),
        ),
    ];
    for object in good {
        assert_eq!(backups.refuses(&object, None), [""; 0], "{object}");
        serde_json::from_value::<EtcdBackup>(object).unwrap();
    }
    let bad = [
        (
            spec(serde_json::json!({}), &archive),
            "exactly one of clusterName",
        ),
        (
            spec(
                serde_json::json!({"clusterName": "a", "clusterURL": "b"}),
                &archive,
            ),
            "exactly one of clusterName",
        ),
        (
            spec(by_name.clone(), &serde_json::json!({})),
            "exactly one of bucket",
        ),
        (
            backup(serde_json::json!({"destination": archive})),
            "exactly one of source",
        ),
        (
            spec(
                by_name,
                &serde_json::json!({"local": {"path": "a"}, "credentials": {}}),
            ),
            "credentials go with objectURLTemplate",
        ),
    ];
    for (object, text) in bad {
        let reported = backups.refuses(&object, None);
        assert!(
            reported.len() == 1 && reported[0].contains(text),
            "{object}: {reported:?}"
        );
    }
    let restore = |source: Value| {
        let mut object: Value = serde_saphyr::from_str(sample!("etcdrestore")).unwrap();
        object["spec"]["source"] = source;
        object
    };
    let sources = [
        (serde_json::json!({"objectURL": "s3://b/a.db"}), None),
        (
            serde_json::json!({"archive": {"url": "s3://b/p", "toRevision": 5}}),
            None,
        ),
        (
            serde_json::json!({"archive": {"url": "s3://b/p", "toTime": "2026-05-02T10:00:00Z"}}),
            None,
        ),
        (
            serde_json::json!({"archive": {"url": "s3://b/p", "toRevision": 5, "toTime": "2026-05-02T10:00:00Z"}}),
            Some("at most one of toRevision, toTime"),
        ),
        (
            serde_json::json!({"bucket": {"bucketURL": "gs://b"}}),
            Some("bucket.objectPath is required"),
        ),
        (
            serde_json::json!({}),
            Some("exactly one of bucket, objectURL, archive"),
        ),
    ];
    for (source, refused) in sources {
        let object = restore(source);
        let reported = restores.refuses(&object, None);
        match refused {
            None => assert_eq!(reported, [""; 0], "{object}"),
            Some(text) => assert!(
                reported.len() == 1 && reported[0].contains(text),
                "{object}: {reported:?}"
            ),
        }
        serde_json::from_value::<crd::EtcdRestore>(object).unwrap();
    }
}
