//! `quorate install`, as a person pipes it.

use crate::sandbox::Sandbox;

#[test]
fn prints_yaml_and_touches_nothing() {
    let sandbox = Sandbox::new();
    let run = sandbox.run(&["install", "--image", "example/quorate:1", "-n", "etcd-operator"]);
    let text = run.succeeds();
    assert_eq!(run.err, "");
    assert!(text.starts_with("---\n"));
    assert_eq!(text.matches("\nkind: ").count(), 13, "documents");
    for part in [
        "kind: CustomResourceDefinition",
        "image: example/quorate:1",
        "namespace: etcd-operator",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(sandbox.is_untouched());
}

#[test]
fn what_is_not_there_yet_is_said() {
    Sandbox::new()
        .run(&["install", "--webhook"])
        .fails(2, &["--webhook is not available yet"]);
}
