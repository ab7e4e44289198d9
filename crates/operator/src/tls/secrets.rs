//! The Secrets of a cluster whose certificates quorate makes: judged, made, renewed.
//!
//! In: the Secrets as the watches have them, who needs a certificate, what members have proven. Out: effects, none if all is
//! as it should be, and what connections are made with. Pure but for the keys it makes.
//! Never: a certificate of a CA that does not sign in this stage; a good certificate recreated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use quorate_client::{Identity, Port, Tls};
use quorate_core::model::Ordinal;
use quorate_core::reason::WaitReason;
use quorate_core::rotation::{Move, Proven, Seen, Stage, next};
use quorate_pki::{Ca, Leaf, LeafUsages, PairPem, San, describe_all};

use super::cas::{CaSet, Cas, Copied, Trust, earlier, first, value};
use super::{Lifetimes, Material, Proof, sans};
use crate::cluster::build::BuildContext;
use crate::cluster::execute::Requests;
use crate::names::lacking;
use crate::requests::effect::{Amendment, ClusterEvent, Effect, Kind, Object};

/// The etcd user that the operator's certificate stands for: with authentication on, quorate must still be able to act.
const OPERATOR: &str = "root";
/// The etcd user that the certificate for applications stands for: with authentication on, it may do what that user may.
const APPLICATION: &str = "client";

const SERVER_PAIR: (&str, &str) = ("server.crt", "server.key");
const PEER_PAIR: (&str, &str) = ("peer.crt", "peer.key");
const CLIENT_PAIR: (&str, &str) = ("tls.crt", "tls.key");
/// In the operator's Secret: a copy of the CA that signs for members toward each other.
const PEER_CA_PAIR: (&str, &str) = ("peer-ca.crt", "peer-ca.key");

/// What Secrets are judged by.
#[derive(Debug)]
pub struct SecretKeeper<'a> {
    pub context: &'a BuildContext<'a>,
    /// The Secrets there are, by name.
    pub secrets: &'a BTreeMap<String, Arc<Secret>>,
    /// Who needs a certificate: everyone who is wanted, remembered or there.
    pub members: &'a BTreeSet<Ordinal>,
    /// Those of whom pods have been on a node, and may run.
    pub running: &'a BTreeSet<Ordinal>,
    /// Who has proven what, as far as this process has asked.
    pub proven: Option<&'a Proven>,
    /// The domain of the cluster's DNS, if it is known.
    pub domain: Option<&'a str>,
    pub lifetimes: &'a Lifetimes,
    pub now: SystemTime,
}

#[derive(Debug, Default)]
pub struct SecretChanges {
    /// To be asked for.
    pub requests: Requests,
    /// What connections are made with, once all is there.
    pub material: Option<Material>,
    /// Nothing is to be done before this, if the Secrets stay as they are.
    pub good_until: Option<SystemTime>,
    /// Members that trust a CA which nobody has any more are to be restarted; this is asked for when none is left. Only
    /// once all Secrets are as they should be.
    pub lost_ca: Option<Effect>,
}

/// One certificate in a Secret.
struct Wanted<'a> {
    keys: (&'static str, &'static str),
    leaf: Leaf<'a>,
    of: &'a CaSet,
    /// What is shown instead where nobody can sign.
    lent: Option<PairPem>,
}

/// What a member has that may be of use to others.
struct Lender<'a> {
    /// The CAs that it trusts, toward clients and toward other members.
    clients: &'a [u8],
    peers: &'a [u8],
    /// What it shows to clients.
    server: PairPem,
}

impl SecretKeeper<'_> {
    pub fn keep(&self) -> Result<SecretChanges, String> {
        let names = self.context.names;
        let mut kept = SecretChanges::default();
        let Some(secret) = self.secrets.get(&names.ca_secret()) else {
            self.first(&mut kept.requests)?;
            return Ok(kept);
        };
        let cas = Cas::read(secret)?;
        let lacks_peers = cas.shared()
            || cas
                .peers
                .as_ref()
                .is_some_and(|p| p.signer.is_none() && p.next.is_none());
        if let Some(copied) = self.copied().filter(|_| lacks_peers) {
            kept.requests.effects.push(cas.with_peers(&copied, self.now));
            return Ok(kept);
        }
        if let Some(to) = self.past_a_lost_key(&cas) {
            self.rotate(&cas, to, &mut kept);
            return Ok(kept);
        }
        self.usable(&cas)?;
        let mut good_until = cas.due_at(self.lifetimes);
        for ordinal in self.members {
            good_until = good_until.min(self.member(*ordinal, &cas, &mut kept.requests)?);
        }
        good_until = good_until.min(self.clients(&cas, &mut kept.requests)?);
        self.leftovers(&mut kept.requests);
        self.labels(&mut kept.requests);
        let written = kept.requests.effects.is_empty();
        kept.material = self.material(&cas)?;
        let at_rest = written && cas.stage == Stage::Steady && !cas.lost_ca;
        kept.good_until = Some(good_until).filter(|_| at_rest);
        if cas.lost_ca && written {
            kept.lost_ca = Some(cas.clear_lost_ca());
            return Ok(kept);
        }
        let seen = Seen {
            due: cas.due(self.lifetimes, self.now),
            written,
            proven: self.proven(&cas),
            // Clients that have lost their Secret wait for another, not for time to read it.
            ripe: cas.ripe(self.lifetimes, self.now) || !self.secrets.contains_key(&names.client_secret()),
        };
        self.rotate(&cas, next(cas.stage, seen), &mut kept);
        Ok(kept)
    }

    /// Has every member proven what this stage is for, in this stage? One that does not run, and cannot get a certificate
    /// before the next CA signs, is not waited for.
    fn proven(&self, of: &Cas) -> bool {
        let proven = self
            .proven
            .and_then(|proven| proven.now(of.stage, &of.restarts_for()));
        let waits = |ordinal: &Ordinal| !self.running.contains(ordinal) && self.lacks_peer_pair(*ordinal, of);
        proven.is_some_and(|proven| self.members.iter().all(|o| proven.contains(o) || waits(o)))
    }

    /// It has no certificate to show to other members, and nobody can sign one. What members show to clients will not do:
    /// another CA signed it.
    fn lacks_peer_pair(&self, ordinal: Ordinal, of: &Cas) -> bool {
        let signed = of.peers.as_ref().is_none_or(|peers| peers.signer.is_some());
        let secret = self.secrets.get(&self.context.names.member_secret(ordinal));
        !signed && secret.and_then(|secret| pair(secret, PEER_PAIR)).is_none()
    }

    fn rotate(&self, cas: &Cas, to: Move, kept: &mut SecretChanges) {
        let cluster = &self.context.names.cluster;
        let Some(effect) = cas.amended(to, cluster, self.lifetimes, self.now) else {
            return;
        };
        kept.requests.effects.push(effect);
        kept.good_until = None;
        let (reason, message) = match to {
            Move::Stay => return,
            Move::Introduce => (
                "CaIntroduced",
                "A new CA is introduced; members are restarted one by one to trust it",
            ),
            Move::Switch => ("CaSwitched", "All members trust the new CA; it signs from now on"),
            Move::Drop => (
                "CaDropped",
                "All members show certificates of the new CA; the former is trusted no longer",
            ),
        };
        let about = self.context.names.ca_secret();
        let news = ClusterEvent::done(reason, ("Secret", &about), message.to_owned());
        kept.requests.news.push(news);
    }

    /// The first CA, or one in place of what was deleted under members that run.
    fn first(&self, requests: &mut Requests) -> Result<(), String> {
        let names = self.context.names;
        let lasts = |trusted: &[u8]| {
            let all = describe_all(trusted).unwrap_or_default();
            all.iter().any(|ca| ca.not_after > self.now)
        };
        // One that runs and has lost its certificates cannot be restarted to trust another CA, for nobody signs for it.
        let stranded = |ordinal: &Ordinal| {
            let secret = self.secrets.get(&names.member_secret(*ordinal));
            secret.and_then(|secret| pair(secret, PEER_PAIR)).is_none()
        };
        let copied = self.copied();
        let goes_on = copied.is_some() || !self.running.iter().any(stranded);
        let trust = match self.lender() {
            Some(Lender { clients, peers, .. }) if goes_on && lasts(clients) && lasts(peers) => {
                Trust::Known { clients, peers }
            }
            _ if !self.running.is_empty() => Trust::Unknown,
            _ => Trust::Nobody,
        };
        requests
            .effects
            .push(first(names, trust, copied.as_ref(), self.lifetimes, self.now)?);
        if let Trust::Unknown = trust {
            requests.news.push(ClusterEvent::warning(
                WaitReason::CaLost.name(),
                ("Secret", &names.ca_secret()),
                "The CA that members trust was deleted, or has ended; they get certificates of a new one \
                 and are restarted, and until a majority of them has been, the cluster does not answer"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// How to begin with another CA.
    fn how_to_get_a_new_ca(&self) -> String {
        let names = self.context.names;
        format!(
            "kubectl delete secret --namespace {} --selector {}; members then get a new CA and are restarted, and \
             the cluster does not answer for a moment",
            names.namespace,
            names.selector()
        )
    }

    /// Can members go on with these CAs? If not, what to do.
    fn usable(&self, of: &Cas) -> Result<(), String> {
        let names = self.context.names;
        let (command, name) = (self.how_to_get_a_new_ca(), names.ca_secret());
        if of.ended(self.now) {
            return Err(format!(
                "the CA in Secret {name:?} has ended, so members refuse each other and their clients; run \
                 {command}"
            ));
        }
        if keyless(of) && self.lender().is_none() {
            return Err(format!(
                "Secret {name:?} has no key that members trust, and no member has a certificate left; put back ca.key \
                 and peer-ca.key, or run {command}"
            ));
        }
        Ok(())
    }

    /// The next move, where the key of a CA is lost, no member runs and none has a certificate: nobody is waited for.
    fn past_a_lost_key(&self, of: &Cas) -> Option<Move> {
        if !keyless(of) || !self.running.is_empty() || self.lender().is_some() {
            return None;
        }
        match of.stage {
            Stage::Steady => Some(Move::Introduce),
            Stage::Introducing => Some(Move::Switch),
            Stage::Retiring => None,
        }
    }

    /// The CA between members as the operator's own Secret has it, if they trust it still. Without it nobody could sign for a
    /// member that is to be added or made again, until the others trust another.
    fn copied(&self) -> Option<Copied> {
        let own = self.secrets.get(&self.context.names.operator_secret())?;
        let pem = pair(own, PEER_CA_PAIR)?;
        let ca = Ca::read(&pem).ok().filter(|ca| ca.info().not_after > self.now)?;
        let trusted = self
            .lender()
            .map(|lender| lender.peers.to_vec())
            .unwrap_or_default();
        let all = describe_all(&trusted).unwrap_or_default();
        let known = all.is_empty() || all.iter().any(|info| info.fingerprint == ca.info().fingerprint);
        known.then(|| Copied::of(pem, &trusted))
    }

    /// Of a member that has its certificates. The longest list of CAs has all others in it, wherever their writing was
    /// interrupted.
    fn lender(&self) -> Option<Lender<'_>> {
        let lent = self.secrets.values().filter_map(|secret| {
            Some(Lender {
                clients: value(secret, "ca.crt")?,
                peers: value(secret, "peer-ca.crt")?,
                server: pair(secret, SERVER_PAIR)?,
            })
        });
        lent.max_by_key(|lender| lender.clients.len() + lender.peers.len())
    }

    fn member(&self, ordinal: Ordinal, of: &Cas, requests: &mut Requests) -> Result<SystemTime, String> {
        let names = self.context.names;
        if self.lacks_peer_pair(ordinal, of) {
            return Ok(of.due_at(self.lifetimes));
        }
        let member = names.member(ordinal).to_string();
        let leaf = |sans: BTreeSet<San>| Leaf {
            common_name: &member,
            cluster_name: &names.cluster,
            sans,
            usages: LeafUsages::ServerAndClient,
        };
        let peers = of.peers.as_ref().unwrap_or(&of.clients);
        // Where nobody can sign until the next CA does, a member that has nothing shows to clients what another does: it
        // is good for every member's name, and trusted like that one's own. Otherwise nobody would see it start, and the
        // next CA would wait for it for ever.
        let lent = self.lender().map(|lender| lender.server);
        let wanted = [
            Wanted {
                keys: SERVER_PAIR,
                leaf: leaf(sans::server(names, ordinal, self.domain)),
                of: &of.clients,
                lent,
            },
            Wanted {
                keys: PEER_PAIR,
                leaf: leaf(sans::peer(names, ordinal, self.domain)),
                of: peers,
                lent: None,
            },
        ];
        let trust = [
            ("ca.crt", of.clients.bundle.as_slice()),
            ("peer-ca.crt", &peers.bundle),
        ];
        let mut made = Secret {
            metadata: self.context.meta(&names.member_secret(ordinal)),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        made.metadata.labels = Some(names.member_object_labels(ordinal));
        let good_until = of.due_at(self.lifetimes);
        Ok(good_until.min(
            self.secret(made, &wanted, &trust, requests)?
                .unwrap_or(good_until),
        ))
    }

    /// The operator's Secret and that for applications. The one for applications was root's once, and the operator's own:
    /// it stays so until the operator has another.
    fn clients(&self, of: &Cas, requests: &mut Requests) -> Result<SystemTime, String> {
        let names = self.context.names;
        let (own, shared) = (names.operator_secret(), names.client_secret());
        let peers = of.peers.as_ref().filter(|_| !of.shared());
        let copy = peers.and_then(|peers| Some(peers.signer.as_ref()?.pem().clone()));
        let good_until = self.client(&own, OPERATOR, of, copy, requests)?;
        if self.secrets.contains_key(&shared) && !self.secrets.contains_key(&own) {
            return Ok(good_until);
        }
        Ok(good_until.min(self.client(&shared, APPLICATION, of, None, requests)?))
    }

    fn client_leaf(&self, user: &'static str) -> Leaf<'_> {
        Leaf {
            common_name: user,
            cluster_name: &self.context.names.cluster,
            sans: BTreeSet::new(),
            usages: LeafUsages::Client,
        }
    }

    fn client(
        &self,
        name: &str,
        user: &'static str,
        of: &Cas,
        copy: Option<PairPem>,
        requests: &mut Requests,
    ) -> Result<SystemTime, String> {
        let wanted = [Wanted {
            keys: CLIENT_PAIR,
            leaf: self.client_leaf(user),
            of: &of.clients,
            lent: None,
        }];
        let made = Secret {
            metadata: self.context.meta(name),
            type_: Some("kubernetes.io/tls".to_owned()),
            ..Secret::default()
        };
        let good_until = of.due_at(self.lifetimes);
        let trust = [("ca.crt", of.clients.bundle.as_slice())];
        let copy = copy
            .iter()
            .flat_map(|pem| [(PEER_CA_PAIR.0, &*pem.cert), (PEER_CA_PAIR.1, &*pem.key)]);
        let besides: Vec<(&'static str, &[u8])> = trust.into_iter().chain(copy).collect();
        let made = self.secret(made, &wanted, &besides, requests)?;
        Ok(good_until.min(made.unwrap_or(good_until)))
    }

    /// Brings one Secret to what it should be: `made` with these certificates and what it has besides. Out: until when its
    /// certificates are good, if any of them ends before its CA.
    fn secret(
        &self,
        mut made: Secret,
        wanted: &[Wanted<'_>],
        besides: &[(&'static str, &[u8])],
        requests: &mut Requests,
    ) -> Result<Option<SystemTime>, String> {
        let name = made.name_any();
        let present = self.secrets.get(&name);
        let mut good_until: Option<SystemTime> = None;
        let mut data = BTreeMap::new();
        for Wanted { keys, leaf, of, lent } in wanted {
            let pem = present.and_then(|secret| pair(secret, *keys));
            let Some(signer) = &of.signer else {
                // Nobody can sign until the next CA does: what is there is kept, and is still trusted.
                match (pem, lent) {
                    (Some(_), _) => continue,
                    (None, Some(pem)) => {
                        data.insert(keys.0, ByteString(pem.cert.clone()));
                        data.insert(keys.1, ByteString(pem.key.clone()));
                        continue;
                    }
                    (None, None) => return Ok(good_until),
                }
            };
            let judged = pem.map(|pem| signer.judge(&pem, leaf, &self.lifetimes.policy, self.now));
            if let Some(Ok(info)) = &judged {
                let renewal = earlier(info.not_after, self.lifetimes.policy.renew_before);
                good_until = Some(good_until.map_or(renewal, |until| until.min(renewal)));
                continue;
            }
            let pem = self.issue(signer, leaf, &name)?;
            data.insert(keys.0, ByteString(pem.cert));
            data.insert(keys.1, ByteString(pem.key));
        }
        let renewed = !data.is_empty();
        for (key, bytes) in besides {
            let known = present.and_then(|secret| value(secret, key));
            if known != Some(*bytes) {
                data.insert(*key, ByteString(bytes.to_vec()));
            }
        }
        match present {
            None => {
                let data = data.into_iter().map(|(key, value)| (key.to_owned(), value));
                made.data = Some(data.collect());
                requests
                    .effects
                    .push(Effect::Create(Object::Secret(Box::new(made))));
            }
            Some(present) => {
                let mut change = Amendment::of(present);
                if !present
                    .owner_references()
                    .iter()
                    .any(|owner| owner.uid == self.context.owner.uid)
                {
                    change.owner = Some(self.context.owner.clone());
                }
                if data.is_empty() && change.owner.is_none() {
                    return Ok(good_until);
                }
                for (key, value) in data {
                    change.set(key, Some(value));
                }
                requests.effects.push(Effect::Amend(change));
                if renewed {
                    let message = format!("Renewed the certificates in Secret {name:?}");
                    requests.news.push(ClusterEvent::done(
                        "CertificatesRenewed",
                        ("Secret", &name),
                        message,
                    ));
                }
            }
        }
        Ok(good_until)
    }

    fn issue(&self, signer: &Ca, leaf: &Leaf<'_>, name: &str) -> Result<PairPem, String> {
        let lifetime = self.lifetimes.policy.leaf_lifetime;
        let issued = signer.issue(leaf, lifetime, self.now);
        issued.map_err(|error| format!("no certificate can be made for Secret {name:?}: {error}"))
    }

    /// Labels that Secrets of an older quorate lack.
    fn labels(&self, requests: &mut Requests) {
        for (name, secret) in self.secrets {
            let labels = lacking(secret.metadata.labels.as_ref());
            if !labels.is_empty() {
                requests.effects.push(Effect::Label {
                    kind: Kind::Secret,
                    name: name.clone(),
                    uid: secret.uid().unwrap_or_default(),
                    labels,
                });
            }
        }
    }

    /// Certificates of members that are no more.
    fn leftovers(&self, requests: &mut Requests) {
        let names = self.context.names;
        for (name, secret) in self.secrets {
            let ordinal = name.strip_suffix("-tls").and_then(|name| names.ordinal(name));
            if ordinal.is_some_and(|ordinal| !self.members.contains(&ordinal)) {
                requests.effects.push(Effect::Delete {
                    kind: Kind::Secret,
                    name: name.clone(),
                    uid: secret.uid().unwrap_or_default(),
                });
            }
        }
    }

    /// What connections are made with: the operator's Secret as it is, and what members have to prove.
    fn material(&self, of: &Cas) -> Result<Option<Material>, String> {
        let names = self.context.names;
        let name = names.operator_secret();
        // A cluster made by an earlier quorate has only the other one, until its own is written.
        let secret = self
            .secrets
            .get(&name)
            .or_else(|| self.secrets.get(&names.client_secret()));
        let own = secret.and_then(|secret| pair(secret, CLIENT_PAIR));
        // Where nobody can sign a new one, a member's is as good.
        let keyless = of.clients.signer.is_none();
        let lent = || self.lender().map(|lender| lender.server).filter(|_| keyless);
        let Some(pem) = own.or_else(lent) else {
            return Ok(None);
        };
        let unusable = |error: quorate_client::TlsError| format!("Secret {name:?} cannot be used: {error}");
        let identity = Identity {
            cert_pem: pem.cert,
            key_pem: pem.key,
        };
        let tls = Tls::from_pem(of.clients.bundle.clone(), Some(identity)).map_err(unusable)?;
        let mut proofs = BTreeMap::new();
        for (port, line) in [(Port::Client, Some(&of.clients)), (Port::Peer, of.peers.as_ref())] {
            if let Some((trusted, shows)) = line
                .filter(|_| !(port == Port::Peer && of.shared()))
                .and_then(test)
            {
                let pem = self.issue(shows, &self.client_leaf(OPERATOR), &name)?;
                let identity = Identity {
                    cert_pem: pem.cert,
                    key_pem: pem.key,
                };
                proofs.insert(port, Tls::from_pem(trusted, Some(identity)).map_err(unusable)?);
            }
        }
        Ok(Some(Material {
            tls,
            trusted: of.restarts_for(),
            proof: (of.stage != Stage::Steady).then_some(Proof {
                stage: of.stage,
                proofs,
            }),
            lost_ca: false,
            advice: self.advice(of),
        }))
    }

    /// A member runs whose Secret is gone while nobody can sign for it: it would not come back from a restart.
    fn advice(&self, of: &Cas) -> Option<String> {
        let ordinal = self
            .running
            .iter()
            .find(|ordinal| self.lacks_peer_pair(**ordinal, of))?;
        let names = self.context.names;
        Some(format!(
            "Secret {:?} is gone, and Secret {:?} has no key to sign another with; put back either, or run {}",
            names.member_secret(*ordinal),
            names.ca_secret(),
            self.how_to_get_a_new_ca()
        ))
    }
}

/// Whom a test trusts, and who signs what it shows.
fn test(of: &CaSet) -> Option<(Vec<u8>, &Ca)> {
    match (&of.next, &of.signer) {
        // A member that answers to a certificate of the next CA trusts it.
        (Some(next), _) => Some((of.bundle.clone(), next)),
        // A member that is believed by one that trusts the new CA alone shows a certificate of it.
        (None, Some(signer)) if of.retires() => Some((signer.pem().cert.clone(), signer)),
        _ => None,
    }
}

/// Is the key of one that should sign lost?
fn keyless(of: &Cas) -> bool {
    let mut lines = [&of.clients].into_iter().chain(&of.peers);
    lines.any(|line| line.signer.is_none())
}

fn pair(secret: &Secret, keys: (&str, &str)) -> Option<PairPem> {
    Some(PairPem {
        cert: value(secret, keys.0)?.to_vec(),
        key: value(secret, keys.1)?.to_vec(),
    })
}

#[cfg(test)]
mod tests;
