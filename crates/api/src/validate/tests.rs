//! Every rule, with the words a person reads.

use super::*;
use crate::{Cluster, parse, resolve};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as K8sQuantity;
use serde_json::{Value, json};

/// A manifest without a fault or a warning on either ground.
fn good() -> Value {
    json!({
        "apiVersion": "etcd.improbable.io/v1alpha1",
        "kind": "EtcdCluster",
        "metadata": {"name": "demo"},
        "spec": {
            "replicas": 3,
            "version": "3.6.1",
            "storage": {"volumeClaimTemplate": {
                "storageClassName": "standard",
                "resources": {"requests": {"storage": "8Gi"}},
            }},
        },
    })
}

/// The good manifest with `pointer` (a JSON pointer) set, or removed where the value is null.
fn with(pointer: &str, value: Value) -> EtcdCluster {
    let mut manifest = good();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let mut inside = &mut manifest;
    for key in parent.split('/').skip(1) {
        inside = &mut inside[key];
    }
    if value.is_null() {
        inside.as_object_mut().unwrap().remove(field).unwrap();
    } else {
        inside[field.replace("~1", "/")] = value;
    }
    // Through the text, as a person's manifest would come.
    parse(&manifest.to_string(), "x").unwrap()
}

fn texts(manifest: &EtcdCluster, ground: Ground) -> (Vec<String>, Vec<String>) {
    let (faults, warnings) = validate(manifest, ground);
    (
        faults.iter().map(ToString::to_string).collect(),
        warnings.iter().map(ToString::to_string).collect(),
    )
}

#[test]
fn good_is_good() {
    for ground in [Ground::Host, Ground::Kubernetes] {
        assert_eq!(texts(&with("/spec/replicas", json!(3)), ground), (vec![], vec![]));
    }
}

#[test]
fn faults() {
    let name = "Members, pods and host names are built from it; choose a name of that form.";
    let form = "lower-case letters, digits and '-', with a letter or digit at both ends";
    let one = "Write 3 to survive the loss of one, or 1 to try it out; `quorate down` stops a cluster and keeps its data.";
    let table: Vec<(&str, Value, String)> = vec![
        ("/metadata/name", json!(null), "metadata.name: found nothing, expected the cluster's name. Give it one, for example `name: my-cluster`.".into()),
        ("/metadata/name", json!("Demo"), format!("metadata.name: found the text \"Demo\", expected {form}. {name}")),
        ("/metadata/name", json!(""), format!("metadata.name: found the text \"\", expected {form}. {name}")),
        ("/metadata/name", json!("a.b"), format!("metadata.name: found the text \"a.b\", expected {form}. {name}")),
        ("/metadata/name", json!("-a"), format!("metadata.name: found the text \"-a\", expected {form}. {name}")),
        ("/metadata/name", json!("a-"), format!("metadata.name: found the text \"a-\", expected {form}. {name}")),
        ("/spec/replicas", json!(null), "spec.replicas: found nothing, expected the number of members. Write 3 to survive the loss of one, or 1 to try it out.".into()),
        ("/spec/replicas", json!(0), format!("spec.replicas: found 0, expected at least 1. {one}")),
        ("/spec/replicas", json!(-3), format!("spec.replicas: found -3, expected at least 1. {one}")),
        ("/spec/replicas", json!(100), "spec.replicas: found 100, expected at most 99. In most places 5 is the most that is sensible.".into()),
        ("/spec/replicas", json!(1u64 << 40), "spec.replicas: found 1099511627776, expected at most 99. In most places 5 is the most that is sensible.".into()),
        ("/spec/version", json!(null), "spec.version: found nothing, expected the version of etcd to run. Write one, for example `version: 3.6.1`.".into()),
        ("/spec/version", json!("v3.6.1"), "spec.version: found v3.6.1, expected a version of three numbers. Write 3.6.1, not v3.6.1.".into()),
        ("/spec/version", json!("3.2.28"), "spec.version: found 3.2.28, expected a version from 3.4 to 3.7. etcd before 3.4 has no learners, so members cannot be added safely, and it is long out of support; take 3.4 or newer.".into()),
        ("/spec/version", json!("3.5.1"), "spec.version: found 3.5.1, expected a version that keeps data intact. etcd 3.5.0 to 3.5.2 are known to corrupt data when they are killed; take 3.5.3 or newer.".into()),
        ("/spec/storage", json!(null), "spec.storage: found nothing, expected where the members keep their data. Add storage.volumeClaimTemplate with resources.requests.storage, for example 8Gi.".into()),
        ("/spec/storage/volumeClaimTemplate", json!(null), "spec.storage.volumeClaimTemplate: found nothing, expected the volume each member gets. Add resources.requests.storage below it, for example 8Gi.".into()),
        ("/spec/storage/volumeClaimTemplate/resources", json!(null), "spec.storage.volumeClaimTemplate.resources.requests.storage: found nothing, expected the size of each member's volume. Write one, for example `storage: 8Gi`.".into()),
        ("/spec/storage/volumeClaimTemplate/resources/requests/storage", json!(null), "spec.storage.volumeClaimTemplate.resources.requests.storage: found nothing, expected the size of each member's volume. Write one, for example `storage: 8Gi`.".into()),
        ("/spec/storage/volumeClaimTemplate/resources/requests/storage", json!("8GB"), "spec.storage.volumeClaimTemplate.resources.requests.storage: found the text \"8GB\", expected a size such as 50Mi or 8Gi. Write a number and a unit without a space between: Ki, Mi, Gi, Ti (1024) or k, M, G, T (1000).".into()),
        ("/spec/storage/volumeClaimTemplate/resources/requests/storage", json!("0"), "spec.storage.volumeClaimTemplate.resources.requests.storage: found the text \"0\", expected a size such as 50Mi or 8Gi. Write a size above zero, for example 8Gi.".into()),
        ("/spec/storage/volumeClaimTemplate/resources/requests/storage", json!(-5), "spec.storage.volumeClaimTemplate.resources.requests.storage: found the text \"-5\", expected a size such as 50Mi or 8Gi. Write a size above zero, for example 8Gi.".into()),
        ("/spec/storage/volumeClaimTemplate/resources/requests/storage", json!("1e99"), "spec.storage.volumeClaimTemplate.resources.requests.storage: found the text \"1e99\", expected a size such as 50Mi or 8Gi. Write a size that a disk can have, for example 8Gi.".into()),
        ("/spec/quota", json!("lots"), "spec.quota: found the text \"lots\", expected a size such as 50Mi or 8Gi. Write a number and a unit without a space between: Ki, Mi, Gi, Ti (1024) or k, M, G, T (1000).".into()),
        ("/spec/quota", json!(0), "spec.quota: found the text \"0\", expected a size such as 50Mi or 8Gi. Write a size above zero, for example 8Gi.".into()),
        ("/spec/options", json!({"heartbeatInterval": 0}), "spec.options.heartbeatInterval: found 0, expected at least 1. Write a larger number, or leave it out for etcd's default.".into()),
        ("/spec/options", json!({"electionTimeout": -1}), "spec.options.electionTimeout: found -1, expected at least 1. Write a larger number, or leave it out for etcd's default.".into()),
        ("/spec/options", json!({"heartbeatInterval": 500}), "spec.options.electionTimeout: found 1000 ms with a heartbeat every 500 ms, expected at least five heartbeats. etcd does not start with less; ten heartbeats are usual.".into()),
        ("/spec/options", json!({"electionTimeout": 60000}), "spec.options.electionTimeout: found 60000 ms, expected at most 50000 ms. etcd does not start with more; 1000 is its default.".into()),
        ("/spec/options", json!({"snapshotCount": 0}), "spec.options.snapshotCount: found 0, expected at least 1. Write a larger number, or leave it out for etcd's default.".into()),
        ("/spec/options", json!({"maxTxnOps": 0}), "spec.options.maxTxnOps: found 0, expected at least 1. Write a larger number, or leave it out for etcd's default.".into()),
        ("/spec/options", json!({"maxSnapshots": 0}), "spec.options.maxSnapshots: found 0, expected at least 1. Write a larger number, or leave it out for etcd's default.".into()),
        ("/spec/options", json!({"maxWals": -1}), "spec.options.maxWals: found -1, expected at least 1. Write a larger number, or leave it out for etcd's default.".into()),
        ("/spec/options", json!({"maxRequestBytes": "2MB"}), "spec.options.maxRequestBytes: found the text \"2MB\", expected a size such as 50Mi or 8Gi. Write a number and a unit without a space between: Ki, Mi, Gi, Ti (1024) or k, M, G, T (1000).".into()),
        ("/spec/options", json!({"autoCompactionMode": "hourly", "autoCompactionRetention": "1h"}), "spec.options.autoCompactionMode: found the text \"hourly\", expected one of periodic, revision. Write one of these words.".into()),
        ("/spec/options", json!({"autoCompactionRetention": "1 hour"}), "spec.options.autoCompactionRetention: found the text \"1 hour\", expected a time such as 1h or 30m. Write a number and h, m or s; a plain number is hours, and 0 is off.".into()),
        ("/spec/options", json!({"autoCompactionRetention": "999999999h"}), "spec.options.autoCompactionRetention: found the text \"999999999h\", expected at most 2562047h. etcd does not start with more; a few hours are usual, and 0 is off.".into()),
        ("/spec/options", json!({"maxRequestBytes": "1"}), "spec.options.maxRequestBytes: found 1, expected at least 4Ki. With less, members cannot report to each other; 1536Ki is etcd's default.".into()),
        ("/spec/options", json!({"maxRequestBytes": "9223372036854775807"}), "spec.options.maxRequestBytes: found 9223372036854775807, expected at most 256Mi. Members take no larger message of each other, and much larger ones overflow; 1536Ki is etcd's default.".into()),
        ("/spec/quota", json!("1Ki"), "spec.quota: found 1Ki, expected at least 1Mi and less than 8Ei. etcd takes no write with less and does not start with more; 2Gi is its default, 8Gi the most it advises.".into()),
        ("/spec/quota", json!("8Ei"), "spec.quota: found 8Ei, expected at least 1Mi and less than 8Ei. etcd takes no write with less and does not start with more; 2Gi is its default, 8Gi the most it advises.".into()),
        ("/spec/options", json!({"autoCompactionMode": "revision", "autoCompactionRetention": "1h"}), "spec.options.autoCompactionRetention: found the text \"1h\", expected a number of revisions. Write a whole number, for example 1000.".into()),
        ("/spec/options", json!({"logLevel": "loud"}), "spec.options.logLevel: found the text \"loud\", expected one of debug, info, warn, error. Write one of these words.".into()),
        ("/spec/options", json!({"metrics": "all"}), "spec.options.metrics: found the text \"all\", expected one of basic, extensive. Write one of these words.".into()),
    ];
    for (pointer, value, expected) in table {
        let manifest = with(pointer, value.clone());
        for ground in [Ground::Host, Ground::Kubernetes] {
            let expected = match ground {
                Ground::Host => expected.clone(),
                // There is no such command there.
                Ground::Kubernetes => {
                    expected.replace("; `quorate down` stops a cluster and keeps its data.", ".")
                }
            };
            assert_eq!(
                texts(&manifest, ground).0,
                std::slice::from_ref(&expected),
                "{pointer} {value} {ground:?}"
            );
        }
    }
}

#[test]
fn faults_of_the_pod() {
    let written = |weight: i32| json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": {}}]}});
    let affinity = |weight: i32| serde_json::from_value(written(weight)).unwrap();
    let mut both = with("/spec/affinity", written(1));
    let template = |affinity| crate::PodTemplate {
        affinity,
        ..Default::default()
    };
    both.spec.pod_template = Some(template(Some(affinity(2))));
    let kept = "spec.affinity: found another affinity than in spec.podTemplate.affinity, expected one affinity. Both \
                fields mean the same; keep one of them.";
    assert_eq!(texts(&both, Ground::Kubernetes), (vec![kept.to_owned()], vec![]));
    both.spec.pod_template = Some(template(Some(affinity(1))));
    assert_eq!(texts(&both, Ground::Kubernetes), (vec![], vec![]));
    both.spec.pod_template = Some(template(None));
    let (cluster, _) = resolve(&both, Ground::Kubernetes, "", "x").unwrap();
    assert_eq!(cluster.pod.affinity, Some(affinity(1)));

    let annotated =
        json!({"metadata": {"annotations": {"etcd.improbable.io/x": "1", "etcd.improbable.iox/y": "1"}}});
    let reserved = "spec.podTemplate.metadata.annotations[\"etcd.improbable.io/x\"]: found a reserved annotation, expected \
                    no annotation whose name begins with etcd.improbable.io/. quorate keeps its own notes under that \
                    prefix; choose another name.";
    assert_eq!(
        texts(&with("/spec/podTemplate", annotated), Ground::Kubernetes).0,
        [reserved]
    );

    let resources = json!({"resources": {"limits": {"cpu": "two"}}});
    let cpu = "spec.podTemplate.resources.limits.cpu: found the text \"two\", expected a quantity such as 200m or 200Mi. \
               Write a number and a unit without a space between.";
    assert_eq!(
        texts(&with("/spec/podTemplate", resources), Ground::Kubernetes).0,
        [cpu]
    );
}

#[test]
fn faults_of_the_host() {
    let port = "Choose one that is free, for example 2379.";
    let memory = "etcd is killed at its limit; 128 is the least for a small cluster.";
    let table = [
        (json!({"clientPort": 0}), format!("spec.host.clientPort: found 0, expected a port from 1 to 65535. {port}")),
        (json!({"peerPort": 70000}), format!("spec.host.peerPort: found 70000, expected a port from 1 to 65535. {port}")),
        (json!({"clientPort": 2379, "peerPort": 2379}), "spec.host.peerPort: found the client port, 2379, expected another port than clientPort. Members need one port for clients and one for each other; change either.".to_owned()),
        (json!({"unitName": "a b"}), "spec.host.unitName: found the text \"a b\", expected letters, digits, '-', '_', '.' and ':', without .service at the end. Write the first part of the units' names, for example quorate-etcd; the member's name is added.".to_owned()),
        (json!({"memoryLimitMB": 10}), format!("spec.host.memoryLimitMB: found 10, expected 0 for no limit, or at least 50. {memory}")),
        (json!({"memoryLimitMB": -1}), format!("spec.host.memoryLimitMB: found -1, expected 0 for no limit, or at least 50. {memory}")),
        (json!({"cpu": "0"}), "spec.host.cpu: found the text \"0\", expected an amount of CPU above zero. Write 500m for half a core, 2 for two cores.".to_owned()),
    ];
    for (host, expected) in table {
        assert_eq!(
            texts(&with("/spec/host", host.clone()), Ground::Host),
            (vec![expected], vec![]),
            "{host}"
        );
    }
}

#[test]
fn faults_on_kubernetes_only() {
    let manifest = with("/spec/storage/volumeClaimTemplate/storageClassName", json!(null));
    assert_eq!(texts(&manifest, Ground::Host), (vec![], vec![]));
    let class = "spec.storage.volumeClaimTemplate.storageClassName: found nothing, expected the storage class of the \
                 volumes. Write one that `kubectl get storageclass` lists.";
    assert_eq!(texts(&manifest, Ground::Kubernetes).0, [class]);

    let manifest = with("/metadata/name", json!("3tier"));
    assert_eq!(texts(&manifest, Ground::Host), (vec![], vec![]));
    let name = "metadata.name: found the text \"3tier\", expected a name that begins with a letter. The cluster's Service \
                bears this name, and Kubernetes wants a letter first.";
    assert_eq!(texts(&manifest, Ground::Kubernetes).0, [name]);
}

#[test]
fn warnings() {
    let pods = "ignored: on this machine members are processes, not pods.";
    let table = [
        ("/spec/replicas", json!(2), "spec.replicas: 2 members are lost when either is lost, which is worse than 1; use 1 or 3.".to_owned()),
        ("/spec/replicas", json!(4), "spec.replicas: 4 members survive no more losses than 3 do, and more must agree; use 3 or 5.".to_owned()),
        ("/spec/quota", json!("9Gi"), "spec.quota: larger than the volume: the disk would be full before etcd stops accepting writes.".to_owned()),
        ("/spec/options", json!({"maxRequestBytes": "11Mi"}), "spec.options.maxRequestBytes: above 10Mi, the most etcd advises: large requests delay heartbeats.".to_owned()),
        ("/spec/options", json!({"autoCompactionMode": "periodic"}), "spec.options.autoCompactionRetention: not set, so nothing is compacted automatically; set it, for example 1h or 1000.".to_owned()),
        ("/spec/podTemplate", json!({}), format!("spec.podTemplate: {pods}")),
        ("/spec/affinity", json!({}), format!("spec.affinity: {pods}")),
        ("/spec/maintenance", json!({}), "spec.maintenance: ignored: on this machine changes always roll through the members.".to_owned()),
    ];
    for (pointer, value, expected) in table {
        assert_eq!(
            texts(&with(pointer, value.clone()), Ground::Host),
            (vec![], vec![expected]),
            "{pointer} {value}"
        );
    }
    let host = with("/spec/host", json!({"clientPort": 2379}));
    let ignored = "spec.host: ignored: it is for members that run on a machine without Kubernetes.";
    assert_eq!(
        texts(&host, Ground::Kubernetes),
        (vec![], vec![ignored.to_owned()])
    );
    assert_eq!(texts(&host, Ground::Host), (vec![], vec![]));
    let never = with("/spec/backup", json!({"schedule": "every day"}));
    let (faults, warnings) = texts(&never, Ground::Kubernetes);
    assert_eq!(faults, [""; 0], "a cluster that runs is not held for it");
    assert!(
        warnings[1].starts_with("spec.backup.schedule: no schedule"),
        "{warnings:?}"
    );
    let mut large = with("/spec/quota", json!("9Gi"));
    let claim = large
        .spec
        .storage
        .as_mut()
        .unwrap()
        .volume_claim_template
        .as_mut()
        .unwrap();
    claim
        .resources
        .as_mut()
        .unwrap()
        .requests
        .as_mut()
        .unwrap()
        .insert("storage".to_owned(), K8sQuantity("80Gi".to_owned()));
    let advised = "spec.quota: above 8Gi, the most etcd advises: restarts and recovery take long.";
    assert_eq!(texts(&large, Ground::Host), (vec![], vec![advised.to_owned()]));
}

#[test]
fn backups_go_into_an_archive() {
    let backup = |plan: Value| with("/spec/backup", plan);
    let whole = backup(json!({
        "schedule": "0 * * * *",
        "destination": {"archive": {"url": "s3://bucket/prefix"}},
        "deltas": {"period": "5s"},
        "retention": [{"for": "7d"}, {"for": "30d", "every": "1d"}],
    }));
    let (cluster, warnings) = resolve(&whole, Ground::Host, "", "x").unwrap();
    assert_eq!(warnings, []);
    let settings = cluster.backup.unwrap();
    assert_eq!(settings.url.as_deref(), Some("s3://bucket/prefix"));
    assert_eq!(
        (settings.period.as_deref(), settings.keep),
        (Some("5s"), vec!["7d".to_owned(), "30d:1d".to_owned()])
    );
    let local = backup(json!({"destination": {"local": {"path": "/backups"}}}));
    let cluster = resolve(&local, Ground::Host, "", "x").unwrap().0;
    assert_eq!(cluster.backup.unwrap().url.as_deref(), Some("file:///backups"));
    let own = resolve(&backup(json!({})), Ground::Host, "", "x").unwrap().0;
    assert_eq!(own.backup.unwrap().url, None);
    for (plan, field) in [
        (
            json!({"destination": {"bucket": {"bucketURL": "s3://b"}}}),
            "destination",
        ),
        (
            json!({"destination": {"archive": {"url": "ftp://b"}}}),
            "destination.archive.url",
        ),
        (
            json!({"destination": {"local": {"path": "backups"}}}),
            "destination.local.path",
        ),
        (json!({"schedule": "every day"}), "schedule"),
        (json!({"deltas": {"period": "0s"}}), "deltas.period"),
        (json!({"deltas": {"period": "2h"}}), "deltas.period"),
        (json!({"retention": [{"for": "a week"}]}), "retention[0]"),
        (
            json!({"retention": [{"for": "7d"}, {"for": "8d"}]}),
            "retention[1]",
        ),
        (
            json!({"retention": [{"for": "4w", "every": "1y"}]}),
            "retention[0]",
        ),
        (
            json!({"retention": vec![json!({"for": "7d", "every": "1d"}); 33]}),
            "retention",
        ),
    ] {
        let (faults, _) = texts(&backup(plan), Ground::Host);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].starts_with(&format!("spec.backup.{field}: found ")),
            "{faults:?}"
        );
    }
    let (faults, warnings) = texts(&whole, Ground::Kubernetes);
    assert_eq!(faults, [""; 0]);
    assert!(warnings[0].contains("no backup is taken"), "{warnings:?}");
}

#[test]
fn certificates_of_the_users_own() {
    let secrets = |tls: Value| with("/spec/tls", tls);
    let both = json!({"client": {"secretName": "c"}, "peer": {"secretName": "p"}});
    let (cluster, warnings) = resolve(&secrets(both.clone()), Ground::Kubernetes, "", "x").unwrap();
    assert!(cluster.tls && warnings.is_empty());
    let named = cluster.tls_secrets.unwrap();
    assert_eq!((named.client.as_str(), named.peer.as_str()), ("c", "p"));
    let ignored = "ignored: there are no Secrets on this machine; quorate makes the certificates.";
    assert_eq!(
        texts(&secrets(both), Ground::Host).1,
        ["client", "peer"].map(|field| format!("spec.tls.{field}: {ignored}"))
    );
    let one = "spec.tls.peer: found nothing, while client is set, expected both or neither. Name a Secret for each, or \
               leave both out and quorate makes the certificates.";
    assert_eq!(
        texts(
            &secrets(json!({"client": {"secretName": "c"}})),
            Ground::Kubernetes
        )
        .0,
        [one]
    );
    let nameless = texts(
        &secrets(json!({"client": {}, "peer": {"secretName": "p"}})),
        Ground::Kubernetes,
    )
    .0;
    assert!(
        nameless[0].starts_with("spec.tls.client.secretName: found nothing"),
        "{nameless:?}"
    );
}

#[test]
fn all_at_once() {
    let (faults, _) = texts(&EtcdCluster::default(), Ground::Kubernetes);
    let paths: Vec<&str> = faults
        .iter()
        .map(|fault| fault.split(':').next().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["metadata.name", "spec.replicas", "spec.version", "spec.storage"]
    );
}

#[test]
fn faults_name_their_lines() {
    let text = crate::default_manifest("demo", 3, &semver::Version::new(3, 6, 1))
        .replace("replicas: 3", "replicas: 0")
        .replace("8Gi", "8GB");
    let manifest = parse(&text, "cluster.yaml").unwrap();
    let invalid = resolve(&manifest, Ground::Host, &text, "cluster.yaml").unwrap_err();
    for fault in &invalid.faults {
        let line = text.lines().nth(fault.line.unwrap() - 1).unwrap();
        assert!(
            line.contains("replicas: 0") || line.contains("storage: 8GB"),
            "{line}"
        );
    }
    assert!(
        invalid
            .to_string()
            .starts_with("cluster.yaml:10: spec.replicas: found 0"),
        "{invalid}"
    );
}

#[test]
fn values() {
    let resolved = |pointer: &str, value: Value, ground| -> Cluster {
        resolve(&with(pointer, value), ground, "", "x").unwrap().0
    };
    let cluster = resolved("/spec/quota", json!("2Gi"), Ground::Host);
    assert_eq!(
        (cluster.quota_bytes, cluster.storage_bytes),
        (Some(2 << 30), 8 << 30)
    );
    assert_eq!(cluster.claim.access_modes, Some(vec!["ReadWriteOnce".to_owned()]));
    assert_eq!(cluster.claim.volume_mode.as_deref(), Some("Filesystem"));
    // Encryption: on by default on the host, as the manifest says on Kubernetes.
    assert!(cluster.tls && !cluster.paused);
    assert!(!resolved("/spec/paused", json!(true), Ground::Kubernetes).tls);
    assert!(resolved("/spec/tls", json!({}), Ground::Kubernetes).tls);
    assert!(!resolved("/spec/tls", json!({"enabled": false}), Ground::Host).tls);

    let options = json!({
        "heartbeatInterval": 200, "electionTimeout": 2000, "snapshotCount": 5000, "autoCompactionMode": "revision",
        "autoCompactionRetention": 1000, "maxRequestBytes": "2Mi", "maxTxnOps": 256, "maxSnapshots": 3, "maxWals": 4,
        "logLevel": "warn", "metrics": "extensive",
    });
    let settings = resolved("/spec/options", options, Ground::Host)
        .options
        .settings();
    let expected = [
        ("heartbeat-interval", "200"),
        ("election-timeout", "2000"),
        ("snapshot-count", "5000"),
        ("auto-compaction-mode", "revision"),
        ("auto-compaction-retention", "1000"),
        ("max-request-bytes", "2097152"),
        ("max-txn-ops", "256"),
        ("max-snapshots", "3"),
        ("max-wals", "4"),
        ("log-level", "warn"),
        ("metrics", "extensive"),
    ];
    assert_eq!(settings, expected.map(|(name, value)| (name, value.to_owned())));
    let periodic = |text: &str| {
        resolved(
            "/spec/options",
            json!({"autoCompactionRetention": text}),
            Ground::Host,
        )
    };
    for good in ["1h", "30m", "1h30m", "0", "24", "500ms"] {
        assert_eq!(
            periodic(good).options.auto_compaction_retention.as_deref(),
            Some(good)
        );
    }

    let host = json!({"clientPort": 1, "peerPort": 65535, "unitName": "my-etcd", "memoryLimitMB": 128, "cpu": "1.5"});
    let host = resolved("/spec/host", host, Ground::Host).host;
    assert_eq!((host.client_port, host.peer_port), (Some(1), Some(65535)));
    assert_eq!(
        (host.memory_limit_bytes, host.cpu_thousandths),
        (Some(128 << 20), Some(1500))
    );
    assert_eq!(
        resolved("/spec/host", json!({"memoryLimitMB": 0}), Ground::Host)
            .host
            .memory_limit_bytes,
        None
    );
    assert_eq!(
        resolved("/metadata/name", json!("a".repeat(60)), Ground::Host)
            .name
            .len(),
        60
    );
}

#[test]
fn the_limits_of_a_cluster() {
    let members = |count: i64| texts(&with("/spec/replicas", json!(count)), Ground::Kubernetes);
    let advised = "spec.replicas: etcd advises at most 7 members: each one more makes every write slower, and 7 survive the \
                   loss of three.";
    assert_eq!(members(7), (vec![], vec![]));
    assert_eq!(members(9), (vec![], vec![advised.to_owned()]));
    let (faults, warnings) = members(8);
    assert_eq!((faults.len(), warnings.len()), (0, 2), "{warnings:?}");
    assert_eq!(members(99).0, [""; 0]);
    assert_eq!(members(2_000_000_000).0.len(), 1);
    let named = |length, ground| texts(&with("/metadata/name", json!("a".repeat(length))), ground).0;
    assert_eq!(named(56, Ground::Kubernetes), [""; 0]);
    let long = named(57, Ground::Kubernetes);
    assert!(
        long[0].contains("expected at most 56 characters. The Service for clients"),
        "{long:?}"
    );
    assert_eq!(named(60, Ground::Host), [""; 0]);
    let long = named(61, Ground::Host);
    assert_eq!(
        long,
        [
            "metadata.name: found a name of 61 characters, expected at most 60 characters. A member's name is this with its \
             number behind, and host names end at 63; choose a shorter one."
        ]
    );
}
