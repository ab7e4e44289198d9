//! A cluster with TLS, seen from outside: which certificate a member shows, and whom it serves.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use quorate_client::{Address, Endpoint, Port, Tls, prove};
use quorate_core::model::Ordinal;

use super::cluster::{KubeCluster, manifest};
use super::namespace::Namespace;
use crate::clients::PATIENT;

/// A manifest with certificates that quorate makes.
pub fn encrypted(name: &str, replicas: u32, version: &str) -> String {
    manifest(name, replicas, version) + "  tls: {}\n"
}

/// A value of a Secret, which must be there and not be empty.
pub fn secret_value(namespace: &Namespace, secret: &str, key: &str) -> Vec<u8> {
    let template = format!("go-template={{{{index .data {key:?} | base64decode}}}}");
    let text = namespace.must(&["get", "secret", secret, "-o", &template]);
    assert!(!text.is_empty(), "{key} of Secret {secret} is empty");
    text.into_bytes()
}

/// The address of a member's pod.
fn address(cluster: &KubeCluster<'_>, member: &str) -> Option<String> {
    let address = cluster.pod(member)?["status"]["podIP"].as_str()?.to_owned();
    Some(address)
}

/// The certificate that a member shows to a new connection, in the lines of its PEM text. openssl is what the bed's own
/// certificates are made with; it is given ten seconds.
pub fn shown_certificate(cluster: &KubeCluster<'_>, member: &str) -> Option<String> {
    let address = address(cluster, member)?;
    let output = Command::new("timeout")
        .args([
            "10",
            "openssl",
            "s_client",
            "-connect",
            &format!("{address}:2379"),
        ])
        .stdin(Stdio::null())
        .output()
        .expect("timeout and openssl");
    pem(&String::from_utf8_lossy(&output.stdout))
}

/// The first certificate in a text.
pub fn pem(text: &str) -> Option<String> {
    let begin = text.find("-----BEGIN CERTIFICATE-----")?;
    let end = text.find("-----END CERTIFICATE-----")?;
    text.get(begin..end).map(str::to_owned)
}

/// Does a member answer to a client that connects so?
pub fn answers(cluster: &KubeCluster<'_>, member: &str, scheme: &str, tls: Option<&Tls>) -> bool {
    let address = address(cluster, member).expect("a pod");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let url = format!("{scheme}://{address}:2379");
        let endpoint = Endpoint::connect_lazy(&url, tls, PATIENT).expect("an endpoint");
        endpoint.status().await.is_ok()
    })
}

/// Does a member take one that connects so for another member?
pub fn answers_as_peer(cluster: &KubeCluster<'_>, member: &str, tls: &Tls) -> bool {
    let (namespace, name) = (&cluster.namespace.name, &cluster.name);
    let address = Address {
        url: format!("https://{}:2380", address(cluster, member).expect("a pod")),
        server_name: Some(format!("{member}.{name}.{namespace}.svc")),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = [(Ordinal(0), address)].into();
    let proven = runtime
        .expect("a runtime")
        .block_on(prove(Port::Peer, &asked, tls));
    !proven.is_empty()
}

/// What a member serves at `/metrics`, in plain text.
pub fn metrics(cluster: &KubeCluster<'_>, member: &str) -> String {
    let address = address(cluster, member).expect("a pod");
    let mut stream = TcpStream::connect((address.as_str(), 2381)).expect("the port for metrics");
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).expect("a limit");
    let ask = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}
