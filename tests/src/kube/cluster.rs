//! One EtcdCluster in a namespace, as a user sees it: its manifest, its status, its pods.

use std::process::Output;

use quorate_client::{Identity, Tls};
use serde_json::Value;

use super::bed::Bed;
use super::namespace::Namespace;
use super::{process, said};

/// The label by which users find what belongs to a cluster.
pub const CLUSTER_LABEL: &str = "etcd.improbable.io/cluster-name";

/// A manifest with the least there is to say, and resources that a quota can count.
pub fn manifest(name: &str, replicas: u32, version: &str) -> String {
    format!(
        "apiVersion: etcd.improbable.io/v1alpha1
kind: EtcdCluster
metadata:
  name: {name}
spec:
  replicas: {replicas}
  version: {version}
  storage:
    volumeClaimTemplate:
      storageClassName: standard
      resources:
        requests:
          storage: 50Mi
  podTemplate:
    resources:
      requests: {{cpu: 20m, memory: 64Mi}}
      limits: {{cpu: '1', memory: 512Mi}}
"
    )
}

/// How long etcdctl waits in a pod. Its own five seconds are short for a busy machine, and many callers ask once.
const PATIENTLY: &str = "--command-timeout=60s";

/// For etcdctl in a member's pod, with the member's own certificate.
const WITH_CERTIFICATES: [&str; 4] = [
    "--endpoints=https://localhost:2379",
    "--cacert=/etc/etcd/certs/ca.crt",
    "--cert=/etc/etcd/certs/server.crt",
    "--key=/etc/etcd/certs/server.key",
];

/// What clients of a cluster connect with, from the Secret for them. Every member is good under the Service's name.
pub fn client_tls(namespace: &str, cluster: &str) -> Option<Tls> {
    const BETWEEN: &str = "\n=\n";
    let name = format!("{cluster}-client");
    // All in one look: while the certificate is renewed, the next one could see another's key.
    let parts = ["ca.crt", "tls.crt", "tls.key"];
    let parts = parts.map(|key| format!("{{{{index .data {key:?} | base64decode}}}}"));
    let template = format!("go-template={}", parts.join(BETWEEN));
    let output = Bed::get().kubectl(&["-n", namespace, "get", "secret", &name, "-o", &template]);
    let text = output.status.success().then_some(output.stdout)?;
    let text = String::from_utf8(text).ok()?;
    let [ca, cert, key] = text.split(BETWEEN).collect::<Vec<_>>().try_into().ok()?;
    let identity = Identity {
        cert_pem: cert.into(),
        key_pem: key.into(),
    };
    let tls = Tls::from_pem(ca.into(), Some(identity)).ok()?;
    Some(tls.with_server_name(format!("{cluster}-client.{namespace}.svc")))
}

/// A handle to an EtcdCluster that was handed to the API server.
pub struct KubeCluster<'a> {
    pub namespace: &'a Namespace,
    pub name: String,
}

/// A member, as `status.members` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: String,
    pub name: String,
}

impl<'a> KubeCluster<'a> {
    /// The EtcdCluster `name` of `namespace`.
    pub fn of(namespace: &'a Namespace, name: &str) -> KubeCluster<'a> {
        KubeCluster {
            namespace,
            name: name.to_owned(),
        }
    }

    /// It as it is; `Null` if it is not there.
    pub fn get(&self) -> Value {
        self.namespace
            .json(&["etcdcluster", &self.name])
            .unwrap_or_default()
    }

    /// Waits until it is as asked, and gives it as it was then.
    pub fn wait_for(&self, what: &str, test: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{}: {what}", self.name);
        self.namespace
            .wait_for(&what, || Some(self.get()).filter(|c| test(c)))
    }

    /// Waits until `replicas` healthy voters run `version` and it says that all is as wanted.
    pub fn await_ready(&self, replicas: usize, version: &str) -> Value {
        self.wait_for(&format!("{replicas} healthy members of {version}"), |c| {
            is_ready(c, replicas, version)
        })
    }

    /// Waits until the condition `kind` has this status and reason, and gives its message.
    pub fn await_condition(&self, kind: &str, status: &str, reason: &str) -> String {
        let held = |c: &Value| {
            let held = condition(c, kind).filter(|c| c["status"] == status && c["reason"] == reason);
            held.map(|c| text(&c["message"]))
        };
        let cluster = self.wait_for(&format!("{kind}={status} because of {reason}"), |c| {
            held(c).is_some()
        });
        held(&cluster).unwrap_or_default()
    }

    /// As a user does it.
    pub fn scale(&self, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        self.namespace
            .must(&["scale", "etcdcluster", &self.name, &replicas]);
    }

    /// Changes its spec by a merge patch.
    pub fn patch(&self, spec: &Value) -> Output {
        let patch = serde_json::json!({"spec": spec}).to_string();
        self.namespace
            .kubectl(&["patch", "etcdcluster", &self.name, "--type=merge", "-p", &patch])
    }

    /// Asks for another etcd version.
    pub fn set_version(&self, version: &str) {
        let output = self.patch(&serde_json::json!({"version": version}));
        assert!(output.status.success(), "{}", said(&output));
    }

    /// The selector of all that is its.
    pub fn selector(&self) -> String {
        format!("{CLUSTER_LABEL}={}", self.name)
    }

    pub fn pods(&self) -> Vec<Value> {
        self.namespace.items(&["pods", "-l", &self.selector()])
    }

    /// Whether the pod of a member is past its gate.
    pub fn etcd_runs(&self, member: &str) -> bool {
        let pod = self.pod(member).unwrap_or_default();
        pod["status"]["phase"] == "Running"
    }

    /// The pod of a member, made after all others of it.
    pub fn pod(&self, member: &str) -> Option<Value> {
        let mut pods = self.namespace.items(&["pods", "-l", &peer_selector(member)]);
        pods.retain(|p| p["metadata"]["deletionTimestamp"].is_null());
        pods.pop()
    }

    /// Runs etcdctl in the pod of the first member.
    pub fn etcdctl(&self, args: &[&str]) -> Output {
        let pod = self.pod(&format!("{}-0", self.name)).unwrap_or_default();
        let name = text(&pod["metadata"]["name"]);
        let before = ["exec", &name, "-c", "etcd", "--", "etcdctl", PATIENTLY];
        let volumes = pod["spec"]["volumes"].as_array();
        let encrypted = volumes.is_some_and(|all| all.iter().any(|v| v["name"] == "certs"));
        let tls: &[&str] = if encrypted { &WITH_CERTIFICATES } else { &[] };
        self.namespace.kubectl(&[&before[..], tls, args].concat())
    }

    /// What its clients connect with, from the Secret for them; `None` if it speaks plain text.
    pub fn client_tls(&self) -> Option<Tls> {
        client_tls(&self.namespace.name, &self.name)
    }

    /// Writes a key, which must succeed within the usual patience.
    pub fn put(&self, key: &str, value: &str) {
        self.namespace
            .wait_for(&format!("{}: {key} written", self.name), || {
                self.etcdctl(&["put", key, value]).status.success().then_some(())
            });
    }

    /// Reads a key; empty if it is not there.
    pub fn value(&self, key: &str) -> String {
        self.namespace
            .wait_for(&format!("{}: {key} read", self.name), || {
                let output = self.etcdctl(&["get", key, "--print-value-only"]);
                let value = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                output.status.success().then_some(value)
            })
    }

    /// The id of the cluster itself, from etcd.
    pub fn cluster_id(&self) -> String {
        self.namespace.wait_for(&format!("{}: its id", self.name), || {
            let output = self.etcdctl(&["member", "list", "-w", "json"]);
            let reported: Value = serde_json::from_slice(&output.stdout).ok()?;
            Some(reported["header"]["cluster_id"].to_string())
        })
    }

    /// The uid of a member's pod.
    pub fn pod_uid(&self, member: &str) -> Option<String> {
        self.pod(member).map(|p| text(&p["metadata"]["uid"]))
    }

    /// The uids of the pods of the first `count` members.
    pub fn pod_uids(&self, count: usize) -> Vec<Option<String>> {
        (0..count)
            .map(|n| self.pod_uid(&format!("{}-{n}", self.name)))
            .collect()
    }

    /// Waits until every one of these members has a pod, and another than before.
    pub fn await_other_pods(&self, before: &[Option<String>]) {
        self.namespace
            .wait_for(&format!("{}: another pod for each member", self.name), || {
                let now = self.pod_uids(before.len());
                let other = |(now, then): (&Option<String>, &Option<String>)| now.is_some() && now != then;
                now.iter().zip(before).all(other).then_some(())
            });
    }

    /// Kills etcd in the pods that a selector finds, all at once and without a word to it, and deletes the pods.
    pub fn kill_pods(&self, selector: &str) {
        let pods = self.namespace.items(&["pods", "-l", selector]);
        let running: Vec<_> = pods
            .iter()
            .flat_map(|p| process::of_container(p, "etcd"))
            .collect();
        // One that waits at the gate has no etcd.
        if !running.is_empty() {
            process::kill(&running);
        }
        let force = ["--grace-period=0", "--force"];
        let delete = ["delete", "pods", "--selector", selector];
        self.namespace.must(&[&delete[..], &force].concat());
    }

    /// The ids of the cluster that each pod believes it is in, of those that answer.
    pub fn cluster_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self
            .pods()
            .iter()
            .filter_map(|pod| {
                let pod = text(&pod["metadata"]["name"]);
                let ask = [
                    "exec", &pod, "-c", "etcd", "--", "etcdctl", PATIENTLY, "endpoint", "status", "-w",
                    "json",
                ];
                let answer = self.namespace.kubectl(&ask);
                let answer: Value = serde_json::from_slice(&answer.stdout).ok()?;
                Some(answer[0]["Status"]["header"]["cluster_id"].to_string())
            })
            .collect();
        ids.sort();
        ids.dedup();
        ids
    }
}

/// The selector of all that is one member's.
pub fn peer_selector(member: &str) -> String {
    format!("etcd.improbable.io/peer-name={member}")
}

/// The id of a member by its name.
pub fn member_id(cluster: &Value, name: &str) -> Option<String> {
    members(cluster)
        .into_iter()
        .find(|m| m.name == name)
        .map(|m| m.id)
}

/// A string of JSON without its quotes.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A condition of an object.
pub fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|c| c["type"] == kind)
}

/// The members of an EtcdCluster.
pub fn members(cluster: &Value) -> Vec<Member> {
    let all = cluster["status"]["members"].as_array().into_iter().flatten();
    all.map(|m| Member {
        id: text(&m["id"]),
        name: text(&m["name"]),
    })
    .collect()
}

/// `replicas` healthy voters of `version`, and it says that all is as wanted, about the spec as it is.
pub fn is_ready(cluster: &Value, replicas: usize, version: &str) -> bool {
    let status = &cluster["status"];
    let current = status["observedGeneration"] == cluster["metadata"]["generation"];
    let members = status["members"].as_array().map_or(&[][..], Vec::as_slice);
    let well = |m: &&Value| m["healthy"] == true && m["learner"] != true && m["version"] == version;
    current
        && condition(cluster, "Ready").is_some_and(|c| c["status"] == "True")
        && members.len() == replicas
        && members.iter().filter(well).count() == replicas
        && status["replicas"] == replicas
}
