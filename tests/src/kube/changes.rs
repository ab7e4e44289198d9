//! Changes that a cluster's owner plans, each made with kubectl and watched to its end, under clients that must hardly
//! notice.

use super::assertions::{await_version, names};
use super::cluster::{KubeCluster, members};
use super::tls::secret_value;
use super::traffic::Traffic;

/// What is reported of a member that comes, and of one that goes.
const RESIZE_EVENTS: [&str; 5] = [
    "PeerCreated",
    "MemberAdded",
    "MemberPromoted",
    "MemberRemoved",
    "PeerRemoved",
];

/// Scales to each of these, one after the other, and calls `between` after each.
pub fn resize(
    cluster: &KubeCluster<'_>,
    traffic: &Traffic,
    path: &[usize],
    version: &str,
    mut between: impl FnMut(usize),
) {
    let (id, first) = (cluster.cluster_id(), members(&cluster.get()).remove(0));
    for replicas in path {
        traffic.planned(&format!("scale to {replicas}"), || {
            cluster.scale(*replicas as u32);
            let now = members(&cluster.await_ready(*replicas, version));
            let listed: Vec<&str> = now.iter().map(|m| m.name.as_str()).collect();
            let expected = names(&cluster.name, *replicas);
            assert_eq!(listed, expected, "the highest numbers go first");
            assert_eq!(now[0], first, "the first member stays who it is");
            // A member that was scaled away takes its claim along.
            cluster.namespace.wait_for(&format!("{replicas} claims"), || {
                let claims = ["persistentvolumeclaims", "-l", &cluster.selector()];
                (cluster.namespace.names(&claims) == expected).then_some(())
            });
        });
        between(*replicas);
    }
    assert_eq!(cluster.cluster_id(), id, "the same cluster all the while");
}

/// Each of these members had an event when it came, and when it went.
pub fn await_resize_events(cluster: &KubeCluster<'_>, names: &[&str]) {
    for name in names {
        for reason in RESIZE_EVENTS {
            cluster.namespace.await_event(reason, name);
        }
    }
}

/// Changes the version of three members; they keep their identity and data, and get other pods.
pub fn upgrade(cluster: &KubeCluster<'_>, traffic: &Traffic, version: &str) {
    let (id, before, pods) = (cluster.cluster_id(), members(&cluster.get()), cluster.pod_uids(3));
    traffic.planned(&format!("change to {version}"), || {
        cluster.set_version(version);
        let after = cluster.await_ready(3, version);
        assert_eq!(members(&after), before, "members keep their identity and data");
        await_version(cluster, version);
        cluster.await_other_pods(&pods);
    });
    assert_eq!(cluster.cluster_id(), id, "the same cluster all the while");
}

/// Replaces the CA of three members, while `meanwhile` is done to others than them.
pub fn rotate_ca(cluster: &KubeCluster<'_>, traffic: &Traffic, version: &str, meanwhile: impl FnOnce()) {
    let namespace = cluster.namespace;
    let secret = format!("{}-ca", cluster.name);
    let (id, before, pods) = (
        cluster.cluster_id(),
        ["ca.crt", "peer-ca.crt"].map(|key| secret_value(namespace, &secret, key)),
        cluster.pod_uids(3),
    );
    traffic.planned("CA rotation", || {
        namespace.must(&["annotate", "secret", &secret, "etcd.improbable.io/rotate=now"]);
        meanwhile();
        namespace.await_event("CaDropped", "trusted no longer");
        namespace.wait_for("one CA for clients and one for peers in the Secret", || {
            let secret = namespace.json(&["secret", &secret])?;
            (secret["data"].as_object()?.len() == 4).then_some(())
        });
        cluster.await_ready(3, version);
    });
    assert_eq!(cluster.cluster_id(), id, "the same cluster all the while");
    let after = ["ca.crt", "peer-ca.crt"].map(|key| secret_value(namespace, &secret, key));
    assert!(before.iter().zip(&after).all(|(before, after)| before != after));
    cluster.await_other_pods(&pods);
}
