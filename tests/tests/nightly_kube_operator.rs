//! The operator on a real Kubernetes, where a proof takes minutes or repeats one that is in `kube_operator` or was made on a host:
//! all sizes and versions, kills at every step, every way to lose certificates, whole guides.
#![cfg(feature = "e2e")]

#[path = "nightly_kube_operator/acceptance.rs"]
mod acceptance;
#[path = "nightly_kube_operator/api_away.rs"]
mod api_away;
#[path = "nightly_kube_operator/bad_input.rs"]
mod bad_input;
#[path = "nightly_kube_operator/create.rs"]
mod create;
#[path = "nightly_kube_operator/guide.rs"]
mod guide;
#[path = "nightly_kube_operator/identity.rs"]
mod identity;
#[path = "nightly_kube_operator/learner.rs"]
mod learner;
#[path = "nightly_kube_operator/lifecycle.rs"]
mod lifecycle;
#[path = "nightly_kube_operator/lost_data.rs"]
mod lost_data;
#[path = "nightly_kube_operator/one_namespace.rs"]
mod one_namespace;
#[path = "nightly_kube_operator/resize.rs"]
mod resize;
#[path = "nightly_kube_operator/storage.rs"]
mod storage;
#[path = "nightly_kube_operator/tls.rs"]
mod tls;
#[path = "nightly_kube_operator/upgrade.rs"]
mod upgrade;
#[path = "nightly_kube_operator/webhook.rs"]
mod webhook;
