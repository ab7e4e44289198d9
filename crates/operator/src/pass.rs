//! What a pass decides from: for [`crate::reconcile`], and for the simulator.
//!
//! In: the EtcdCluster and its objects. Out: what is wanted, and what is remembered. Never: a memory that is there and
//! cannot be read, taken for none.

use quorate_api::Cluster;
use quorate_api::crd::EtcdCluster;
use quorate_core::Memory;
use quorate_core::model::Spec;

use crate::build::{Plot, etcd};
use crate::names::Names;
use crate::observe::Objects;
use crate::record::recall;

/// What is wanted, as the planner understands it.
pub fn wanted(plot: &Plot<'_>) -> Spec {
    let cluster = plot.cluster;
    Spec {
        name: plot.names.cluster.clone(),
        replicas: cluster.replicas,
        version: quorate_core::model::Version::new(
            cluster.version.major as u32,
            cluster.version.minor as u32,
            cluster.version.patch as u32,
        ),
        config: etcd::digest(plot),
        paused: cluster.paused,
    }
}

/// What is remembered with the resource. An error is for people: a memory that is there and cannot be read is not
/// forgotten, for what was begun would be begun again.
pub fn stored(resource: &EtcdCluster) -> Result<Option<Memory>, String> {
    let text = resource.status.as_ref().and_then(|s| s.memory.as_ref());
    text.map(|text| serde_json::from_str(text)).transpose().map_err(|error| {
        format!(
            "status.memory cannot be read: {error}; a newer quorate wrote it, or someone changed it: run that quorate, \
             or put back what was there"
        )
    })
}

/// What is remembered: with the resource, or on the claims that a former resource of that name left.
pub fn remembered(
    resource: &EtcdCluster,
    cluster: &Cluster,
    names: &Names,
    objects: &Objects,
) -> Result<Memory, String> {
    if let Some(memory) = stored(resource)? {
        return Ok(memory);
    }
    let claims = objects
        .slots
        .iter()
        .filter_map(|(o, s)| Some((*o, s.claim.as_ref()?.record.clone())));
    let url = |o, tls: Option<bool>| names.peer_url(o, tls.unwrap_or(cluster.tls));
    Ok(recall(&claims.collect(), url).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_that_cannot_be_read_is_not_forgotten() {
        let names = Names::of("n", "c");
        let ground = crate::execute::tests::Ground0::new();
        let cluster = ground.plot().cluster;
        let mut resource = EtcdCluster::new("c", Default::default());
        let read = |resource: &EtcdCluster| remembered(resource, cluster, &names, &Objects::default());
        assert_eq!(read(&resource), Ok(Memory::default()), "there is none yet");
        let status = resource.status.get_or_insert_default();
        status.memory = Some("{\"format\": \"of tomorrow\"".to_owned());
        assert!(read(&resource).unwrap_err().contains("status.memory"));
        let text = serde_json::to_string(&Memory::default()).unwrap();
        resource.status.get_or_insert_default().memory = Some(text);
        assert_eq!(read(&resource), Ok(Memory::default()));
    }
}
