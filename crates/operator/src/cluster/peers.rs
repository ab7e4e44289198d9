//! The status of EtcdPeers, as it is written.

use std::sync::Arc;

use kube::ResourceExt;
use quorate_api::crd::{EtcdPeer, PeerStatus};

use super::driver::{Driver, View};
use super::status::ownerless;
use crate::names::Names;
use crate::requests::api_errors::RequestError;

/// Writes the status of each EtcdPeer for which there is another. Nothing depends on it.
pub async fn show(
    driver: &mut dyn Driver,
    peers: &[Arc<EtcdPeer>],
    next: impl Fn(&EtcdPeer, &PeerStatus) -> PeerStatus,
) -> Result<(), RequestError> {
    for peer in peers.iter().filter(|p| p.metadata.deletion_timestamp.is_none()) {
        let last = peer.status.clone().unwrap_or_default();
        let next = next(peer, &last);
        if next == last {
            continue;
        }
        if !driver.covers() {
            return Ok(());
        }
        driver.store_peer_status(peer, next).await?;
    }
    Ok(())
}

/// Says on EtcdPeers that nobody owns that there is no EtcdCluster which would look after them.
pub async fn report_ownerless(
    driver: &mut dyn Driver,
    names: &Names,
    view: &View,
) -> Result<(), RequestError> {
    let now = driver.now();
    show(driver, &view.seen.peers, |peer, last| {
        let controlled = peer.owner_references().iter().any(|o| o.controller == Some(true));
        match controlled {
            true => last.clone(),
            false => ownerless(last, names, peer.metadata.generation, now),
        }
    })
    .await
}
