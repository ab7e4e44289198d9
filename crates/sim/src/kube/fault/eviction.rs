//! Evictions: somebody drains a node, and the API server lets a pod go if the PodDisruptionBudget allows it.
//!
//! In: the budget and the pods, as the API server has them. Out: a pod that is told to go, or a refusal; a break, if an
//! eviction that was allowed cost a quorum. Never: blame where pods count as ready that do not serve, for that is not the
//! budget's doing.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use quorate_core::model::{Ordinal, quorum};
use quorate_pod::contract::PEER_LABEL;

use crate::etcd::Place;
use crate::fault::newest_conf;
use crate::kube::kubelet::Running;
use crate::kube::world::{KubeBreak, KubeWorld};

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let mut ready = conditions.filter(|c| c.type_ == "Ready");
    ready.any(|c| c.status == "True") && pod.metadata.deletion_timestamp.is_none()
}

impl KubeWorld {
    pub(in crate::kube) fn evict(&mut self) -> bool {
        let Some(uid) = self.some_pod(|p| p.going.is_none()) else {
            return false;
        };
        let name = self.pods[&uid].name.clone();
        let Some(pod) = self.api.pods.live.get(&name).cloned() else {
            return false;
        };
        if !self.budget_allows(&pod) {
            self.reached("stage", "EvictionRefused");
            return true;
        }
        self.judge_eviction(&pod);
        let _ = self.api.delete::<Pod>(&name, Some(&uid));
        true
    }

    /// The pods that the budget counts, and how many of them must stay; `None` if it is not about this pod.
    fn budgeted(&self, pod: &Pod) -> Option<(Vec<&Pod>, usize)> {
        let budget = self.api.budgets.live.get(&self.names.cluster)?.spec.as_ref()?;
        let labels = budget.selector.as_ref()?.match_labels.as_ref()?;
        let chosen = |pod: &Pod| {
            labels
                .iter()
                .all(|(key, value)| pod.labels().get(key) == Some(value))
        };
        let Some(IntOrString::Int(stay)) = budget.min_available else {
            return None;
        };
        let pods = self.api.pods.live.values().map(|p| &**p);
        let counted = pods.filter(|p| chosen(p) && is_ready(p)).collect();
        chosen(pod).then_some((counted, usize::try_from(stay).ok()?))
    }

    /// One that is not ready may go while enough are; one that is, if enough are without it.
    fn budget_allows(&self, pod: &Pod) -> bool {
        let Some((counted, stay)) = self.budgeted(pod) else {
            return true;
        };
        counted.len() >= stay + usize::from(is_ready(pod))
    }

    fn judge_eviction(&mut self, pod: &Pod) {
        let ordinal = |pod: &Pod| pod.labels().get(PEER_LABEL).and_then(|n| self.names.ordinal(n));
        let serves = |o: Ordinal| self.etcd.serves(Place(o.0));
        let (Some(evicted), Some((counted, _))) = (ordinal(pod), self.budgeted(pod)) else {
            return;
        };
        let Some(conf) = newest_conf(&self.etcd) else {
            return;
        };
        // One that has not started yet may take the place of one that still serves.
        let runs = pod
            .uid()
            .and_then(|uid| self.pods.get(&uid))
            .is_some_and(Running::runs);
        let as_counted = counted.iter().all(|p| ordinal(p).is_some_and(serves));
        let voters: Vec<Ordinal> = conf.voters().map(|(_, m)| Ordinal(m.place.0)).collect();
        let left = voters.iter().filter(|o| **o != evicted && serves(**o)).count();
        if as_counted && runs && serves(evicted) && left < quorum(voters.len()) {
            let what = format!("the eviction of {} leaves {left} of {voters:?}", pod.name_any());
            self.broke(KubeBreak::EvictionCostQuorum, what);
        }
    }
}
