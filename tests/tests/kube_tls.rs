//! Encryption in Kubernetes: certificates that quorate makes, renews and replaces under clients that write down every
//! answer.
#![cfg(feature = "kube")]

use std::process::{Command, Stdio};
use std::time::Duration;

use quorate_client::{Endpoint, Timeouts};
use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{KubeCluster, manifest, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;

fn encrypted(name: &str, replicas: u32, version: &str) -> String {
    manifest(name, replicas, version) + "  tls: {}\n"
}

fn certificate(namespace: &Namespace, secret: &str, key: &str) -> String {
    let data = namespace.json(&["secret", secret]);
    data.map(|s| text(&s["data"][key])).unwrap_or_default()
}

/// The uids of the members' pods, by name of the member.
fn pods(cluster: &KubeCluster<'_>) -> Vec<Option<String>> {
    (0..3)
        .map(|n| cluster.pod_uid(&format!("{}-{n}", cluster.name)))
        .collect()
}

/// The certificate that a member shows to a new connection. openssl is what the bed's own certificates are made with.
fn shown(cluster: &KubeCluster<'_>, member: &str) -> Option<String> {
    let address = text(&cluster.pod(member)?["status"]["podIP"]);
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &format!("{address}:2379")])
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let begin = text.find("-----BEGIN CERTIFICATE-----")?;
    let end = text.find("-----END CERTIFICATE-----")?;
    text.get(begin..end).map(str::to_owned)
}

#[test]
fn only_who_has_a_certificate_is_served_and_a_cluster_made_again_keeps_its_authority() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    cluster.put("k", "v");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answers = |scheme: &str, tls: Option<&quorate_client::Tls>| {
        let pod = cluster.pod("c-0").expect("a pod");
        let url = format!("{scheme}://{}:2379", text(&pod["status"]["podIP"]));
        runtime.as_ref().expect("a runtime").block_on(async {
            let endpoint = Endpoint::connect_lazy(&url, tls, Timeouts::default()).expect("an endpoint");
            endpoint.status().await.is_ok()
        })
    };
    let tls = cluster.client_tls().expect("a Secret for clients");
    assert!(answers("https", Some(&tls)), "with the client's Secret");
    assert!(!answers("http", None), "in plain text");
    // A change of encryption under members that run is refused.
    let off = cluster.patch(&serde_json::json!({"tls": {"enabled": false}}));
    assert!(!off.status.success());
    let (id, authority) = (cluster.cluster_id(), certificate(&namespace, "c-ca", "ca.crt"));
    namespace.must(&["delete", "etcdcluster", "c"]);
    namespace.wait_for("all but the data and the authority gone", || {
        let left = namespace.names(&["secrets", "-l", &cluster.selector()]);
        (left == ["c-ca"] && cluster.pods().is_empty()).then_some(())
    });
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    assert_eq!((cluster.cluster_id(), cluster.value("k")), (id, "v".to_owned()));
    assert_eq!(certificate(&namespace, "c-ca", "ca.crt"), authority);
}

/// A certificate that was lost is made anew, and shown by the member without a restart.
#[test]
fn renewed_certificates_are_shown_by_members_that_go_on_running() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls-renewed");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    let running = pods(&cluster);
    let before = shown(&cluster, "c-1");
    assert!(
        before.is_some(),
        "a member shows a certificate to whoever connects"
    );
    namespace.must(&["delete", "secret", "c-1-tls"]);
    namespace.wait_for("another certificate shown", || {
        shown(&cluster, "c-1").filter(|now| Some(now) != before.as_ref())
    });
    cluster.await_ready(3, &version);
    assert_eq!(pods(&cluster), running, "nobody was restarted");
}

/// All members trust both authorities before one of the new one's certificates is shown, and show only those before the
/// old one is dropped, whenever the operator dies.
#[test]
fn another_authority_loses_no_write_though_the_operator_is_killed() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("tls-rotation");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    let (id, before) = (cluster.cluster_id(), certificate(&namespace, "c-ca", "ca.crt"));
    let running = pods(&cluster);
    let traffic = Traffic::start(&cluster);
    let mut rng = fastrand::Rng::with_seed(5);
    traffic.during("another authority, 4 operators killed", || {
        namespace.must(&["annotate", "secret", "c-ca", "etcd.improbable.io/rotate=now"]);
        for _ in 0..4 {
            // Not a wait for something: the moment of the kill is what varies.
            std::thread::sleep(Duration::from_millis(rng.u64(500..9000)));
            bed.kill_operator();
        }
        namespace.await_event("AuthorityDropped", "trusted no longer");
        namespace.wait_for("one authority in the Secret", || {
            let secret = namespace.json(&["secret", "c-ca"])?;
            (secret["data"].as_object()?.len() == 2).then_some(())
        });
        cluster.await_ready(3, &version);
    });
    traffic.verdict();
    assert_eq!(cluster.cluster_id(), id);
    assert_ne!(certificate(&namespace, "c-ca", "ca.crt"), before);
    assert!(pods(&cluster).iter().zip(&running).all(|(now, then)| now != then));
}
