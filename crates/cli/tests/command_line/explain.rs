use crate::sandbox::Sandbox;

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
