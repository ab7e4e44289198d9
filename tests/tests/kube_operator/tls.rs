//! TLS with certificates that quorate makes: whom members serve, and the rotation of the CA under clients that write down
//! every answer.

use quorate_client::Tls;
use quorate_tests::etcd;
use quorate_tests::kube::changes::rotate_ca;
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::said;
use quorate_tests::kube::tls::{answers, encrypted, metrics, secret_value};
use quorate_tests::kube::traffic::Traffic;

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
}
