//! TLS to every version: by address and by name, with and without what is demanded.

use std::path::Path;

use quorate_client::{Endpoint, Identity, IdentityFiles, Outcome, Refusal, Tls, TlsFiles};
use quorate_testkit::versions;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use crate::member::{PATIENT, Plan, eventually};

struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    fn new() -> Ca {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ca(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    fn issue(&self, names: &[&str], usage: &[ExtendedKeyUsagePurpose]) -> Identity {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = usage.to_vec();
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        Identity {
            cert_pem: cert.pem().into_bytes(),
            key_pem: key.serialize_pem().into_bytes(),
        }
    }
}

fn write(dir: &Path, ca: &Ca, server: &Identity, client: &Identity) -> TlsFiles {
    let file = |name: &str, pem: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, pem).unwrap();
        path
    };
    file("server.crt", &server.cert_pem);
    file("server.key", &server.key_pem);
    TlsFiles {
        ca: file("ca.crt", &ca.pem()),
        identity: Some(IdentityFiles {
            cert: file("client.crt", &client.cert_pem),
            key: file("client.key", &client.key_pem),
        }),
    }
}

#[tokio::test]
async fn verified_on_both_sides() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let ca = Ca::new();
    // etcd dials itself with its server certificate, so that one must also serve as a client's.
    let server = ca.issue(&["127.0.0.1", "localhost"], &[ServerAuth, ClientAuth]);
    let client = ca.issue(&["quorate"], &[ClientAuth]);
    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), &ca, &server, &client);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let flags = [
        format!("--cert-file={}", path("server.crt")),
        format!("--key-file={}", path("server.key")),
        format!("--trusted-ca-file={}", path("ca.crt")),
        "--client-cert-auth".to_owned(),
    ];
    for version in versions() {
        let member = Plan::new(&version).secure().flags(flags.clone()).single().await;
        let good = Tls::from_files(&files).unwrap();
        let endpoint = member.secure_endpoint(&good);
        eventually(|| endpoint.linearizable_read())
            .await
            .unwrap_or_else(|error| panic!("{}: {}\n{}", version, error.chain(), member.log()));

        let by_name = member.url.replace("127.0.0.1", "localhost");
        let by_name = Endpoint::connect_lazy(&by_name, Some(&good), PATIENT).unwrap();
        by_name.status().await.unwrap();
        let named = member.secure_endpoint(&good.clone().with_server_name("localhost"));
        named.status().await.unwrap();

        let stranger = Tls::from_pem(Ca::new().pem(), Some(client.clone())).unwrap();
        let misnamed = good.clone().with_server_name("elsewhere");
        for tls in [stranger, misnamed] {
            let error = member.secure_endpoint(&tls).put(b"a", b"b").await.unwrap_err();
            assert_eq!(error.refusal(), Refusal::Unreachable, "{}", error.chain());
            assert_eq!(error.outcome(), Outcome::NotDone);
            assert!(error.chain().contains("certificate"), "{}", error.chain());
        }

        // Under TLS 1.3 the server rejects a client's certificate only after the client believes itself
        // connected, so this may look like a connection lost during the request.
        let anonymous = Tls::from_pem(ca.pem(), None).unwrap();
        let error = member.secure_endpoint(&anonymous).status().await.unwrap_err();
        let expected = [Refusal::Unreachable, Refusal::Disconnected];
        assert!(expected.contains(&error.refusal()), "{}", error.chain());
    }
}
