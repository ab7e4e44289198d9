//! CPU and memory that change while members run.

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{KubeCluster, condition, manifest, members, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::said;
use quorate_tests::kube::traffic::Traffic;
use serde_json::{Value, json};

const MEMBERS: [&str; 3] = ["c-0", "c-1", "c-2"];

fn set(cluster: &KubeCluster<'_>, resources: &Value) {
    let patched = cluster.patch(&json!({"podTemplate": {"resources": resources}}));
    assert!(patched.status.success(), "{}", said(&patched));
}

fn etcd_of(statuses: &Value) -> Value {
    let all = statuses.as_array().into_iter().flatten();
    let etcd = { all }.find(|c| c["name"] == "etcd").cloned();
    etcd.unwrap_or_default()
}

/// What the node says that etcd of a pod has: the memory limit and the CPU request.
fn has(pod: &Value) -> (String, String) {
    let resources = etcd_of(&pod["status"]["containerStatuses"])["resources"].clone();
    (
        text(&resources["limits"]["memory"]),
        text(&resources["requests"]["cpu"]),
    )
}

/// The pod of each member, and how often its containers were started.
fn lives(cluster: &KubeCluster<'_>) -> Vec<(String, i64)> {
    let life = |member: &str| {
        let pod = cluster.pod(member).unwrap_or_default();
        let restarts = etcd_of(&pod["status"]["containerStatuses"])["restartCount"].as_i64();
        (text(&pod["metadata"]["uid"]), restarts.unwrap_or(-1))
    };
    MEMBERS.map(life).to_vec()
}

#[test]
fn other_resources_reach_one_member_after_the_other_without_a_restart() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("resources");
    let yaml = manifest("c", 3, &version) + "  maintenance: {rollingChanges: true}\n";
    let cluster = namespace.create("c", &yaml);
    let before = cluster.await_ready(3, &version);
    let began = lives(&cluster);
    let traffic = Traffic::start(&cluster);
    let wanted =
        json!({"requests": {"cpu": "30m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "640Mi"}});
    traffic.planned("other resources", || {
        set(&cluster, &wanted);
        let more = ("640Mi".to_owned(), "30m".to_owned());
        namespace.wait_for("other resources at each member", || {
            // All in one look: members that are asked about one after the other change in between.
            let pods = cluster.pods();
            let member = |p: &Value| text(&p["metadata"]["labels"]["etcd.improbable.io/peer-name"]);
            let mut done: Vec<String> = pods.iter().filter(|p| has(p) == more).map(member).collect();
            done.sort();
            assert_eq!(done, MEMBERS[3 - done.len()..], "the highest number first");
            (done.len() == 3).then_some(())
        });
        cluster.await_ready(3, &version);
    });
    traffic.verdict();
    assert_eq!(lives(&cluster), began, "nobody was restarted");
    assert_eq!(members(&cluster.get()), members(&before));
    namespace.wait_for("the next pods are made with them as well", || {
        let next = |member: &&str| {
            let set = namespace.json(&["replicaset", member]).unwrap_or_default();
            let spec = &set["spec"]["template"]["spec"];
            let init = &spec["initContainers"][0]["resources"];
            etcd_of(&spec["containers"])["resources"] == wanted && *init == wanted
        };
        MEMBERS.iter().all(next).then_some(())
    });

    // Less than etcd uses is not put into effect, and reaches nobody else.
    let little =
        json!({"requests": {"cpu": "30m", "memory": "6Mi"}, "limits": {"cpu": "1", "memory": "7Mi"}});
    set(&cluster, &little);
    cluster.wait_for("what keeps it, while all three serve", |c| {
        let progress = condition(c, "Progressing").filter(|p| p["reason"] == "ResourcesChanging");
        let shown = progress.is_some_and(|p| text(&p["message"]).contains("below current usage"));
        shown && c["status"]["readyReplicas"] == 3
    });
    let asked = |member: &str| {
        let pod = cluster.pod(member).unwrap_or_default();
        text(&etcd_of(&pod["spec"]["containers"])["resources"]["limits"]["memory"])
    };
    let mut limits = MEMBERS.map(asked);
    limits.sort();
    assert_eq!(limits, ["640Mi", "640Mi", "7Mi"], "one is asked");
    set(&cluster, &wanted);
    cluster.await_ready(3, &version);
    assert_eq!(MEMBERS.map(asked), ["640Mi"; 3]);
    assert_eq!(lives(&cluster), began, "nobody was restarted");

    // Another quality of service is had by restarts only.
    let guaranteed =
        json!({"requests": {"cpu": "300m", "memory": "640Mi"}, "limits": {"cpu": "300m", "memory": "640Mi"}});
    set(&cluster, &guaranteed);
    cluster.await_other_pods(&began.iter().map(|(uid, _)| Some(uid.clone())).collect::<Vec<_>>());
    cluster.await_ready(3, &version);
    assert_eq!(members(&cluster.get()), members(&before));
    for member in MEMBERS {
        let class = cluster.pod(member).map(|p| text(&p["status"]["qosClass"]));
        assert_eq!(class.as_deref(), Some("Guaranteed"), "{member}");
    }
}
