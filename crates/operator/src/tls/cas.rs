//! The Secret with a cluster's CAs, read and changed: those for clients and those that members know each other by.
//!
//! In: the Secret. Out: who signs, who is trusted, the stage of a rotation; and for each move the change to the Secret. Both
//! kinds go through a rotation together, each only if it needs another. A cluster that was made when one CA signed for all
//! has no keys for the second kind in its Secret: its members know each other by the first, until they are taken to another.
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

/// On the Secret, by a user who wants another CA now: `now`.
pub const ROTATE_ANNOTATION: &str = "etcd.improbable.io/rotate";
/// On the Secret: since when it is in its stage, in seconds since 1970.
pub const SINCE_ANNOTATION: &str = "etcd.improbable.io/stage-since";
/// On the Secret: members were running when it was made that trust another CA, which nobody has any more.
pub const LOST_CA_ANNOTATION: &str = "etcd.improbable.io/members-trust-another";

/// Under what the CAs of one kind are in the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) cert: &'static str,
    pub(crate) key: &'static str,
    pub(crate) next_cert: &'static str,
    pub(crate) next_key: &'static str,
    pub(crate) former_cert: &'static str,
}

/// The CAs that clients and members know each other by.
pub(crate) const CLIENTS: Keys = Keys {
    cert: "ca.crt",
    key: "ca.key",
    next_cert: "next.crt",
    next_key: "next.key",
    former_cert: "former.crt",
};
/// The CAs that members know each other by.
pub(crate) const PEERS: Keys = Keys {
    cert: "peer-ca.crt",
    key: "peer-ca.key",
    next_cert: "peer-next.crt",
    next_key: "peer-next.key",
    former_cert: "peer-former.crt",
};

/// The CAs of one kind.
#[derive(Debug)]
pub struct CaSet {
    keys: Keys,
    /// Who signs; `None` if the key is lost.
    pub signer: Option<Ca>,
    /// The next, while it is introduced.
    pub next: Option<Ca>,
    /// The certificates of all that are trusted.
    pub bundle: Vec<u8>,
    /// The fingerprints of all that are trusted.
    trusted: BTreeSet<String>,
    retires: bool,
    /// When the one that signs ends.
    ends: SystemTime,
}

/// The CAs of a cluster.
#[derive(Debug)]
pub struct Cas {
    pub stage: Stage,
    pub clients: CaSet,
    /// Those between members; `None` where there are no members.
    pub peers: Option<CaSet>,
    /// Someone wants other CAs, without waiting for clients.
    pub urgent: bool,
    /// Members may be running that trust another CA, which nobody has any more.
    pub lost_ca: bool,
    /// When the stage began.
    since: SystemTime,
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

impl CaSet {
    fn read(secret: &Secret, keys: Keys) -> Result<CaSet, String> {
        let name = secret.name_any();
        let wrong = |key: &str, why: &str| {
            format!(
                "{key} in Secret {name:?} cannot be used: {why}; put back what was there, or delete the Secret, and the \
                 members are taken to a new CA one by one"
            )
        };
        let described = |key: &str, pem: &[u8]| describe_all(pem).map_err(|why| wrong(key, &why));
        let Some(cert) = value(secret, keys.cert) else {
            return Err(wrong(keys.cert, "it is not there"));
        };
        let mut all: Vec<CertInfo> = described(keys.cert, cert)?;
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
        let signer = ca(keys.cert, cert, keys.key)?;
        let mut next = None;
        let mut retires = false;
        if let Some(cert) = value(secret, keys.next_cert) {
            next = ca(keys.next_cert, cert, keys.next_key)?;
            if next.is_none() {
                return Err(wrong(keys.next_key, "it is not there"));
            }
            all.extend(described(keys.next_cert, cert)?);
            bundle.extend(cert);
        } else if let Some(cert) = value(secret, keys.former_cert) {
            retires = true;
            all.extend(described(keys.former_cert, cert)?);
            bundle.extend(cert);
        }
        let signs = signer.as_ref().map_or(&all[0], |a| a.info());
        Ok(CaSet {
            keys,
            ends: signs.not_after,
            signer,
            next,
            bundle,
            trusted: all.iter().map(|info| info.fingerprint.to_string()).collect(),
            retires,
        })
    }

    /// Is a former one still trusted?
    pub fn retires(&self) -> bool {
        self.retires
    }

    fn moves(&self) -> bool {
        self.retires || self.next.is_some()
    }

    fn due(&self, lifetimes: &Lifetimes, now: SystemTime) -> bool {
        self.signer.is_none() || now >= earlier(self.ends, lifetimes.ca_renewal)
    }

    fn trusted(&self) -> String {
        let all: Vec<&str> = self.trusted.iter().map(String::as_str).collect();
        all.join(",")
    }

    /// The change for a move of these.
    fn amend(&self, to: Move, change: &mut Amendment, made: Option<&Ca>) {
        let put = |bytes: &[u8]| Some(ByteString(bytes.to_vec()));
        let keys = self.keys;
        match (to, made, &self.next) {
            (Move::Introduce, Some(next), _) => {
                change.set(keys.next_cert, put(&next.pem().cert));
                change.set(keys.next_key, put(&next.pem().key));
            }
            (Move::Switch, _, Some(next)) => {
                let former = self.bundle.strip_suffix(next.pem().cert.as_slice());
                change.set(keys.former_cert, put(former.unwrap_or(&self.bundle)));
                change.set(keys.cert, put(&next.pem().cert));
                change.set(keys.key, put(&next.pem().key));
                change.set(keys.next_cert, None);
                change.set(keys.next_key, None);
            }
            (Move::Drop, _, _) if self.retires => change.set(keys.former_cert, None),
            _ => {}
        }
    }
}

impl Cas {
    /// Reads those of a cluster, or says what is wrong with them and what to do.
    pub fn read(secret: &Secret) -> Result<Cas, String> {
        let own = [PEERS.cert, PEERS.key, PEERS.next_cert, PEERS.former_cert];
        let own = own.iter().any(|key| value(secret, key).is_some());
        let peers = CaSet::read(secret, if own { PEERS } else { CLIENTS })?;
        Cas::of(secret, Some(peers))
    }

    /// The same where there are no members.
    pub fn read_without_peers(secret: &Secret) -> Result<Cas, String> {
        Cas::of(secret, None)
    }

    fn of(secret: &Secret, peers: Option<CaSet>) -> Result<Cas, String> {
        let clients = CaSet::read(secret, CLIENTS)?;
        let any = |is: fn(&CaSet) -> bool| is(&clients) || peers.as_ref().is_some_and(is);
        let stage = if any(|line| line.next.is_some()) {
            Stage::Introducing
        } else if any(|line| line.retires) {
            Stage::Retiring
        } else {
            Stage::Steady
        };
        let annotations = secret.annotations();
        let since = annotations
            .get(SINCE_ANNOTATION)
            .and_then(|text| text.parse().ok())
            .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        Ok(Cas {
            stage,
            clients,
            peers,
            urgent: annotations
                .get(ROTATE_ANNOTATION)
                .is_some_and(|text| text == "now"),
            lost_ca: annotations.contains_key(LOST_CA_ANNOTATION),
            since: since.unwrap_or(SystemTime::UNIX_EPOCH),
            read: Amendment::of(secret),
        })
    }

    fn lines(&self) -> impl Iterator<Item = &CaSet> {
        [&self.clients].into_iter().chain(&self.peers)
    }

    /// Do members know each other by the CAs that are for clients?
    pub fn shared(&self) -> bool {
        self.peers.as_ref().is_some_and(|peers| peers.keys == CLIENTS)
    }

    /// All that are trusted, as a text: what members are restarted for.
    pub fn restarts_for(&self) -> String {
        let peers = self.peers.as_ref().filter(|_| !self.shared());
        let all: Vec<String> = [&self.clients]
            .into_iter()
            .chain(peers)
            .map(CaSet::trusted)
            .collect();
        all.join("|")
    }

    /// Is another CA needed?
    pub fn due(&self, lifetimes: &Lifetimes, now: SystemTime) -> bool {
        self.urgent || self.shared() || self.lines().any(|line| line.due(lifetimes, now))
    }

    /// When another CA will be needed because one ends.
    pub fn due_at(&self, lifetimes: &Lifetimes) -> SystemTime {
        let ends = self.lines().map(|line| line.ends).min();
        earlier(ends.unwrap_or(SystemTime::UNIX_EPOCH), lifetimes.ca_renewal)
    }

    /// The change to the Secret that puts a CA between members back; whom else they trust stays trusted until all show
    /// certificates of it.
    pub fn with_peers(&self, copy: &Copied, now: SystemTime) -> Effect {
        let mut change = self.read.clone();
        for (key, value) in copy.data() {
            change.set(key, value);
        }
        change
            .annotations
            .insert(SINCE_ANNOTATION.to_owned(), Some(seconds(now).to_string()));
        Effect::Amend(change)
    }

    /// Has one that signs ended? Then whatever it signed is refused by everyone.
    pub fn ended(&self, now: SystemTime) -> bool {
        self.lines().any(|line| line.ends <= now)
    }

    /// The change to the Secret once no member trusts a CA that nobody has.
    pub fn clear_lost_ca(&self) -> Effect {
        let mut change = self.read.clone();
        change.annotations.insert(LOST_CA_ANNOTATION.to_owned(), None);
        Effect::Amend(change)
    }

    /// Have clients had the time to take up what changed for them?
    pub fn ripe(&self, lifetimes: &Lifetimes, now: SystemTime) -> bool {
        self.urgent || !self.clients.moves() || now >= self.ripe_at(lifetimes)
    }

    /// When they will have had it.
    pub fn ripe_at(&self, lifetimes: &Lifetimes) -> SystemTime {
        self.since.checked_add(lifetimes.overlap).unwrap_or(self.since)
    }

    /// The change for a move; none for none.
    pub fn amended(&self, to: Move, cluster: &str, lifetimes: &Lifetimes, now: SystemTime) -> Option<Effect> {
        let mut change = self.read.clone();
        let needs = |line: &CaSet| self.urgent || line.due(lifetimes, now);
        // Failing to make a key is no reason for anything but trying again.
        let make = |needs: bool| {
            let made = (to == Move::Introduce && needs)
                .then(|| Ca::make(cluster, lifetimes.policy.ca_lifetime, now));
            made.transpose().ok()
        };
        match to {
            Move::Stay => return None,
            Move::Introduce | Move::Switch => {}
            Move::Drop => {
                change.annotations.insert(ROTATE_ANNOTATION.to_owned(), None);
            }
        }
        self.clients
            .amend(to, &mut change, make(needs(&self.clients))?.as_ref());
        match &self.peers {
            Some(_) if self.shared() && to != Move::Introduce => {}
            Some(shared) if self.shared() => {
                change.set(PEERS.cert, Some(ByteString(shared.bundle.clone())));
                let key = shared.signer.as_ref().map(|ca| ByteString(ca.pem().key.clone()));
                change.set(PEERS.key, key);
                let next = make(true)??;
                change.set(PEERS.next_cert, Some(ByteString(next.pem().cert.clone())));
                change.set(PEERS.next_key, Some(ByteString(next.pem().key.clone())));
            }
            Some(peers) => peers.amend(to, &mut change, make(needs(peers))?.as_ref()),
            None => {}
        }
        let since = seconds(now).to_string();
        change
            .annotations
            .insert(SINCE_ANNOTATION.to_owned(), Some(since));
        Some(Effect::Amend(change))
    }
}

/// A CA between members whose Secret is gone, or has lost it, and which the operator's own Secret has.
#[derive(Debug)]
pub struct Copied {
    pem: PairPem,
    /// The certificates of all others that members trust.
    others: Vec<u8>,
}

impl Copied {
    /// This one, of all that members trust.
    pub fn of(pem: PairPem, trusted: &[u8]) -> Copied {
        let cert = &pem.cert;
        let others = match trusted.windows(cert.len()).position(|part| part == cert) {
            Some(at) => [&trusted[..at], &trusted[at + cert.len()..]].concat(),
            None => trusted.to_vec(),
        };
        Copied { pem, others }
    }

    fn data(&self) -> [(&'static str, Option<ByteString>); 5] {
        let put = |bytes: &[u8]| Some(ByteString(bytes.to_vec()));
        let others = (!self.others.is_empty()).then(|| ByteString(self.others.clone()));
        [
            (PEERS.cert, put(&self.pem.cert)),
            (PEERS.key, put(&self.pem.key)),
            (PEERS.former_cert, others),
            (PEERS.next_cert, None),
            (PEERS.next_key, None),
        ]
    }
}

/// Whom the members trust of a cluster that has no CA.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    Nobody,
    /// Others, whose certificates these are. They stay trusted, and the new ones are introduced.
    Known {
        clients: &'a [u8],
        peers: &'a [u8],
    },
    /// Others, and no Secret says which.
    Unknown,
}

/// The first CAs of a cluster.
pub fn first(
    names: &Names,
    trusted: Trust<'_>,
    copied: Option<&Copied>,
    lifetimes: &Lifetimes,
    now: SystemTime,
) -> Result<Effect, String> {
    let mut data = BTreeMap::new();
    let copied = copied.into_iter().flat_map(Copied::data);
    data.extend(copied.filter_map(|(key, value)| Some((key.to_owned(), value?))));
    let peers = Some(PEERS).filter(|_| data.is_empty());
    for keys in [CLIENTS].into_iter().chain(peers) {
        let made = Ca::make(&names.cluster, lifetimes.policy.ca_lifetime, now);
        let made = made.map_err(|error| format!("no CA can be made: {error}"))?;
        let known = match trusted {
            Trust::Nobody | Trust::Unknown => None,
            Trust::Known { clients, .. } if keys == CLIENTS => Some(clients),
            Trust::Known { peers, .. } => Some(peers),
        };
        let (cert, key) = match known {
            None => (keys.cert, keys.key),
            Some(_) => (keys.next_cert, keys.next_key),
        };
        let pem = made.pem();
        let trusted = known.map(|known| (keys.cert, known));
        for (key, bytes) in [(cert, pem.cert.as_slice()), (key, &pem.key)]
            .into_iter()
            .chain(trusted)
        {
            data.insert(key.to_owned(), ByteString(bytes.to_vec()));
        }
    }
    let mut annotations = BTreeMap::from([(SINCE_ANNOTATION.to_owned(), seconds(now).to_string())]);
    if let Trust::Unknown = trusted {
        annotations.insert(LOST_CA_ANNOTATION.to_owned(), "true".to_owned());
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
            first(&Names::of("n", "c"), Trust::Nobody, None, &lifetimes, now).unwrap()
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
            let ripe = read.ripe_at(&lifetimes) <= now;
            // A clock can show the year that only this one stands for; the others are no times at all.
            assert_eq!(ripe, since != edge, "{since}");
            assert!(!read.due(&lifetimes, now), "{since}");
        }
    }
}
