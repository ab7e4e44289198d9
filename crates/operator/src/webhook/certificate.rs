//! The Secret with the webhook's certificate and its CA: judged, made, renewed, replaced.
//!
//! In: the Secret as it is, and whether the configurations trust what it says. Out: what to change in it, or when to look
//! again; what to serve with; whom to trust. Everything is in the one Secret, and each move is one change of it
//! ([`rotation`](crate::tls::rotation)), so an operator that dies in between has lost nothing. Pure but for the keys it makes.
//! Unlike a cluster's, a CA that cannot be read is recreated: nobody trusts it but the API server, which has
//! it from the operator itself.
//! Never: a certificate of a CA that the configurations did not get to know first, but where there is no other.

use std::collections::BTreeSet;
use std::time::SystemTime;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_core::rotation::{Seen, Stage, next};
use quorate_pki::{Ca, Leaf, LeafUsages, PairPem, San};

use super::SERVICE;
use crate::install::NAME;
use crate::names::APP_LABEL;
use crate::requests::effect::{Amendment, Effect, Object};
use crate::tls::Lifetimes;
use crate::tls::cas::{CLIENTS, Cas, SINCE_ANNOTATION, earlier, seconds, value};

const LEAF_CERT: &str = "tls.crt";
const LEAF_KEY: &str = "tls.key";

/// What the Secret is judged by.
#[derive(Debug)]
pub struct WebhookCert<'a> {
    pub namespace: &'a str,
    pub lifetimes: &'a Lifetimes,
    pub now: SystemTime,
}

#[derive(Debug)]
pub struct Judged {
    /// To be asked for, before anything else.
    pub change: Option<Effect>,
    /// Whom the configurations are to trust, once that is known.
    pub bundle: Option<Vec<u8>>,
    /// Nothing is to be done before this, if all stays as it is.
    pub good_until: Option<SystemTime>,
}

/// The certificate and key to serve with, as they are in the Secret.
pub fn served(secret: &Secret) -> Option<PairPem> {
    Some(PairPem {
        cert: value(secret, LEAF_CERT)?.to_vec(),
        key: value(secret, LEAF_KEY)?.to_vec(),
    })
}

impl WebhookCert<'_> {
    /// Judges the Secret. `trusted` says whether all configurations there are trust this bundle.
    pub fn judge(
        &self,
        secret: Option<&Secret>,
        trusted: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Judged, String> {
        let Some(secret) = secret else {
            return self.first();
        };
        let cas = match Cas::read_without_peers(secret) {
            Ok(read) if read.clients.signer.is_some() => read,
            // Its own words ask the user to mend it, for the sake of members; here there are none.
            Ok(keyless) => return self.recreate(secret, Some(keyless.clients.bundle)),
            Err(_) => return self.recreate(secret, None),
        };
        let Some(signer) = &cas.clients.signer else {
            return self.recreate(secret, None);
        };
        let mut judged = Judged {
            change: None,
            bundle: Some(cas.clients.bundle.clone()),
            good_until: None,
        };
        let policy = &self.lifetimes.policy;
        let leaf = self.leaf();
        let good = served(secret).and_then(|pem| signer.judge(&pem, &leaf, policy, self.now).ok());
        let Some(leaf) = good else {
            let mut change = Amendment::of(secret);
            set_pair(&mut change, (LEAF_CERT, LEAF_KEY), &self.issue(signer)?);
            judged.change = Some(Effect::Amend(change));
            return Ok(judged);
        };
        let written = trusted(&cas.clients.bundle);
        let seen = Seen {
            due: cas.due(self.lifetimes, self.now),
            written,
            // An API server cannot be asked whom it trusts; it has a day to take up what it was given.
            proven: written,
            ripe: cas.ripe(self.lifetimes, self.now),
        };
        judged.change = cas.amended(next(cas.stage, seen), NAME, self.lifetimes, self.now);
        let renewal = earlier(leaf.not_after, policy.renew_before);
        judged.good_until = Some(match cas.stage {
            Stage::Steady => renewal.min(cas.due_at(self.lifetimes)),
            Stage::Introducing | Stage::Retiring => renewal.min(cas.ripe_at(self.lifetimes)),
        });
        Ok(judged)
    }

    fn first(&self) -> Result<Judged, String> {
        let (ca, leaf) = self.both()?;
        let data = [
            (CLIENTS.cert, &ca.pem().cert),
            (CLIENTS.key, &ca.pem().key),
            (LEAF_CERT, &leaf.cert),
            (LEAF_KEY, &leaf.key),
        ];
        let data = data.map(|(key, bytes)| (key.to_owned(), ByteString(bytes.clone())));
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(SERVICE.to_owned()),
                namespace: Some(self.namespace.to_owned()),
                labels: Some([(APP_LABEL.0.to_owned(), NAME.to_owned())].into()),
                annotations: Some([(SINCE_ANNOTATION.to_owned(), seconds(self.now).to_string())].into()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            data: Some(data.into()),
            ..Secret::default()
        };
        Ok(Judged {
            change: Some(Effect::Create(Object::Secret(Box::new(secret)))),
            bundle: None,
            good_until: None,
        })
    }

    /// There is one that nobody can sign with: all of it is recreated. Whom it says to trust stays trusted for a while,
    /// since pods may still show what that signed.
    fn recreate(&self, secret: &Secret, former: Option<Vec<u8>>) -> Result<Judged, String> {
        let (ca, leaf) = self.both()?;
        let mut change = Amendment::of(secret);
        set_pair(&mut change, (CLIENTS.cert, CLIENTS.key), ca.pem());
        set_pair(&mut change, (LEAF_CERT, LEAF_KEY), &leaf);
        change.set(CLIENTS.next_cert, None);
        change.set(CLIENTS.next_key, None);
        change.set(CLIENTS.former_cert, former.map(ByteString));
        let since = seconds(self.now).to_string();
        change
            .annotations
            .insert(SINCE_ANNOTATION.to_owned(), Some(since));
        Ok(Judged {
            change: Some(Effect::Amend(change)),
            bundle: None,
            good_until: None,
        })
    }

    fn both(&self) -> Result<(Ca, PairPem), String> {
        let made = Ca::make(NAME, self.lifetimes.policy.ca_lifetime, self.now);
        let made = made.map_err(|error| format!("no CA can be made for the webhook: {error}"))?;
        let leaf = self.issue(&made)?;
        Ok((made, leaf))
    }

    fn issue(&self, signer: &Ca) -> Result<PairPem, String> {
        let issued = signer.issue(&self.leaf(), self.lifetimes.policy.leaf_lifetime, self.now);
        issued.map_err(|error| format!("no certificate can be made for the webhook: {error}"))
    }

    /// The API server verifies exactly this name.
    fn leaf(&self) -> Leaf<'static> {
        let host = format!("{SERVICE}.{}.svc", self.namespace);
        Leaf {
            common_name: SERVICE,
            cluster_name: NAME,
            sans: BTreeSet::from([San::Dns(host)]),
            usages: LeafUsages::ServerAndClient,
        }
    }
}

fn set_pair(change: &mut Amendment, keys: (&str, &str), pem: &PairPem) {
    change.set(keys.0, Some(ByteString(pem.cert.clone())));
    change.set(keys.1, Some(ByteString(pem.key.clone())));
}

#[cfg(test)]
mod tests;
