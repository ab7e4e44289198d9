//! Whatever files are lost, after `ensure` a TLS server and client with certificates on both sides get along.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use quorate_pki::{Layout, MemberIdentity, PairPaths, Policy, Role, Wanted, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

fn load(paths: &PairPaths) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    (
        vec![CertificateDer::from_pem_file(&paths.cert).unwrap()],
        PrivateKeyDer::from_pem_file(&paths.key).unwrap(),
    )
}

/// Shakes hands over memory: `server` demands a certificate, `client` verifies the name.
fn shake(ca: &Path, server: &PairPaths, client: &PairPaths, name: &str) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap())?;
    let roots = Arc::new(roots);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .unwrap();
    let (chain, key) = load(server);
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    let (chain, key) = load(client);
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut server = ServerConnection::new(Arc::new(server))?;
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    for _ in 0..10 {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets()?;
        if !client.is_handshaking() && !server.is_handshaking() {
            return Ok(());
        }
    }
    panic!("the handshake does not end");
}

fn check(layout: &Layout) {
    let ca = layout.ca().cert;
    let (server, peer, client) = (layout.server("demo-0"), layout.peer("demo-0"), layout.client());
    for name in ["localhost", "127.0.0.1", "::1", "demo-0"] {
        shake(&ca, &server, &client, name).unwrap();
    }
    let peer_ca = layout.peers().ca().cert;
    shake(&peer_ca, &peer, &peer, "127.0.0.1").unwrap();
    assert!(
        shake(&peer_ca, &peer, &client, "127.0.0.1").is_err(),
        "a client is no member"
    );
    // etcd's gateway dials its own server with the server's certificate.
    shake(&ca, &server, &server, "127.0.0.1").unwrap();
    assert!(shake(&ca, &server, &client, "elsewhere").is_err());
    assert!(
        shake(&ca, &client, &client, "localhost").is_err(),
        "a client is no server"
    );
}

#[test]
fn every_subset_of_files_lost_is_repaired() {
    let wanted = Wanted::new("demo", vec![MemberIdentity::local("demo-0", []).unwrap()]);
    let (policy, now) = (Policy::default(), SystemTime::now());
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("pki");
    let layout = Layout::new(&dir);
    ensure(&dir, &wanted, &policy, now).unwrap();
    check(&layout);
    let pairs = [
        layout.ca(),
        layout.peers().ca(),
        layout.server("demo-0"),
        layout.peer("demo-0"),
        layout.root(),
        layout.client(),
    ];
    let files: Vec<&Path> = pairs
        .iter()
        .flat_map(|pair| [pair.cert.as_path(), pair.key.as_path()])
        .collect();
    // Root's and the client's are lost with the server's: one CA signs for all of them.
    for subset in 0..1u32 << 8 {
        let lost = |index: usize| subset & (1 << if index < 8 { index } else { 4 + index % 2 }) != 0;
        let before = ensure(&dir, &wanted, &policy, now).unwrap();
        assert!(!before.changed());
        for (index, file) in files.iter().enumerate() {
            if lost(index) {
                fs::remove_file(file).unwrap();
            }
        }
        let report = ensure(&dir, &wanted, &policy, now).unwrap();
        let (ca_lost, peer_ca_lost) = (lost(0) || lost(1), lost(2) || lost(3));
        assert_eq!(report.ca_changed, ca_lost || peer_ca_lost, "{subset:08b}");
        assert_eq!(
            report.ca_fingerprint != before.ca_fingerprint,
            ca_lost,
            "{subset:08b}"
        );
        for (index, pair) in report.pairs.iter().enumerate() {
            let pair_lost = lost(2 * index) || lost(2 * index + 1);
            let signer_lost = match pair.role {
                Role::PeerCa | Role::Peer(_) => peer_ca_lost,
                _ => ca_lost,
            };
            assert_eq!(
                pair.made(),
                signer_lost || pair_lost,
                "{subset:08b} {}",
                pair.role
            );
        }
        check(&layout);
    }
}

#[test]
fn a_crash_between_any_two_writes_is_repaired() {
    // What a crash leaves: the new key beside the old certificate, or a temporary file, of any pair.
    let wanted = Wanted::new("demo", vec![MemberIdentity::local("demo-0", []).unwrap()]);
    let (policy, now) = (Policy::default(), SystemTime::now());
    let tmp = tempfile::tempdir().unwrap();
    let (dir, other) = (tmp.path().join("pki"), tmp.path().join("other"));
    let (layout, new) = (Layout::new(&dir), Layout::new(&other));
    ensure(&dir, &wanted, &policy, now).unwrap();
    ensure(&other, &wanted, &policy, now).unwrap();
    let pairs = |layout: &Layout| {
        [
            layout.ca(),
            layout.peers().ca(),
            layout.server("demo-0"),
            layout.peer("demo-0"),
            layout.root(),
            layout.client(),
        ]
    };
    for (old, new) in pairs(&layout).iter().zip(pairs(&new)) {
        fs::copy(&new.key, &old.key).unwrap();
        fs::write(old.key.with_extension("key.new"), b"half a k").unwrap();
        assert!(ensure(&dir, &wanted, &policy, now).unwrap().changed());
        check(&layout);
        assert!(!ensure(&dir, &wanted, &policy, now).unwrap().changed());
    }
}
