//! The user's own certificates: two Secrets that quorate reads and never writes.
//!
//! In: the two Secrets. Out: [`Material`], or what is wrong with them and what to do. Members get changed certificates from
//! kubelet, without the operator, and show them at the next handshake. Whom they trust they read when they start: another
//! `ca.crt` has the planner restart them one by one, which goes well only if the former CA is still in it.

use std::time::SystemTime;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use quorate_api::TlsSecrets;
use quorate_client::{Identity, Tls};
use quorate_pki::describe_all;

use super::Material;
use super::cas::value;
use crate::names::Names;

/// What connections are made with. The client's certificate is the operator's too.
pub fn material(client: &Secret, peer: &Secret, now: SystemTime) -> Result<Material, String> {
    let mut trusted: Vec<String> = Vec::new();
    for secret in [client, peer] {
        for key in ["tls.crt", "tls.key", "ca.crt"] {
            part(secret, key)?;
        }
        let described = |key: &str| {
            let all = describe_all(part(secret, key)?);
            all.map_err(|why| format!("{key} in Secret {:?} cannot be used: {why}", secret.name_any()))
        };
        if described("tls.crt")?[0].not_after <= now {
            return Err(format!(
                "the certificate in Secret {:?} has ended, so members refuse each other and their clients; put a new one \
                 there, of the same CA",
                secret.name_any()
            ));
        }
        let all = described("ca.crt")?;
        // Members are restarted when another CA is trusted, or another Secret is mounted.
        let mut prints: Vec<String> = all.iter().map(|info| info.fingerprint.to_string()).collect();
        prints.sort();
        trusted.push(format!("{}:{}", secret.name_any(), prints.join(",")));
    }
    let identity = Identity {
        cert_pem: part(client, "tls.crt")?.to_vec(),
        key_pem: part(client, "tls.key")?.to_vec(),
    };
    let tls = Tls::from_pem(part(client, "ca.crt")?.to_vec(), Some(identity));
    Ok(Material {
        tls: tls.map_err(|error| format!("Secret {:?} cannot be used: {error}", client.name_any()))?,
        trusted: trusted.join(";"),
        proof: None,
        lost_ca: false,
        advice: None,
    })
}

/// For members that run with another `ca.crt` and of which none answers: their CA was replaced at one stroke.
pub fn advice(secrets: &TlsSecrets, names: &Names) -> String {
    format!(
        "members run with another ca.crt than that in Secrets {client:?} and {peer:?}, and none answers to the \
         certificates there. If the CA was replaced, put the former one into ca.crt too, beside the new one, and the \
         former certificates back, until all members were restarted. If it is lost, run kubectl delete pods --namespace \
         {namespace} --selector {selector}: the cluster does not answer until they have started again",
        client = secrets.client,
        peer = secrets.peer,
        namespace = names.namespace,
        selector = names.selector(),
    )
}

fn part<'a>(secret: &'a Secret, key: &str) -> Result<&'a [u8], String> {
    value(secret, key).ok_or_else(|| {
        format!(
            "Secret {:?} has no {key}; it needs tls.crt, tls.key and ca.crt",
            secret.name_any()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use k8s_openapi::ByteString;
    use quorate_pki::{Ca, Leaf, LeafUsages};

    use super::*;

    fn secret(name: &str, ca: &Ca) -> Secret {
        let leaf = Leaf {
            common_name: "mine",
            cluster_name: "c",
            sans: Default::default(),
            usages: LeafUsages::ServerAndClient,
        };
        let pem = ca
            .issue(&leaf, Duration::from_secs(600), SystemTime::now())
            .unwrap();
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.to_owned());
        secret.data = Some(
            [
                ("tls.crt", pem.cert),
                ("tls.key", pem.key),
                ("ca.crt", ca.pem().cert.clone()),
            ]
            .map(|(key, value)| (key.to_owned(), ByteString(value)))
            .into(),
        );
        secret
    }

    #[test]
    fn another_ca_or_secret_restarts_members_and_another_leaf_does_not() {
        let make = || Ca::make("c", Duration::from_secs(3600), SystemTime::now()).unwrap();
        let (one, other) = (make(), make());
        let trusted =
            |client: &Secret, peer: &Secret| material(client, peer, SystemTime::now()).unwrap().trusted;
        let before = trusted(&secret("a", &one), &secret("b", &one));
        assert_eq!(trusted(&secret("a", &one), &secret("b", &one)), before);
        assert_ne!(trusted(&secret("a", &one), &secret("b", &other)), before);
        assert_ne!(trusted(&secret("a", &one), &secret("c", &one)), before);
    }

    #[test]
    fn what_is_missing_is_named() {
        let one = Ca::make("c", Duration::from_secs(3600), SystemTime::now()).unwrap();
        let mut lacking = secret("b", &one);
        lacking.data.as_mut().unwrap().remove("ca.crt");
        let why = material(&secret("a", &one), &lacking, SystemTime::now()).unwrap_err();
        assert!(why.contains("\"b\" has no ca.crt"), "{why}");
        let mut damaged = secret("a", &one);
        let data = damaged.data.as_mut().unwrap();
        data.insert("ca.crt".to_owned(), ByteString(b"nonsense".to_vec()));
        let why = material(&damaged, &secret("b", &one), SystemTime::now()).unwrap_err();
        assert!(why.contains("ca.crt in Secret \"a\""), "{why}");
        let later = SystemTime::now() + Duration::from_secs(1200);
        let why = material(&secret("a", &one), &secret("b", &one), later).unwrap_err();
        assert!(why.contains("Secret \"a\" has ended"), "{why}");
    }
}
