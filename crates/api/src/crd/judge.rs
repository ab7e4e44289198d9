//! An object as it comes in a request, judged whole: everything that is wrong with it, in whatever way.
//!
//! In: the object as plain data, which may break the schema, and for an update the one before it. Out: all refusals and
//! warnings. Never: a refusal of anything but a spec that is new or changed, since finalizers must be able to go and an
//! object that an older definition let in must stay within reach; a refusal for a field that nobody knows, which is the
//! API server's to report.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::{
    ClusterStatus, EtcdCluster, EtcdPeer, validate, validate_peer, validate_peer_update, validate_update,
};
use crate::fault::Warning;
use crate::parse::{self, Read};
use crate::path::FieldPath;

/// In the place of what the API server puts behind `metadata.generateName`.
const GENERATED: &str = "xxxxx";

/// What is said of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Why it is refused; it is not, if there is nothing.
    pub refusals: Vec<Refusal>,
    /// What is worth knowing.
    pub warnings: Vec<Warning>,
}

/// Judges what a request makes of an object: a new one, or one that takes the place of `old`. Kinds that have no rules
/// here are not refused.
pub fn judge(kind: &str, new: &Value, old: Option<&Value>) -> Judgement {
    let leaves = !new["metadata"]["deletionTimestamp"].is_null();
    let unchanged = old.is_some_and(|old| old["spec"] == new["spec"]);
    if leaves || unchanged {
        return Judgement::default();
    }
    match kind {
        "EtcdCluster" => whole::<EtcdCluster>(kind, new, old, |new, old| match old {
            Some(old) => validate_update(old, new),
            None => validate(new),
        }),
        "EtcdPeer" => whole::<EtcdPeer>(kind, new, old, |new, old| match old {
            Some(old) => (validate_peer_update(old, new), Vec::new()),
            None => (validate_peer(new), Vec::new()),
        }),
        _ => Judgement::default(),
    }
}

/// What cannot be read, and what the rules say of the rest.
fn whole<T: DeserializeOwned>(
    kind: &str,
    new: &Value,
    old: Option<&Value>,
    rules: impl Fn(&T, Option<&T>) -> (Vec<Refusal>, Vec<Warning>),
) -> Judgement {
    let Read { whole, faults, .. } = parse::read::<T>(judged(kind, new));
    let mut judgement = Judgement {
        refusals: faults.iter().map(Refusal::from).collect(),
        warnings: Vec::new(),
    };
    if let Some(new) = whole {
        let old = old.and_then(|old| parse::read::<T>(before(kind, old)).whole);
        let (refusals, warnings) = rules(&new, old.as_ref());
        // What was left out because it cannot be read is not missing.
        let reported = |path: &FieldPath| faults.iter().any(|fault| path.is_within(&fault.path));
        judgement
            .refusals
            .extend(refusals.into_iter().filter(|refusal| !reported(&refusal.path)));
        judgement.warnings = warnings;
    }
    judgement
}

/// The part of an object that is judged. What the API server keeps in metadata is its own, and a status is no wish.
fn judged(kind: &str, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut name = metadata["name"].clone();
    if let (Value::Null, Value::String(prefix)) = (&name, &metadata["generateName"]) {
        name = Value::String(format!("{prefix}{GENERATED}"));
    }
    let mut judged = json!({
        "apiVersion": crate::manifest::API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
    });
    if let Some(spec) = object.get("spec") {
        judged["spec"] = spec.clone();
    }
    judged
}

/// The same of the object before, and what the operator saw of a cluster: its version may be taken back by that. A status that
/// cannot be read whole says nothing.
fn before(kind: &str, object: &Value) -> Value {
    let mut judged = judged(kind, object);
    let status = &object["status"];
    if kind == "EtcdCluster" && ClusterStatus::deserialize(status).is_ok() {
        judged["status"] = status.clone();
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Value {
        json!({
            "apiVersion": "etcd.improbable.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": "demo", "namespace": "default"},
            "spec": {
                "replicas": 3,
                "version": "3.5.35",
                "storage": {"volumeClaimTemplate": {
                    "storageClassName": "standard",
                    "resources": {"requests": {"storage": "50Mi"}},
                }},
            },
            "status": {"members": "not what a status is"},
        })
    }

    fn peer() -> Value {
        let mut peer = good();
        peer["kind"] = json!("EtcdPeer");
        let spec = peer["spec"].as_object_mut().unwrap();
        spec.remove("replicas");
        spec.insert("clusterName".to_owned(), json!("demo"));
        peer
    }

    fn texts(kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
        let judgement = judge(kind, new, old);
        judgement.refusals.iter().map(ToString::to_string).collect()
    }

    /// Each text begins with one of these, in this order, and there are no others.
    fn assert_reported(reported: &[String], expected: &[&str]) {
        assert_eq!(reported.len(), expected.len(), "{reported:#?}");
        for (reported, expected) in reported.iter().zip(expected) {
            assert!(reported.starts_with(expected), "{reported} is not {expected}");
        }
    }

    #[test]
    fn good_is_good() {
        assert_eq!(judge("EtcdCluster", &good(), None), Judgement::default());
        assert_eq!(judge("EtcdPeer", &peer(), None), Judgement::default());
    }

    #[test]
    fn faults_of_every_sort_are_told_together() {
        let mut bad = good();
        bad["spec"]["replicas"] = json!(0);
        bad["spec"]["version"] = json!("4.0.0");
        bad["spec"]["paused"] = json!("yes");
        bad["spec"]["unknown"] = json!(1);
        bad["spec"]["podTemplate"] = json!({
            "metadata": {"annotations": {"etcd.improbable.io/x": "y"}},
            "tolerations": {"key": "a"},
        });
        bad["spec"].as_object_mut().unwrap().remove("storage");
        let reported = texts("EtcdCluster", &bad, None);
        for fault in [
            "spec.replicas: Invalid value: 0",
            "spec.version: Invalid value: \"4.0.0\": only Etcd version 3 is supported",
            "spec.paused: Invalid value: the text \"yes\"",
            "spec.podTemplate.metadata: Invalid value: \"etcd.improbable.io/x\"",
            "spec.podTemplate.tolerations: Invalid value: a group of fields",
            "spec.storage",
        ] {
            assert!(
                reported.iter().any(|reported| reported.starts_with(fault)),
                "{fault}: {reported:#?}"
            );
        }
        assert_eq!(reported.len(), 6, "{reported:#?}");
    }

    #[test]
    fn what_cannot_be_read_is_not_said_to_be_missing_too() {
        let mut bad = good();
        bad["spec"]["replicas"] = json!("three");
        bad["spec"]["version"] = json!(3.6);
        assert_reported(
            &texts("EtcdCluster", &bad, None),
            &[
                "spec.replicas: Invalid value: the text \"three\": expected a whole number",
                "spec.version: Invalid value: \"3.6\": 3.6 is not in dotted-tri format",
            ],
        );
    }

    #[test]
    fn an_object_without_a_spec_is_told_all_it_needs() {
        let reported = texts("EtcdCluster", &json!({"metadata": {"name": "demo"}}), None);
        assert_reported(&reported, &["spec: Required value"]);
        let empty = json!({"metadata": {"name": "demo"}, "spec": {}});
        let reported = texts("EtcdPeer", &empty, None);
        let required = reported
            .iter()
            .filter(|reported| reported.contains("Required value"));
        assert_eq!(required.count(), reported.len(), "{reported:#?}");
        for field in ["spec.clusterName", "spec.version", "spec.storage"] {
            assert!(
                reported.iter().any(|reported| reported.starts_with(field)),
                "{field}: {reported:#?}"
            );
        }
    }

    #[test]
    fn a_missing_field_deep_inside_hides_nothing() {
        let mut bad = peer();
        bad["spec"]["bootstrap"] = json!({"static": {"initialCluster": [{"name": "a"}]}});
        bad["spec"]["start"] = json!({"config": "c"});
        bad["spec"]["version"] = json!("3.3.0");
        let reported = texts("EtcdPeer", &bad, None);
        for fault in [
            "spec.bootstrap.static.initialCluster[0].host: Required value",
            "spec.bootstrap.initialClusterState: Required value",
            "spec.start.generation: Required value",
            "spec.version: Invalid value: \"3.3.0\"",
        ] {
            assert!(
                reported.iter().any(|reported| reported.starts_with(fault)),
                "{fault}: {reported:#?}"
            );
        }
        assert_eq!(reported.len(), 4, "{reported:#?}");
    }

    #[test]
    fn a_change_is_judged_together_with_the_object() {
        let mut new = good();
        new["spec"]["replicas"] = json!(0);
        new["spec"]["version"] = json!("3.4.30");
        new["spec"]["tls"] = json!({});
        let reported = texts("EtcdCluster", &new, Some(&good()));
        for fault in [
            "spec.replicas: ",
            "spec.version: ",
            "spec.tls: Unsupported changes",
        ] {
            assert!(
                reported.iter().any(|reported| reported.starts_with(fault)),
                "{fault}: {reported:#?}"
            );
        }
        let mut other = peer();
        other["spec"]["version"] = json!("3.5.36");
        assert_reported(
            &texts("EtcdPeer", &other, Some(&peer())),
            &["spec: Unsupported changes"],
        );
    }

    #[test]
    fn a_version_that_nobody_ran_can_be_taken_back() {
        let of = |version: &str, status: Value| {
            let mut object = good();
            object["spec"]["version"] = json!(version);
            object["status"] = status;
            object
        };
        let seen = json!({
            "replicas": 1,
            "clusterVersion": "3.5.0",
            "members": [{"id": "1", "name": "demo-0", "version": "3.5.35"}],
        });
        let back = of("3.5.35", json!(null));
        assert_reported(
            &texts("EtcdCluster", &back, Some(&of("3.6.99", seen.clone()))),
            &[],
        );
        let mut ran = seen.clone();
        ran["members"][0]["version"] = json!("3.6.16");
        let mut unreadable = seen.clone();
        unreadable["members"][0]["id"] = json!(1);
        for status in [ran, unreadable, json!(null)] {
            let refused = texts("EtcdCluster", &back, Some(&of("3.6.99", status)));
            assert_reported(
                &refused,
                &["spec.version: Invalid value: \"3.5.35\": no way from 3.6.99"],
            );
        }
    }

    #[test]
    fn what_was_wrong_before_and_is_left_alone_is_let_through() {
        let mut wrong = good();
        wrong["spec"]["version"] = json!("foo");
        assert!(!texts("EtcdCluster", &wrong, None).is_empty());
        let mut labelled = wrong.clone();
        labelled["metadata"]["labels"] = json!({"team": "storage"});
        labelled["metadata"]["finalizers"] = json!([]);
        assert_eq!(
            judge("EtcdCluster", &labelled, Some(&wrong)),
            Judgement::default()
        );
        let mut mended = good();
        mended["metadata"] = labelled["metadata"].clone();
        assert_eq!(judge("EtcdCluster", &mended, Some(&wrong)), Judgement::default());
        labelled["spec"]["replicas"] = json!(5);
        assert!(!texts("EtcdCluster", &labelled, Some(&wrong)).is_empty());
    }

    #[test]
    fn what_is_on_its_way_out_is_let_through() {
        let mut leaving = good();
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        leaving["spec"]["replicas"] = json!(0);
        assert_eq!(
            judge("EtcdCluster", &leaving, Some(&good())),
            Judgement::default()
        );
    }

    #[test]
    fn a_name_that_is_still_to_be_made_up_is_judged_by_its_beginning() {
        let mut nameless = good();
        nameless["metadata"] = json!({"generateName": "demo-"});
        assert_eq!(judge("EtcdCluster", &nameless, None), Judgement::default());
        nameless["metadata"] = json!({"generateName": "1-"});
        assert_reported(&texts("EtcdCluster", &nameless, None), &["metadata.name: "]);
    }

    #[test]
    fn warnings_do_not_refuse_and_other_kinds_are_not_judged() {
        let mut even = good();
        even["spec"]["replicas"] = json!(4);
        let judgement = judge("EtcdCluster", &even, None);
        assert_eq!(judgement.refusals, []);
        assert_eq!(judgement.warnings.len(), 1);
        assert_eq!(judge("EtcdBackup", &json!({}), None), Judgement::default());
    }
}
