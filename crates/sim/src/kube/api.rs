//! An API server in memory: objects of the real types, with resourceVersions, uids, finalizers and views that lag.
//!
//! In: requests. Out: what a real one answers, as far as the operator can tell. Never: an object that is gone while it
//! has a finalizer; a write over a resourceVersion that was not read; a view that goes back in time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as K8sTime;
use kube::{Resource, ResourceExt};
use quorate_api::crd::{EtcdCluster, EtcdPeer};
use quorate_operator::requests::apply::Applied;
use quorate_operator::requests::effect::{Amendment, Effect, Kind, Object};

/// Keeps a claim until no pod uses it.
pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// How long ago a view may be from.
pub const LAG_MAX: u64 = 60;

/// Why a request came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiError {
    NotFound,
    Conflict,
    /// A quota, a policy or missing rights.
    Forbidden,
    /// The server does not answer, or its answer was lost.
    Away,
}

pub type Objects<K> = BTreeMap<String, Arc<K>>;

/// All objects of one kind, and how they were.
#[derive(Clone, Debug)]
pub struct Table<K> {
    pub live: Objects<K>,
    /// As they were at the end of each tick in which something changed, oldest first.
    was: VecDeque<(u64, Objects<K>)>,
    changed: bool,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Table {
            live: BTreeMap::new(),
            was: VecDeque::new(),
            changed: true,
        }
    }
}

impl<K> Table<K> {
    /// As it was at the end of tick `at`.
    pub fn view(&self, at: u64) -> Objects<K> {
        let past = self.was.iter().rev().find(|(tick, _)| *tick <= at);
        past.map(|(_, objects)| objects.clone()).unwrap_or_default()
    }

    fn end_tick(&mut self, now: u64) {
        if std::mem::take(&mut self.changed) {
            self.was.push_back((now, self.live.clone()));
        }
        // The newest of those that are too old is still what the oldest view has.
        while self.was.get(1).is_some_and(|(tick, _)| tick + LAG_MAX < now) {
            self.was.pop_front();
        }
    }
}

/// A kind that is kept here.
pub trait Kept: Resource<DynamicType = ()> + Clone {
    fn table(api: &mut Api) -> &mut Table<Self>;
}

macro_rules! kept {
    ($($kind:ty => $field:ident,)*) => {
        $(impl Kept for $kind {
            fn table(api: &mut Api) -> &mut Table<Self> {
                &mut api.$field
            }
        })*
        impl Api {
            /// A tick has passed.
            pub fn end_tick(&mut self) {
                let now = self.now;
                $(self.$field.end_tick(now);)*
            }
        }
    };
}

kept! {
    EtcdCluster => clusters,
    EtcdPeer => peers,
    PersistentVolumeClaim => claims,
    ReplicaSet => sets,
    Pod => pods,
    Service => services,
    PodDisruptionBudget => budgets,
    Secret => secrets,
}

#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Api {
    pub clusters: Table<EtcdCluster>,
    pub peers: Table<EtcdPeer>,
    pub claims: Table<PersistentVolumeClaim>,
    pub sets: Table<ReplicaSet>,
    pub pods: Table<Pod>,
    pub services: Table<Service>,
    pub budgets: Table<PodDisruptionBudget>,
    pub secrets: Table<Secret>,
    pub now: u64,
    /// It is an older one, which does not change the resources of pods that run.
    pub refuses_resize: bool,
    /// Writes of Secrets are refused until this tick: by a quota, a policy, or for want of rights.
    pub secrets_refused_until: u64,
    versions: u64,
}

fn writes_secret(effect: &Effect) -> bool {
    match effect {
        Effect::Create(object) | Effect::Apply(object) => matches!(object, Object::Secret(_)),
        Effect::Label { kind, .. } | Effect::Annotate { kind, .. } | Effect::Delete { kind, .. } => {
            *kind == Kind::Secret
        }
        Effect::Amend(_) => true,
        _ => false,
    }
}

/// A tick as Kubernetes writes times: in whole seconds.
pub fn time(tick: u64) -> K8sTime {
    let seconds = (super::EPOCH_MS + tick * crate::TICK_MS) / 1000;
    let stamp = i64::try_from(seconds)
        .ok()
        .and_then(|s| jiff::Timestamp::from_second(s).ok());
    K8sTime(stamp.unwrap_or_default())
}

impl Api {
    fn next(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    pub fn create<K: Kept>(&mut self, mut object: K) -> Result<(), ApiError> {
        let name = object.name_any();
        if K::table(self).live.contains_key(&name) {
            return Err(ApiError::Conflict);
        }
        let version = self.next();
        let now = self.now;
        let meta = object.meta_mut();
        meta.uid = Some(format!("uid-{version}"));
        meta.resource_version = Some(version.to_string());
        meta.creation_timestamp = Some(time(now));
        meta.generation = Some(1);
        let table = K::table(self);
        table.live.insert(name, Arc::new(object));
        table.changed = true;
        Ok(())
    }

    /// Changes an object; `uid` is a precondition.
    pub fn change<K: Kept>(
        &mut self,
        name: &str,
        uid: Option<&str>,
        how: impl FnOnce(&mut K),
    ) -> Result<(), ApiError> {
        let version = self.next();
        let table = K::table(self);
        let object = table.live.get_mut(name).ok_or(ApiError::NotFound)?;
        if uid.is_some_and(|uid| object.meta().uid.as_deref() != Some(uid)) {
            return Err(ApiError::Conflict);
        }
        let object = Arc::make_mut(object);
        how(object);
        object.meta_mut().resource_version = Some(version.to_string());
        let gone = object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty();
        table.changed = true;
        if gone && !K::kind(&()).eq("Pod") {
            table.live.remove(name);
        }
        Ok(())
    }

    /// Is an EtcdPeer, if there is one, still at this resourceVersion?
    fn unchanged(&self, name: &str, version: &str) -> Result<(), ApiError> {
        let present = self.peers.live.get(name).and_then(|peer| peer.resource_version());
        match present.is_none_or(|present| present == version) {
            true => Ok(()),
            false => Err(ApiError::Conflict),
        }
    }

    /// Replaces the status of an EtcdCluster, if it is still the one that was read.
    /// Out: its resourceVersion from now on.
    pub fn replace_status(&mut self, next: &EtcdCluster) -> Result<Option<String>, ApiError> {
        let present = self
            .clusters
            .live
            .get(&next.name_any())
            .ok_or(ApiError::NotFound)?;
        if present.resource_version() != next.resource_version() || present.uid() != next.uid() {
            return Err(ApiError::Conflict);
        }
        if present.status == next.status {
            return Ok(present.resource_version()); // What stays the same keeps its version.
        }
        let (name, status) = (next.name_any(), next.status.clone());
        self.change::<EtcdCluster>(&name, None, |c| c.status = status)?;
        Ok(self.clusters.live.get(&name).and_then(|c| c.resource_version()))
    }

    /// Replaces the status of that very EtcdPeer; one that is gone needs none.
    pub fn replace_peer_status(&mut self, next: &EtcdPeer) -> Result<(), ApiError> {
        let (name, uid, status) = (next.name_any(), next.uid(), next.status.clone());
        match self.change::<EtcdPeer>(&name, uid.as_deref(), |p| p.status = status) {
            Err(ApiError::NotFound | ApiError::Conflict) => Ok(()),
            other => other,
        }
    }

    /// Deletes an object, or has it begin to go: pods are ended by their kubelet, others wait for their finalizers.
    pub fn delete<K: Kept>(&mut self, name: &str, uid: Option<&str>) -> Result<(), ApiError> {
        let now = self.now;
        let waits = K::kind(&()).eq("Pod");
        let present = K::table(self).live.get(name).ok_or(ApiError::NotFound)?;
        if uid.is_some_and(|uid| present.meta().uid.as_deref() != Some(uid)) {
            return Err(ApiError::Conflict);
        }
        if present.meta().deletion_timestamp.is_some() {
            return Ok(());
        }
        if waits || !present.finalizers().is_empty() {
            return self.change::<K>(name, uid, |o| o.meta_mut().deletion_timestamp = Some(time(now)));
        }
        self.remove::<K>(name);
        Ok(())
    }

    /// Takes an object away at once.
    pub fn remove<K: Kept>(&mut self, name: &str) {
        let table = K::table(self);
        table.changed |= table.live.remove(name).is_some();
    }

    /// Is an object that is to be deleted as it was seen another by now?
    pub fn has_changed(&self, effect: &Effect) -> bool {
        let Effect::DeleteUnchanged {
            kind, name, version, ..
        } = effect
        else {
            return false;
        };
        let present = match kind {
            Kind::Pod => self.pods.live.get(name).and_then(|p| p.resource_version()),
            _ => self.claims.live.get(name).and_then(|c| c.resource_version()),
        };
        present.as_ref() != Some(version)
    }

    /// Is an EtcdPeer or pod that was to be deleted still there, and does it not go?
    pub fn is_kept(&self, effect: &Effect) -> bool {
        let (Effect::Delete { kind, name, uid } | Effect::DeleteUnchanged { kind, name, uid, .. }) = effect
        else {
            return false;
        };
        let meta = match kind {
            Kind::Peer => self.peers.live.get(name).map(|p| &p.metadata),
            Kind::Pod => self.pods.live.get(name).map(|p| &p.metadata),
            _ => None,
        };
        meta.is_some_and(|m| m.uid.as_ref() == Some(uid) && m.deletion_timestamp.is_none())
    }

    /// One effect of the operator, answered as `apply` takes the answers.
    pub fn apply(&mut self, effect: &Effect) -> Result<Applied, ApiError> {
        if self.now < self.secrets_refused_until && writes_secret(effect) {
            return Err(ApiError::Forbidden);
        }
        if self.has_changed(effect) {
            return Ok(Applied::Unchanged);
        }
        if let Effect::Resize {
            name,
            uid,
            resources,
            config,
        } = effect
        {
            let did = self.resize((name, uid), resources, config)?;
            return Ok(if did { Applied::Changed } else { Applied::Unchanged });
        }
        match (effect, self.apply_one(effect)) {
            (Effect::Create(_), Err(ApiError::Conflict)) => Ok(Applied::Unchanged),
            (_, result) => result.map(|()| Applied::Changed),
        }
    }

    fn apply_one(&mut self, effect: &Effect) -> Result<(), ApiError> {
        let gone = |result| match result {
            Err(ApiError::Conflict | ApiError::NotFound) => Ok(()),
            other => other,
        };
        match effect {
            Effect::Create(object) => match object {
                Object::Service(it) => self.create((**it).clone()),
                Object::Claim(it) => {
                    let mut claim = (**it).clone();
                    claim.metadata.finalizers = Some(vec![CLAIM_PROTECTION.to_owned()]);
                    self.create(claim)
                }
                Object::Set(it) => self.create((**it).clone()),
                Object::Budget(it) => self.create((**it).clone()),
                Object::Peer(it) => self.create((**it).clone()),
                Object::Secret(it) => self.create((**it).clone()),
                // ReplicaSets make the pods.
                Object::Pod(_) => Ok(()),
            },
            Effect::Apply(Object::Budget(it)) => {
                let spec = it.spec.clone();
                match self.change::<PodDisruptionBudget>(&it.name_any(), None, |b| b.spec = spec) {
                    Err(ApiError::NotFound) => self.create((**it).clone()),
                    other => other,
                }
            }
            Effect::Apply(Object::Service(it)) => {
                let spec = it.spec.clone();
                self.change::<Service>(&it.name_any(), None, |s| s.spec = spec)
            }
            Effect::Label {
                kind,
                name,
                uid,
                labels,
            } => match kind {
                Kind::Pod => self.change::<Pod>(name, Some(uid), |p| p.labels_mut().extend(labels.clone())),
                Kind::Set => self.change::<ReplicaSet>(name, Some(uid), |s| {
                    let template = s.spec.get_or_insert_default().template.get_or_insert_default();
                    let meta = template.metadata.get_or_insert_default();
                    meta.labels.get_or_insert_default().extend(labels.clone());
                    s.labels_mut().extend(labels.clone());
                }),
                Kind::Claim => self.change::<PersistentVolumeClaim>(name, Some(uid), |c| {
                    c.labels_mut().extend(labels.clone());
                }),
                Kind::Secret => {
                    self.change::<Secret>(name, Some(uid), |s| s.labels_mut().extend(labels.clone()))
                }
                _ => Ok(()),
            },
            Effect::Apply(_) => Ok(()),
            Effect::Amend(change) => self.amend(change),
            Effect::Delete { kind, name, uid } | Effect::DeleteUnchanged { kind, name, uid, .. } => {
                gone(match kind {
                    Kind::Peer => self.delete::<EtcdPeer>(name, Some(uid)),
                    Kind::Claim => self.delete::<PersistentVolumeClaim>(name, Some(uid)),
                    Kind::Set => self.delete::<ReplicaSet>(name, Some(uid)),
                    Kind::Pod => self.delete::<Pod>(name, Some(uid)),
                    Kind::Budget => self.delete::<PodDisruptionBudget>(name, Some(uid)),
                    Kind::Secret => self.delete::<Secret>(name, Some(uid)),
                    Kind::Service => Ok(()),
                })
            }
            Effect::ConfirmClaim { name, uid } => {
                let claim = self.claims.live.get(name).ok_or(ApiError::NotFound)?;
                let stays = claim.uid().as_ref() == Some(uid) && claim.metadata.deletion_timestamp.is_none();
                if stays { Ok(()) } else { Err(ApiError::Conflict) }
            }
            Effect::Annotate {
                kind,
                name,
                uid,
                annotations,
            } => match kind {
                Kind::Peer => self.annotate::<EtcdPeer>(name, uid, annotations),
                Kind::Claim => self.annotate::<PersistentVolumeClaim>(name, uid, annotations),
                Kind::Set => self.change::<ReplicaSet>(name, Some(uid), |s| {
                    let template = s.spec.get_or_insert_default().template.get_or_insert_default();
                    let meta = template.metadata.get_or_insert_default();
                    meta.annotations
                        .get_or_insert_default()
                        .extend(annotations.clone());
                }),
                Kind::Pod => self.annotate::<Pod>(name, uid, annotations),
                Kind::Budget => self.annotate::<PodDisruptionBudget>(name, uid, annotations),
                Kind::Secret | Kind::Service => Ok(()),
            },
            Effect::Adopt {
                name,
                uid,
                version,
                owners,
            } => {
                self.unchanged(name, version)?;
                self.change::<EtcdPeer>(name, Some(uid), |p| {
                    p.metadata.owner_references = Some(owners.clone());
                })
            }
            Effect::Grow { name, uid, storage } => {
                self.change::<PersistentVolumeClaim>(name, Some(uid), |c| {
                    let resources = c.spec.get_or_insert_default().resources.get_or_insert_default();
                    let requests = resources.requests.get_or_insert_default();
                    requests.insert("storage".to_owned(), Quantity(storage.clone()));
                })
            }
            Effect::Resize { .. } => Ok(()), // Done already.
            Effect::Template { name, uid, template } => self.change_template((name, uid), template),
            Effect::Finalizers {
                name,
                uid,
                version,
                finalizers,
            } => {
                self.unchanged(name, version)?;
                let set = |p: &mut EtcdPeer| p.metadata.finalizers = Some(finalizers.clone());
                match self.change::<EtcdPeer>(name, Some(uid), set) {
                    Err(ApiError::NotFound) => Ok(()),
                    other => other,
                }
            }
        }
    }

    fn amend(&mut self, change: &Amendment) -> Result<(), ApiError> {
        let present = self.secrets.live.get(&change.name).ok_or(ApiError::NotFound)?;
        if present.resource_version().as_ref() != Some(&change.version) {
            return Err(ApiError::Conflict);
        }
        self.change::<Secret>(&change.name, Some(&change.uid), |secret| change.apply_to(secret))
    }

    fn annotate<K: Kept>(
        &mut self,
        name: &str,
        uid: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        self.change::<K>(name, Some(uid), |o| {
            o.annotations_mut().extend(annotations.clone())
        })
    }
}
