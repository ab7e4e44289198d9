//! Every rule of objects, judged by the operator's Rust and by the rules an API server gets, which must agree.

use serde_json::{Value, json};

use super::*;
use crate::crd::api_server::ApiServer;

mod peers;

/// A cluster without a fault.
fn good() -> Value {
    json!({
        "apiVersion": "etcd.improbable.io/v1alpha1",
        "kind": "EtcdCluster",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {
            "replicas": 3,
            "version": "3.5.35",
            "storage": {"volumeClaimTemplate": {
                "storageClassName": "standard",
                "resources": {"requests": {"storage": "50Mi"}},
            }},
            "podTemplate": {
                "metadata": {"annotations": {"prometheus.io/port": "2379"}},
                "resources": {"limits": {"cpu": "200m"}},
            },
        },
    })
}

/// `object` with the value at a JSON pointer set, or removed where it is null.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let mut inside = &mut object;
    for key in parent.split('/').skip(1) {
        inside = &mut inside[key];
    }
    if value.is_null() {
        inside.as_object_mut().unwrap().remove(field);
    } else {
        inside[field] = value;
    }
    object
}

fn cluster(object: &Value) -> EtcdCluster {
    serde_json::from_value(object.clone()).unwrap()
}

fn texts(refusals: &[Refusal]) -> Vec<String> {
    refusals.iter().map(ToString::to_string).collect()
}

#[test]
fn good_is_good() {
    let server = ApiServer::of("EtcdCluster");
    assert_eq!(validate(&cluster(&good())), (vec![], vec![]));
    assert_eq!(server.refuses(&good(), None), [""; 0]);
    assert_eq!(
        validate_update(&cluster(&good()), &cluster(&good())),
        (vec![], vec![])
    );
    assert_eq!(server.refuses(&good(), Some(&good())), [""; 0]);
    let (values, _) = resolve(&cluster(&good())).unwrap();
    assert_eq!(
        (values.replicas, values.tls, values.rolling_changes),
        (3, false, false)
    );
    assert_eq!(values.claim.access_modes, Some(vec!["ReadWriteOnce".to_owned()]));
}

#[test]
fn on_create() {
    let server = ApiServer::of("EtcdCluster");
    let claim = "/spec/storage/volumeClaimTemplate";
    let class = format!("{claim}/storageClassName");
    let requests = format!("{claim}/resources/requests");
    let affinity = |weight: i32| json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": {"topologyKey": "a"}}]}});
    // The pointer and value that break it; what the operator says; what an API server says.
    let table = [
        (
            "/metadata/name",
            json!("3tier"),
            "metadata.name: Invalid value",
            "begin with a letter",
        ),
        (
            "/metadata/name",
            json!("a".repeat(57)),
            "metadata.name: Invalid value",
            "at most 56",
        ),
        (
            "/metadata/name",
            json!("a-"),
            "metadata.name: Invalid value",
            "at most 56",
        ),
        (
            "/spec/replicas",
            json!(null),
            "spec.replicas: Required value",
            "spec.replicas: Required value",
        ),
        (
            "/spec/replicas",
            json!(0),
            "spec.replicas: Invalid value: 0: expected at least 1",
            "spec.replicas: below 1",
        ),
        (
            "/spec/replicas",
            json!(100),
            "spec.replicas: Invalid value: 100: expected at most 99",
            "spec.replicas: above 99",
        ),
        (
            "/spec/version",
            json!(null),
            "spec.version: Required value",
            "spec.version: Required value",
        ),
        (
            "/spec/version",
            json!("foo"),
            "spec.version: Invalid value: \"foo\": foo is not in dotted-tri format",
            "foo is not in dotted-tri format",
        ),
        (
            "/spec/version",
            json!("v3.6.1"),
            "v3.6.1 is not in dotted-tri format. Write 3.6.1",
            "v3.6.1 is not in dotted-tri format",
        ),
        (
            "/spec/version",
            json!("3.6"),
            "3.6 is not in dotted-tri format",
            "3.6 is not in dotted-tri format",
        ),
        (
            "/spec/version",
            json!("4.0.0"),
            "spec.version: Invalid value: \"4.0.0\": only Etcd version 3 is supported",
            "only Etcd version 3 is supported",
        ),
        (
            "/spec/version",
            json!("2.3.8"),
            "only Etcd version 3 is supported",
            "only Etcd version 3 is supported",
        ),
        ("/spec/version", json!("3.2.28"), "no learners", "no learners"),
        (
            "/spec/version",
            json!("3.8.0"),
            "expected a version from 3.4 to 3.7",
            "3.4 to 3.7 are supported",
        ),
        ("/spec/version", json!("3.5.1"), "corrupt data", "corrupt data"),
        (
            "/spec/storage",
            json!(null),
            "spec.storage: Required value",
            "spec.storage: Required value",
        ),
        (
            claim,
            json!(null),
            "spec.storage.volumeClaimTemplate: Required value",
            "spec.storage.volumeClaimTemplate: Required value",
        ),
        (
            &class,
            json!(null),
            "spec.storage.volumeClaimTemplate.storageClassName: Required value",
            "spec.storage.volumeClaimTemplate.storageClassName: Required value",
        ),
        (
            &requests,
            json!({}),
            "spec.storage.volumeClaimTemplate.resources.requests.storage: Required value",
            "spec.storage.volumeClaimTemplate.resources.requests.storage: Required value",
        ),
        (
            &requests,
            json!(null),
            "spec.storage.volumeClaimTemplate.resources.requests.storage: Required value",
            "spec.storage.volumeClaimTemplate.resources.requests: Required value",
        ),
        (
            "/spec/podTemplate/metadata/annotations",
            json!({"etcd.improbable.io/x": "1"}),
            "spec.podTemplate.metadata: Invalid value: \"etcd.improbable.io/x\": Annotation name is a reserved name ('etcd.improbable.io' prefix)",
            "spec.podTemplate.metadata: Annotation name is a reserved name ('etcd.improbable.io' prefix)",
        ),
        (
            "/spec/tls",
            json!({"client": {"secretName": "a"}}),
            "spec.tls.peer: Invalid value",
            "spec.tls: give a Secret for client and one for peer",
        ),
        (
            "/spec/options",
            json!({"heartbeatInterval": 500}),
            "at least five heartbeats",
            "at least five times heartbeatInterval",
        ),
        (
            "/spec/options",
            json!({"electionTimeout": 60000}),
            "at most 50000",
            "spec.options.electionTimeout: above 50000",
        ),
        (
            "/spec/quota",
            json!("1Ki"),
            "at least 1Mi and less than 8Ei",
            "at least 1Mi and less than 8Ei",
        ),
        (
            "/spec/quota",
            json!(1_048_575),
            "at least 1Mi and less than 8Ei",
            "at least 1Mi and less than 8Ei",
        ),
        (
            "/spec/quota",
            json!("8Ei"),
            "at least 1Mi and less than 8Ei",
            "at least 1Mi and less than 8Ei",
        ),
        (
            "/spec/quota",
            json!("-2Gi"),
            "a size such as 50Mi or 8Gi",
            "at least 1Mi and less than 8Ei",
        ),
        (
            "/spec/options",
            json!({"maxRequestBytes": "4095"}),
            "at least 4Ki",
            "at least 4Ki and at most 256Mi",
        ),
        (
            "/spec/options",
            json!({"maxRequestBytes": 0}),
            "a size such as",
            "at least 4Ki and at most 256Mi",
        ),
        (
            "/spec/options",
            json!({"maxRequestBytes": "257Mi"}),
            "at most 256Mi",
            "at least 4Ki and at most 256Mi",
        ),
        (
            "/spec/options",
            json!({"autoCompactionRetention": "soon"}),
            "a time such as",
            "a time such as 1h or 30m",
        ),
        (
            "/spec/options",
            json!({"autoCompactionRetention": "-1"}),
            "a time such as",
            "a time such as 1h or 30m",
        ),
        (
            "/spec/options",
            json!({"autoCompactionMode": "revision", "autoCompactionRetention": "1h"}),
            "a number of revisions",
            "must be a whole number where autoCompactionMode is revision",
        ),
        (
            "/spec/options",
            json!({"autoCompactionRetention": 2_562_048}),
            "at most 2562047h",
            "at most 2562047h",
        ),
        (
            "/spec/options",
            json!({"autoCompactionRetention": "2562047h1m"}),
            "at most 2562047h",
            "at most 2562047h",
        ),
        (
            "/spec/options",
            json!({"logLevel": "loud"}),
            "one of debug, info, warn, error",
            "spec.options.logLevel: not one of",
        ),
        (
            "/spec/options",
            json!({"metrics": "all"}),
            "one of basic, extensive",
            "spec.options.metrics: not one of",
        ),
    ];
    for (pointer, value, operator, by_server) in table {
        let object = with(good(), pointer, value.clone());
        let (refusals, _) = validate(&cluster(&object));
        let reported = texts(&refusals);
        assert_eq!(reported.len(), 1, "{pointer} {value}: {reported:?}");
        assert!(reported[0].contains(operator), "{pointer} {value}: {reported:?}");
        let reported = server.refuses(&object, None);
        assert!(
            reported.iter().any(|text| text.contains(by_server)),
            "{pointer} {value}: {reported:?}"
        );
        assert!(reported.len() <= 1, "{pointer} {value}: {reported:?}");
    }
    for options in [
        json!({"maxRequestBytes": "4Ki", "autoCompactionRetention": "1h30m"}),
        json!({"maxRequestBytes": 4096, "autoCompactionRetention": 0}),
        json!({"maxRequestBytes": "1.5Mi", "autoCompactionMode": "periodic", "autoCompactionRetention": "2562047h"}),
        json!({"maxRequestBytes": "10Mi", "autoCompactionMode": "revision", "autoCompactionRetention": 3_000_000}),
    ] {
        let object = with(
            with(good(), "/spec/options", options),
            "/spec/quota",
            json!("1Mi"),
        );
        assert_eq!(validate(&cluster(&object)), (vec![], vec![]), "{object}");
        assert_eq!(server.refuses(&object, None), [""; 0], "{object}");
    }
    let mut both = with(good(), "/spec/affinity", affinity(1));
    assert_eq!(validate(&cluster(&both)), (vec![], vec![]));
    assert_eq!(server.refuses(&both, None), [""; 0]);
    both = with(both, "/spec/podTemplate/affinity", affinity(1));
    assert_eq!(validate(&cluster(&both)), (vec![], vec![]));
    assert_eq!(server.refuses(&both, None), [""; 0]);
    both = with(both, "/spec/podTemplate/affinity", affinity(2));
    assert!(
        texts(&validate(&cluster(&both)).0)[0].starts_with("spec.affinity: Invalid value: another affinity")
    );
    assert!(server.refuses(&both, None)[0].contains("mean the same and differ"));
}

#[test]
fn on_update() {
    let server = ApiServer::of("EtcdCluster");
    let claim = "/spec/storage/volumeClaimTemplate";
    let size = format!("{claim}/resources/requests/storage");
    let class = format!("{claim}/storageClassName");
    let modes = format!("{claim}/accessModes");
    let cpu = "/spec/podTemplate/resources/limits/cpu";
    let no = Some("Unsupported changes");
    // The change; what refuses it; what refuses it with rolling changes.
    let table = [
        ("/spec/replicas", json!(5), None, None),
        ("/spec/paused", json!(true), None, None),
        ("/spec/tls", json!({}), no, no),
        ("/spec/tls", json!({"enabled": false}), None, None),
        ("/spec/quota", json!("2Gi"), None, None),
        (&size, json!("60Mi"), no, None),
        (&size, json!("40Mi"), no, no),
        (&size, json!("51200Ki"), no, None),
        (&class, json!("fast"), no, no),
        (&modes, json!(["ReadWriteOnce"]), None, None),
        (&modes, json!(["ReadWriteMany"]), no, no),
        (cpu, json!("400m"), no, None),
        ("/spec/podTemplate", json!(null), no, None),
        (
            "/spec/podTemplate/metadata/annotations",
            json!({"a": "b"}),
            no,
            None,
        ),
        ("/spec/podTemplate/tolerations", json!([{"key": "a"}]), no, None),
        ("/spec/affinity", json!({"nodeAffinity": {}}), no, None),
    ];
    for (pointer, value, fixed, rolling) in table {
        for (expected, opted_in) in [(fixed, false), (rolling, true)] {
            let new = with(good(), "/spec/maintenance", json!({"rollingChanges": opted_in}));
            let new = with(new, pointer, value.clone());
            let what = format!("{pointer} {value}, opted in: {opted_in}");
            let reported = texts(&validate_update(&cluster(&good()), &cluster(&new)).0);
            let by_server = server.refuses(&new, Some(&good()));
            match expected {
                None => {
                    assert_eq!(reported, [""; 0], "{what}");
                    assert_eq!(by_server, [""; 0], "{what}");
                }
                Some(text) => {
                    assert_eq!(
                        (reported.len(), by_server.len()),
                        (1, 1),
                        "{what}: {reported:?} {by_server:?}"
                    );
                    assert!(reported[0].contains(text), "{what}: {reported:?}");
                    assert!(by_server[0].contains(text), "{what}: {by_server:?}");
                }
            }
        }
    }
    let new = with(good(), cpu, json!("400m"));
    assert_eq!(
        texts(&validate_update(&cluster(&good()), &cluster(&new)).0),
        [
            "spec.podTemplate: Unsupported changes: (- current, + new) spec.podTemplate.resources.limits.cpu: - \"200m\" + \
          \"400m\"; it stays as it was when the cluster was made, unless maintenance.rollingChanges is true."
        ]
    );
}

#[test]
fn ways_between_versions() {
    let server = ApiServer::of("EtcdCluster");
    let versions = [
        "3.4.23", "3.4.40", "3.5.3", "3.5.16", "3.5.25", "3.5.26", "3.5.35", "3.6.0", "3.6.16", "3.7.0",
        "3.7.3",
    ];
    for from in versions {
        for to in versions {
            let object = |version: &str| with(good(), "/spec/version", json!(version));
            let reported = texts(&validate_update(&cluster(&object(from)), &cluster(&object(to))).0);
            let by_server = server.refuses(&object(to), Some(&object(from)));
            assert_eq!(
                reported.len(),
                by_server.len(),
                "{from} to {to}: {reported:?} {by_server:?}"
            );
            let minor = |version: &str| version.split('.').nth(1).unwrap().parse::<i32>().unwrap();
            let up = minor(to) - minor(from);
            let open =
                up == 0 || (up == 1 && !(minor(from) == 5 && ["3.5.3", "3.5.16", "3.5.25"].contains(&from)));
            assert_eq!(reported.is_empty(), open, "{from} to {to}: {reported:?}");
            for text in reported {
                assert!(text.contains(&format!("no way from {from} to {to}: ")), "{text}");
            }
        }
    }
    // The status before the change; whether 3.6.99 can be taken back to 3.5.35.
    let member = |version: Value| json!({"id": "1", "name": "demo-0", "version": version});
    let status =
        |agreed: Value, members: Value| json!({"replicas": 1, "clusterVersion": agreed, "members": members});
    let of = |version: &str| json!([member(json!(version)), {"id": "2", "name": "demo-1"}]);
    for (status, open) in [
        (status(json!("3.5.0"), of("3.5.35")), true),
        (status(json!("3.4.0"), of("3.4.23")), true),
        (status(json!("3.5.0"), json!([])), true),
        (status(json!("3.5.0"), of("3.6.99")), false),
        (status(json!("3.6.0"), of("3.6.99")), false),
        (status(json!("3.5.0"), of("3.8.0")), false),
        (status(json!(""), of("3.5.35")), false),
        (status(json!("3"), of("3.5.35")), false),
        (json!(null), false),
    ] {
        let old = with(
            with(good(), "/spec/version", json!("3.6.99")),
            "/status",
            status.clone(),
        );
        let new = with(good(), "/status", status.clone());
        let reported = texts(&validate_update(&cluster(&old), &cluster(&new)).0);
        let by_server = server.refuses(&new, Some(&old));
        assert_eq!(
            (reported.is_empty(), by_server.is_empty()),
            (open, open),
            "{status}: {reported:?} {by_server:?}"
        );
        for text in reported.iter().chain(&by_server) {
            let named = text.contains("spec.version: ") && text.contains("no way from 3.6.99 to 3.5.35");
            assert!(named, "{status}: {text}");
        }
    }
    // An object of a time without rules is not stuck: what it was does not matter where it cannot be compared.
    let odd = with(good(), "/spec/version", json!("3.3.1"));
    assert_eq!(validate_update(&cluster(&odd), &cluster(&good())).0, []);
    assert_eq!(server.refuses(&good(), Some(&odd)), [""; 0]);
}

#[test]
fn all_at_once_in_one_text() {
    let mut object = good();
    object["spec"] = json!({"version": "foo"});
    let rejection = resolve(&cluster(&object)).unwrap_err();
    let text = rejection.to_string();
    assert!(
        text.starts_with("[spec.replicas: Required value") && text.ends_with(']'),
        "{text}"
    );
    for part in ["foo is not in dotted-tri format", "spec.storage: Required value"] {
        assert!(text.contains(part), "{text}");
    }
    object = with(good(), "/spec/replicas", json!(0));
    assert!(
        !resolve(&cluster(&object))
            .unwrap_err()
            .to_string()
            .starts_with('[')
    );
}

#[test]
fn warnings() {
    let reported = |pointer: &str, value: Value| {
        let (refusals, warnings) = validate(&cluster(&with(good(), pointer, value)));
        assert_eq!(refusals, []);
        warnings[0].to_string()
    };
    assert!(reported("/spec/replicas", json!(4)).starts_with("spec.replicas: 4 members survive no more"));
    assert!(reported("/spec/host", json!({"clientPort": 2379})).starts_with("spec.host: ignored"));
    let size = "/spec/storage/volumeClaimTemplate/resources/requests/storage";
    let advice = "spec.storage.volumeClaimTemplate.resources.requests.storage: etcd allocates its log in files of 64 MB";
    assert!(reported(size, json!("1Mi")).starts_with(advice));
    // On a machine no volume is made.
    let small = manifest::EtcdCluster::from(&cluster(&with(good(), size, json!("1Mi"))));
    let (_, warnings) = crate::validate::validate(&small, Ground::Host);
    assert!(
        warnings
            .iter()
            .all(|warning| !warning.to_string().contains("64 MB")),
        "{warnings:?}"
    );
    assert!(reported("/spec/backup", json!({"schedule": "@daily"})).contains("no backup is taken"));
}
