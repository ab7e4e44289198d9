use serde_json::{Value, json};

use super::*;

fn resources(value: Value) -> ResourceRequirements {
    serde_json::from_value(value).unwrap()
}

fn usual() -> Value {
    json!({"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}})
}

fn pod(asked: Value, status: Value) -> PodResources {
    let spec = json!({"containers": [{"name": "etcd", "resources": asked}]});
    let pod = json!({"metadata": {"name": "c-0-x", "generation": 2}, "spec": spec, "status": status});
    PodResources::read(&serde_json::from_value(pod).unwrap())
}

fn status(has: &Value, conditions: Value) -> Value {
    let etcd = json!({"name": "etcd", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                      "resources": has});
    json!({"containerStatuses": [etcd], "conditions": conditions, "observedGeneration": 2})
}

/// What a pod with this digest is seen as where `d+2`, which is `wanted`, is asked for.
fn seen_as(config: &str, wanted: &Value, of_pod: &PodResources) -> (String, Resize) {
    let wanted = resources(wanted.clone());
    seen(
        config,
        ("d+2", Some(&wanted)),
        &TemplateResources::default(),
        of_pod,
    )
}

fn more() -> Value {
    let mut more = usual();
    more["limits"]["memory"] = json!("2Gi");
    more
}

#[test]
fn a_change_is_followed_until_the_node_has_made_it() {
    let before = pod(usual(), status(&usual(), json!([])));
    let possible = ("d+1".to_owned(), Resize::Possible);
    assert_eq!(seen_as("d+1", &more(), &before), possible);
    assert_eq!(seen_as("e+1", &more(), &before).1, Resize::No, "other settings");
    let follow = |conditions: Value, has: &Value| {
        let of_pod = pod(more(), status(has, conditions));
        seen_as("d+2", &more(), &of_pod)
    };
    let condition = |kind: &str, reason: &str| json!([{"type": kind, "status": "True", "reason": reason, "message": "in its words"}]);
    let under_way = |why: &str| ("d+2".to_owned(), Resize::UnderWay { why: why.to_owned() });
    assert_eq!(
        follow(json!([]), &usual()),
        under_way("its node has yet to put them into effect")
    );
    assert_eq!(
        follow(condition("PodResizePending", "Deferred"), &usual()),
        under_way("PodResizePending: Deferred: in its words")
    );
    assert_eq!(
        follow(condition("PodResizeInProgress", ""), &more()),
        under_way("PodResizeInProgress: in its words")
    );
    let infeasible = follow(condition("PodResizePending", "Infeasible"), &usual());
    assert_eq!(
        infeasible,
        ("d+before".to_owned(), Resize::No),
        "it is restarted for it"
    );
    let done = ("d+2".to_owned(), Resize::No);
    assert_eq!(follow(json!([]), &more()), done);
    let unseen = pod(more(), json!({"observedGeneration": 1}));
    assert_eq!(
        seen_as("d+2", &more(), &unseen),
        under_way("its node has yet to see it")
    );
    // Somebody else gave it more.
    let mut altered = more();
    altered["limits"]["memory"] = json!("8Gi");
    let of_pod = pod(altered.clone(), status(&altered, json!([])));
    assert_eq!(seen_as("d+2", &more(), &of_pod), done);
}

#[test]
fn what_the_api_server_refused_is_had_by_a_restart_and_asked_for_once() {
    let mut of_pod = pod(usual(), status(&usual(), json!([])));
    of_pod.refused = Some("d+2".to_owned());
    assert_eq!(seen_as("d+1", &more(), &of_pod).1, Resize::No);
    of_pod.refused = Some("d+3".to_owned());
    assert_eq!(
        seen_as("d+1", &more(), &of_pod).1,
        Resize::Possible,
        "it was something else"
    );
}

#[test]
fn what_kubernetes_does_not_change_while_a_pod_runs_is_known_before() {
    let can =
        |from: &Value, to: &Value| can_resize_in_place(&resources(from.clone()), &resources(to.clone()));
    let mut other = usual();
    other["requests"] = json!({"cpu": "30m", "memory": "32Mi"});
    assert_eq!(can(&usual(), &other), Ok(()));
    let mut added = usual();
    added["requests"]["ephemeral-storage"] = json!("1Gi");
    assert!(can(&usual(), &added).unwrap_err().contains("ephemeral-storage"));
    let removed = json!({"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}});
    assert!(can(&usual(), &removed).unwrap_err().contains("cpu is taken away"));
    let guaranteed = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    assert!(can(&usual(), &guaranteed).unwrap_err().contains("Guaranteed"));
    assert!(can(&json!({}), &usual()).unwrap_err().contains("BestEffort"));
    let more = json!({"limits": {"cpu": "1", "memory": "2Gi"}});
    assert_eq!(can(&guaranteed, &more), Ok(()), "still guaranteed");
    let before = pod(usual(), status(&usual(), json!([])));
    assert_eq!(seen_as("d+1", &removed, &before).1, Resize::No);
}
