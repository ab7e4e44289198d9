//! Two releases of the operator: the present one, and a later one that builds members otherwise and remembers in a format
//! that the present one does not know.
//!
//! In: the text of a memory, or of a claim's record. Out: the same as the other release writes or reads it. Never: the
//! present release acting on a cluster whose memory it cannot read, or writing over a record that it cannot read.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use quorate_api::crd::EtcdCluster;
use quorate_operator::cluster::build::Images;
use quorate_operator::cluster::memory_text::unpack;
use quorate_operator::cluster::record::VolumeRecord;
use quorate_operator::names::VOLUME_ANNOTATION;
use quorate_operator::requests::effect::{Effect, Kind, Object};

use crate::kube::operator::Operator;
use crate::kube::world::{KubeBreak, KubeWorld};

const PRESENT: &str = r#"{"format":1,"#;
const LATER: &str = r#"{"format":2,"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    Present,
    /// It builds members otherwise.
    Later,
    /// And it remembers otherwise.
    LaterFormat,
}

impl Release {
    pub fn images(self) -> Images {
        let present = Images::default();
        match self {
            Release::Present => present,
            Release::Later | Release::LaterFormat => Images {
                revision: present.revision + 1,
                ..present
            },
        }
    }

    /// The resource as this release can read it.
    pub fn reads(self, resource: &mut EtcdCluster) {
        let memory = resource.status.as_mut().and_then(|status| status.memory.as_mut());
        if let Some(text) = memory.filter(|_| self == Release::LaterFormat)
            && let Some(rest) = text.strip_prefix(LATER)
        {
            *text = format!("{PRESENT}{rest}");
        }
    }

    /// The resource as this release writes it.
    pub fn writes(self, resource: &mut EtcdCluster) {
        let memory = resource.status.as_mut().and_then(|status| status.memory.as_mut());
        if let Some(text) = memory.filter(|_| self == Release::LaterFormat)
            && let Some(memory) = unpack(text).ok()
            && let Ok(plain) = serde_json::to_string(&memory)
            && let Some(rest) = plain.strip_prefix(PRESENT)
        {
            *text = format!("{LATER}{rest}");
        }
    }

    /// A claim as this release can read it.
    pub fn reads_claim(self, claim: &mut Arc<PersistentVolumeClaim>) {
        if self == Release::LaterFormat && is_later(claim) {
            exchange(Arc::make_mut(claim).annotations_mut(), LATER, PRESENT);
        }
    }

    /// What is asked for, as this release asks for it.
    pub fn asks(self, effect: &Effect) -> Effect {
        let mut asked = effect.clone();
        if self == Release::LaterFormat {
            match &mut asked {
                Effect::Create(Object::Claim(claim)) => exchange(claim.annotations_mut(), PRESENT, LATER),
                Effect::Annotate {
                    kind: Kind::Claim,
                    annotations,
                    ..
                } => exchange(annotations, PRESENT, LATER),
                _ => {}
            }
        }
        asked
    }
}

fn exchange(annotations: &mut BTreeMap<String, String>, from: &str, to: &str) {
    if let Some(text) = annotations.get_mut(VOLUME_ANNOTATION)
        && let Some(rest) = text.strip_prefix(from)
    {
        *text = format!("{to}{rest}");
    }
}

/// Is the record on the claim of a format that the present release does not know?
fn is_later(claim: &PersistentVolumeClaim) -> bool {
    let record = claim.annotations().get(VOLUME_ANNOTATION);
    record.is_some_and(|text| text.starts_with(LATER))
}

/// What is on record about the volume of a claim, whichever release wrote it.
pub fn on_record(claim: &PersistentVolumeClaim) -> Option<VolumeRecord> {
    let text = claim.annotations().get(VOLUME_ANNOTATION)?;
    VolumeRecord::read(&text.replacen(LATER, PRESENT, 1)).ok()
}

impl KubeWorld {
    /// Is something remembered, with the cluster or on a claim, in a format that the present release does not know?
    pub(in crate::kube) fn memory_is_later(&self) -> bool {
        self.status_is_later() || self.api.claims.live.values().any(|c| is_later(c))
    }

    fn status_is_later(&self) -> bool {
        let resource = self.api.clusters.live.get(&self.names.cluster);
        let memory = resource.and_then(|r| r.status.as_ref()?.memory.as_ref());
        memory.is_some_and(|text| text.starts_with(LATER))
    }

    /// Whoever cannot read the memory does nothing.
    pub(in crate::kube) fn judge_release(&mut self, me: &Operator, effect: &Effect) {
        let over_later = match effect {
            Effect::Annotate {
                kind: Kind::Claim,
                name,
                ..
            } => me.sees_claims_now() && self.api.claims.live.get(name).is_some_and(|c| is_later(c)),
            _ => false,
        };
        if me.release != Release::LaterFormat && (self.status_is_later() || over_later) {
            let what = format!("{effect} by an operator that cannot read what is remembered");
            self.broke(KubeBreak::ActedOnLater, what);
        }
    }
}
