//! The guides, run on a real Kubernetes: our own, and the commands and manifests of the operations guide that quorate is a
//! drop-in for.

use quorate_tests::guide::compare::difference;
use quorate_tests::guide::contract::{self, Entry, edited, parsed};
use quorate_tests::guide::document::{Item, items, marks};
use quorate_tests::guide::shell::{Came, Shell};
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::guided::{Picture, guide_shell, run_shown};

const GUIDE: &str = include_str!("../../../docs/guide/operations.md");
const CONTRACT: &str = include_str!("../../guide/contract.yaml");
#[test]
fn our_guide_is_true() {
    let bed = Bed::get();
    let _peace = bed.beside_others();
    let shell = guide_shell(bed, "etcd-demo");
    let _picture = Picture::of(&shell, bed, "etcd-demo");
    // `sh`: needs the reader's registry or nodes; the guide says that nobody runs those.
    let known = |mark: &&str| ["console", "sh"].contains(mark) || mark.starts_with("yaml");
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
fn the_commands_of_the_older_guide_work() {
    let bed = Bed::get();
    let _peace = bed.beside_others();
    let namespace = "my-cluster-namespace";
    let shell = guide_shell(bed, namespace);
    let _picture = Picture::of(&shell, bed, namespace);
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
