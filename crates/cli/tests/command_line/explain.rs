use crate::sandbox::{Sandbox, told};

#[test]
fn every_reason_has_its_page() {
    let sandbox = Sandbox::new();
    let list = sandbox.run(&["explain"]);
    for name in quorate_core::reason::names() {
        let page = sandbox.run(&["explain", &name.to_lowercase()]);
        assert!(page.succeeds().starts_with(&format!("{name}\n")), "{page:?}");
        for part in ["What it means\n", "What quorate does\n", "What you can do\n"] {
            assert!(page.out.contains(part), "{page:?}");
        }
        assert!(
            !page.out.contains('#') && page.out.lines().all(|line| line.len() <= 100),
            "{page:?}"
        );
        assert!(
            list.succeeds().contains(&format!("\n  {name} ")),
            "{name} is not in {list:?}"
        );
    }
}

#[test]
fn a_reason_that_is_none() {
    let sandbox = Sandbox::new();
    let run = sandbox.run(&["explain", "LernerCatchingUp"]);
    run.fails(
        2,
        &[
            "\"LernerCatchingUp\"",
            "Did you mean LearnerCatchingUp?",
            "`quorate explain` lists",
        ],
    );
    sandbox
        .run(&["explain", "xyzzyxyzzy"])
        .fails(2, &["there is no reason"]);
}

/// What to do differs: a host has a root, Kubernetes has claims.
#[test]
fn a_page_fits_where_its_reason_was_seen() {
    let sandbox = Sandbox::new();
    let both = sandbox.run(&["explain", "QuorumLost"]);
    for part in ["On a host\n", "On Kubernetes\n", "--from-data-dir"] {
        assert!(both.succeeds().contains(part), "{both:?}");
    }
    let there = sandbox.run(&["explain", "QuorumLost", "--on", "kubernetes"]);
    let is_there = |page: &str| page.contains("On Kubernetes\n") && !page.contains("root directory");
    assert!(is_there(there.succeeds()), "{there:?}");
    let in_pod = sandbox
        .command(&["explain", "QuorumLost"])
        .env("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        .output();
    assert!(is_there(told(in_pod.unwrap()).succeeds()));
    let is_here = |page: &str| page.contains("On a host\n") && !page.contains("Kubernetes");
    let here = sandbox.run(&["explain", "QuorumLost", "--on", "host"]);
    assert!(is_here(here.succeeds()), "{here:?}");
    sandbox.file("root/journal.json", "{}");
    let here = sandbox.run(&["explain", "QuorumLost"]);
    assert!(is_here(here.succeeds()), "{here:?}");
}
