//! Edits that keep everything else, and edits that are refused.

use super::*;

const TEXT: &str = "# my cluster\napiVersion: etcd.improbable.io/v1alpha1 # group\nkind: EtcdCluster\nmetadata:\n  name: demo\n  annotations:\n    replicas: \"7\"\n\n# wanted\nspec:\n\n  # how many\n  replicas: 3   # odd, please\n  version: '3.5.16'\n  storage:\n    volumeClaimTemplate:\n      resources: {requests: {storage: 8Gi}}\n  # the end\n";

fn v(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn only_the_value_changes() {
    let edited = set_replicas(TEXT, 5).unwrap();
    assert_eq!(edited, TEXT.replace("replicas: 3   # odd", "replicas: 5   # odd"));
    let edited = set_version(TEXT, &v("3.6.1")).unwrap();
    assert_eq!(edited, TEXT.replace("'3.5.16'", "'3.6.1'"));
    assert_eq!(
        set_version(&TEXT.replace('\'', ""), &v("3.6.1")).unwrap(),
        edited.replace('\'', "")
    );
    let double = TEXT.replace('\'', "\"");
    assert_eq!(
        set_version(&double, &v("3.6.1")).unwrap(),
        edited.replace('\'', "\"")
    );
}

#[test]
fn the_same_value_changes_nothing() {
    assert_eq!(set_replicas(TEXT, 3).unwrap(), TEXT);
    assert_eq!(set_version(TEXT, &v("3.5.16")).unwrap(), TEXT);
}

#[test]
fn back_and_forth() {
    let there = set_version(&set_replicas(TEXT, 5).unwrap(), &v("3.6.1")).unwrap();
    assert_eq!(
        set_version(&set_replicas(&there, 3).unwrap(), &v("3.5.16")).unwrap(),
        TEXT
    );
}

#[test]
fn a_missing_field_is_added() {
    let without = TEXT.replace("  replicas: 3   # odd, please\n", "");
    assert_eq!(
        set_replicas(&without, 5).unwrap(),
        without.replace("spec:\n", "spec:\n  replicas: 5\n")
    );
    let reason = set_redeploy_reason(TEXT, "new certificates: \"ca\" # 2\nand more").unwrap();
    let line = "  forceRedeploymentReason: \"new certificates: \\\"ca\\\" # 2\\nand more\"\n";
    assert_eq!(reason, TEXT.replace("spec:\n", &format!("spec:\n{line}")));
    let next = set_redeploy_reason(&reason, "again").unwrap();
    assert_eq!(
        next,
        TEXT.replace("spec:\n", "spec:\n  forceRedeploymentReason: \"again\"\n")
    );
}

#[test]
fn other_layouts() {
    let four = "kind: EtcdCluster\nspec:\n    replicas:   3\n    version: 3.6.1\n";
    assert_eq!(
        set_replicas(four, 4).unwrap(),
        four.replace('3', "4").replace("4.6.1", "3.6.1")
    );
    assert_eq!(
        set_redeploy_reason(four, "x").unwrap(),
        four.replace("spec:\n", "spec:\n    forceRedeploymentReason: \"x\"\n")
    );
    let windows = "spec:\r\n  replicas: 3\r\n";
    assert_eq!(set_replicas(windows, 5).unwrap(), "spec:\r\n  replicas: 5\r\n");
    assert_eq!(
        set_version(windows, &v("3.6.1")).unwrap(),
        "spec:\r\n  version: 3.6.1\r\n  replicas: 3\r\n"
    );
    assert_eq!(
        set_replicas("spec: # here\n  replicas: 3", 5).unwrap(),
        "spec: # here\n  replicas: 5"
    );
    assert_eq!(
        set_replicas("---\nspec:\n  \"replicas\": 3\n", 5).unwrap(),
        "---\nspec:\n  \"replicas\": 5\n"
    );
    assert_eq!(
        set_replicas("spec:\n  replicas:\n  version: 3.6.1\n", 5).unwrap(),
        "spec:\n  replicas: 5\n  version: 3.6.1\n"
    );
    // A value that looks like a comment, and one that holds a quote.
    let odd = "spec:\n  forceRedeploymentReason: 'a # b'  # c\n";
    assert_eq!(
        set_redeploy_reason(odd, "x").unwrap(),
        "spec:\n  forceRedeploymentReason: \"x\"  # c\n"
    );
    let odd = "spec:\n  forceRedeploymentReason: a#b # c\n";
    assert_eq!(
        set_redeploy_reason(odd, "x").unwrap(),
        "spec:\n  forceRedeploymentReason: \"x\" # c\n"
    );
    let odd = "spec:\n  forceRedeploymentReason: \"a \\\" # b\" # c\n";
    assert_eq!(
        set_redeploy_reason(odd, "x").unwrap(),
        "spec:\n  forceRedeploymentReason: \"x\" # c\n"
    );
}

#[test]
fn refused() {
    let refused = |text: &str| set_replicas(text, 5).unwrap_err().to_string();
    let by_hand = "Edit the file by hand: below spec, write `replicas: 5`";
    let table = [
        ("spec: {replicas: 3}\n", "what follows spec is on the same line"),
        ("{spec: {replicas: 3}}\n", "spec is not on a line of its own"),
        (
            "spec:\n  {replicas: 3}\n",
            "the change would have touched something else too",
        ),
        (
            "spec:\n  replicas: &n 3\n  host: {clientPort: *n}\n",
            "its value has an anchor or a tag",
        ),
        ("spec:\n  replicas: !!int 3\n", "its value has an anchor or a tag"),
        (
            "spec:\n  replicas:\n    3\n",
            "the change would have touched something else too",
        ),
        ("metadata:\n  name: x\n", "there is no spec with fields in it"),
        ("spec:\n", "there is no spec with fields in it"),
    ];
    for (text, why) in table {
        assert_eq!(
            refused(text),
            format!("spec.replicas cannot be changed in place: {why}. {by_hand}"),
            "{text:?}"
        );
    }
    for (text, why) in [
        (
            "spec:\n  forceRedeploymentReason: |\n    a\n    b\n",
            "its value is on the lines below",
        ),
        (
            "spec:\n  forceRedeploymentReason: \"a\n    b\"\n",
            "its value goes on in the lines below",
        ),
        (
            "spec:\n  forceRedeploymentReason: [a]\n",
            "its value is in flow style",
        ),
    ] {
        let error = set_redeploy_reason(text, "x").unwrap_err().to_string();
        assert!(error.contains(why), "{text:?}: {error}");
    }
    assert!(matches!(set_replicas("a: [", 5), Err(Error::Read { .. })));
}

mod any_text {
    use super::super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_edited_exactly_or_refused(text in "(spec:\n)?(  replicas: 3\n|  # c\n|  version: 3.6.1\n|  a:\n|    replicas: 4\n|  - replicas: 1\n|spec: 1\n|  b: |\n|   replicas: 2\n|\n|x: \"\n|\"\n){0,8}") {
            if let Ok(edited) = set_replicas(&text, 9) {
                let mut before = parse::to_value(&text).unwrap();
                before["spec"]["replicas"] = Value::from(9);
                prop_assert_eq!(parse::to_value(&edited).unwrap(), before);
                prop_assert!(edited.lines().count().abs_diff(text.lines().count()) <= 1);
            }
        }
    }
}
