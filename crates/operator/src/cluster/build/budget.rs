//! The PodDisruptionBudget: drains never take more voters than the cluster can lose. A learner is nobody's quorum.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use quorate_core::model::quorum;

use super::BuildContext;

/// How many members must stay available: a quorum of the larger of what is and what is wanted. One member alone has
/// none: a budget would only keep its node from ever being drained.
pub fn must_stay(voters: usize, wanted: u32) -> Option<usize> {
    let size = voters.max(wanted as usize);
    (size > 1).then(|| quorum(size))
}

/// The budget, if there is to be one.
pub fn budget(context: &BuildContext<'_>, voters: usize) -> Option<PodDisruptionBudget> {
    let stay = must_stay(voters, context.cluster.replicas)?;
    Some(PodDisruptionBudget {
        metadata: context.meta(&context.names.cluster),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(i32::try_from(stay).unwrap_or(i32::MAX))),
            selector: Some(LabelSelector {
                match_labels: Some(context.names.voter_labels()),
                ..LabelSelector::default()
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    })
}

#[cfg(test)]
mod tests {
    use super::must_stay;

    #[test]
    fn a_budget_keeps_a_quorum_of_what_is_and_of_what_is_wanted() {
        let table = [
            ((0, 1), None),
            ((1, 1), None),
            ((1, 3), Some(2)),
            ((3, 1), Some(2)),
            ((3, 3), Some(2)),
            ((3, 5), Some(3)),
            ((5, 3), Some(3)),
            ((4, 4), Some(3)),
        ];
        for ((voters, wanted), stay) in table {
            assert_eq!(
                must_stay(voters, wanted),
                stay,
                "{voters} voters, {wanted} wanted"
            );
        }
    }
}
