//! The guides, run on a real Kubernetes: our own, the README's three commands, and the commands and manifests of the
//! operations guide that quorate is a drop-in for.
#![cfg(feature = "kube")]

use quorate_tests::etcd;
use quorate_tests::guide::compare::difference;
use quorate_tests::guide::contract::{self, Entry, edited, parsed};
use quorate_tests::guide::document::{Item, items, marks};
use quorate_tests::guide::shell::{Came, Shell};
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{KubeCluster, manifest};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::volume;

const GUIDE: &str = include_str!("../../docs/guide/operations.md");
const README: &str = include_str!("../../README.md");
const CONTRACT: &str = include_str!("../guide/contract.yaml");
/// How the README marks the commands for Kubernetes; the others are for a machine.
const README_MARK: &str = "console on Kubernetes";
/// A namespace that an earlier run left is gone within this, in kubectl's words.
const GONE: &str = "--timeout=180s";

fn shell(bed: &Bed, namespace: &str) -> Shell {
    let shell = Shell::new(bed.kubectl_program(), &bed.kubeconfig());
    shell.must(&format!(
        "kubectl delete namespace {namespace} --ignore-not-found {GONE}"
    ));
    shell
}

/// What the operator said, if a test fails.
struct Picture<'a>(&'a Shell, &'a Bed, &'a str);

impl Drop for Picture<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let all = "get etcdclusters,etcdpeers,pods,pvc,events -o wide; kubectl get etcdclusters -o yaml";
            let seen = self.0.run(&format!(
                "kubectl config set-context --current --namespace {}; kubectl {all}",
                self.2
            ));
            eprintln!(
                "{}\n--- the operator ---\n{}",
                seen.printed,
                self.1.operator_log(60)
            );
        }
    }
}

/// Whether the lines shown below a command are of one that fails.
fn is_refusal(shown: &[String]) -> bool {
    let first = shown.first().map_or("", String::as_str);
    first.starts_with("The EtcdCluster") || first.starts_with("Error")
}

fn run_shown(shell: &Shell, command: &str, shown: &[String]) {
    let Came { well, printed } = shell.run(command);
    println!("$ {command}\n{printed}");
    assert_eq!(well, !is_refusal(shown), "$ {command}\n{printed}");
    let wrong = difference(shown.iter().map(String::as_str), &printed);
    assert_eq!(wrong, None, "$ {command}\n{printed}");
}

#[test]
fn our_guide_is_true() {
    let bed = Bed::get();
    let _peace = bed.beside_others();
    let shell = shell(bed, "etcd-demo");
    let _picture = Picture(&shell, bed, "etcd-demo");
    let known = |mark: &&str| *mark == "console" || mark.starts_with("yaml");
    let unknown: Vec<&str> = marks(GUIDE).into_iter().filter(|m| !known(m)).collect();
    assert!(unknown.is_empty(), "blocks that nobody runs: {unknown:?}");
    let mut whole = None;
    let mut commands = 0;
    for item in items(GUIDE, "console") {
        match item {
            Item::Run { command, shown } => {
                commands += 1;
                run_shown(&shell, &command, &shown);
            }
            Item::File { name, text } => {
                std::fs::write(shell.work().join(name), &text).expect("a file can be written");
                whole = whole.or(Some(parsed(&text).expect("YAML")));
            }
            Item::Fragment(text) => {
                let whole = whole.as_ref().expect("a whole manifest before its parts");
                try_fragment(&shell, whole, &text);
            }
        }
    }
    assert!(commands >= 40, "only {commands} commands");
}

/// A part of a manifest, in the guide's first manifest, is what the API server accepts.
fn try_fragment(shell: &Shell, whole: &serde_json::Value, text: &str) {
    let part = parsed(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut whole = edited(whole, &part);
    whole["metadata"]["name"] = "fragment".into();
    std::fs::write(shell.work().join("fragment.json"), whole.to_string()).expect("a file can be written");
    // Strictly: a misspelt field would only be warned about.
    let command = "kubectl create --dry-run=server --validate=strict -f fragment.json";
    let Came { well, printed } = shell.run(command);
    // The parts are for clusters with larger volumes than that of the first manifest.
    let expected = |line: &str| line.contains("spec.quota: larger than the volume");
    let mut warnings = printed.lines().filter(|line| line.contains("Warning"));
    assert!(well && warnings.all(expected), "{printed}\n{text}");
}

#[test]
fn the_readmes_commands_for_kubernetes_work() {
    let bed = Bed::get();
    let _peace = bed.beside_others();
    let namespace = "readme-demo";
    let shell = shell(bed, namespace);
    let _picture = Picture(&shell, bed, namespace);
    shell.must(&format!("kubectl create namespace {namespace}"));
    shell.must(&format!(
        "kubectl config set-context --current --namespace {namespace}"
    ));
    let mut ran = Vec::new();
    for item in items(README, README_MARK) {
        if let Item::Run { command, shown } = item {
            if command.starts_with("kubectl get") {
                shell.must("kubectl wait --for=condition=Ready etcdcluster/my-cluster --timeout 180s");
            }
            run_shown(&shell, &command, &shown);
            ran.push(command);
        }
    }
    assert_eq!(ran.len(), 3, "{ran:?}");
    shell.must(&format!("kubectl delete namespace {namespace} {GONE}"));
}

#[test]
fn the_commands_of_the_older_guide_work() {
    let bed = Bed::get();
    let _peace = bed.beside_others();
    let namespace = "my-cluster-namespace";
    let shell = shell(bed, namespace);
    let _picture = Picture(&shell, bed, namespace);
    // The sample as it is checked in; that in config/samples is edited as the guide says.
    let sample = shell.work().join("config/samples/etcd_v1alpha1_etcdcluster.yaml");
    std::fs::copy(sample, shell.work().join("cluster-sample.yaml")).expect("a file can be copied");
    for entry in contract::entries(CONTRACT) {
        println!("=== {}", entry.section);
        follow(&shell, &entry);
    }
}

fn follow(shell: &Shell, entry: &Entry) {
    for presumed in &entry.presumes {
        println!("({}) {}", presumed.command, shell.must(&presumed.command));
    }
    let output_of = |command: &str| shell.must(command);
    if let (Some(manifest), Some(into)) = (&entry.manifest, &entry.into) {
        let as_given = parsed(manifest);
        let text = entry.with_substitutions(manifest, output_of);
        let part = parsed(&text).unwrap_or_else(|e| panic!("{}: {e}", entry.section));
        let path = shell.work().join(into);
        let before = std::fs::read_to_string(&path).expect("a file that is edited is there");
        let before = parsed(&before).expect("YAML");
        let after = edited(&before, &part);
        assert_eq!(before == after, entry.unchanged, "{}", entry.section);
        println!("edited {into}:\n{text}");
        assert_eq!(
            as_given.is_err(),
            entry.no_yaml,
            "{}: as given: {as_given:?}",
            entry.section
        );
        std::fs::write(&path, after.to_string()).expect("a file can be written");
    }
    if let Some(command) = &entry.command {
        let command = entry.with_substitutions(command, output_of);
        let printed = shell.must(&command);
        println!("$ {command}\n{printed}");
        compare(&entry.section, &command, entry.prints.as_deref(), &printed);
    }
    for check in &entry.holds {
        let Came { well, printed } = shell.run(&check.check);
        println!("holds: {}\n{printed}", check.check);
        assert_eq!(
            well, !check.refused,
            "{}: $ {}\n{printed}",
            entry.section, check.check
        );
        compare(&entry.section, &check.check, check.prints.as_deref(), &printed);
        assert!(
            !check.nothing || printed.trim().is_empty(),
            "{}: $ {}\n{printed}",
            entry.section,
            check.check
        );
    }
}

/// What a command printed is what the list says, if it says something.
fn compare(section: &str, command: &str, prints: Option<&str>, printed: &str) {
    if let Some(prints) = prints {
        let wrong = difference(prints.lines(), printed);
        assert_eq!(wrong, None, "{section}: $ {command}\n{printed}");
    }
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
