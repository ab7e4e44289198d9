//! TLS with certificates that quorate makes: whom members serve, the rotation of the CA under clients that write down
//! every answer, and members that are lost while Secrets cannot be written.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use quorate_client::{Identity, Tls};
use quorate_pki::{Ca, Leaf, LeafUsages, PairPem};
use quorate_tests::etcd;
use quorate_tests::kube::changes::rotate_ca;
use quorate_tests::kube::cluster::{KubeCluster, condition, member_id};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::said;
use quorate_tests::kube::tls::{answers, answers_as_peer, encrypted, metrics, secret_value};
use quorate_tests::kube::traffic::Traffic;

/// A certificate that the CA of these texts signed.
fn issued(cert: Vec<u8>, key: Vec<u8>) -> PairPem {
    let ca = Ca::read(&PairPem { cert, key }).expect("a CA");
    let leaf = Leaf {
        common_name: "a-member",
        cluster_name: "c",
        sans: BTreeSet::new(),
        usages: LeafUsages::Client,
    };
    let issued = ca.issue(&leaf, Duration::from_secs(3600), SystemTime::now());
    issued.expect("a certificate")
}

#[test]
fn only_clients_with_a_certificate_are_served_and_a_ca_rotation_loses_no_write() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    let tls = cluster.client_tls().expect("a Secret for clients");
    assert!(
        answers(&cluster, "c-0", "https", Some(&tls)),
        "with the client's Secret"
    );
    let nameless = Tls::from_pem(secret_value(&namespace, "c-client", "ca.crt"), None).expect("a CA");
    let nameless = nameless.with_server_name(format!("c-client.{}.svc", namespace.name));
    assert!(
        !answers(&cluster, "c-0", "https", Some(&nameless)),
        "without a certificate"
    );
    assert!(!answers(&cluster, "c-0", "http", None), "in plain text");
    let between = secret_value(&namespace, "c-ca", "peer-ca.crt");
    let shows = |cert_pem, key_pem| {
        let identity = Identity { cert_pem, key_pem };
        Tls::from_pem(between.clone(), Some(identity)).expect("a certificate")
    };
    let [cert, key] = ["tls.crt", "tls.key"].map(|key| secret_value(&namespace, "c-client", key));
    assert!(
        !answers_as_peer(&cluster, "c-0", &shows(cert, key)),
        "an application is no member"
    );
    let key = secret_value(&namespace, "c-ca", "peer-ca.key");
    let issued = issued(between.clone(), key);
    assert!(
        answers_as_peer(&cluster, "c-0", &shows(issued.cert, issued.key)),
        "one whom their CA signed for is"
    );
    let told = metrics(&cluster, "c-0");
    assert!(
        told.starts_with("HTTP/1.1 200") && told.contains("\netcd_server_has_leader 1"),
        "{told}"
    );
    // A change of encryption under members that run is refused.
    let off = cluster.patch(&serde_json::json!({"tls": {"enabled": false}}));
    let why = said(&off);
    assert!(!off.status.success() && why.contains("stays on or off"), "{why}");

    let traffic = Traffic::start(&cluster);
    rotate_ca(&cluster, &traffic, &version, || {});
    traffic.verdict();
    assert_heals_while_secrets_are_refused(&cluster, &version);
}

const NO_SECRETS: &str = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: no-secrets}
spec:
  hard: {secrets: '0'}
";

/// The Secret of the CA is gone, and a quota keeps quorate from making another. A member that loses its volume is replaced
/// all the same, and the operator says what it cannot do.
fn assert_heals_while_secrets_are_refused(cluster: &KubeCluster<'_>, version: &str) {
    let namespace = cluster.namespace;
    let before = cluster.await_ready(3, version);
    namespace.apply(NO_SECRETS);
    namespace.wait_for("a quota that is in force", || {
        let made = namespace.kubectl(&["create", "secret", "generic", "probe"]);
        if made.status.success() {
            namespace.must(&["delete", "secret", "probe"]);
        }
        said(&made).contains("exceeded quota").then_some(())
    });
    namespace.must(&["delete", "secret", "c-ca"]);
    let told = cluster.await_condition("Blocked", "True", "Certificates");
    assert!(told.contains("exceeded quota"), "{told}");
    namespace.must(&["delete", "persistentvolumeclaim", "c-1", "--wait=false"]);
    cluster.kill_pods("etcd.improbable.io/peer-name in (c-1,c-2)");
    cluster.wait_for("c-1 under a new id, and three members that serve", |c| {
        c["status"]["readyReplicas"] == 3 && member_id(c, "c-1") != member_id(&before, "c-1")
    });
    assert!(
        namespace.json(&["secret", "c-ca"]).is_none(),
        "it is refused all the while"
    );
    namespace.must(&["delete", "resourcequota", "no-secrets"]);
    namespace.wait_for("the Secret of the CA", || namespace.json(&["secret", "c-ca"]));
    cluster.wait_for("nothing that blocks it", |c| {
        condition(c, "Blocked").is_some_and(|blocked| blocked["status"] == "False")
    });
}
