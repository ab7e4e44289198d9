//! The operator on a real Kubernetes, as installed by `quorate install` and driven with kubectl: one test for each promise.
//! What repeats another proof or takes minutes is in `nightly_kube_operator`.
#![cfg(feature = "e2e")]

#[path = "kube_operator/admission.rs"]
mod admission;
#[path = "kube_operator/create.rs"]
mod create;
#[path = "kube_operator/guide.rs"]
mod guide;
#[path = "kube_operator/identity.rs"]
mod identity;
#[path = "kube_operator/lost_data.rs"]
mod lost_data;
#[path = "kube_operator/resize.rs"]
mod resize;
#[path = "kube_operator/resources.rs"]
mod resources;
#[path = "kube_operator/rights.rs"]
mod rights;
#[path = "kube_operator/rolling.rs"]
mod rolling;
#[path = "kube_operator/tls.rs"]
mod tls;
#[path = "kube_operator/trouble.rs"]
mod trouble;
#[path = "kube_operator/unschedulable.rs"]
mod unschedulable;
#[path = "kube_operator/upgrade.rs"]
mod upgrade;
#[path = "kube_operator/without_operator.rs"]
mod without_operator;
