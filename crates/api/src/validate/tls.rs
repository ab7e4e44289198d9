//! The rules of `spec.tls`.

use super::{Findings, Ground};
use crate::cluster::{Tls, TlsSecret};
use crate::path::FieldPath;
use crate::resolve::TlsSecrets;

/// The user's own certificates, if there are any.
pub(crate) fn tls(tls: Option<&Tls>, found: &mut Findings) -> Option<TlsSecrets> {
    let path = FieldPath::of("spec.tls");
    let tls = tls?;
    let mut name = |field: &str, secret: Option<&TlsSecret>| {
        let secret = secret?;
        let name = secret.secret_name.clone().filter(|name| !name.is_empty());
        if name.is_none() {
            let fix = "Write the name of a Secret that holds tls.crt, tls.key and ca.crt.";
            found.fault(
                path.key(field).key("secretName"),
                "nothing",
                "the name of a Secret",
                fix,
            );
        }
        Some(name.unwrap_or_default())
    };
    let client = name("client", tls.client.as_ref());
    let peer = name("peer", tls.peer.as_ref());
    if found.ground == Ground::Host {
        for (set, field) in [(client.is_some(), "client"), (peer.is_some(), "peer")] {
            if set {
                found.warn(
                    path.key(field),
                    "ignored: there are no Secrets on this machine; quorate makes the certificates.",
                );
            }
        }
    }
    match (client, peer) {
        (Some(client), Some(peer)) => Some(TlsSecrets { client, peer }),
        (None, None) => None,
        (client, _) => {
            let (given, lacking) = if client.is_some() {
                ("client", "peer")
            } else {
                ("peer", "client")
            };
            found.fault(
                path.key(lacking),
                format!("nothing, while {given} is set"),
                "both or neither",
                "Name a Secret for each, or leave both out and quorate makes the certificates.",
            );
            None
        }
    }
}
