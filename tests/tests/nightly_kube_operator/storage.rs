//! Storage that grows, one member after the other.

use std::time::Instant;

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{manifest, members, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::{PATIENCE, must_be_back, said};
use serde_json::{Value, json};

const CLAIMS: [&str; 3] = ["c-0", "c-1", "c-2"];

/// A class whose volumes may grow. Nothing behind it makes them: the test says of each claim that it has, as a driver would.
struct Growing {
    bed: &'static Bed,
    class: String,
}

impl Drop for Growing {
    fn drop(&mut self) {
        let delete = ["delete", "storageclass", &self.class, "--ignore-not-found"];
        must_be_back(
            "the classes without that of this test",
            &self.bed.kubectl(&delete),
        );
    }
}

#[test]
fn the_storage_of_one_member_grows_after_the_other() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("storage");
    let growing = Growing {
        bed: namespace.bed(),
        class: namespace.name.clone(),
    };
    namespace.apply(&format!(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: {}}}\nallowVolumeExpansion: true\n\
         provisioner: kubernetes.io/host-path\nreclaimPolicy: Delete\nvolumeBindingMode: Immediate\n",
        growing.class
    ));
    let class = format!("storageClassName: {}", growing.class);
    let yaml = manifest("c", 3, &version).replace("storageClassName: standard", &class);
    let cluster = namespace.create("c", &(yaml + "  maintenance: {rollingChanges: true}\n"));
    let before = cluster.await_ready(3, &version);
    let pods = cluster.pod_uids(3);
    let wanted = json!({"resources": {"requests": {"storage": "60Mi"}}});
    let patched = cluster.patch(&json!({"storage": {"volumeClaimTemplate": wanted}}));
    assert!(patched.status.success(), "{}", said(&patched));

    let asks = |claim: &&Value| claim["spec"]["resources"]["requests"]["storage"] == "60Mi";
    let holds = |claim: &&Value| claim["status"]["capacity"]["storage"] == "60Mi";
    let name = |claim: &Value| text(&claim["metadata"]["name"]);
    let began = Instant::now();
    let mut order: Vec<String> = Vec::new();
    loop {
        let claims = namespace.items(&["persistentvolumeclaims", "-l", &cluster.selector()]);
        let asked: Vec<&Value> = claims.iter().filter(asks).collect();
        let under_way: Vec<String> = { &asked }.iter().filter(|c| !holds(c)).map(|c| name(c)).collect();
        assert!(under_way.len() <= 1, "at once: {under_way:?}");
        order.extend(
            asked
                .iter()
                .map(|c| name(c))
                .filter(|c| !order.contains(c))
                .collect::<Vec<_>>(),
        );
        if let Some(claim) = under_way.first() {
            cluster.wait_for(&format!("it says that {claim} grows"), |c| {
                let ready = quorate_tests::kube::cluster::condition(c, "Ready");
                ready.is_some_and(|r| {
                    r["reason"] == "StorageGrowing" && text(&r["message"]).contains(claim.as_str())
                })
            });
            let grown = json!({"status": {"capacity": {"storage": "60Mi"}}}).to_string();
            let patch = [
                "patch",
                "persistentvolumeclaim",
                claim,
                "--subresource=status",
                "--type=merge",
            ];
            namespace.must(&[&patch[..], &["-p", &grown]].concat());
        } else if asked.len() == CLAIMS.len() {
            break;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "only {order:?} after {PATIENCE:?}\n{}",
            namespace.picture()
        );
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(order, CLAIMS, "the lowest number first");
    let after = cluster.await_ready(3, &version);
    assert_eq!(members(&after), members(&before));
    assert_eq!(cluster.pod_uids(3), pods, "nobody was restarted for it");
}
