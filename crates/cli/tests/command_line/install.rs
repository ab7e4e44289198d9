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
fn a_webhook_comes_if_it_is_asked_for() {
    let sandbox = Sandbox::new();
    let plain = sandbox.run(&["install"]);
    let with = sandbox.run(&["install", "--webhook"]);
    let count = |text: &str| text.matches("\nkind: ").count();
    assert_eq!(count(with.succeeds()), count(plain.succeeds()) + 3, "{with:?}");
    for part in [
        "kind: MutatingWebhookConfiguration",
        "kind: ValidatingWebhookConfiguration",
        "--webhook=0.0.0.0:9443",
    ] {
        assert!(with.out.contains(part) && !plain.out.contains(part), "{part}");
    }
    assert!(sandbox.is_untouched());
}
