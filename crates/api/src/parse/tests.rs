//! What is read, and what is said about what cannot be.

use super::*;
use crate::{Ground, validate};

/// The operations guide's sample with a supported version and both its annotations and affinity.
const GUIDE: &str = r#"apiVersion: etcd.improbable.io/v1alpha1
kind: EtcdCluster
metadata:
  name: my-cluster
  namespace: default
spec:
  replicas: 3
  version: 3.6.1
  storage:
    volumeClaimTemplate:
      storageClassName: standard
      resources:
        requests:
          storage: 50Mi
  podTemplate:
    metadata:
      annotations:
        "prometheus.io/path":   "/metrics"
        "prometheus.io/scrape": "true"
        "prometheus.io/scheme": "http"
        "prometheus.io/port":   "2379"
    resources:
      requests:
        cpu: 200m
        memory: 200Mi
      limits:
        cpu: 200m
        memory: 200Mi
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            labelSelector:
              matchExpressions:
                - key: etcd.improbable.io/cluster-name
                  operator: In
                  values:
                    - my-cluster
            topologyKey: kubernetes.io/hostname
"#;

/// Every field there is.
const FULL: &str = r#"
apiVersion: etcd.improbable.io/v1alpha1
kind: EtcdCluster
metadata: {name: a, namespace: b, labels: {c: d}, annotations: {e: f}}
spec:
  replicas: 3
  version: 3.6.1
  storage:
    volumeClaimTemplate:
      accessModes: [ReadWriteOnce]
      volumeMode: Filesystem
      storageClassName: standard
      resources: {requests: {storage: 8Gi}, limits: {storage: 9Gi}}
      selector: {matchLabels: {a: b}}
      volumeName: v
      volumeAttributesClassName: v
      dataSource: {kind: x, name: z}
      dataSourceRef: {kind: x, name: z}
  podTemplate:
    metadata: {annotations: {a: b}}
    resources: {requests: {cpu: 2}, limits: {cpu: 2.5}, claims: [{name: a}]}
    affinity: {nodeAffinity: {}}
    tolerations: [{key: a, operator: Exists}]
    nodeSelector: {a: b}
    topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
    priorityClassName: high
    securityContext: {runAsUser: 1000, fsGroup: 1000}
    imagePullSecrets: [{name: a}]
  affinity: {nodeAffinity: {}}
  tls: {enabled: true, client: {secretName: a}, peer: {secretName: b}}
  options:
    heartbeatInterval: 100
    electionTimeout: 1000
    snapshotCount: 10000
    autoCompactionMode: periodic
    autoCompactionRetention: 1h
    maxRequestBytes: 1572864
    maxTxnOps: 128
    maxSnapshots: 5
    maxWals: 5
    logLevel: info
    metrics: basic
  quota: 2147483648
  paused: false
  forceRedeploymentReason: because
  acceptRolledBack: c-0 from start 2 index 30 to start 1 index 10
  backup:
    schedule: "@daily"
    destination: {archive: {url: "s3://bucket/a"}}
    deltas: {period: 10s}
    retention: [{for: 7d}, {for: 30d, every: 1d}]
  maintenance: {rollingChanges: true}
  host: {clientPort: 2379, peerPort: 2380, unitName: etcd, memoryLimitMB: 512, cpu: 500m}
  auth: {rootSecret: etcd-root, passwordFile: /etc/quorate/root-password}
"#;

fn refused(text: &str) -> String {
    parse(text, "cluster.yaml").unwrap_err().to_string()
}

/// The guide's manifest with one line replaced.
fn with(line: &str, by: &str) -> String {
    assert!(GUIDE.contains(line), "{line}");
    GUIDE.replacen(line, by, 1)
}

#[test]
fn the_guides_sample_is_accepted_on_both_grounds() {
    let manifest = parse(GUIDE, "cluster.yaml").unwrap();
    assert_eq!(validate(&manifest, Ground::Kubernetes), (vec![], vec![]));
    let (faults, warnings) = validate(&manifest, Ground::Host);
    assert_eq!(faults, []);
    let ignored = "ignored: on this machine members are processes, not pods.";
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            format!("spec.affinity: {ignored}"),
            format!("spec.podTemplate: {ignored}")
        ]
    );
}

#[test]
fn every_field_is_read_and_known_by_name() {
    let manifest = parse(FULL, "cluster.yaml").unwrap();
    let (faults, _) = validate(&manifest, Ground::Kubernetes);
    assert_eq!(faults, []);
    let written = to_value(FULL).unwrap();
    let again = serde_json::to_value(&manifest).unwrap();
    for group in [
        "",
        "metadata",
        "spec",
        "spec.storage",
        "spec.storage.volumeClaimTemplate",
        "spec.storage.volumeClaimTemplate.resources",
        "spec.podTemplate",
        "spec.podTemplate.metadata",
        "spec.podTemplate.resources",
        "spec.tls",
        "spec.tls.client",
        "spec.tls.peer",
        "spec.auth",
        "spec.backup",
        "spec.maintenance",
        "spec.options",
        "spec.host",
    ] {
        let keys = |value: &Value| {
            let mut keys: Vec<String> = at(value, &FieldPath::of(group))
                .unwrap()
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect();
            keys.sort();
            keys
        };
        let mut known = known_fields(group).to_vec();
        known.sort_unstable();
        assert_eq!(keys(&written), known, "{group}: the sample here lacks a field");
        assert_eq!(
            keys(&again),
            known,
            "{group}: the advice in messages is out of date"
        );
    }
}

#[test]
fn unknown_fields() {
    let table = [
        (
            with("  replicas: 3", "  replica: 3"),
            "cluster.yaml:7: unknown field spec.replica. Did you mean replicas?",
        ),
        (
            with("  replicas: 3", "  Replicas: 3"),
            "cluster.yaml:7: unknown field spec.Replicas. Did you mean replicas?",
        ),
        (
            with("  replicas: 3", "  replicas: 3\n  repair: {}"),
            "cluster.yaml:8: unknown field spec.repair. repair is not supported by this version of quorate; leave it \
             out, or use a newer version.",
        ),
        (
            with("  podTemplate:", "  podTemplate:\n    containers: []"),
            "cluster.yaml:16: unknown field spec.podTemplate.containers. Leave it out; the fields here are metadata, \
             resources, affinity, tolerations, nodeSelector, topologySpreadConstraints, priorityClassName, \
             securityContext, imagePullSecrets.",
        ),
        (
            // Kubernetes' own types are read as strictly as ours.
            with("    podAntiAffinity:", "    podAntiaffinity:"),
            "cluster.yaml:30: unknown field spec.affinity.podAntiaffinity. Leave it out.",
        ),
        (
            with("spec:", "status:\n  replicas: 3\nspec:"),
            "cluster.yaml:6: unknown field status. Leave it out: status is written for you to read.",
        ),
        (
            with(
                "  replicas: 3",
                "  options: {heartBeat: 1, dataDir: /x}\n  replicas: 3",
            ),
            "cluster.yaml:7: unknown field spec.options.dataDir. Leave it out; the fields here are \
             heartbeatInterval, electionTimeout, snapshotCount, autoCompactionMode, autoCompactionRetention, \
             maxRequestBytes, maxTxnOps, maxSnapshots, maxWals, logLevel, metrics.\n\
             cluster.yaml:7: unknown field spec.options.heartBeat. Leave it out; the fields here are \
             heartbeatInterval, electionTimeout, snapshotCount, autoCompactionMode, autoCompactionRetention, \
             maxRequestBytes, maxTxnOps, maxSnapshots, maxWals, logLevel, metrics.",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(refused(&text), expected);
    }
    for later in LATER {
        let text = with("  replicas: 3", &format!("  replicas: 3\n  {later}:\n    a: b"));
        assert!(refused(&text).contains(&format!("{later} is not supported by this version of quorate")));
    }
}

#[test]
fn wrong_types() {
    let table = [
        (
            "replicas: 3",
            "replicas: three",
            "cluster.yaml:7: spec.replicas: found the text \"three\", expected a whole number. Write the number alone, \
             without quotes, unit or fraction.",
        ),
        (
            "replicas: 3",
            "replicas: \"3\"",
            "cluster.yaml:7: spec.replicas: found the text \"3\", expected a whole number. Write the number alone, \
             without quotes, unit or fraction.",
        ),
        (
            "replicas: 3",
            "replicas: 2.5",
            "cluster.yaml:7: spec.replicas: found 2.5, expected a whole number. Write the number alone, without quotes, \
             unit or fraction.",
        ),
        (
            "version: 3.6.1",
            "version: 3.6",
            "cluster.yaml:8: spec.version: found 3.6, expected a version of three numbers. Write all three numbers, for \
             example 3.6.1.",
        ),
        (
            "\"2379\"",
            "2379",
            "cluster.yaml:21: spec.podTemplate.metadata.annotations[\"prometheus.io/port\"]: found 2379, expected a \
             text. Put it in quotes.",
        ),
        (
            "replicas: 3",
            "paused: \"yes\"",
            "cluster.yaml:7: spec.paused: found the text \"yes\", expected true or false. Write true or false, without \
             quotes.",
        ),
        (
            "name: my-cluster",
            "name: [a]",
            "cluster.yaml:4: metadata.name: found a list, expected a text. Write one text after the colon.",
        ),
        (
            "replicas: 3",
            "tls: true",
            "cluster.yaml:7: spec.tls: found true, expected a group of fields. Write its fields on the lines below it, \
             indented, or leave it out.",
        ),
        (
            "weight: 100",
            "weight: heavy",
            "cluster.yaml:31: spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: \
             found the text \"heavy\", expected a whole number. Write the number alone, without quotes, unit or fraction.",
        ),
        (
            "      storageClassName: standard\n      resources:",
            "      storageClassName: standard\n      selector: a\n      resources:",
            "cluster.yaml:12: spec.storage.volumeClaimTemplate.selector: found the text \"a\", expected a group of \
             fields. Write its fields on the lines below it, indented, or leave it out.",
        ),
        (
            "storage: 50Mi",
            "storage: [50Mi]",
            "cluster.yaml:14: spec.storage.volumeClaimTemplate.resources.requests.storage: found a list, expected a \
             quantity such as 50Mi, 1.5G or 200m. Write one of these forms.",
        ),
    ];
    for (line, by, expected) in table {
        assert_eq!(refused(&with(line, by)), expected);
    }
}

#[test]
fn all_at_once() {
    let text = GUIDE
        .replace("replicas: 3", "replicas: many\n  tls: 5\n  colour: red")
        .replace("name: my-cluster\n", "name: my-cluster\n  labels: []\n");
    let invalid = parse(&text, "x").unwrap_err();
    let paths: Vec<String> = invalid
        .faults
        .iter()
        .map(|fault| fault.path.to_string())
        .collect();
    assert_eq!(
        paths,
        ["metadata.labels", "spec.replicas", "spec.tls", "spec.colour"]
    );
}

#[test]
fn another_kind() {
    assert_eq!(
        refused("apiVersion: etcd.improbable.io/v1alpha1\nkind: EtcdBackup\nspec:\n  foo: 1\n"),
        "cluster.yaml:2: kind: found the text \"EtcdBackup\", expected EtcdCluster. Write `kind: EtcdCluster`; quorate \
         runs clusters from this kind of manifest only."
    );
    assert_eq!(
        refused("spec: {}\n"),
        "cluster.yaml: apiVersion: found nothing, expected etcd.improbable.io/v1alpha1. Write `apiVersion: \
         etcd.improbable.io/v1alpha1`; quorate runs clusters from this kind of manifest only.\n\
         cluster.yaml: kind: found nothing, expected EtcdCluster. Write `kind: EtcdCluster`; quorate runs clusters from \
         this kind of manifest only."
    );
}

#[test]
fn not_yaml() {
    let empty = "cluster.yaml: the manifest: found an empty file, expected an EtcdCluster manifest. `quorate up` without \
                 -f writes one to start from.";
    for text in ["", "\n", "# only a comment\n", "---\n"] {
        assert_eq!(refused(text), empty, "{text:?}");
    }
    assert_eq!(
        refused("- a\n"),
        "cluster.yaml: the manifest: found a list, expected an EtcdCluster manifest. Begin with the lines apiVersion, \
         kind, metadata and spec."
    );
    for (text, line) in [
        (with("  replicas: 3", "\treplicas: 3"), Some(7)),
        (with("  version: 3.6.1", "  version: \"3.6.1"), None),
        (with("  replicas: 3", "  replicas: 3\n  replicas: 5"), Some(8)),
        (with("\"/metrics\"", "\"/metrics\","), Some(18)),
        (format!("{GUIDE}---\n{GUIDE}"), None),
    ] {
        let invalid = parse(&text, "cluster.yaml").unwrap_err();
        assert_eq!(invalid.faults.len(), 1);
        assert!(invalid.faults[0].line.is_some(), "{invalid}");
        if line.is_some() {
            assert_eq!(invalid.faults[0].line, line, "{invalid}");
        }
        assert!(!invalid.to_string().contains('\n'), "{invalid}");
    }
    assert_eq!(
        refused(&with("  replicas: 3", "  replicas: 3\n  replicas: 5")),
        "cluster.yaml:8: the manifest: found the field replicas a second time, expected each field once. Keep one of the \
         two."
    );
    assert_eq!(
        refused(&format!("{GUIDE}---\n{GUIDE}")),
        "cluster.yaml:42: the manifest: found a second document, expected one manifest in the file. Put each manifest in \
         a file of its own."
    );
    assert_eq!(
        refused(&with("\"/metrics\"", "\"/metrics\",")),
        "cluster.yaml:18: the manifest: found text that is not YAML (invalid trailing content after double-quoted scalar \
         at line 18, column 43), expected one YAML document. Mend that line; indent with spaces, and put texts that hold \
         ': ' or ' #' in quotes."
    );
    assert!(refused(&"x".repeat(MAX_TEXT + 1)).contains("Check that this is the right file."));
}

mod any_text {
    use super::super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_judged_without_a_panic(text in "(\\PC|\n){0,200}") {
            let _ = parse(&text, "x");
        }
    }
}
