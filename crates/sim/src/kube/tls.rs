//! Who refuses whom: what members trust since they started, what they show now, and what the operator is answered when it asks
//! for proof.
//!
//! In: the Secrets as the API server has them, real certificates in them; when kubelet gets round to them. Out: which
//! members do not talk to each other. Never: a refusal while no CA was lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use quorate_client::{Address, Port};
use quorate_core::model::Ordinal;
use quorate_operator::names::Names;
use quorate_operator::tls::cas::{CaSet, Cas, LOST_CA_ANNOTATION, ROTATE_ANNOTATION};
use quorate_operator::tls::secure::CertificateSettings;
use quorate_pki::{Ca, Leaf, LeafUsages, PairPem, Policy, Why, describe_all};

use super::api::Objects;
use super::world::{KubeBreak, KubeWorld};
use crate::etcd::Place;

/// CAs, by the fingerprints of their certificates.
pub type Fingerprints = BTreeSet<String>;

/// What a process trusts, at each port: it reads that when it starts.
#[derive(Clone, Debug, Default)]
pub struct Trusts {
    clients: Fingerprints,
    peers: Fingerprints,
}

/// What the operator connects with.
#[derive(Clone, Debug, Default)]
pub struct Connects {
    pub trusts: Fingerprints,
    pub shows: Option<String>,
}

/// What a member is asked to prove.
#[derive(Clone, Debug)]
pub enum Test {
    /// It answers to a certificate of this CA.
    Trusts(String),
    /// It shows a certificate of this CA.
    Shows(String),
}

/// The certificates that have been seen, and who signed them.
#[derive(Debug, Default)]
pub struct Certificates {
    cas: BTreeMap<String, Ca>,
    signers: BTreeMap<Vec<u8>, String>,
    bundles: BTreeMap<Vec<u8>, Fingerprints>,
}

const SERVER: (&str, &str) = ("server.crt", "server.key");
const PEER: (&str, &str) = ("peer.crt", "peer.key");
const CLIENT: (&str, &str) = ("tls.crt", "tls.key");

/// As short as a world lasts.
pub fn settings() -> CertificateSettings {
    let mut settings = CertificateSettings::default();
    settings.lifetimes.policy = Policy {
        ca_lifetime: Duration::from_secs(86_400),
        leaf_lifetime: Duration::from_secs(300),
        renew_before: Duration::from_secs(150),
    };
    settings.lifetimes.ca_renewal = Duration::from_secs(3600);
    settings.lifetimes.overlap = Duration::from_secs(20);
    settings
}

fn bytes<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    Some(secret.data.as_ref()?.get(key)?.0.as_slice())
}

fn pair(secret: &Secret, (cert, key): (&str, &str)) -> Option<PairPem> {
    Some(PairPem {
        cert: bytes(secret, cert)?.to_vec(),
        key: bytes(secret, key)?.to_vec(),
    })
}

/// What an operator that has these Secrets connects with: whom it trusts, and what it shows.
pub fn connects(secrets: &Objects<Secret>, names: &Names) -> Option<(Vec<u8>, PairPem)> {
    let cas = Cas::read(secrets.get(&names.ca_secret())?).ok()?;
    let own = [names.operator_secret(), names.client_secret()];
    let own = own.iter().find_map(|name| pair(secrets.get(name)?, CLIENT));
    let lent = || secrets.values().find_map(|secret| pair(secret, SERVER));
    Some((cas.clients.bundle, own.or_else(lent)?))
}

/// What members have to prove, by the CAs in the Secret.
pub fn tests(cas: &Cas) -> Vec<(Port, Test)> {
    let fingerprint = |ca: &Ca| ca.info().fingerprint.to_string();
    let test = |line: &CaSet| match (&line.next, &line.signer) {
        (Some(next), _) => Some(Test::Trusts(fingerprint(next))),
        (None, Some(signer)) if line.retires() => Some(Test::Shows(fingerprint(signer))),
        _ => None,
    };
    let peers = cas.peers.as_ref().filter(|_| !cas.shared());
    let lines = [(Port::Client, Some(&cas.clients)), (Port::Peer, peers)];
    let tests = lines
        .into_iter()
        .filter_map(|(port, line)| Some((port, test(line?)?)));
    tests.collect()
}

impl Certificates {
    /// Gets to know the CAs in a Secret.
    pub fn learn(&mut self, secret: &Secret) {
        let pairs = ["", "peer-"].into_iter().flat_map(|kind| {
            [("ca.crt", "ca.key"), ("next.crt", "next.key")]
                .map(|(cert, key)| (format!("{kind}{cert}"), format!("{kind}{key}")))
        });
        for (cert, key) in pairs {
            if let (Some(cert), Some(key)) = (bytes(secret, &cert), bytes(secret, &key))
                && !self
                    .bundles
                    .get(cert)
                    .is_some_and(|known| known.iter().all(|f| self.cas.contains_key(f)))
                && let Ok(ca) = Ca::read(&PairPem {
                    cert: cert.to_vec(),
                    key: key.to_vec(),
                })
            {
                let fingerprint = ca.info().fingerprint.to_string();
                self.bundles
                    .insert(cert.to_vec(), BTreeSet::from([fingerprint.clone()]));
                self.cas.insert(fingerprint, ca);
            }
        }
    }

    fn trusts(&mut self, secret: &Secret, key: &str) -> Fingerprints {
        bytes(secret, key)
            .map(|bundle| self.bundle(bundle))
            .unwrap_or_default()
    }

    /// The CAs in a PEM text.
    pub fn bundle(&mut self, bundle: &[u8]) -> Fingerprints {
        if let Some(known) = self.bundles.get(bundle) {
            return known.clone();
        }
        let all = describe_all(bundle).unwrap_or_default();
        let all: Fingerprints = all.iter().map(|info| info.fingerprint.to_string()).collect();
        self.bundles.insert(bundle.to_vec(), all.clone());
        all
    }

    /// Whose certificate is shown from this Secret.
    fn signer(&mut self, secret: &Secret, keys: (&str, &str)) -> Option<String> {
        self.signer_of(&pair(secret, keys)?)
    }

    pub fn signer_of(&mut self, pem: &PairPem) -> Option<String> {
        if let Some(known) = self.signers.get(&pem.cert) {
            return Some(known.clone());
        }
        let now = SystemTime::UNIX_EPOCH;
        let signed = |ca: &Ca, usages| {
            let leaf = Leaf {
                common_name: "",
                cluster_name: "",
                sans: BTreeSet::new(),
                usages,
            };
            let judged = ca.judge(pem, &leaf, &settings().lifetimes.policy, now);
            !matches!(
                judged,
                Err(Why::NotSignedByCa | Why::WrongUsage { .. } | Why::Unreadable { .. })
            )
        };
        let mut all = self.cas.iter();
        let both = [LeafUsages::ServerAndClient, LeafUsages::Client];
        let (signer, _) = all.find(|(_, ca)| both.iter().any(|usages| signed(ca, *usages)))?;
        let signer = signer.clone();
        self.signers.insert(pem.cert.clone(), signer.clone());
        Some(signer)
    }
}

impl KubeWorld {
    /// As an earlier quorate left it: one CA signed for all.
    pub(super) fn make_common_ca(&mut self) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(super::EPOCH_MS);
        let Ok(ca) = Ca::make(&self.names.cluster, settings().lifetimes.policy.ca_lifetime, now) else {
            return;
        };
        let data = [("ca.crt", &ca.pem().cert), ("ca.key", &ca.pem().key)];
        let data = data.map(|(key, bytes)| (key.to_owned(), ByteString(bytes.clone())));
        let _ = self.api.create(Secret {
            metadata: ObjectMeta {
                name: Some(self.names.ca_secret()),
                namespace: Some(self.names.namespace.clone()),
                labels: Some(self.names.object_labels()),
                ..ObjectMeta::default()
            },
            data: Some(data.into()),
            ..Secret::default()
        });
    }

    /// Someone asks for other CAs.
    pub(super) fn request_rotation(&mut self) -> bool {
        let name = self.names.ca_secret();
        let asked = (ROTATE_ANNOTATION.to_owned(), "now".to_owned());
        let done = self
            .api
            .change::<Secret>(&name, None, |secret| secret.annotations_mut().extend([asked]));
        done.is_ok()
    }

    /// Someone deletes a Secret; another only when the last one was made good.
    pub(super) fn delete_secret(&mut self) -> bool {
        let secrets = &self.api.secrets.live;
        let cas = secrets.get(&self.names.ca_secret());
        let cas = cas.and_then(|secret| Cas::read(secret).ok());
        let signs = |line: &CaSet| line.signer.is_some();
        let signs = |cas: &Cas| signs(&cas.clients) && cas.peers.as_ref().is_some_and(signs);
        let own = [self.names.operator_secret(), self.names.client_secret()];
        let members = self
            .pods
            .values()
            .map(|pod| self.names.member_secret(pod.ordinal));
        let whole = own
            .into_iter()
            .chain(members)
            .all(|name| secrets.contains_key(&name));
        if !whole || !cas.as_ref().is_some_and(signs) {
            return false;
        }
        let all: Vec<String> = self.api.secrets.live.keys().cloned().collect();
        if all.is_empty() {
            return false;
        }
        let name = &all[self.rng.usize(..all.len())];
        self.log.event("fault", format_args!("Secret {name} is deleted"));
        self.api.remove::<Secret>(name);
        true
    }

    /// A person does what the operator asks for where nobody can sign and no member has a certificate left: deletes all.
    pub(super) fn delete_all_secrets(&mut self) {
        if !self.api.now.is_multiple_of(64) || !std::mem::take(&mut self.held_for_certificates) {
            return;
        }
        self.log.event("user", format_args!("deletes all Secrets"));
        for name in self.api.secrets.live.keys().cloned().collect::<Vec<_>>() {
            self.api.remove::<Secret>(&name);
        }
    }

    /// kubelet gets round to the Secrets of pods.
    pub(super) fn mount_secrets(&mut self) {
        if !self.wants.tls || self.api_away() {
            return;
        }
        for pod in self.pods.values_mut() {
            let secret = self.api.secrets.live.get(&self.names.member_secret(pod.ordinal));
            if let Some(secret) = secret
                && pod.dead_until.is_none()
                && (pod.files.is_none() || self.rng.u8(..) < 12)
            {
                pod.files = Some(secret.clone());
            }
        }
    }

    /// What a process that starts now will trust.
    pub(super) fn trusts_of(&mut self, files: &Arc<Secret>) -> Trusts {
        Trusts {
            clients: self.certificates.trusts(files, "ca.crt"),
            peers: self.certificates.trusts(files, "peer-ca.crt"),
        }
    }

    /// Does a member run that trusts none of the CAs that members are to trust each other by?
    pub(super) fn trusts_lost_peer_ca(&mut self, ordinal: Ordinal) -> bool {
        let secret = self
            .api
            .secrets
            .live
            .get(&self.names.member_secret(ordinal))
            .cloned();
        let now = secret
            .map(|secret| self.trusts_of(&secret).peers)
            .unwrap_or_default();
        let mut pods = self.pods.values().filter(|p| p.ordinal == ordinal && p.runs());
        pods.any(|p| {
            p.trusts
                .as_ref()
                .is_some_and(|trusts| trusts.peers.is_disjoint(&now))
        })
    }

    /// Who refuses whom. While no CA was lost, nobody does.
    pub(super) fn handshakes(&mut self) {
        if !self.wants.tls {
            return;
        }
        let authority = self.api.secrets.live.get(&self.names.ca_secret()).cloned();
        if let Some(secret) = &authority {
            self.certificates.learn(secret);
            self.ca_lost |= secret.annotations().contains_key(LOST_CA_ANNOTATION);
        }
        let (mut shown, mut ghosts) = (Vec::new(), BTreeSet::new());
        let running = self.pods.values().filter(|p| p.runs() && p.dead_until.is_none());
        for pod in running {
            if let (Some(files), Some(trusts)) = (&pod.files, &pod.trusts) {
                let server = self.certificates.signer(files, SERVER);
                let peer = self.certificates.signer(files, PEER);
                shown.push((Place(pod.ordinal.0), trusts.clone(), server, peer));
                ghosts.extend(pod.ghost.then_some(Place(pod.ordinal.0)));
            }
        }
        let mut refused = BTreeSet::new();
        for (i, (a, a_trusts, server, a_shows)) in shown.iter().enumerate() {
            let believes = |trusts: &Fingerprints, shows: &Option<String>| {
                shows.as_ref().is_some_and(|signer| trusts.contains(signer))
            };
            for (b, b_trusts, _, b_shows) in &shown[i + 1..] {
                if !believes(&a_trusts.peers, b_shows) || !believes(&b_trusts.peers, a_shows) {
                    refused.insert((*a.min(b), *a.max(b)));
                }
            }
            if let Some(operator) = &self.connects
                && (!believes(&a_trusts.clients, &operator.shows) || !believes(&operator.trusts, server))
            {
                refused.insert(((*a).min(Place::SITE), (*a).max(Place::SITE)));
            }
        }
        // Nobody knows of a process whose pod was deleted by force, so nobody waits for it.
        let known = |(a, b): &&(Place, Place)| !ghosts.contains(a) && !ghosts.contains(b);
        if !refused.iter().any(|pair| known(&pair)) {
            let strangers = authority.is_some_and(|s| s.annotations().contains_key(LOST_CA_ANNOTATION));
            self.ca_lost &= strangers;
        } else if self.ca_lost {
            self.reached("stage", "CaLost");
        } else {
            let what = format!("{refused:?} refuse each other");
            self.broke(KubeBreak::Refused, what);
        }
        self.etcd.refused = refused;
    }

    /// Who of these proves all of that.
    pub(super) fn proven(
        &mut self,
        open: &BTreeMap<Ordinal, Address>,
        tests: &[(Port, Test)],
    ) -> BTreeSet<Ordinal> {
        let mut proven = BTreeSet::new();
        for (ordinal, address) in open {
            let Some(pod) = self
                .pod_at(address)
                .filter(|p| p.runs() && p.dead_until.is_none())
            else {
                continue;
            };
            let (Some(files), Some(trusts)) = (pod.files.clone(), pod.trusts.clone()) else {
                continue;
            };
            let linked = self.etcd.island(Place::SITE) == self.etcd.island(Place(ordinal.0));
            let passes = tests.iter().all(|(port, test)| match (port, test) {
                (Port::Client, Test::Trusts(ca)) => trusts.clients.contains(ca),
                (Port::Peer, Test::Trusts(ca)) => trusts.peers.contains(ca),
                (Port::Client, Test::Shows(ca)) => {
                    self.certificates.signer(&files, SERVER).as_ref() == Some(ca)
                }
                (Port::Peer, Test::Shows(ca)) => self.certificates.signer(&files, PEER).as_ref() == Some(ca),
            });
            if linked && passes && !tests.is_empty() {
                proven.insert(*ordinal);
            }
        }
        proven
    }
}
