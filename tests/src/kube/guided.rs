//! Guides whose commands are run on the bed.

use super::bed::Bed;
use crate::guide::compare::difference;
use crate::guide::shell::{Came, Shell};

/// A namespace that an earlier run left is gone within this, in kubectl's words.
const GONE: &str = "--timeout=180s";

/// A shell for a guide that names its namespace itself; one that an earlier run left is deleted first.
pub fn guide_shell(bed: &Bed, namespace: &str) -> Shell {
    let shell = Shell::new(bed.kubectl_program(), &bed.kubeconfig());
    shell.must(&format!(
        "kubectl delete namespace {namespace} --ignore-not-found {GONE}"
    ));
    shell
}

/// Prints all there is to see in a namespace, if a test fails.
pub struct Picture<'a>(&'a Shell, &'a Bed, &'a str);

impl<'a> Picture<'a> {
    /// What is in `namespace`.
    pub fn of(shell: &'a Shell, bed: &'a Bed, namespace: &'a str) -> Picture<'a> {
        Picture(shell, bed, namespace)
    }
}

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

/// Whether a command prints as the guide shows by now.
pub fn shows(shell: &Shell, command: &str, shown: &[String]) -> bool {
    let Came { well, printed } = shell.run(command);
    well && difference(shown.iter().map(String::as_str), &printed).is_none()
}

/// Runs a command of a guide, which must end and print as the guide shows.
pub fn run_shown(shell: &Shell, command: &str, shown: &[String]) {
    let Came { well, printed } = shell.run(command);
    println!("$ {command}\n{printed}");
    assert_eq!(well, !is_refusal(shown), "$ {command}\n{printed}");
    let wrong = difference(shown.iter().map(String::as_str), &printed);
    assert_eq!(wrong, None, "$ {command}\n{printed}");
}
