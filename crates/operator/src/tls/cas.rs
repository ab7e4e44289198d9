//! The Secret with a cluster's CAs, read and changed.
//!
//! In: the Secret. Out: who signs, who is trusted, the stage of a rotation; and for each move the change to the Secret.
//! It belongs to nothing, like the claims: a cluster that is deleted and made again goes on with it.
//! Never: a CA replaced because it could not be read; a change to any Secret but the one that was read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use quorate_core::rotation::{Move, Stage};
use quorate_pki::{Ca, CertInfo, PairPem, describe_all};

use super::Lifetimes;
use crate::names::Names;
use crate::requests::effect::{Amendment, Effect, Object};

/// On the Secret, by whoever wants another CA now: `now`.
pub const ROTATE_ANNOTATION: &str = "etcd.improbable.io/rotate";
/// On the Secret: since when it is in its stage, in seconds since 1970.
pub const SINCE_ANNOTATION: &str = "etcd.improbable.io/stage-since";
/// On the Secret: members were running when it was made that trust another CA, which nobody has any more.
pub const STRANGERS_ANNOTATION: &str = "etcd.improbable.io/members-trust-another";

pub(crate) const CERT: &str = "ca.crt";
pub(crate) const KEY: &str = "ca.key";
pub(crate) const NEXT_CERT: &str = "next.crt";
pub(crate) const NEXT_KEY: &str = "next.key";
pub(crate) const FORMER_CERT: &str = "former.crt";

/// The CAs of a cluster.
#[derive(Debug)]
pub struct Cas {
    pub stage: Stage,
    /// Who signs; `None` if the key is lost.
    pub signer: Option<Ca>,
    /// The next, while it is introduced.
    pub next: Option<Ca>,
    /// The certificates of all that are trusted.
    pub bundle: Vec<u8>,
    /// The fingerprints of all that are trusted.
    trusted: BTreeSet<String>,
    /// Someone wants another CA, without waiting for clients.
    pub urgent: bool,
    /// Members may be running that trust another CA, which nobody has any more.
    pub lost_ca: bool,
    /// When the stage began.
    since: SystemTime,
    /// When those that sign or are trusted end, the earliest.
    ends: SystemTime,
    read: Amendment,
}

/// A value of a Secret.
pub(crate) fn value<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let value = secret.data.as_ref()?.get(key)?;
    Some(value.0.as_slice()).filter(|bytes| !bytes.is_empty())
}

pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// So much before `time`, which someone else wrote; if no clock can show that, the earliest that anything is compared with.
pub(crate) fn earlier(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_sub(by).unwrap_or(SystemTime::UNIX_EPOCH)
}

impl Cas {
    /// Reads the Secret, or says what is wrong with it and what to do.
    pub fn read(secret: &Secret) -> Result<Cas, String> {
        let name = secret.name_any();
        let wrong = |key: &str, why: &str| {
            format!(
                "{key} in Secret {name:?} cannot be used: {why}; put back what was there, or delete the Secret, and the \
                 members are taken to a new CA one by one"
            )
        };
        let described = |key: &str, pem: &[u8]| describe_all(pem).map_err(|why| wrong(key, &why));
        let Some(cert) = value(secret, CERT) else {
            return Err(wrong(CERT, "it is not there"));
        };
        let mut all: Vec<CertInfo> = described(CERT, cert)?;
        let mut bundle = cert.to_vec();
        let ca = |cert_key: &str, cert: &[u8], key_key: &str| match value(secret, key_key) {
            None => Ok(None),
            Some(key) => {
                let pem = PairPem {
                    cert: cert.to_vec(),
                    key: key.to_vec(),
                };
                let read = Ca::read(&pem);
                read.map(Some)
                    .map_err(|why| wrong(&format!("{cert_key} with {key_key}"), &why.to_string()))
            }
        };
        let signer = ca(CERT, cert, KEY)?;
        let mut next = None;
        let mut stage = Stage::Steady;
        if let Some(cert) = value(secret, NEXT_CERT) {
            next = ca(NEXT_CERT, cert, NEXT_KEY)?;
            if next.is_none() {
                return Err(wrong(NEXT_KEY, "it is not there"));
            }
            stage = Stage::Introducing;
            all.extend(described(NEXT_CERT, cert)?);
            bundle.extend(cert);
        } else if let Some(cert) = value(secret, FORMER_CERT) {
            stage = Stage::Retiring;
            all.extend(described(FORMER_CERT, cert)?);
            bundle.extend(cert);
        }
        let annotations = secret.annotations();
        let since = annotations
            .get(SINCE_ANNOTATION)
            .and_then(|text| text.parse().ok())
            .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        let signs = signer.as_ref().map_or(&all[0], |a| a.info());
        Ok(Cas {
            stage,
            ends: signs.not_after,
            signer,
            next,
            bundle,
            trusted: all.iter().map(|info| info.fingerprint.to_string()).collect(),
            urgent: annotations
                .get(ROTATE_ANNOTATION)
                .is_some_and(|text| text == "now"),
            lost_ca: annotations.contains_key(STRANGERS_ANNOTATION),
            since: since.unwrap_or(SystemTime::UNIX_EPOCH),
            read: Amendment::of(secret),
        })
    }

    /// All that are trusted, as a text: what members are restarted for.
    pub fn restarts_for(&self) -> String {
        let all: Vec<&str> = self.trusted.iter().map(String::as_str).collect();
        all.join(",")
    }

    /// Is another CA needed?
    pub fn due(&self, lifetimes: &Lifetimes, now: SystemTime) -> bool {
        self.urgent || self.signer.is_none() || now >= self.due_at(lifetimes)
    }

    /// When another CA will be needed because this one ends.
    pub fn due_at(&self, lifetimes: &Lifetimes) -> SystemTime {
        earlier(self.ends, lifetimes.ca_renewal)
    }

    /// Has the one that signs ended? Then whatever it signed is refused by everyone.
    pub fn ended(&self, now: SystemTime) -> bool {
        self.ends <= now
    }

    /// The change to the Secret once no member trusts a CA that nobody has.
    pub fn no_strangers(&self) -> Effect {
        let mut change = self.read.clone();
        change.annotations.insert(STRANGERS_ANNOTATION.to_owned(), None);
        Effect::Amend(change)
    }

    /// Have clients had the time to take up what changed?
    pub fn ripe(&self, lifetimes: &Lifetimes, now: SystemTime) -> bool {
        self.urgent || now >= self.ripe_at(lifetimes)
    }

    /// When they will have had it.
    pub fn ripe_at(&self, lifetimes: &Lifetimes) -> SystemTime {
        self.since.checked_add(lifetimes.overlap).unwrap_or(self.since)
    }

    /// The change for a move; none for none.
    pub fn amended(&self, to: Move, cluster: &str, lifetimes: &Lifetimes, now: SystemTime) -> Option<Effect> {
        let mut change = self.read.clone();
        let put = |bytes: &[u8]| Some(ByteString(bytes.to_vec()));
        match to {
            Move::Stay => return None,
            Move::Introduce => {
                // Failing to make a key is no reason for anything but trying again.
                let next = Ca::make(cluster, lifetimes.policy.ca_lifetime, now).ok()?;
                change.set(NEXT_CERT, put(&next.pem().cert));
                change.set(NEXT_KEY, put(&next.pem().key));
            }
            Move::Switch => {
                let next = self.next.as_ref()?;
                let former = self.bundle.strip_suffix(next.pem().cert.as_slice())?;
                change.set(FORMER_CERT, put(former));
                change.set(CERT, put(&next.pem().cert));
                change.set(KEY, put(&next.pem().key));
                change.set(NEXT_CERT, None);
                change.set(NEXT_KEY, None);
            }
            Move::Drop => {
                change.set(FORMER_CERT, None);
                change.annotations.insert(ROTATE_ANNOTATION.to_owned(), None);
            }
        }
        let since = seconds(now).to_string();
        change
            .annotations
            .insert(SINCE_ANNOTATION.to_owned(), Some(since));
        Some(Effect::Amend(change))
    }
}

/// Whom the members trust of a cluster that has no CA.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    Nobody,
    /// Another, whose certificates these are. It stays trusted, and the new one is introduced.
    Known(&'a [u8]),
    /// Another, and no Secret says which.
    Unknown,
}

/// The first CA of a cluster.
pub fn first(
    names: &Names,
    trusted: Trust<'_>,
    lifetimes: &Lifetimes,
    now: SystemTime,
) -> Result<Effect, String> {
    let made = Ca::make(&names.cluster, lifetimes.policy.ca_lifetime, now);
    let made = made.map_err(|error| format!("no CA can be made: {error}"))?;
    let bytes = |bytes: &[u8]| ByteString(bytes.to_vec());
    let pem = made.pem();
    let data = match trusted {
        Trust::Nobody | Trust::Unknown => BTreeMap::from([
            (CERT.to_owned(), bytes(&pem.cert)),
            (KEY.to_owned(), bytes(&pem.key)),
        ]),
        Trust::Known(trusted) => BTreeMap::from([
            (CERT.to_owned(), bytes(trusted)),
            (NEXT_CERT.to_owned(), bytes(&pem.cert)),
            (NEXT_KEY.to_owned(), bytes(&pem.key)),
        ]),
    };
    let mut annotations = BTreeMap::from([(SINCE_ANNOTATION.to_owned(), seconds(now).to_string())]);
    if let Trust::Unknown = trusted {
        annotations.insert(STRANGERS_ANNOTATION.to_owned(), "true".to_owned());
    }
    Ok(Effect::Create(Object::Secret(Box::new(Secret {
        metadata: ObjectMeta {
            name: Some(names.ca_secret()),
            namespace: Some(names.namespace.clone()),
            labels: Some(names.object_labels()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    }))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_that_someone_writes_on_the_secret_makes_it_panic() {
        let (lifetimes, now) = (Lifetimes::default(), SystemTime::now());
        let Effect::Create(Object::Secret(mut secret)) =
            first(&Names::of("n", "c"), Trust::Nobody, &lifetimes, now).unwrap()
        else {
            panic!("a Secret is made");
        };
        let edge = i64::MAX.to_string();
        for since in [
            "18446744073709551615",
            edge.as_str(),
            "9223372036854775808",
            "-1",
            "soon",
        ] {
            secret
                .annotations_mut()
                .insert(SINCE_ANNOTATION.to_owned(), since.to_owned());
            let read = Cas::read(&secret).unwrap();
            let ripe = read.ripe(&lifetimes, now);
            // A clock can show the year that only this one stands for; the others are no times at all.
            assert_eq!(ripe, since != edge, "{since}");
            assert!(!read.due(&lifetimes, now), "{since}");
        }
    }
}
