//! Passes that end without a plan: what is shown then.
//!
//! In: a cluster that cannot be planned for yet, or not until people have mended something. Out: its status, and what is to
//! be known of its members. Never: members that nobody asked, shown as healthy.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time as K8sTime};
use kube::ResourceExt;
use quorate_api::crd::{ClusterStatus, EtcdCluster, EtcdPeer};

use super::driver::Driver;
use super::peers;
use super::reconcile::{AT_REST, PassCache};
use super::status::{held, is_due, pending, refused, unasked_peer};
use crate::requests::api_errors::RequestError;
use crate::requests::effect::ClusterEvent;

/// Something that only people can mend: said in the status, and nothing is done.
pub(super) async fn hold(
    driver: &mut dyn Driver,
    (resource, peers): (&EtcdCluster, &[Arc<EtcdPeer>]),
    (reason, why): (&'static str, &str),
    kept: &mut PassCache,
) -> Result<Option<Duration>, RequestError> {
    driver.held(reason);
    let last = resource.status.clone().unwrap_or_default();
    let next = held(&last, (reason, why), resource.metadata.generation, driver.now());
    if is_due(&next, &last, driver.now()) && driver.covers() {
        let blocked = |c: &&Condition| c.type_ == "Blocked" && c.status == "True" && c.reason == reason;
        let new = last.conditions.iter().find(blocked).is_none();
        store(driver, resource, next, kept).await?;
        if new {
            let about = ("EtcdCluster", resource.name_any());
            let event = ClusterEvent::warning(reason, (about.0, &about.1), why.to_owned());
            driver.record_event(resource, &event).await;
        }
    }
    let now = driver.now();
    peers::show(driver, peers, |peer, last| {
        unasked_peer(last, reason, peer.metadata.generation, now)
    })
    .await?;
    Ok(Some(AT_REST))
}

/// Says that the first certificates are yet to be written, or what the API server does not do about them. Before they are
/// asked for it is written in any case, as before any effect: that fails if the EtcdCluster is not what was read any more.
/// `false`: there was no time left for it.
pub(super) async fn show_pending(
    driver: &mut dyn Driver,
    resource: &EtcdCluster,
    (paused, asks): (bool, bool),
    kept: &mut PassCache,
) -> Result<bool, RequestError> {
    let (now, generation) = (driver.now(), resource.metadata.generation);
    let last = resource.status.clone().unwrap_or_default();
    let next = match kept.trouble.shown() {
        Some(trouble) => {
            driver.held(trouble.0);
            refused(&last, trouble, generation, now)
        }
        None => pending(&last, paused, generation, now),
    };
    if !driver.covers() {
        return Ok(false);
    }
    if asks || is_due(&next, &last, now) {
        store(driver, resource, next, kept).await?;
    }
    Ok(true)
}

/// Writes a status over the one that was seen.
pub(super) async fn store(
    driver: &mut dyn Driver,
    resource: &EtcdCluster,
    mut status: ClusterStatus,
    kept: &mut PassCache,
) -> Result<(), RequestError> {
    status.observed_at = Some(K8sTime(driver.now()));
    let written = driver.store_status(resource, status).await?;
    kept.wrote_over(resource, written);
    Ok(())
}
