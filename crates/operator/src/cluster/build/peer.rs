//! The EtcdPeer of a member: made by the operator, for one volume, version and configuration. What should differ is
//! recreated.

use quorate_api::Storage;
use quorate_api::crd::{
    Bootstrap, EtcdPeer, InitialClusterState, InitialMember, PeerSpec, PeerStart, StaticBootstrap,
};
use quorate_core::Memory;
use quorate_core::memory::Mark;
use quorate_core::model::{Generation, Ordinal, Version};

use super::BuildContext;

/// The EtcdPeer for `ordinal`.
pub fn peer(
    context: &BuildContext<'_>,
    ordinal: Ordinal,
    (generation, version, config): (Generation, Version, &str),
    memory: &Memory,
) -> EtcdPeer {
    let mut metadata = context.meta(context.names.member(ordinal).as_str());
    metadata.labels = Some(context.names.member_object_labels(ordinal));
    let spec = PeerSpec {
        cluster_name: context.names.cluster.clone(),
        version: version.to_string(),
        bootstrap: bootstrap(context, ordinal, memory),
        storage: Some(Storage {
            volume_claim_template: Some(context.cluster.claim.clone()),
        }),
        pod_template: Some(context.cluster.pod.clone()),
        start: Some(PeerStart {
            generation: generation.0,
            config: config.to_owned(),
        }),
    };
    EtcdPeer {
        metadata,
        spec,
        status: None,
    }
}

/// How the member first comes to its cluster, for people: what holds is the go-ahead for each start.
fn bootstrap(context: &BuildContext<'_>, ordinal: Ordinal, memory: &Memory) -> Option<Bootstrap> {
    let slot = memory.slot(ordinal);
    if slot.mark == Mark::Started {
        return None;
    }
    let (state, ordinals): (_, Vec<Ordinal>) = match &memory.bootstrap {
        Some(first) if memory.cluster.is_none() => {
            (InitialClusterState::New, first.members.keys().copied().collect())
        }
        Some(_) => {
            let members = memory
                .slots
                .iter()
                .filter(|(o, s)| s.member.is_some() || **o == ordinal);
            (InitialClusterState::Existing, members.map(|(o, _)| *o).collect())
        }
        None => (
            InitialClusterState::New,
            (0..context.cluster.replicas).map(Ordinal).collect(),
        ),
    };
    let mut ordinals = ordinals;
    if !ordinals.contains(&ordinal) {
        ordinals.push(ordinal);
    }
    let member = |o: Ordinal| InitialMember {
        name: context.names.member(o).to_string(),
        host: context.names.host(o),
    };
    Some(Bootstrap {
        static_: Some(StaticBootstrap {
            initial_cluster: ordinals.into_iter().map(member).collect(),
        }),
        initial_cluster_state: state,
    })
}
