//! Two releases of the operator: the present one, and a later one that builds members otherwise and remembers in a format
//! that the present one does not know.
//!
//! In: the text of a memory. Out: the same as the other release writes or reads it. Never: the present release acting on a
//! cluster whose memory it cannot read.

use quorate_api::crd::EtcdCluster;
use quorate_operator::cluster::build::Images;
use quorate_operator::cluster::memory_text::unpack;
use quorate_operator::requests::effect::Effect;

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
}

impl KubeWorld {
    /// Is the memory of a format that the present release does not know?
    pub(in crate::kube) fn memory_is_later(&self) -> bool {
        let resource = self.api.clusters.live.get(&self.names.cluster);
        let memory = resource.and_then(|r| r.status.as_ref()?.memory.as_ref());
        memory.is_some_and(|text| text.starts_with(LATER))
    }

    /// Whoever cannot read the memory does nothing.
    pub(in crate::kube) fn judge_release(&mut self, me: &Operator, effect: &Effect) {
        if me.release != Release::LaterFormat && self.memory_is_later() {
            let what = format!("{effect} by an operator that cannot read what is remembered");
            self.broke(KubeBreak::ActedOnLater, what);
        }
    }
}
