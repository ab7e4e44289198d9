//! The README's commands for Kubernetes, and the guide's way into namespaces that admit only restricted pods.

use quorate_tests::etcd;
use quorate_tests::guide::contract::{edited, parsed};
use quorate_tests::guide::document::{Item, items};
use quorate_tests::guide::shell::Shell;
use quorate_tests::kube::cluster::{KubeCluster, manifest};
use quorate_tests::kube::guided::{run_shown, shows};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::volume;

const GUIDE: &str = include_str!("../../../docs/guide/operations.md");
const README: &str = include_str!("../../../README.md");
/// How the README marks the commands for Kubernetes; the others are for a machine.
const README_MARK: &str = "console on Kubernetes";

#[test]
fn the_readmes_commands_for_kubernetes_work() {
    let namespace = Namespace::new("readme");
    let bed = namespace.bed();
    let shell = Shell::new(bed.kubectl_program(), &bed.kubeconfig());
    shell.must(&format!(
        "kubectl config set-context --current --namespace {}",
        namespace.name
    ));
    let mut ran = Vec::new();
    for item in items(README, README_MARK) {
        if let Item::Run { command, shown } = item {
            if command.starts_with("kubectl get") {
                let what = format!("what the README shows of {command:?}");
                namespace.wait_for(&what, || shows(&shell, &command, &shown).then_some(()));
            } else {
                run_shown(&shell, &command, &shown);
            }
            ran.push(command);
        }
    }
    assert_eq!(ran.len(), 3, "{ran:?}");
}

/// The part of our guide's manifests that sets this field.
fn fragment_with(field: &str) -> serde_json::Value {
    let fragments = items(GUIDE, "console").into_iter().filter_map(|item| match item {
        Item::Fragment(text) if text.contains(field) => Some(text),
        _ => None,
    });
    let fragments: Vec<String> = fragments.collect();
    assert_eq!(fragments.len(), 1, "{field} is set in {fragments:?}");
    parsed(&fragments[0]).expect("YAML")
}

#[test]
fn a_cluster_with_a_user_of_its_own_runs_where_only_restricted_pods_are_admitted() {
    let namespace = Namespace::new("guide-restricted");
    let enforce = "pod-security.kubernetes.io/enforce=restricted";
    namespace
        .bed()
        .must(&["label", "namespace", &namespace.name, enforce]);
    let version = etcd::newest("3.6");
    let plain = parsed(&manifest("plain", 1, &version)).expect("YAML");
    namespace.apply(&plain.to_string());
    namespace.await_event("FailedCreate", "PodSecurity");

    let part = fragment_with("securityContext");
    let mut own = edited(&plain, &part);
    own["metadata"]["name"] = "own".into();
    namespace.apply(&own.to_string());
    let cluster = KubeCluster::of(&namespace, "own");
    namespace.wait_for("the claim is bound", || {
        namespace
            .json(&["persistentvolumeclaim", "own-0"])
            .filter(|claim| claim["status"]["phase"] == "Bound")
    });
    // What storage does that honours fsGroup, and this bed's does not.
    let user = part.pointer("/spec/podTemplate/securityContext/fsGroup");
    let user = user
        .and_then(serde_json::Value::as_u64)
        .and_then(|u| u32::try_from(u).ok());
    let directory = volume::directory(&cluster, "own-0");
    std::os::unix::fs::chown(&directory, user, user).expect("root may");
    cluster.await_ready(1, &version);
    let pod = cluster.pod("own-0").expect("a pod that serves");
    let containers = ["initContainers", "containers"].map(|kind| pod["spec"][kind].as_array().cloned());
    for container in containers.into_iter().flatten().flatten() {
        let run_as = &container["securityContext"]["runAsUser"];
        assert!(run_as.is_null(), "{} runs as {run_as}", container["name"]);
    }
}
