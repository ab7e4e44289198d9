//! What is made for a cluster, checked against its manifest: status, Services, PVCs, budget, pods.

use serde_json::{Value, json};

use super::cluster::{KubeCluster, members, text};
use super::said;

/// The names of a cluster's members, in order.
pub fn names(cluster: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{cluster}-{n}")).collect()
}

/// Every condition that Kubernetes users look for, of a cluster at rest.
fn assert_conditions_of_rest(cluster: &Value) {
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

/// Waits until a cluster is ready, and checks all that its status and its EtcdPeers say.
pub fn assert_at_rest(cluster: &KubeCluster<'_>, replicas: usize, version: &str) {
    let now = cluster.await_ready(replicas, version);
    let status = &now["status"];
    let listed: Vec<String> = members(&now).into_iter().map(|m| m.name).collect();
    assert_eq!(listed, names(&cluster.name, replicas));
    assert_eq!(status["replicas"], replicas);
    assert_eq!(status["readyReplicas"], replicas);
    let minor = version.rsplit_once('.').expect("a version").0;
    assert_eq!(status["clusterVersion"], format!("{minor}.0"));
    assert_conditions_of_rest(&now);
    for name in names(&cluster.name, replicas) {
        // While a member does not answer, nobody knows its version.
        let what = format!("an EtcdPeer {name} of a member of {version}");
        let peer = cluster.namespace.wait_for(&what, || {
            let peer = cluster.namespace.json(&["etcdpeer", &name])?;
            (peer["status"]["serverVersion"] == version).then_some(peer)
        });
        assert_eq!(peer["spec"]["clusterName"], cluster.name, "{name}");
    }
    for word in ["ServiceCreated", "PeerCreated"] {
        cluster.namespace.await_event(word, &cluster.name);
    }
}

/// A headless Service for members and one for clients.
pub fn assert_services(cluster: &KubeCluster<'_>) {
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
pub fn assert_srv_records(cluster: &KubeCluster<'_>) {
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
    assert!(found.status.success(), "{}", said(&found));
}

/// The PodDisruptionBudget keeps a quorum; a cluster of one has none.
pub fn assert_budget(cluster: &KubeCluster<'_>, stays: Option<u32>) {
    let budget = cluster.namespace.json(&["poddisruptionbudget", &cluster.name]);
    let least = budget.map(|b| b["spec"]["minAvailable"].clone());
    assert_eq!(least, stays.map(|n| json!(n)));
}

/// Every member has a PVC as in the manifest, which nobody owns.
pub fn assert_claims(cluster: &KubeCluster<'_>, replicas: usize) {
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

/// Every member has a pod without privileges, without a liveness probe, and with metrics.
pub fn assert_pods(cluster: &KubeCluster<'_>, replicas: usize) {
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
        let address = text(&pod["status"]["podIP"]);
        cluster
            .namespace
            .wait_for("metrics of a member that has a leader", || {
                metrics(&address)
                    .contains("etcd_server_has_leader 1")
                    .then_some(())
            });
    }
}

/// What any scraper gets from a pod.
fn metrics(address: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect((address, 2379)).expect("the pod's client port");
    stream
        .set_read_timeout(Some(std::time::Duration::from_secs(60)))
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

/// Waits until every EtcdPeer and the EtcdCluster report this version, as people watch for it.
pub fn await_version(cluster: &KubeCluster<'_>, version: &str) {
    for n in 0..3 {
        let name = format!("{}-{n}", cluster.name);
        cluster
            .namespace
            .wait_for(&format!("{name} reports {version}"), || {
                let peer = cluster.namespace.json(&["etcdpeer", &name])?;
                (peer["status"]["serverVersion"] == version && peer["spec"]["version"] == version)
                    .then_some(())
            });
    }
    let minor = version.rsplit_once('.').expect("a version").0;
    assert_eq!(cluster.get()["status"]["clusterVersion"], format!("{minor}.0"));
}
