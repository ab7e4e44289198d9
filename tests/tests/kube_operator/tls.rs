//! TLS with certificates that quorate makes: whom members serve, the rotation of the CA under clients that write down
//! every answer.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use quorate_client::{Identity, Tls};
use quorate_pki::{Ca, Leaf, LeafUsages, PairPem};
use quorate_tests::etcd;
use quorate_tests::kube::changes::rotate_ca;
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
    let key = secret_value(&namespace, "c-ca", "peer-ca.key");
    let issued = issued(between.clone(), key);
    let member = shows(issued.cert, issued.key);
    namespace.wait_for("c-0 answers one whom the members' CA signed for", || {
        answers_as_peer(&cluster, "c-0", &member).then_some(())
    });
    let [cert, key] = ["tls.crt", "tls.key"].map(|key| secret_value(&namespace, "c-client", key));
    assert!(
        !answers_as_peer(&cluster, "c-0", &shows(cert, key)),
        "an application is no member"
    );
    namespace.wait_for("metrics of a member that has a leader", || {
        let reported = metrics(&cluster, "c-0");
        assert!(reported.starts_with("HTTP/1.1 200"), "{reported}");
        reported.contains("\netcd_server_has_leader 1").then_some(())
    });
    // A change of encryption under members that run is refused.
    let off = cluster.patch(&serde_json::json!({"tls": {"enabled": false}}));
    let why = said(&off);
    assert!(!off.status.success() && why.contains("stays on or off"), "{why}");

    let traffic = Traffic::start(&cluster);
    rotate_ca(&cluster, &traffic, &version, || {});
    traffic.verdict();
}
