//! What a pass decides from: for [`crate::cluster::reconcile`], and for the simulator.
//!
//! In: the EtcdCluster and its objects. Out: what is wanted, and what is remembered. Never: a memory that is there and
//! cannot be read, taken for none, be it in the status or on a claim; a cluster that is not looked after because its manifest was spoilt.

use kube::ResourceExt;
use quorate_api::Cluster;
use quorate_api::crd::EtcdCluster;
use quorate_core::Memory;
use quorate_core::model::{Frozen, Progress, Spec};
use quorate_core::reason::BlockReason;

use crate::cluster::build::{BuildContext, Fallback, etcd};
use crate::cluster::memory_text::MemoryText;
use crate::cluster::observe::Objects;
use crate::cluster::observe::gather::{bytes, requested};
use crate::cluster::record::{recall, speaks_tls};
use crate::names::{Names, VOLUME_ANNOTATION};

/// A spec larger than this is not read, so that no object takes more of the operator's memory.
pub const SPEC_MAX: usize = 128 * 1024;
/// Stands on an EtcdCluster, as the operator keeps it, whose spec was larger, with its length. Nobody else sees it.
pub const SPEC_LEFT_OUT: &str = "etcd.improbable.io/spec-left-out";
/// A manifest larger than this is not remembered.
const MANIFEST_MAX: usize = 64 * 1024;

/// What an EtcdCluster asks for, or last asked for that can be done.
#[derive(Clone, Debug)]
pub struct DesiredCluster {
    pub cluster: Cluster,
    pub warnings: Vec<String>,
    /// Why it is not what it asks for now.
    pub frozen: Option<Frozen>,
    pub manifest: Option<String>,
}

/// What is asked for. An error, for people, if that cannot be done and nothing is remembered that could.
pub fn asked(resource: &EtcdCluster, memory: Option<&Memory>) -> Result<DesiredCluster, String> {
    let why = match read_spec(resource, memory) {
        Ok((cluster, warnings)) => {
            let manifest = serde_json::to_string(&resource.spec).ok();
            return Ok(DesiredCluster {
                cluster,
                warnings,
                frozen: None,
                manifest: manifest.filter(|text| text.len() <= MANIFEST_MAX),
            });
        }
        Err(why) => why,
    };
    let manifest = memory.and_then(|memory| memory.manifest.clone());
    let Some(spec) = manifest
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok())
    else {
        return Err(why);
    };
    let before = EtcdCluster {
        spec,
        ..resource.clone()
    };
    let (cluster, warnings) = read(&before, memory).map_err(|_| why.clone())?;
    Ok(DesiredCluster {
        cluster,
        warnings,
        frozen: Some(Frozen {
            reason: BlockReason::Invalid,
            detail: format!("{why}; the cluster is kept as it was before that"),
        }),
        manifest,
    })
}

fn read_spec(resource: &EtcdCluster, memory: Option<&Memory>) -> Result<(Cluster, Vec<String>), String> {
    match resource.annotations().get(SPEC_LEFT_OUT) {
        None => read(resource, memory),
        Some(length) => Err(format!(
            "spec: it has {length} bytes, and at most {SPEC_MAX} are read; make spec.podTemplate smaller"
        )),
    }
}

fn read(resource: &EtcdCluster, memory: Option<&Memory>) -> Result<(Cluster, Vec<String>), String> {
    let (cluster, warnings) = quorate_api::crd::resolve(resource).map_err(|faults| faults.to_string())?;
    if memory.and_then(speaks_tls).is_some_and(|was| was != cluster.tls) {
        return Err(if cluster.tls {
            "spec.tls: the data of this cluster is that of members that speak plain text; leave spec.tls out"
        } else {
            "spec.tls: the data of this cluster is that of members that speak TLS; write spec.tls as it was, {} for \
             quorate's own certificates"
        }
        .to_owned());
    }
    Ok((cluster, warnings.iter().map(ToString::to_string).collect()))
}

/// What is wanted, as the planner understands it.
pub fn wanted(context: &BuildContext<'_>) -> Spec {
    let cluster = context.cluster;
    Spec {
        name: context.names.cluster.clone(),
        replicas: cluster.replicas,
        version: quorate_core::model::Version::new(
            cluster.version.major as u32,
            cluster.version.minor as u32,
            cluster.version.patch as u32,
        ),
        config: etcd::digest(context),
        paused: cluster.paused,
        accept_rolled_back: cluster.accept_rolled_back.clone(),
        frozen: None,
        storage: requested(&cluster.claim).and_then(bytes),
        manifest: None,
        fallback: None,
        own_configs: Default::default(),
        own_fallbacks: Default::default(),
    }
}

/// Wants members as they were made. Nobody knows whom they trust, so what they would be made as now is not known either.
pub fn as_they_were_made(spec: &mut Spec, objects: &Objects) {
    let peers = objects.slots.iter();
    spec.own_configs = peers
        .filter_map(|(ordinal, slot)| Some((*ordinal, slot.peer.as_ref()?.config.clone())))
        .collect();
    if let Some(config) = spec.own_configs.values().next() {
        spec.config = config.clone();
    }
}

/// What the cluster last served with, if that is another manifest than the one that is wanted.
pub fn fallback(context: &BuildContext<'_>, memory: &Memory, wanted: Option<&str>) -> Option<Fallback> {
    let spec = serde_json::from_str(memory.served_with(wanted)?).ok()?;
    let mut resource = EtcdCluster::new(&context.names.cluster, spec);
    resource.metadata.namespace = Some(context.names.namespace.clone());
    let (cluster, _) = quorate_api::crd::resolve(&resource).ok()?;
    let config = etcd::digest(&BuildContext {
        cluster: &cluster,
        ..context.clone()
    });
    Some(Fallback { cluster, config })
}

/// What is remembered with the resource. An error is for people: a memory that is there and cannot be read is not
/// forgotten, for what was begun would be begun again.
pub fn stored(resource: &EtcdCluster) -> Result<Option<Memory>, String> {
    stored_as(resource, &mut MemoryText::default())
}

/// The same, for one who has read or written it before.
pub fn stored_as(resource: &EtcdCluster, texts: &mut MemoryText) -> Result<Option<Memory>, String> {
    let text = resource.status.as_ref().and_then(|s| s.memory.as_ref());
    text.map(|text| texts.unpack(text)).transpose().map_err(|error| {
        format!(
            "status.memory cannot be read: {error}; a newer quorate wrote it, or someone changed it: run that quorate, \
             or put back what was there"
        )
    })
}

/// Why what is written on a claim cannot be read, for people. What is written there may be all that is left of a former
/// EtcdCluster's memory, and a later release may rely on it: nothing is done that would write over it.
pub fn unreadable_claim(names: &Names, objects: &Objects) -> Option<String> {
    let mut claims = objects
        .slots
        .iter()
        .filter_map(|(o, s)| Some((o, s.claim.as_ref()?.unreadable.as_ref()?)));
    let (ordinal, why) = claims.next()?;
    let claim = names.member(*ordinal);
    Some(format!(
        "the annotation {VOLUME_ANNOTATION} of the PersistentVolumeClaim {claim} cannot be read: {why}; a newer quorate \
         wrote it, or someone changed it: run that quorate, or put back what was there"
    ))
}

/// What is remembered on the claims that a former EtcdCluster of that name left. Asked for until a cluster has begun: the
/// first look may show the claims as they were before the former one began.
pub fn recalled(cluster: &Cluster, names: &Names, objects: &Objects) -> Memory {
    let claims = objects
        .slots
        .iter()
        .filter_map(|(o, s)| Some((*o, s.claim.as_ref()?.record.clone())));
    let url = |o, tls: Option<bool>| names.peer_url(o, tls.unwrap_or(cluster.tls));
    recall(&claims.collect(), url).unwrap_or_default()
}

/// What is remembered, with the present generation of each volume whose claim lost its record: nobody but the volume knows
/// it then. Without this its member would be taken for one whose data is gone. Before a cluster begins nothing is anybody's.
#[must_use]
pub fn with_own_generations(mut memory: Memory, names: &Names, objects: &Objects) -> Memory {
    if memory.bootstrap.is_none() {
        return memory;
    }
    let cluster = memory.cluster;
    for (ordinal, objects) in &objects.slots {
        let slot = memory.slot(*ordinal);
        let known = cluster.is_some() && slot.member.is_some();
        let own = objects.own_generation(names, *ordinal, known);
        if let Some(generation) = own.filter(|own| *own > slot.generation) {
            // What is known of the former one counts for this one no more than for any other.
            let slot = memory.slots.entry(*ordinal).or_default();
            (slot.generation, slot.run, slot.reached) = (generation, 0, Progress::default());
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_that_cannot_be_read_is_not_forgotten() {
        let mut resource = EtcdCluster::new("c", Default::default());
        assert_eq!(stored(&resource), Ok(None), "there is none yet");
        let status = resource.status.get_or_insert_default();
        status.memory = Some("{\"format\": \"of tomorrow\"".to_owned());
        assert!(stored(&resource).unwrap_err().contains("status.memory"));
        let text = serde_json::to_string(&Memory::default()).unwrap();
        resource.status.get_or_insert_default().memory = Some(text);
        assert_eq!(stored(&resource), Ok(Some(Memory::default())));
    }

    #[test]
    fn a_record_on_a_claim_that_cannot_be_read_is_reported_with_the_claim() {
        use crate::cluster::observe::slot::{Claim, SlotObjects};
        use quorate_core::model::Ordinal;
        let slot = |unreadable: Option<&str>| SlotObjects {
            claim: Some(Claim {
                unreadable: unreadable.map(str::to_owned),
                ..Claim::default()
            }),
            ..SlotObjects::default()
        };
        let mut objects = Objects::default();
        objects.slots.insert(Ordinal(0), slot(None));
        let names = Names::of("n", "c");
        assert_eq!(unreadable_claim(&names, &objects), None);
        objects.slots.insert(Ordinal(1), slot(Some("it is of format 2")));
        let why = unreadable_claim(&names, &objects).unwrap();
        assert!(
            why.contains("PersistentVolumeClaim c-1 cannot be read: it is of format 2"),
            "{why}"
        );
    }

    #[test]
    fn a_spoilt_manifest_is_reported_and_the_one_before_is_kept_to() {
        let manifest = |replicas: i64| {
            let spec = serde_json::json!({
                "replicas": replicas,
                "version": "3.6.1",
                "storage": {"volumeClaimTemplate": {
                    "storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}},
                }},
            });
            EtcdCluster::new("c", serde_json::from_value(spec).unwrap())
        };
        let good = asked(&manifest(3), None).unwrap();
        assert_eq!((good.cluster.replicas, &good.frozen), (3, &None));
        assert!(asked(&manifest(0), None).is_err(), "there is nothing to keep to");
        let memory = Memory {
            manifest: good.manifest.clone(),
            ..Memory::default()
        };
        let spoilt = asked(&manifest(0), Some(&memory)).unwrap();
        assert_eq!((spoilt.cluster.replicas, &spoilt.manifest), (3, &good.manifest));
        let frozen = spoilt.frozen.unwrap();
        assert_eq!(frozen.reason, BlockReason::Invalid);
        assert!(frozen.detail.contains("spec.replicas"), "{}", frozen.detail);
        let mut long = EtcdCluster::new("c", Default::default());
        let length = [(SPEC_LEFT_OUT.to_owned(), "200000".to_owned())];
        long.metadata.annotations = Some(length.into());
        let kept_to = asked(&long, Some(&memory)).unwrap();
        assert_eq!(kept_to.cluster.replicas, 3);
        let frozen = kept_to.frozen.unwrap();
        assert!(
            frozen.detail.starts_with("spec: it has 200000 bytes"),
            "{}",
            frozen.detail
        );
        assert!(asked(&long, None).unwrap_err().contains("200000 bytes"));
    }
}
