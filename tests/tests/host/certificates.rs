//! Certificates deleted, one by one and all at once: a restart repairs them, and the data is as it was.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use quorate_client::{Consistency, Endpoint};
use quorate_tests::clients::PATIENT;
use quorate_tests::cluster::Cluster;
use quorate_tests::{etcd, in_full};

fn files(cluster: &Cluster) -> Vec<PathBuf> {
    let dir = std::fs::read_dir(cluster.root().join("pki")).expect("there are certificates");
    let mut all: Vec<PathBuf> = dir.map(|e| e.expect("a directory entry").path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "crt" || e == "key"));
    // Where only the key of the CA is lost, a rotation has begun.
    all.retain(|p| {
        !p.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("ca-next"))
    });
    all.sort();
    all
}

fn endpoint(cluster: &Cluster) -> Endpoint {
    let url = &cluster.client_urls(1)[0];
    Endpoint::connect_lazy(url, Some(&cluster.tls()), PATIENT).expect("a valid endpoint")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn deleting_any_or_all_certificates_and_restarting_repairs_them_with_the_data_intact() {
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(3, &version);
    cluster.up();
    let first = cluster.await_ready(3, &version);
    block_on(endpoint(&cluster).put(b"k", b"kept")).expect("it serves");
    cluster.stop();
    let all = files(&cluster);
    let ca_key = cluster.root().join("pki/ca.key");
    assert_eq!(
        all.len(),
        2 * (1 + 3 + 3 + 2) + 1,
        "a certificate and a key for each, and a copy of the CA's certificate: {all:?}"
    );
    let mut losses: Vec<Vec<PathBuf>> = all.iter().map(|f| vec![f.clone()]).collect();
    losses.push(
        all.iter()
            .filter(|f| f.extension().is_some_and(|e| e == "key"))
            .cloned()
            .collect(),
    );
    losses.push(all.clone());
    if !in_full() {
        // The CA's certificate, the first member's key, all keys, and everything.
        losses.retain(|loss| {
            let name = loss[0]
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            loss.len() > 1 || name == "ca.crt" || name.contains("-0.key") || name.contains("0-peer.key")
        });
        assert!(losses.len() >= 4, "{all:?}");
    }
    for loss in losses {
        // What it signed still serves without it; another is introduced and signs a day later.
        let kept = std::fs::read(&ca_key).expect("it can be read");
        let put_back = loss == [ca_key.clone()];
        for file in &loss {
            std::fs::remove_file(file).expect("it can be deleted");
        }
        cluster.up();
        let status = cluster.await_ready(3, &version);
        assert_eq!(status.cluster_id, first.cluster_id, "after {loss:?}");
        let found = block_on(endpoint(&cluster).get(b"k", Consistency::Linearizable)).expect("it serves");
        assert_eq!(found.map(|kv| kv.value), Some(b"kept".to_vec()), "after {loss:?}");
        cluster.stop();
        if put_back {
            assert!(!ca_key.exists(), "no other signs yet");
            std::fs::write(&ca_key, kept).expect("it can be put back");
        }
        assert_eq!(files(&cluster), all, "all are back after {loss:?}");
    }
    for key in files(&cluster)
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "key"))
    {
        let mode = std::fs::metadata(key).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", key.display());
    }
}

/// All certificates deleted under a running cluster whose supervisor was killed: what still runs with the old CA
/// is stopped cleanly and started again, for it could not talk to members of the new one.
#[test]
fn a_lost_ca_under_a_running_cluster_is_replaced_too() {
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(3, &version);
    cluster.up();
    let first = cluster.await_ready(3, &version);
    block_on(endpoint(&cluster).put(b"k", b"kept")).expect("it serves");
    cluster.kill_supervisor();
    for file in files(&cluster) {
        std::fs::remove_file(file).expect("it can be deleted");
    }
    cluster.up();
    let status = cluster.await_ready(3, &version);
    assert_eq!(status.cluster_id, first.cluster_id);
    let found = block_on(endpoint(&cluster).get(b"k", Consistency::Linearizable)).expect("it serves");
    assert_eq!(found.map(|kv| kv.value), Some(b"kept".to_vec()));
    cluster.stop();
}

/// With users and passwords switched on, quorate's own certificate still speaks for the root user.
#[test]
fn a_cluster_with_authentication_switched_on_can_still_be_grown() {
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(1, &version);
    cluster.up();
    cluster.await_ready(1, &version);
    let root = quorate_client::Credentials {
        user: "root".into(),
        password: "secret".into(),
    };
    block_on(async {
        let endpoint = endpoint(&cluster);
        endpoint.user_add(&root).await?;
        endpoint.role_add("root").await?;
        endpoint.user_grant_role(&root, "root").await?;
        endpoint.auth_enable().await
    })
    .expect("authentication can be switched on");
    cluster.must(&["scale", "3"]);
    cluster.await_ready(3, &version);
    let found = block_on(
        endpoint(&cluster)
            .with_credentials(root)
            .get(b"k", Consistency::Linearizable),
    );
    assert_eq!(found.expect("root may read"), None);
    cluster.stop();
}
