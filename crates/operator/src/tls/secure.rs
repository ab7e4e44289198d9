//! Encryption in a pass: Secrets brought up to date, members asked for proofs, and what the pass then works with.
//!
//! In: what the watches know, what is kept between passes. Out: a [`TlsState`]. A cluster at rest costs no request here:
//! what was judged is judged again only when a Secret or the members changed, or a certificate's end comes near; the user's
//! own Secrets are followed by watches. Never: an effect while the cluster is paused or without the Lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use quorate_api::TlsSecrets;
use quorate_client::{Port, prove};
use quorate_core::Memory;
use quorate_core::model::Ordinal;
use quorate_core::rotation::Proven;

use super::follow::Followed;
use super::secrets::SecretKeeper;
use super::{Lifetimes, Material, own};
use crate::cluster::build::BuildContext;
use crate::cluster::build::etcd::{digest, settings_of};
use crate::cluster::execute::Requests;
use crate::cluster::live::Shared;
use crate::cluster::observe::Objects;
use crate::cluster::observe::pod_state::Stage;
use crate::cluster::observe::slot::SlotObjects;
use crate::requests::api_errors::{RequestError, in_time};

/// What was judged is judged again after this, whatever the clock has done.
const JUDGE_EVERY: Duration = Duration::from_secs(3600);

/// What certificates are made with.
#[derive(Clone, Debug, Default)]
pub struct CertificateSettings {
    pub lifetimes: Lifetimes,
    /// The domain of the cluster's DNS, if it is known.
    pub domain: Option<String>,
}

/// What is kept of one cluster between passes. Nothing in it is needed to go on.
#[derive(Debug, Default)]
pub struct TlsCache {
    judged: Option<JudgedSecrets>,
    followed: Option<Followed>,
    proven: Option<Proven>,
    /// What was last good.
    last: Option<Box<Material>>,
}

#[derive(Debug)]
struct JudgedSecrets {
    /// The resourceVersions of the Secrets.
    versions: BTreeMap<String, Option<String>>,
    members: BTreeSet<Ordinal>,
    good_from: SystemTime,
    good_until: SystemTime,
    material: Material,
}

/// What a pass can work with.
#[derive(Debug)]
pub enum TlsState {
    /// This; to be asked for first.
    Ready(Box<Material>, Requests),
    /// Nothing yet; to be asked for meanwhile.
    Pending(Requests),
    /// What was last good, and why it is not any more: someone has to do something about it.
    Frozen(Box<Material>, String),
    /// Nothing, and someone has to do something about it.
    Blocked(String),
}

/// Who needs certificates: everyone who is wanted, remembered or there.
fn members(context: &BuildContext<'_>, objects: &Objects, memory: &Memory) -> BTreeSet<Ordinal> {
    let remembered = memory.slots.iter().filter(|(_, slot)| slot.member.is_some());
    let there = objects
        .slots
        .iter()
        .filter(|(_, slot)| slot.peer.is_some() || !slot.pods.is_empty());
    let wanted = (0..context.cluster.replicas).map(Ordinal);
    wanted
        .chain(remembered.map(|(ordinal, _)| *ordinal))
        .chain(there.map(|(ordinal, _)| *ordinal))
        .collect()
}

impl Shared {
    /// What the pass over an encrypted cluster works with.
    pub(crate) async fn secure(
        &self,
        context: &BuildContext<'_>,
        objects: &Objects,
        memory: &Memory,
        kept: &mut TlsCache,
    ) -> TlsState {
        let secured = match &context.cluster.tls_secrets {
            Some(names) => self.read_own(context, objects, names, kept).await,
            None => {
                let secrets = self.watches.secrets(context.names);
                let now = SystemTime::now();
                let secured = kept.judge(&self.certificates, context, objects, memory, &secrets, now);
                if let TlsState::Ready(material, _) = &secured {
                    ask_for_proof(context, objects, material, kept).await;
                }
                Ok(secured)
            }
        };
        kept.or_last(secured)
    }

    async fn read_own(
        &self,
        context: &BuildContext<'_>,
        objects: &Objects,
        names: &TlsSecrets,
        kept: &mut TlsCache,
    ) -> Result<TlsState, RequestError> {
        let both = [names.client.as_str(), names.peer.as_str()];
        let followed = match kept.followed.take() {
            Some(followed) if followed.is_of(&both) => followed,
            _ => Followed::begin(&self.client, &context.names.namespace, &both),
        };
        let followed = kept.followed.insert(followed);
        let doing = format!("read Secrets {:?} and {:?}", names.client, names.peer);
        in_time(doing, async {
            followed.ready().await;
            Ok(())
        })
        .await?;
        let get = |name: &str| {
            let missing = format!(
                "Secret {name:?}, which spec.tls names, is not there; make it, with tls.crt, tls.key and ca.crt"
            );
            followed.get(name).ok_or(missing)
        };
        let read = get(&names.client).and_then(|client| Ok((client, get(&names.peer)?)));
        let read = read.and_then(|(client, peer)| own::material(&client, &peer, SystemTime::now()));
        let mut material = match read {
            Ok(material) => material,
            Err(why) => return Ok(TlsState::Blocked(why)),
        };
        if runs_with_another(objects, &digest_with(context, &material)) {
            let running = objects.addresses(context.names, Port::Client, true);
            if !running.is_empty() && prove(Port::Client, &running, &material.tls).await.is_empty() {
                material.advice = Some(own::advice(names, context.names));
            }
        }
        Ok(TlsState::Ready(Box::new(material), Requests::default()))
    }
}

impl TlsCache {
    /// What the pass over a cluster whose certificates quorate makes works with, by these Secrets.
    pub fn judge(
        &mut self,
        settings: &CertificateSettings,
        context: &BuildContext<'_>,
        objects: &Objects,
        memory: &Memory,
        secrets: &BTreeMap<String, Arc<Secret>>,
        now: SystemTime,
    ) -> TlsState {
        let members = members(context, objects, memory);
        // A container runs only where the Secret was there to be mounted.
        let mounted = |slot: &SlotObjects| {
            slot.pods
                .iter()
                .any(|pod| !matches!(pod.stage, Stage::Starting(_)))
        };
        let running = objects.slots.iter().filter(|(_, slot)| mounted(slot));
        let running: BTreeSet<Ordinal> = running.map(|(ordinal, _)| *ordinal).collect();
        let versions = versions(secrets);
        if let Some(judged) = &self.judged
            && judged.versions == versions
            && judged.members == members
            && (judged.good_from..judged.good_until).contains(&now)
        {
            return TlsState::Ready(Box::new(judged.material.clone()), Requests::default());
        }
        self.judged = None;
        let keeper = SecretKeeper {
            context,
            secrets,
            members: &members,
            running: &running,
            proven: self.proven.as_ref(),
            domain: settings.domain.as_deref(),
            lifetimes: &settings.lifetimes,
            now,
        };
        let mut found = match keeper.keep() {
            Ok(found) => found,
            Err(why) => return TlsState::Blocked(why),
        };
        let Some(mut material) = found.material else {
            return TlsState::Pending(found.requests);
        };
        if let Some(good_until) = found.good_until {
            self.judged = Some(JudgedSecrets {
                versions,
                members,
                good_from: now,
                good_until: good_until.min(now + JUDGE_EVERY),
                material: material.clone(),
            });
        }
        if let Some(none_left) = found.lost_ca {
            material.lost_ca = runs_with_another(objects, &digest_with(context, &material));
            if !material.lost_ca {
                found.requests.effects.push(none_left);
            }
        }
        TlsState::Ready(Box::new(material), found.requests)
    }

    /// What was last good, if nothing is now. Secrets that could not be read are reported like Secrets that are not there: a
    /// pass that ended here would leave the last status as it is.
    pub fn or_last(&mut self, secured: Result<TlsState, RequestError>) -> TlsState {
        match secured.unwrap_or_else(|failed| TlsState::Blocked(failed.message())) {
            TlsState::Ready(material, requests) => {
                self.last = Some(material.clone());
                TlsState::Ready(material, requests)
            }
            TlsState::Blocked(why) => match self.last.clone() {
                Some(last) => TlsState::Frozen(last, why),
                None => TlsState::Blocked(why),
            },
            // Secrets may be refused for long; members are healed meanwhile. None is restarted for a lost CA before all
            // Secrets are there.
            TlsState::Pending(requests) => match self.last.clone() {
                Some(mut last) => {
                    last.lost_ca = false;
                    TlsState::Ready(last, requests)
                }
                None => TlsState::Pending(requests),
            },
            other => other,
        }
    }

    /// Who has yet to prove what the stage is for; what was proven for another is forgotten.
    pub fn unproven(&mut self, objects: &Objects, material: &Material) -> BTreeSet<Ordinal> {
        let Some(proof) = &material.proof else {
            self.proven = None;
            return BTreeSet::new();
        };
        let before = self.proven.take();
        let before = before
            .as_ref()
            .and_then(|proven| proven.now(proof.stage, &material.trusted));
        let proven = before.cloned().unwrap_or_default();
        let open = objects
            .slots
            .keys()
            .filter(|ordinal| !proven.contains(ordinal))
            .copied();
        let open = open.collect();
        self.proven = Some(Proven::new(proof.stage, &material.trusted, proven));
        open
    }

    /// These have, by now.
    pub fn have_proven(&mut self, members: BTreeSet<Ordinal>) {
        if let Some(proven) = &mut self.proven {
            proven.add(members);
        }
    }
}

/// Asks those who have yet to prove what the stage is for.
async fn ask_for_proof(
    context: &BuildContext<'_>,
    objects: &Objects,
    material: &Material,
    kept: &mut TlsCache,
) {
    let mut open = kept.unproven(objects, material);
    let Some(proof) = material.proof.as_ref().filter(|proof| !proof.proofs.is_empty()) else {
        return;
    };
    for (port, tls) in &proof.proofs {
        let mut asked = objects.addresses(context.names, *port, true);
        asked.retain(|ordinal, _| open.contains(ordinal));
        open = prove(*port, &asked, tls).await;
    }
    kept.have_proven(open);
}

/// What members are restarted for, if that is what they trust.
fn digest_with(context: &BuildContext<'_>, material: &Material) -> String {
    digest(&BuildContext {
        trusted: Some(&material.trusted),
        ..context.clone()
    })
}

/// Does any member run with another configuration?
fn runs_with_another(objects: &Objects, config: &str) -> bool {
    let mut pods = objects.slots.values().flat_map(|slot| &slot.pods);
    pods.any(|pod| {
        let made = pod.made_for.as_ref();
        matches!(pod.stage, Stage::Running { .. } | Stage::Admitted)
            && made.is_some_and(|made| settings_of(&made.config) != settings_of(config))
    })
}

fn versions(secrets: &BTreeMap<String, Arc<Secret>>) -> BTreeMap<String, Option<String>> {
    let versions = secrets.iter();
    versions
        .map(|(name, secret)| (name.clone(), secret.resource_version()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_client::Tls;

    fn material(lost_ca: bool) -> Box<Material> {
        let now = SystemTime::now();
        let ca = quorate_pki::Ca::make("c", Duration::from_secs(3600), now).unwrap();
        Box::new(Material {
            tls: Tls::from_pem(ca.pem().cert.clone(), None).unwrap(),
            trusted: "a".to_owned(),
            proof: None,
            lost_ca,
            advice: None,
        })
    }

    fn silent() -> Result<TlsState, RequestError> {
        Err(RequestError::Slow {
            doing: "read Secrets".to_owned(),
        })
    }

    #[test]
    fn secrets_that_cannot_be_read_are_reported_and_members_are_healed_with_the_last_good_ones() {
        let mut kept = TlsCache::default();
        let TlsState::Blocked(why) = kept.or_last(silent()) else {
            panic!("there is nothing to go on with");
        };
        assert!(why.contains("read Secrets: no answer"), "{why}");
        kept.or_last(Ok(TlsState::Ready(material(false), Requests::default())));
        let TlsState::Frozen(last, why) = kept.or_last(silent()) else {
            panic!("there is something to go on with");
        };
        assert!(why.contains("no answer"), "{why}");
        assert_eq!(last.trusted, "a");
    }

    #[test]
    fn nobody_is_restarted_for_a_lost_ca_before_all_secrets_are_there() {
        let mut kept = TlsCache::default();
        kept.or_last(Ok(TlsState::Ready(material(true), Requests::default())));
        let pending = Ok(TlsState::Pending(Requests::default()));
        let TlsState::Ready(last, _) = kept.or_last(pending) else {
            panic!("there is something to go on with");
        };
        assert!(!last.lost_ca);
    }
}
