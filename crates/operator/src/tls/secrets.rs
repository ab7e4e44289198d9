//! The Secrets of a cluster whose certificates quorate makes: judged, made, renewed.
//!
//! In: the Secrets as the watches have them, who needs a certificate, what members have proven. Out: effects, none if all is
//! as it should be, and what connections are made with. Pure but for the keys it makes.
//! Never: a certificate of a CA that does not sign in this stage; a good certificate made anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use quorate_client::{Identity, Tls};
use quorate_core::model::Ordinal;
use quorate_core::rotation::{Move, Proven, Seen, Stage, next};
use quorate_pki::{Ca, Leaf, LeafUsages, PairPem, San, describe_all};

use super::cas::{Cas, Trust, earlier, first, value};
use super::{Lifetimes, Material, Proof, sans};
use crate::cluster::build::BuildContext;
use crate::cluster::execute::Requests;
use crate::names::lacking;
use crate::requests::effect::{Amendment, Effect, Kind, News, Object};

/// The etcd user that the operator's certificate stands for: with authentication on, quorate must still be able to act.
const OPERATOR: &str = "root";
/// The etcd user that the certificate for applications stands for: with authentication on, it may do what that user may.
const APPLICATION: &str = "client";

/// What Secrets are judged by.
#[derive(Debug)]
pub struct Keeper<'a> {
    pub context: &'a BuildContext<'a>,
    /// The Secrets there are, by name.
    pub secrets: &'a BTreeMap<String, Arc<Secret>>,
    /// Who needs a certificate: everyone who is wanted, remembered or there.
    pub members: &'a BTreeSet<Ordinal>,
    /// Pods of the cluster are there.
    pub running: bool,
    /// Who has proven what, as far as this process has asked.
    pub proven: Option<&'a Proven>,
    /// The domain of the cluster's DNS, if it is known.
    pub domain: Option<&'a str>,
    pub lifetimes: &'a Lifetimes,
    pub now: SystemTime,
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Kept {
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
}

impl Keeper<'_> {
    /// Judges all of them.
    pub fn keep(&self) -> Result<Kept, String> {
        let names = self.context.names;
        let mut kept = Kept::default();
        let Some(secret) = self.secrets.get(&names.ca_secret()) else {
            self.first(&mut kept.requests)?;
            return Ok(kept);
        };
        let cas = Cas::read(secret)?;
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
            kept.lost_ca = Some(cas.no_strangers());
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

    /// Has every member proven what this stage is for, in this stage?
    fn proven(&self, of: &Cas) -> bool {
        let proven = self
            .proven
            .and_then(|proven| proven.now(of.stage, &of.restarts_for()));
        proven.is_some_and(|proven| self.members.is_subset(proven))
    }

    fn rotate(&self, cas: &Cas, to: Move, kept: &mut Kept) {
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
        let news = News::done(reason, ("Secret", &about), message.to_owned());
        kept.requests.news.push(news);
    }

    /// The first CA, or one in place of what was deleted under members that run.
    fn first(&self, requests: &mut Requests) -> Result<(), String> {
        let names = self.context.names;
        let lasts = |trusted: &[u8]| {
            let all = describe_all(trusted).unwrap_or_default();
            all.iter().any(|ca| ca.not_after > self.now)
        };
        let trust = match self.lender() {
            Some((trusted, _)) if lasts(trusted) => Trust::Known(trusted),
            _ if self.running => Trust::Unknown,
            _ => Trust::Nobody,
        };
        requests
            .effects
            .push(first(names, trust, self.lifetimes, self.now)?);
        if let Trust::Unknown = trust {
            requests.news.push(News {
                warning: true,
                ..News::done(
                    "CaLost",
                    ("Secret", &names.ca_secret()),
                    "The CA that members trust was deleted, or has ended; they get certificates of a new one \
                     and are restarted, and until a majority of them has been, the cluster does not answer"
                        .to_owned(),
                )
            });
        }
        Ok(())
    }

    /// Can members go on with these CAs? If not, what to do.
    fn usable(&self, of: &Cas) -> Result<(), String> {
        let names = self.context.names;
        let anew = format!(
            "kubectl delete secret --namespace {} --selector {}; members then get a new CA and are restarted, and \
             the cluster does not answer for a moment",
            names.namespace,
            names.selector()
        );
        let name = names.ca_secret();
        if of.ended(self.now) {
            return Err(format!(
                "the CA in Secret {name:?} has ended, so members refuse each other and their clients; run \
                 {anew}"
            ));
        }
        if of.signer.is_none() && self.lender().is_none() {
            return Err(format!(
                "Secret {name:?} has no key that members trust, and no member has a certificate left; put back ca.key, \
                 or run {anew}"
            ));
        }
        Ok(())
    }

    /// Of a member that has its certificates: whom it trusts, and what it shows to clients. The longest list of
    /// CAs has all others in it, wherever their writing was interrupted.
    fn lender(&self) -> Option<(&[u8], PairPem)> {
        let lent = self.secrets.values().filter_map(|secret| {
            let trusted = value(secret, "ca.crt")?;
            let pem = PairPem {
                cert: value(secret, "server.crt")?.to_vec(),
                key: value(secret, "server.key")?.to_vec(),
            };
            Some((trusted, pem))
        });
        lent.max_by_key(|(trusted, _)| trusted.len())
    }

    fn member(&self, ordinal: Ordinal, of: &Cas, requests: &mut Requests) -> Result<SystemTime, String> {
        let names = self.context.names;
        let member = names.member(ordinal).to_string();
        let leaf = |sans: BTreeSet<San>| Leaf {
            common_name: &member,
            cluster_name: &names.cluster,
            sans,
            usages: LeafUsages::ServerAndClient,
        };
        let wanted = [
            Wanted {
                keys: ("server.crt", "server.key"),
                leaf: leaf(sans::server(names, ordinal, self.domain)),
            },
            Wanted {
                keys: ("peer.crt", "peer.key"),
                leaf: leaf(sans::peer(names, ordinal, self.domain)),
            },
        ];
        let trust = ["ca.crt", "peer-ca.crt"];
        let mut made = Secret {
            metadata: self.context.meta(&names.member_secret(ordinal)),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        made.metadata.labels = Some(names.member_object_labels(ordinal));
        // Where nobody can sign until the next CA does, a member that has nothing goes by what another shows to
        // clients: it is good for every member's name, and trusted like that one's own. Otherwise nobody would see it
        // start, and the next CA would wait for it for ever.
        let lent = of.signer.is_none().then(|| self.lender()).flatten();
        self.secret(made, &wanted, &trust, (of, lent.map(|(_, pem)| pem)), requests)
    }

    /// The operator's Secret and that for applications. The one for applications was root's once, and the operator's own:
    /// it stays so until the operator has another.
    fn clients(&self, of: &Cas, requests: &mut Requests) -> Result<SystemTime, String> {
        let names = self.context.names;
        let (own, shared) = (names.operator_secret(), names.client_secret());
        let good_until = self.client(&own, OPERATOR, of, requests)?;
        if self.secrets.contains_key(&shared) && !self.secrets.contains_key(&own) {
            return Ok(good_until);
        }
        Ok(good_until.min(self.client(&shared, APPLICATION, of, requests)?))
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
        requests: &mut Requests,
    ) -> Result<SystemTime, String> {
        let wanted = [Wanted {
            keys: ("tls.crt", "tls.key"),
            leaf: self.client_leaf(user),
        }];
        let made = Secret {
            metadata: self.context.meta(name),
            type_: Some("kubernetes.io/tls".to_owned()),
            ..Secret::default()
        };
        self.secret(made, &wanted, &["ca.crt"], (of, None), requests)
    }

    /// Brings one Secret to what it should be: `made` with these certificates and what is trusted. Out: until when its
    /// certificates are good.
    fn secret(
        &self,
        mut made: Secret,
        wanted: &[Wanted<'_>],
        trust: &[&'static str],
        (of, lent): (&Cas, Option<PairPem>),
        requests: &mut Requests,
    ) -> Result<SystemTime, String> {
        let name = made.name_any();
        let present = self.secrets.get(&name);
        let mut good_until = of.due_at(self.lifetimes);
        let mut data = BTreeMap::new();
        for Wanted { keys, leaf } in wanted {
            let pem = present.and_then(|secret| {
                Some(PairPem {
                    cert: value(secret, keys.0)?.to_vec(),
                    key: value(secret, keys.1)?.to_vec(),
                })
            });
            let Some(signer) = &of.signer else {
                // Nobody can sign until the next CA does: what is there is kept, and is still trusted.
                match (pem, &lent) {
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
                good_until = good_until.min(earlier(info.not_after, self.lifetimes.policy.renew_before));
                continue;
            }
            let pem = self.issue(signer, leaf, &name)?;
            data.insert(keys.0, ByteString(pem.cert));
            data.insert(keys.1, ByteString(pem.key));
        }
        let renewed = !data.is_empty();
        for key in trust {
            let known = present.and_then(|secret| value(secret, key));
            if known != Some(of.bundle.as_slice()) {
                data.insert(key, ByteString(of.bundle.clone()));
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
                    requests
                        .news
                        .push(News::done("CertificatesRenewed", ("Secret", &name), message));
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
        let own = secret.and_then(|secret| {
            Some(PairPem {
                cert: value(secret, "tls.crt")?.to_vec(),
                key: value(secret, "tls.key")?.to_vec(),
            })
        });
        // Where nobody can sign a new one, a member's is as good.
        let lent = || self.lender().map(|(_, pem)| pem).filter(|_| of.signer.is_none());
        let Some(pem) = own.or_else(lent) else {
            return Ok(None);
        };
        let unusable = |error: quorate_client::TlsError| format!("Secret {name:?} cannot be used: {error}");
        let identity = Identity {
            cert_pem: pem.cert,
            key_pem: pem.key,
        };
        let tls = Tls::from_pem(of.bundle.clone(), Some(identity.clone())).map_err(unusable)?;
        let test = match (of.stage, &of.next, &of.signer) {
            // Whoever answers to a certificate of the next CA trusts it.
            (Stage::Introducing, Some(next), _) => {
                let pem = self.issue(next, &self.client_leaf(OPERATOR), &name)?;
                let identity = Identity {
                    cert_pem: pem.cert,
                    key_pem: pem.key,
                };
                Some(Tls::from_pem(of.bundle.clone(), Some(identity)).map_err(unusable)?)
            }
            // Whoever is believed by one that trusts the new CA alone shows a certificate of it.
            (Stage::Retiring, _, Some(signer)) => {
                Some(Tls::from_pem(signer.pem().cert.clone(), Some(identity)).map_err(unusable)?)
            }
            _ => None,
        };
        Ok(Some(Material {
            tls,
            trusted: of.restarts_for(),
            proof: test.map(|tls| Proof { stage: of.stage, tls }),
            lost_ca: false,
            advice: None,
        }))
    }
}

#[cfg(test)]
mod tests;
