//! What goes wrong: compaction overtakes, the store fails, agents meet, clusters change.

use std::fs;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use quorate_backup::agent::{AskHash, Cluster, Reach, State};
use quorate_backup::record::{Entry, Lease};
use quorate_backup::{Error, Point};
use quorate_client::{Credentials, Endpoint, Keys, Op, Txn};
use quorate_testkit::{newest, versions};

use crate::world::{Agent, World, archived_rows, check_samples, sequence};

async fn puts(endpoint: &Endpoint, count: usize) -> i64 {
    let mut revision = 0;
    for n in 0..count {
        revision = endpoint
            .put(format!("key/{}", n % 7).as_bytes(), b"value")
            .await
            .unwrap();
    }
    revision
}

/// What was compacted away while nobody watched is recorded as lost, a new full copy is taken, and all goes on.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_overtakes() {
    for version in [&versions()[0], &newest("3.6")] {
        let world = World::new(version).await;
        let endpoint = world.endpoint();
        puts(&endpoint, 5).await;
        let agent = world.agent().await;
        agent.until("a full copy", |status| status.full.is_some()).await;
        let known = puts(&endpoint, 5).await;
        agent.until_archived(known).await;
        agent.stop().await.unwrap();

        let lost = puts(&endpoint, 20).await;
        let compacted = puts(&endpoint, 5).await;
        let revision = puts(&endpoint, 5).await;
        endpoint.compact(compacted).await.unwrap();
        let agent = world.agent().await;
        let status = agent
            .until("a second full copy", |status| {
                status.fulls == 1 && status.archived >= Some(revision)
            })
            .await;
        assert_eq!(status.missing, compacted - known, "{status:#?}");
        assert!(lost < compacted && status.full.unwrap().revision >= compacted);
        let end = puts(&endpoint, 3).await;
        agent.until_archived(end).await;
        agent.stop().await.unwrap();

        let history = world.history().await;
        assert_eq!(sequence(&history).1, end);
        let gaps: Vec<(i64, i64)> = history.gaps().map(|(_, gap)| (gap.from, gap.to)).collect();
        assert_eq!(gaps, [(known + 1, compacted)]);
        let full = history.fulls().pop().unwrap().1;
        assert_eq!(full.compact_revision, compacted);
        let mut expected = world.etcd_rows().await;
        expected.retain(|(main, _), _| *main > compacted);
        let mut rows = archived_rows(&world.archive().await, &history).await;
        rows.retain(|(main, _), _| *main > compacted);
        assert_eq!(rows, expected);
    }
}

/// The same while an agent is at work that has recorded nothing yet but its first full copy, and is cut off.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_overtakes_the_first_full_copy() {
    let mut world = World::new(&newest("3.6")).await;
    let first = puts(&world.endpoint(), 3).await;
    let (cut, url) = (Arc::new(AtomicBool::new(false)), world.url());
    let mut options = world.options().await;
    let is_cut = cut.clone();
    options.cluster = Cluster::new(Arc::new(move || match is_cut.load(Ordering::Relaxed) {
        true => Err("cut off".to_owned()),
        false => Ok(Reach {
            urls: vec![url.clone()],
            ..Reach::default()
        }),
    }));
    let agent = Agent::start(options);
    agent.until("a full copy", |status| status.full.is_some()).await;
    cut.store(true, Ordering::Relaxed);
    // The watch breaks, and no other can be opened.
    world.restart().await;
    let endpoint = world.endpoint();
    let compacted = puts(&endpoint, 20).await;
    let revision = puts(&endpoint, 5).await;
    endpoint.compact(compacted).await.unwrap();
    cut.store(false, Ordering::Relaxed);
    let status = agent
        .until("a second full copy", |status| {
            status.fulls == 2 && status.archived >= Some(revision)
        })
        .await;
    assert_eq!(status.missing, compacted - first, "{status:#?}");
    agent.stop().await.unwrap();
    let history = world.history().await;
    let gaps: Vec<(i64, i64)> = history.gaps().map(|(_, gap)| (gap.from, gap.to)).collect();
    assert_eq!(gaps, [(first + 1, compacted)]);
    assert_eq!(sequence(&history), (first + 1, revision));
}

/// A lease that ended, and was granted anew under its id: what is recorded behind a full copy tells of it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_granted_anew() {
    const ID: i64 = 77;
    let world = World::new(&newest("3.6")).await;
    let endpoint = world.endpoint();
    let agent = world.agent().await;
    agent.until("a full copy", |status| status.full.is_some()).await;
    endpoint.lease_grant(ID, 600).await.unwrap();
    let revision = endpoint.put_leased(b"leased", b"1", ID).await.unwrap();
    agent.until_archived(revision).await;
    endpoint.lease_revoke(ID).await.unwrap();
    // So that the next delta begins with what is put below, and not with this deletion.
    agent.until_archived(revision + 1).await;
    // A change of users calls for a full copy.
    let user = Credentials {
        user: "somebody".into(),
        password: "password".into(),
    };
    endpoint.user_add(&user).await.unwrap();
    agent
        .until("a second full copy", |status| status.fulls == 2)
        .await;
    endpoint.lease_grant(ID, 500).await.unwrap();
    let revision = endpoint.put_leased(b"leased", b"2", ID).await.unwrap();
    agent.until_archived(revision).await;
    agent.stop().await.unwrap();
    let history = world.history().await;
    let deltas = history.deltas();
    let (_, last) = deltas.last().unwrap();
    assert_eq!(last.from, revision);
    let told = Lease {
        id: ID,
        ttl: Some(500),
    };
    assert_eq!(last.leases, [told]);
}

/// While the store takes nothing, etcd keeps what happens; nothing is lost, and everything follows.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_fails() {
    let world = World::new(&newest("3.5")).await;
    let endpoint = world.endpoint();
    let first = puts(&endpoint, 3).await;
    let mut options = world.options().await;
    // Small enough that room runs out during the outage.
    options.pace.size = 64 << 10;
    let agent = Agent::start(options);
    agent.until("a full copy", |status| status.full.is_some()).await;
    // A file where the directory of the deltas would be: no permission stops root.
    let archive = world.archive_dir();
    let (deltas, aside) = (archive.join("t/00000001/delta"), archive.join("t/00000001/aside"));
    let known = puts(&endpoint, 3).await;
    agent.until_archived(known).await;
    fs::rename(&deltas, &aside).unwrap();
    fs::write(&deltas, b"in the way").unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(20_000).collect();
    let mut revision = 0;
    for n in 0..100 {
        revision = endpoint
            .put(format!("large/{}", n % 10).as_bytes(), &value)
            .await
            .unwrap();
    }
    let status = agent
        .until("failures told", |status| {
            status.failures.keys().any(|reason| reason.starts_with("store")) && status.lag_revisions() >= 100
        })
        .await;
    assert!(
        status.oldest_unflushed.is_some() && status.behind_since.is_some(),
        "{status:#?}"
    );
    assert_eq!(status.archived, Some(known));
    // It does not take all of it into memory.
    assert!(status.unflushed < 50, "{status:#?}");
    fs::remove_file(&deltas).unwrap();
    fs::rename(&aside, &deltas).unwrap();
    let status = agent.until_archived(revision).await;
    assert_eq!(status.missing, 0);
    agent
        .until("no lag", |status| {
            status.lag_revisions() == 0 && status.behind_since.is_none()
        })
        .await;

    // As when its file system is unmounted: nothing is written into what is there instead.
    let away = world.dir.path().join("away");
    fs::rename(&archive, &away).unwrap();
    fs::create_dir(&archive).unwrap();
    let revision = puts(&endpoint, 3).await;
    agent
        .until("the store is missed", |status| {
            let told = status.last_failure.as_ref();
            told.is_some_and(|(told, _)| told.contains("was it unmounted?"))
        })
        .await;
    assert_eq!(fs::read_dir(&archive).unwrap().count(), 0);
    fs::remove_dir(&archive).unwrap();
    fs::rename(&away, &archive).unwrap();
    agent.until_archived(revision).await;
    agent.stop().await.unwrap();
    let history = world.history().await;
    assert_eq!(sequence(&history), (first + 1, revision));
    let mut expected = world.etcd_rows().await;
    expected.retain(|(main, _), _| *main > first);
    assert_eq!(archived_rows(&world.archive().await, &history).await, expected);
    check_samples(&history);
}

/// One revision that is larger than a delta should be goes into one object as it comes; where the store fails at its end,
/// it is read and sent again.
#[tokio::test(flavor = "multi_thread")]
async fn one_revision_of_many_keys() {
    const MANY: usize = 6_000;
    // Few enough that etcd answers in time on a machine with much else to do.
    const AT_ONCE: usize = 500;
    let world = World::with(&newest("3.6"), &[&format!("--max-txn-ops={AT_ONCE}")]).await;
    let endpoint = world.endpoint();
    let mut options = world.options().await;
    options.pace.size = 256 << 10;
    let agent = Agent::start(options);
    agent.until("a full copy", |status| status.full.is_some()).await;
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..MANY / AT_ONCE {
        let put = || {
            // Long and of chance, so that the deletions alone are large, packed as they are.
            let mut key = b"many/".to_vec();
            key.extend(iter::repeat_with(|| random.u8(..)).take(256));
            let value = random.u64(..).to_le_bytes().to_vec();
            Op::Put { key, value, lease: 0 }
        };
        let then = iter::repeat_with(put).take(AT_ONCE).collect();
        let txn = Txn {
            then,
            ..Txn::default()
        };
        endpoint.txn(txn).await.unwrap();
    }
    let known = puts(&endpoint, 1).await;
    agent.until_archived(known).await;
    let archive = world.archive_dir();
    let (deltas, aside) = (archive.join("t/00000001/delta"), archive.join("t/00000001/aside"));
    fs::rename(&deltas, &aside).unwrap();
    fs::write(&deltas, b"in the way").unwrap();
    let deleted = endpoint.delete_range(Keys::prefix(b"many/")).await.unwrap();
    agent
        .until("a stream that failed", |status| {
            let told = status.last_failure.as_ref();
            told.is_some_and(|(told, _)| told.contains("writing a large delta"))
        })
        .await;
    fs::remove_file(&deltas).unwrap();
    fs::rename(&aside, &deltas).unwrap();
    let revision = puts(&endpoint, 10).await;
    let status = agent.until_archived(revision).await;
    assert_eq!(status.missing, 0);
    agent.stop().await.unwrap();
    let history = world.history().await;
    let alone: Vec<_> = history
        .deltas()
        .into_iter()
        .filter(|(_, delta)| delta.to == deleted.revision)
        .collect();
    assert_eq!(alone.len(), 1);
    assert!(alone[0].1.rows >= MANY as u64);
    let mut expected = world.etcd_rows().await;
    expected.retain(|(main, _), _| *main > 1);
    assert_eq!(archived_rows(&world.archive().await, &history).await, expected);
}

/// Two agents: one writes, the other says so, and takes over when the first is gone.
#[tokio::test(flavor = "multi_thread")]
async fn agents_meet() {
    let world = World::new(&newest("3.6")).await;
    let endpoint = world.endpoint();
    let one = world.agent_named("one").await;
    one.until("a full copy", |status| status.full.is_some()).await;
    let two = world.agent_named("two").await;
    let writer = "one".to_owned();
    two.until("standing by", |status| {
        status.state
            == State::StandingBy {
                writer: writer.clone(),
            }
    })
    .await;
    let revision = puts(&endpoint, 5).await;
    one.until_archived(revision).await;
    // One of the same name is another all the same: it stands by, unless it is told to take over.
    let namesake = world.agent_named("one").await;
    namesake
        .until("standing by", |status| {
            matches!(status.state, State::StandingBy { .. })
        })
        .await;
    namesake.stop().await.unwrap();
    assert_eq!(one.board.status().state, State::Writing);
    let mut options = world.options().await;
    options.take_over = true;
    let again = Agent::start(options);
    again
        .until("writing", |status| status.state == State::Writing)
        .await;
    let relieved = one
        .until("relieved", |status| status.failures.contains_key("fenced"))
        .await;
    assert!(
        relieved
            .last_failure
            .as_ref()
            .is_some_and(|(told, _)| told.contains("another agent")),
        "{relieved:#?}"
    );
    let revision = puts(&endpoint, 5).await;
    again.until_archived(revision).await;
    one.until("standing by", |status| {
        matches!(status.state, State::StandingBy { .. })
    })
    .await;
    // It stops in order, and one of the others goes on.
    again.stop().await.unwrap();
    let revision = puts(&endpoint, 5).await;
    let deadline = tokio::time::Instant::now() + crate::world::PATIENCE;
    while one.board.status().archived.max(two.board.status().archived) < Some(revision) {
        let late = tokio::time::Instant::now() >= deadline;
        assert!(!late, "neither of the others has archived revision {revision}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    one.kill().await;
    two.kill().await;
    let history = world.history().await;
    assert_eq!(sequence(&history).1, revision);
    assert_eq!(history.faults, []);
}

/// A cluster that is restored while one agent stands by: that one does not go on in the timeline that it looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_restored_while_one_stands_by() {
    let world = World::new(&newest("3.6")).await;
    let endpoint = world.endpoint();
    let one = world.agent_named("one").await;
    let revision = puts(&endpoint, 5).await;
    one.until_archived(revision).await;
    let two = world.agent_named("two").await;
    two.until("standing by", |status| {
        matches!(status.state, State::StandingBy { .. })
    })
    .await;
    // Restored with the same members and token it has the same id; the mark tells.
    let from = Point {
        timeline: 1,
        revision,
    };
    let id = endpoint.status().await.unwrap().cluster_id;
    let archive = world.archive().await;
    archive.mark_restored(id, from, Timestamp::now()).await.unwrap();
    one.stop().await.unwrap();
    let status = two
        .until("writing", |status| status.state == State::Writing)
        .await;
    assert_eq!(status.timeline, Some(2), "{status:#?}");
    two.until("a full copy", |status| status.full.is_some()).await;
    two.stop().await.unwrap();
    let claims = |history: &quorate_backup::log::History| {
        let entries = history.records.iter().map(|signed| &signed.record.entry);
        entries.filter(|entry| matches!(entry, Entry::Claim(_))).count()
    };
    let archive = world.archive().await;
    assert_eq!(archive.timelines()[1].parent, Some(from));
    assert_eq!(claims(&archive.history(1).await.unwrap()), 1);
    assert_eq!(claims(&archive.history(2).await.unwrap()), 1);
}

/// Another history under the same cluster id goes into another timeline, also if it is further on; the same one, seen
/// again, does not, also if etcd was compacted just there.
#[tokio::test(flavor = "multi_thread")]
async fn another_history_under_the_same_id() {
    for version in [&versions()[0], &newest("3.6")] {
        let mut world = World::new(version).await;
        let id = world.endpoint().status().await.unwrap().cluster_id;
        let agent = world.agent().await;
        agent.until("a full copy", |status| status.full.is_some()).await;
        // The newest revision puts and deletes.
        puts(&world.endpoint(), 9).await;
        let mixed = Txn {
            then: vec![
                Op::Put {
                    key: b"put".to_vec(),
                    value: b"value".to_vec(),
                    lease: 0,
                },
                Op::Delete(Keys::prefix(b"key/")),
            ],
            ..Txn::default()
        };
        let mixed = world.endpoint().txn(mixed).await.unwrap().revision;
        agent.until_archived(mixed).await;
        world.endpoint().compact(mixed).await.unwrap();
        world.restart().await;
        let known = puts(&world.endpoint(), 1).await;
        agent.until_archived(known).await;
        agent.stop().await.unwrap();
        world.restart().await;
        let agent = world.agent().await;
        let end = puts(&world.endpoint(), 2).await;
        let status = agent.until_archived(end).await;
        assert_eq!((status.timeline, status.missing), (Some(1), 0), "{version}");
        agent.stop().await.unwrap();

        // While no agent runs.
        world.begin_anew().await;
        assert_eq!(world.endpoint().status().await.unwrap().cluster_id, id);
        let later = puts(&world.endpoint(), 40).await;
        assert!(later > end);
        let agent = world.agent().await;
        let second = |status: &quorate_backup::agent::Status| status.timeline == Some(2);
        agent
            .until("a full copy in the second timeline", |status| {
                second(status) && status.full.is_some()
            })
            .await;
        let later = puts(&world.endpoint(), 3).await;
        agent.until_archived(later).await;

        // While one does.
        world.begin_anew().await;
        let newest = puts(&world.endpoint(), 80).await;
        assert!(newest > later);
        agent
            .until("a full copy in the third timeline", |status| {
                status.timeline == Some(3) && status.full.is_some()
            })
            .await;
        let newest = puts(&world.endpoint(), 3).await;
        agent.until_archived(newest).await;
        agent.stop().await.unwrap();

        let archive = world.archive().await;
        assert_eq!(archive.timelines().len(), 3);
        for (timeline, ends, fulls) in [(1, end, 1), (2, later, 1), (3, newest, 1)] {
            let history = archive.history(timeline).await.unwrap();
            assert_eq!(sequence(&history).1, ends, "{version} {timeline}");
            assert_eq!(history.fulls().len(), fulls, "{version} {timeline}");
            assert_eq!(history.faults, []);
        }
        let rows = archived_rows(&archive, &archive.history(3).await.unwrap()).await;
        let mut expected = world.etcd_rows().await;
        expected.retain(|revision, _| rows.first_key_value().is_some_and(|(first, _)| revision >= first));
        assert_eq!(rows, expected);
    }
}

/// Users and roles: a change of them leads to a full copy, on every version that tells.
#[tokio::test(flavor = "multi_thread")]
async fn users_change() {
    for version in versions() {
        let world = World::new(&version).await;
        let nobody = world.endpoint();
        let user = |name: &str| Credentials {
            user: name.into(),
            password: "password".into(),
        };
        nobody.user_add(&user("root")).await.unwrap();
        nobody.role_add("root").await.unwrap();
        nobody.user_grant_role(&user("root"), "root").await.unwrap();
        nobody.auth_enable().await.unwrap();
        let root = nobody.with_credentials(user("root"));
        // Without a user nothing can be read: refused, and nothing is written.
        let refused = world.agent().await.ended().await.unwrap_err();
        let told = refused.to_string();
        assert!(
            told.contains("does not let this user read") || told.contains("carries no user"),
            "{version}: {told}"
        );
        assert!(!world.archive_dir().join("archive.json").exists());

        let mut options = world.options().await;
        options.cluster = Cluster::at(Reach {
            urls: vec![world.url()],
            credentials: Some(user("root")),
            ..Reach::default()
        });
        let agent = Agent::start(options.clone());
        agent.until("a full copy", |status| status.full.is_some()).await;
        let revision = puts(&root, 5).await;
        agent.until_archived(revision).await;
        agent.stop().await.unwrap();
        // No change: no full copy at the next start. Then one, while it runs.
        options.board = Default::default();
        let agent = Agent::start(options);
        let revision = puts(&root, 5).await;
        agent.until_archived(revision).await;
        if version.starts_with("3.4") {
            agent.stop().await.unwrap();
            continue;
        }
        let told = root.auth_status().await.unwrap().unwrap();
        let history = world.history().await;
        let fulls: Vec<u64> = history
            .fulls()
            .iter()
            .map(|(_, full)| full.auth_revision)
            .collect();
        assert_eq!(fulls, [told.revision]);
        root.user_add(&user("another")).await.unwrap();
        agent
            .until("a second full copy", |status| status.fulls == 1)
            .await;
        agent.stop().await.unwrap();
        let history = world.history().await;
        let (_, full) = history.fulls().pop().unwrap();
        assert_eq!(full.auth_revision, told.revision + 1);
    }
}

/// Archives and clusters that do not belong together; clusters that were restored.
#[tokio::test(flavor = "multi_thread")]
async fn clusters_change() {
    let world = World::new(&newest("3.6")).await;
    let endpoint = world.endpoint();
    let revision = puts(&endpoint, 5).await;
    let agent = world.agent().await;
    agent.until("a full copy", |status| status.full.is_some()).await;
    agent.stop().await.unwrap();

    let other = World::new(&newest("3.6")).await;
    puts(&other.endpoint(), 3).await;
    let mut options = other.options().await;
    options.store = world.store().await;
    let refused = Agent::start(options.clone()).ended().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { what, advice } if what.contains("is that of cluster") && advice.contains("--new-timeline")),
        "{refused}"
    );
    let id = |world: &World| {
        let endpoint = world.endpoint();
        async move { endpoint.status().await.unwrap().cluster_id }
    };
    // It says itself that it was made from this archive.
    let from = Point {
        timeline: 1,
        revision,
    };
    let archive = world.archive().await;
    archive
        .mark_restored(id(&other).await, from, Timestamp::now())
        .await
        .unwrap();
    let agent = Agent::start(options.clone());
    let status = agent.until("a full copy", |status| status.full.is_some()).await;
    assert_eq!(status.timeline, Some(2));
    agent.stop().await.unwrap();
    // Started again it goes on in its timeline, and the first cluster in its own.
    for (options, timeline) in [(options, 2), (world.options().await, 1)] {
        let mut options = options;
        options.board = Default::default();
        let agent = Agent::start(options);
        let status = agent
            .until("writing", |status| status.state == State::Writing)
            .await;
        assert_eq!(status.timeline, Some(timeline));
        agent.stop().await.unwrap();
    }
    let archive = world.archive().await;
    assert_eq!(archive.timelines().len(), 2);
    assert_eq!(archive.timelines()[1].parent, Some(from));

    // A third one is told to go on here.
    let third = World::new(&newest("3.5")).await;
    let mut options = third.options().await;
    (options.store, options.adopt) = (world.store().await, true);
    // Its only member may be asked for a hash if it is said so.
    options.hash = AskHash::Anyone;
    let revision = puts(&third.endpoint(), 4).await;
    let agent = Agent::start(options);
    let status = agent.until("a full copy", |status| status.full.is_some()).await;
    assert_eq!(status.timeline, Some(3));
    agent.stop().await.unwrap();
    let history = world.archive().await.history(3).await.unwrap();
    let (_, full) = history.fulls().pop().unwrap();
    let told = third.endpoint().hash_kv(revision).await.unwrap();
    let hash = full.hash.unwrap();
    assert_eq!((hash.hash, hash.revision), (told.hash, revision));
    let claims = history
        .records
        .iter()
        .filter(|signed| matches!(signed.record.entry, Entry::Claim(_)));
    assert_eq!(claims.count(), 1);
}
