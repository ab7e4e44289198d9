//! A cluster from a manifest: what is made for it, what it says of itself, what is left when it is deleted.
#![cfg(feature = "kube")]

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{KubeCluster, manifest, members, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::volume;
use serde_json::{Value, json};

fn names(cluster: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{cluster}-{n}")).collect()
}

/// Every condition that Kubernetes users look for, of a cluster at rest.
fn conditions_of_rest(cluster: &Value) {
    let conditions = cluster["status"]["conditions"].as_array().expect("conditions");
    let all: Vec<(String, String, String)> = conditions
        .iter()
        .map(|c| (text(&c["type"]), text(&c["status"]), text(&c["reason"])))
        .collect();
    let expected = [
        ("Ready", "True", "AsWanted"),
        ("Quorate", "True", "Serving"),
        ("Progressing", "False", "AtRest"),
        ("Blocked", "False", "NotBlocked"),
    ]
    .map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    assert_eq!(all, expected);
}

fn status_of_rest(cluster: &KubeCluster<'_>, replicas: usize, version: &str) {
    let now = cluster.await_ready(replicas, version);
    let status = &now["status"];
    let listed: Vec<String> = members(&now).into_iter().map(|m| m.name).collect();
    assert_eq!(listed, names(&cluster.name, replicas));
    assert_eq!(status["replicas"], replicas);
    assert_eq!(status["readyReplicas"], replicas);
    let minor = version.rsplit_once('.').expect("a version").0;
    assert_eq!(status["clusterVersion"], format!("{minor}.0"));
    conditions_of_rest(&now);
    for name in names(&cluster.name, replicas) {
        let peer = cluster
            .namespace
            .json(&["etcdpeer", &name])
            .expect("an EtcdPeer for each member");
        assert_eq!(peer["status"]["serverVersion"], version, "{name}");
        assert_eq!(peer["spec"]["clusterName"], cluster.name, "{name}");
    }
    for word in ["ServiceCreated", "PeerCreated"] {
        cluster.namespace.await_event(word, &cluster.name);
    }
}

fn services(cluster: &KubeCluster<'_>) {
    let service = |name: &str| cluster.namespace.json(&["service", name]).expect("a Service");
    let ports = |service: &Value| {
        let ports = service["spec"]["ports"].as_array().expect("ports").iter();
        ports
            .map(|p| (text(&p["name"]), p["port"].clone()))
            .collect::<Vec<_>>()
    };
    let headless = service(&cluster.name);
    let (client, peer) = (
        ("etcd-client".to_owned(), json!(2379)),
        ("etcd-peer".to_owned(), json!(2380)),
    );
    assert_eq!(headless["spec"]["clusterIP"], "None");
    assert_eq!(headless["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(ports(&headless), [client.clone(), peer]);
    let clients = service(&format!("{}-client", cluster.name));
    assert_ne!(clients["spec"]["clusterIP"], "None");
    assert_eq!(ports(&clients), [client]);
}

/// etcdctl finds members by SRV records of the headless Service, as the guide's users do.
fn srv_records(cluster: &KubeCluster<'_>) {
    let domain = format!("{}.{}.svc.cluster.local", cluster.name, cluster.namespace.name);
    let srv = [
        "member",
        "list",
        "--discovery-srv",
        &domain,
        "--insecure-discovery",
        "--endpoints=",
    ];
    let found = cluster.etcdctl(&srv);
    assert!(found.status.success(), "{}", quorate_tests::kube::said(&found));
}

fn budget(cluster: &KubeCluster<'_>, stays: Option<u32>) {
    let budget = cluster.namespace.json(&["poddisruptionbudget", &cluster.name]);
    let least = budget.map(|b| b["spec"]["minAvailable"].clone());
    assert_eq!(least, stays.map(|n| json!(n)));
}

fn claims(cluster: &KubeCluster<'_>, replicas: usize) {
    let claims = cluster
        .namespace
        .items(&["persistentvolumeclaims", "-l", &cluster.selector()]);
    assert_eq!(claims.len(), replicas);
    for claim in &claims {
        assert!(
            claim["metadata"]["ownerReferences"].is_null(),
            "a claim belongs to nobody"
        );
        assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
        assert_eq!(claim["spec"]["volumeMode"], "Filesystem");
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "50Mi");
    }
}

fn containers(pod: &Value) -> Vec<&Value> {
    let lists = ["initContainers", "containers"].map(|k| pod["spec"][k].as_array());
    lists.into_iter().flatten().flatten().collect()
}

fn pods(cluster: &KubeCluster<'_>, replicas: usize) {
    let pods = cluster.pods();
    assert_eq!(pods.len(), replicas);
    for pod in &pods {
        let spec = &pod["spec"];
        assert_eq!(spec["subdomain"], cluster.name);
        assert_eq!(spec["automountServiceAccountToken"], false);
        for container in containers(pod) {
            assert!(
                container["livenessProbe"].is_null(),
                "no liveness probe, ever: {container}"
            );
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false);
            assert_eq!(security["readOnlyRootFilesystem"], true);
            assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        }
        let etcd = &spec["containers"][0];
        assert_eq!(etcd["name"], "etcd");
        assert_eq!(etcd["securityContext"]["runAsNonRoot"], true);
        let metrics = metrics(&text(&pod["status"]["podIP"]));
        assert!(metrics.contains("etcd_server_has_leader 1"), "{metrics}");
    }
}

/// What any scraper gets from a pod.
fn metrics(address: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect((address, 2379)).expect("the pod's client port");
    stream
        .set_read_timeout(Some(std::time::Duration::from_secs(10)))
        .expect("a limit");
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"),
        "{answer:.200}"
    );
    answer
}

#[test]
fn a_cluster_of_one_three_and_five_is_as_its_manifest_says() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("sizes");
    for (replicas, stays) in [(1u32, None), (3, Some(2)), (5, Some(3))] {
        let name = format!("of-{replicas}");
        let cluster = namespace.create(&name, &manifest(&name, replicas, &version));
        let count = replicas as usize;
        status_of_rest(&cluster, count, &version);
        services(&cluster);
        srv_records(&cluster);
        budget(&cluster, stays);
        claims(&cluster, count);
        pods(&cluster, count);
        cluster.put("key", &name);
        assert_eq!(cluster.value("key"), name);
        namespace.must(&["delete", "etcdcluster", &name]);
    }
}

/// Every minor that is supported: what differs between them is in command lines, probes and answers.
#[test]
fn a_cluster_of_one_serves_with_every_minor() {
    let namespace = Namespace::new("minors");
    let minors = ["3.4", "3.5", "3.6", "3.7"].map(|minor| (minor.replace('.', "-"), etcd::newest(minor)));
    for (minor, version) in &minors {
        let name = format!("of-{minor}");
        namespace.apply(&manifest(&name, 1, version));
    }
    for (minor, version) in &minors {
        let name = format!("of-{minor}");
        let cluster = KubeCluster::of(&namespace, &name);
        status_of_rest(&cluster, 1, version);
        srv_records(&cluster);
        pods(&cluster, 1);
        cluster.put("key", &name);
        assert_eq!(cluster.value("key"), name);
    }
}

/// What the manifest says of pods is found in them: annotations, resources, and threads by the CPU limit.
#[test]
fn pods_are_as_the_template_says() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("template");
    for (limit, threads) in [("200m", "1"), ("1", "1"), ("2500m", "2")] {
        let name = format!("cpu-{limit}");
        let yaml = manifest(&name, 1, &version)
            .replace("cpu: '1'", &format!("cpu: '{limit}'"))
            .replace(
                "  podTemplate:\n",
                "  podTemplate:\n    metadata:\n      annotations:\n        prometheus.io/port: '2379'\n",
            );
        let cluster = namespace.create(&name, &yaml);
        cluster.await_ready(1, &version);
        let pod = cluster.pod(&format!("{name}-0")).expect("a pod");
        let etcd = &pod["spec"]["containers"][0];
        let threads_set = etcd["env"]
            .as_array()
            .and_then(|e| e.iter().find(|e| e["name"] == "GOMAXPROCS"));
        assert_eq!(
            threads_set.map(|e| text(&e["value"])).as_deref(),
            Some(threads),
            "{limit}"
        );
        assert_eq!(etcd["resources"]["limits"]["cpu"], limit);
        assert_eq!(pod["metadata"]["annotations"]["prometheus.io/port"], "2379");
        namespace.must(&["delete", "etcdcluster", &name]);
    }
}

/// A namespace whose quota counts limits, and whose LimitRange gives them to containers that name none.
#[test]
fn a_manifest_without_resources_gets_those_of_the_limit_range() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("limits");
    namespace.apply(
        "apiVersion: v1
kind: LimitRange
metadata: {name: defaults}
spec:
  limits:
  - {type: Container, default: {cpu: 700m, memory: 300Mi}, defaultRequest: {cpu: 30m, memory: 70Mi}}
",
    );
    let yaml = manifest("c", 3, &version);
    let yaml = yaml
        .split("  podTemplate:")
        .next()
        .expect("the part before the template");
    let cluster = namespace.create("c", yaml);
    cluster.await_ready(3, &version);
    for pod in cluster.pods() {
        let etcd = &pod["spec"]["containers"][0];
        assert_eq!(etcd["resources"]["limits"]["cpu"], "700m");
        assert_eq!(etcd["resources"]["requests"]["memory"], "70Mi");
    }
}

/// Deleting an EtcdCluster leaves its data; the same manifest finds it again; the guide's selector deletes it.
#[test]
fn a_deleted_cluster_leaves_its_data_and_the_same_manifest_resumes_it() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("resume");
    let yaml = manifest("cluster1", 3, &version);
    let cluster = namespace.create("cluster1", &yaml);
    let before = cluster.await_ready(3, &version);
    let id = cluster.cluster_id();
    cluster.put("key", "kept");

    namespace.must(&["delete", "etcdcluster", "cluster1"]);
    let selector = cluster.selector();
    namespace.wait_for("all but the claims gone", || {
        let left = namespace.names(&[
            "etcdpeers,replicasets,pods,services,poddisruptionbudgets",
            "-l",
            &selector,
        ]);
        left.is_empty().then_some(())
    });
    assert_eq!(
        namespace.names(&["persistentvolumeclaims", "-l", &selector]),
        names("cluster1", 3)
    );

    namespace.apply(&yaml);
    let after = cluster.await_ready(3, &version);
    assert_eq!(
        members(&after),
        members(&before),
        "the same members, with their data"
    );
    assert_eq!(cluster.cluster_id(), id, "the same cluster");
    assert_eq!(cluster.value("key"), "kept");

    namespace.must(&["delete", "etcdcluster", "cluster1"]);
    let directories: Vec<_> = names("cluster1", 3)
        .iter()
        .map(|n| volume::directory(&cluster, n))
        .collect();
    namespace.must(&["delete", "persistentvolumeclaims", "--selector", &selector]);
    namespace.wait_for("the volumes deleted", || {
        directories.iter().all(|d| !d.exists()).then_some(())
    });
    namespace.apply(&yaml);
    cluster.await_ready(3, &version);
    assert_ne!(cluster.cluster_id(), id, "without its data it is another cluster");
    assert_eq!(cluster.value("key"), "");
}
