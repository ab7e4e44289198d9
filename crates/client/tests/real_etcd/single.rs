//! One plain member of every version: the whole surface once.

use quorate_client::{CasResult, Consistency, Endpoint, KeyValue, Outcome, Refusal, Target, Timeouts};
use quorate_client::{Deleted, QuorumView};
use quorate_testkit::{free_port, minor, versions};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

use crate::member::{PATIENCE, Plan};

#[tokio::test]
async fn keys_and_maintenance() {
    for version in versions() {
        let member = Plan::new(&version).single().await;
        let endpoint = member.endpoint();
        keys(&endpoint).await;
        maintenance(&endpoint, &version).await;
        snapshot(&endpoint).await;
    }
}

async fn keys(endpoint: &Endpoint) {
    assert_eq!(endpoint.get(b"a", Consistency::Linearizable).await.unwrap(), None);
    let first = endpoint.put(b"a", b"1").await.unwrap();
    let read = endpoint
        .get(b"a", Consistency::Linearizable)
        .await
        .unwrap()
        .unwrap();
    let KeyValue {
        key,
        value,
        create_revision,
        mod_revision,
        version,
        lease,
    } = read.clone();
    assert_eq!(
        (key.as_slice(), value.as_slice()),
        (b"a".as_slice(), b"1".as_slice())
    );
    assert_eq!(
        (create_revision, mod_revision, version, lease),
        (first, first, 1, 0)
    );
    assert_eq!(
        endpoint.get(b"a", Consistency::Serializable).await.unwrap(),
        Some(read.clone())
    );

    let swapped = endpoint.compare_and_swap(b"a", first, b"2").await.unwrap();
    let CasResult::Swapped { revision: second } = swapped else {
        panic!("{swapped:?}")
    };
    assert_eq!(second, first + 1);
    let conflict = endpoint.compare_and_swap(b"a", first, b"3").await.unwrap();
    let CasResult::Conflict {
        revision,
        current: Some(current),
    } = conflict
    else {
        panic!("{conflict:?}")
    };
    assert_eq!(
        (revision, current.mod_revision, current.value.as_slice()),
        (second, second, b"2".as_slice())
    );
    let absent = endpoint.compare_and_swap(b"b", 7, b"1").await.unwrap();
    assert_eq!(
        absent,
        CasResult::Conflict {
            revision: second,
            current: None
        }
    );
    let created = endpoint.compare_and_swap(b"b", 0, b"1").await.unwrap();
    assert_eq!(created, CasResult::Swapped { revision: second + 1 });

    let deleted = endpoint.delete(b"b").await.unwrap();
    assert_eq!(
        deleted,
        Deleted {
            revision: second + 2,
            existed: true
        }
    );
    assert!(!endpoint.delete(b"b").await.unwrap().existed);

    endpoint.compact(second).await.unwrap();
    let error = endpoint.compact(first).await.unwrap_err();
    assert_eq!(error.refusal(), Refusal::CompactedRevision);
    let error = endpoint.compact(1_000_000).await.unwrap_err();
    assert_eq!(
        (error.refusal(), error.outcome()),
        (Refusal::FutureRevision, Outcome::NotDone)
    );
}

async fn maintenance(endpoint: &Endpoint, version: &str) {
    let status = endpoint.status().await.unwrap();
    assert_eq!(status.version, version);
    assert_eq!(status.leader, Some(status.member_id));
    assert!(
        status.revision > 1 && status.raft_term > 1 && status.cluster_id != 0,
        "{status:?}"
    );
    assert!(
        status.db_size >= status.db_size_in_use && status.db_size_in_use > 0,
        "{status:?}"
    );
    assert!(
        status.raft_index >= status.raft_applied_index && status.raft_applied_index > 0,
        "{status:?}"
    );
    assert!(!status.is_learner && status.errors.is_empty(), "{status:?}");
    let tells_more = minor(version) >= 6;
    assert_eq!(status.db_size_quota.is_some(), tells_more, "{status:?}");
    assert_eq!(status.downgrade_target, None);

    let read = endpoint.linearizable_read().await.unwrap();
    assert_eq!(
        (read.member_id, read.revision),
        (Some(status.member_id), Some(status.revision))
    );
    assert_eq!(endpoint.serializable_read().await.unwrap(), read);

    assert_eq!(endpoint.alarms().await.unwrap(), vec![]);
    let all = endpoint.hash_kv(0).await.unwrap();
    assert_eq!(all.revision, status.revision);
    assert_eq!(endpoint.hash_kv(all.revision).await.unwrap().hash, all.hash);
    endpoint.within(PATIENCE).defragment().await.unwrap();

    let list = endpoint.member_list_linearizable().await.unwrap();
    assert_eq!(
        (list.cluster_id, list.member_id),
        (status.cluster_id, status.member_id)
    );
    assert_eq!(list.members.len(), 1);
    assert_eq!(list.members[0].client_urls, [endpoint.url()]);

    let error = endpoint.move_leader(1).await.unwrap_err();
    assert_eq!(
        (error.refusal(), error.outcome()),
        (Refusal::BadLeaderTransferee, Outcome::NotDone)
    );
}

async fn snapshot(endpoint: &Endpoint) {
    let mut stream = endpoint.snapshot().await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next_chunk().await.unwrap() {
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(stream.next_chunk().await.unwrap(), None);
    assert_eq!(stream.database_bytes(), Some(bytes.len() as u64 - 32));
    let (database, hash) = bytes.split_at(bytes.len() - 32);
    assert_eq!(database.len() % 512, 0);
    assert_eq!(Sha256::digest(database).as_slice(), hash);
    assert_eq!(stream.digest().unwrap().as_slice(), hash);
}

/// Refusals of membership changes, on a cluster small enough to need no waiting.
#[tokio::test]
async fn membership_refusals() {
    for version in versions() {
        let member = Plan::new(&version).single().await;
        let endpoint = member.endpoint();
        let own_id = endpoint.status().await.unwrap().member_id;
        let urls = |port| vec![format!("http://127.0.0.1:{port}")];
        let own_urls = [member.peer_url.clone()];

        let added = endpoint.member_add_learner(&urls(free_port())).await.unwrap();
        assert!(
            added.member.is_learner && added.member.name.is_empty(),
            "{added:?}"
        );
        assert_eq!(added.members.len(), 2);

        let promoted = endpoint.member_promote(added.member.id).await.unwrap_err();
        assert_eq!(
            promoted.refusal(),
            Refusal::LearnerNotReady,
            "{}: {}",
            version,
            promoted.chain()
        );
        let promoted = endpoint.member_promote(own_id).await.unwrap_err();
        assert_eq!(
            promoted.refusal(),
            Refusal::MemberNotLearner,
            "{}: {}",
            version,
            promoted.chain()
        );
        let promoted = endpoint.member_promote(4711).await.unwrap_err();
        assert_eq!(
            promoted.refusal(),
            Refusal::MemberNotFound,
            "{}: {}",
            version,
            promoted.chain()
        );

        for (error, refusal) in [
            (
                endpoint.member_add_learner(&own_urls).await.unwrap_err(),
                Refusal::PeerUrlExists,
            ),
            (
                endpoint.member_add_learner(&urls(free_port())).await.unwrap_err(),
                Refusal::TooManyLearners,
            ),
            (
                endpoint.member_add_learner(&["bad".into()]).await.unwrap_err(),
                Refusal::BadMemberUrls,
            ),
            (
                endpoint.member_remove(4711).await.unwrap_err(),
                Refusal::MemberNotFound,
            ),
        ] {
            assert_eq!(error.refusal(), refusal, "{}: {}", version, error.chain());
            assert_eq!(error.outcome(), Outcome::NotDone);
        }

        let left = endpoint.member_remove(added.member.id).await.unwrap();
        assert_eq!(left.len(), 1);
        let again = endpoint.member_remove(added.member.id).await.unwrap_err();
        assert_eq!(again.refusal(), Refusal::MemberNotFound);
        lost_quorum(&endpoint).await;
    }
}

/// A second voter that never starts takes the quorum away; status and serializable reads remain.
async fn lost_quorum(endpoint: &Endpoint) {
    let absent = free_port();
    endpoint
        .member_add_voter(&[format!("http://127.0.0.1:{absent}")])
        .await
        .unwrap();
    let brief = endpoint.within(Duration::from_millis(700));
    let error = brief.linearizable_read().await.unwrap_err();
    let expected = [
        Refusal::DeadlineExceeded,
        Refusal::LeaderChanged,
        Refusal::Timeout,
    ];
    assert!(expected.contains(&error.refusal()), "{}", error.chain());
    assert!(brief.member_list_linearizable().await.is_err());
    let error = brief.put(b"a", b"b").await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{}", error.chain());
    endpoint.serializable_read().await.unwrap();
    endpoint.status().await.unwrap();

    let nobody = Endpoint::connect_lazy(&format!("http://127.0.0.1:{absent}"), None, Timeouts::default());
    let targets = [
        Target {
            label: "alone".into(),
            endpoint: endpoint.clone(),
        },
        Target {
            label: "absent".into(),
            endpoint: nobody.unwrap(),
        },
    ];
    let view = QuorumView::ask(&targets, Duration::from_secs(5)).await;
    assert_eq!((view.readers(), &view.member_list), (0, &None));
    assert!(view.members[0].status.is_ok());
    assert_eq!(
        view.members[1].status.as_ref().unwrap_err().refusal,
        Refusal::Unreachable
    );
}
