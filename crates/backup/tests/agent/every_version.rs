//! Every version: what the archive holds is what etcd holds, row for row and byte for byte.

use quorate_backup::record::{Lease, Made};
use quorate_client::{Endpoint, Keys, Op, Txn};
use quorate_testkit::versions;

use crate::world::{Agent, World, archived_rows, check_samples, sequence};

fn put(key: &str, value: &[u8], lease: i64) -> Op {
    Op::Put {
        key: key.into(),
        value: value.to_vec(),
        lease,
    }
}

/// Puts, transactions, deletions of ranges, leases that are revoked. The revision it ends at.
async fn write(endpoint: &Endpoint, round: i64) -> i64 {
    for n in 0..50 {
        let key = format!("plain/{}", n % 20);
        endpoint
            .put(key.as_bytes(), format!("{round} {n}").as_bytes())
            .await
            .unwrap();
    }
    let lease = endpoint.lease_grant(round * 1000 + 1, 600).await.unwrap();
    let gone = endpoint.lease_grant(round * 1000 + 2, 300).await.unwrap();
    let txn = Txn {
        then: vec![
            put("z", b"1", lease),
            Op::Delete(Keys::between(b"plain/1", b"plain/2")),
            put("a", &vec![b'x'; 3000], 0),
            put("empty", b"", gone),
            put("\u{0}\u{1}binary", &[0, 255, 128], lease),
        ],
        ..Txn::default()
    };
    endpoint.txn(txn).await.unwrap();
    endpoint.lease_revoke(gone).await.unwrap();
    let many = (0..100).map(|n| put(&format!("many/{n:03}"), b"v", 0));
    let txn = Txn {
        then: many.collect(),
        ..Txn::default()
    };
    endpoint.txn(txn).await.unwrap();
    endpoint.delete_range(Keys::prefix(b"many/")).await.unwrap();
    endpoint.delete(b"z").await.unwrap();
    endpoint.put(b"last", b"").await.unwrap()
}

/// How many samples are looked at.
const SAMPLES: usize = 6;

/// Writes on until deltas hold that many: they come with time, and a busy machine does little in it. Out: the last revision.
async fn enough_samples(world: &World, agent: &Agent, mut revision: i64) -> i64 {
    for _ in 0..100 {
        if check_samples(&world.history().await) >= SAMPLES {
            break;
        }
        revision = world.endpoint().put(b"more", b"").await.unwrap();
        agent.until_archived(revision).await;
    }
    revision
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_etcds_own() {
    for version in versions() {
        eprintln!("etcd {version}");
        let mut world = World::new(&version).await;
        let endpoint = world.endpoint();
        let before = endpoint.put(b"before", b"the agent").await.unwrap();
        let agent = world.agent().await;
        agent.until("a full copy", |status| status.full.is_some()).await;
        let revision = write(&endpoint, 1).await;
        agent.until_archived(revision).await;

        // etcd restarts under it.
        world.restart().await;
        let endpoint = world.endpoint();
        let revision = write(&endpoint, 2).await;
        agent.until_archived(revision).await;

        // What has come is flushed when it stops, and what comes meanwhile is fetched afterwards.
        agent.until("watched", |status| status.watching.is_some()).await;
        agent.stop().await.unwrap();
        write(&endpoint, 3).await;
        let agent = world.agent().await;
        let revision = write(&endpoint, 4).await;
        agent.until_archived(revision).await;
        // And after a crash.
        agent.kill().await;
        let revision = write(&endpoint, 5).await;
        // Its process is this one, and lives: that it has ended is for us to know.
        let mut options = world.options().await;
        options.take_over = true;
        let agent = Agent::start(options);
        let status = agent.until_archived(revision).await;
        assert_eq!(status.fulls, 0, "{status:#?}");
        assert_eq!(status.epoch, Some(3));
        let revision = enough_samples(&world, &agent, revision).await;
        agent.stop().await.unwrap();

        let history = world.history().await;
        assert_eq!(sequence(&history), (before + 1, revision));
        let mut expected = world.etcd_rows().await;
        expected.retain(|(main, _), _| *main > before);
        let rows = archived_rows(&world.archive().await, &history).await;
        assert_eq!(rows.len(), expected.len());
        assert_eq!(rows, expected);
        assert!(check_samples(&history) >= SAMPLES);
        // Nothing has changed since, and the last sign of life says what time it was.
        let head = history.head.as_ref().unwrap();
        assert!(
            head.sample.unwrap().revision >= revision - 10 && head.every == 0,
            "{head:?}"
        );

        let fulls = history.fulls();
        let [(_, full)] = fulls.as_slice() else {
            panic!("{fulls:?}")
        };
        assert_eq!((full.revision, full.compact_revision), (before, -1));
        assert_eq!(
            (full.made, full.etcd_version.as_str()),
            (Made::Snapshot, version.as_str())
        );
        assert_eq!(full.hash, None, "a sole member is not asked");

        let mut leases: Vec<Lease> = history
            .deltas()
            .into_iter()
            .flat_map(|(_, delta)| delta.leases.clone())
            .collect();
        leases.sort_by_key(|lease| (lease.id, lease.ttl));
        for round in 1..=5 {
            let id = round * 1000 + 1;
            assert!(leases.contains(&Lease { id, ttl: Some(600) }), "{id} {leases:?}");
            assert!(leases.iter().any(|lease| lease.id == id + 1), "{leases:?}");
        }
    }
}
