//! A cluster of three, through a learner's whole life.

use std::time::Duration;

use quorate_client::{Endpoint, Outcome, QuorumView, Refusal, Target};
use quorate_testkit::{ClusterSlot, oldest_and_newest};

use crate::member::{Member, PATIENCE, Plan, eventually, eventually_or};

async fn leader_and_follower(members: &[Member]) -> (Endpoint, Endpoint, u64) {
    let leader_id = members[0].endpoint().status().await.unwrap().leader.unwrap();
    let mut leader = None;
    let mut follower = None;
    for member in members {
        let endpoint = member.endpoint();
        let id = endpoint.status().await.unwrap().member_id;
        if id == leader_id {
            leader = Some(endpoint)
        } else {
            follower = Some((endpoint, id))
        }
    }
    let (follower, follower_id) = follower.unwrap();
    (leader.unwrap(), follower, follower_id)
}

#[tokio::test]
async fn three_members_and_a_learner() {
    let _slot = ClusterSlot::acquire();
    for version in oldest_and_newest() {
        let plan = Plan::new(&version);
        let mut members = plan.cluster(3).await;
        for member in &members {
            member.await_quorum().await;
        }
        let (leader, follower, follower_id) = leader_and_follower(&members).await;
        whole_view(&members).await;

        let error = follower.move_leader(follower_id).await.unwrap_err();
        assert_eq!(
            (error.refusal(), error.outcome()),
            (Refusal::NotLeader, Outcome::NotDone)
        );

        // etcd refuses until its members have been connected for five seconds.
        let mut joiner = plan.member("joiner");
        let urls = [joiner.peer_url.clone()];
        let unhealthy = |error: &quorate_client::Error| error.refusal() != Refusal::UnhealthyCluster;
        let added = eventually_or(unhealthy, || leader.member_add_learner(&urls))
            .await
            .unwrap();
        let id = added.member.id;
        let error = follower.member_promote(id).await.unwrap_err();
        assert_eq!(error.refusal(), Refusal::LearnerNotReady, "{}", error.chain());

        joiner.join(&members);
        let learner = joiner.endpoint();
        let status = eventually(|| learner.status()).await.unwrap();
        assert!(
            status.is_learner && status.member_id == id,
            "{status:?}\n{}",
            joiner.log()
        );
        let error = learner.linearizable_read().await.unwrap_err();
        assert_eq!(
            (error.refusal(), error.outcome()),
            (Refusal::NotSupportedForLearner, Outcome::NotDone)
        );

        let not_ready = |error: &quorate_client::Error| {
            !matches!(
                error.refusal(),
                Refusal::LearnerNotReady | Refusal::NotEnoughStarted
            )
        };
        let promoted = eventually_or(not_ready, || follower.member_promote(id))
            .await
            .unwrap();
        assert!(promoted.iter().all(|member| !member.is_learner), "{promoted:?}");
        eventually(|| learner.linearizable_read()).await.unwrap();

        let (leader, follower, follower_id) = leader_and_follower(&members).await;
        leader.within(PATIENCE).move_leader(follower_id).await.unwrap();
        let left = eventually_or(unhealthy, || follower.member_remove(id))
            .await
            .unwrap();
        assert_eq!(left.len(), 3);
        joiner.kill();

        broken_view(&mut members).await;
    }
}

fn targets(members: &[Member]) -> Vec<Target> {
    members.iter().map(Member::target).collect()
}

async fn whole_view(members: &[Member]) {
    let view = QuorumView::ask(&targets(members), Duration::from_secs(5)).await;
    assert_eq!(view.readers(), 3, "{view:?}");
    let listed = view.member_list.as_ref().unwrap();
    assert_eq!(listed.list.members.len(), 3);
    for member in &view.members {
        let status = member.status.as_ref().unwrap();
        assert_eq!(status.cluster_id, listed.list.cluster_id);
        assert!(
            listed
                .list
                .members
                .iter()
                .any(|known| known.id == status.member_id)
        );
    }
}

async fn broken_view(members: &mut [Member]) {
    members[2].kill();
    members[0].await_quorum().await;
    members[1].await_quorum().await;
    let view = QuorumView::ask(&targets(members), Duration::from_secs(5)).await;
    assert_eq!(
        view.members[2].linearizable_read.as_ref().unwrap_err().refusal,
        Refusal::Unreachable
    );
    assert!(view.member_list.is_some(), "{view:?}");

    members[1].kill();
    let view = QuorumView::ask(&targets(members), Duration::from_secs(5)).await;
    assert!(view.members[0].status.is_ok(), "{view:?}");
    assert_eq!((view.readers(), &view.member_list), (0, &None), "{view:?}");

    members[1].start();
    members[0].await_quorum().await;
}
