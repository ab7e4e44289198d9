//! A cluster of three, through a learner's whole life.

use std::iter::once;
use std::time::Duration;

use quorate_client::{Endpoint, Error, Outcome, QuorumView, Refusal, Target};
use quorate_testkit::{ClusterSlot, await_that_async, oldest_and_newest};

use crate::member::{Member, PATIENCE, Plan, eventually, eventually_or};

/// Who leads in a term, and one who does not.
struct Roles {
    term: u64,
    leader: Endpoint,
    follower: Endpoint,
    follower_id: u64,
}

/// What all members agree on now; what they say where they do not. The follower is the last of them that does not lead.
async fn roles<'a>(members: impl IntoIterator<Item = &'a Member>) -> Result<Roles, String> {
    let (mut leader, mut follower, mut seen) = (None, None, Vec::new());
    for member in members {
        let endpoint = member.endpoint();
        let status = endpoint.status().await.map_err(|error| error.chain())?;
        seen.push((status.raft_term, status.leader));
        match status.leader == Some(status.member_id) {
            true => leader = Some(endpoint),
            false => follower = Some((endpoint, status.member_id)),
        }
    }
    seen.dedup();
    match (&seen[..], leader, follower) {
        (&[(term, Some(_))], Some(leader), Some((follower, follower_id))) => Ok(Roles {
            term,
            leader,
            follower,
            follower_id,
        }),
        _ => Err(format!("terms and leaders: {seen:?}")),
    }
}

/// What a call came to that began and ended in one term: an election between would change who is asked.
async fn in_one_term<T>(what: &str, members: &[Member], call: impl AsyncFn(&Roles) -> T) -> T {
    await_that_async(what, PATIENCE, async || {
        let before = roles(members).await?;
        let done = call(&before).await;
        match roles(members).await?.term {
            term if term == before.term => Ok(done),
            term => Err(format!("term {term} followed {}", before.term)),
        }
    })
    .await
}

/// An election at that moment, which says nothing about the request.
fn is_election(error: &Error) -> bool {
    use Refusal::{LeaderChanged, NoLeader, Timeout};
    matches!(error.refusal(), LeaderChanged | NoLeader | Timeout)
}

/// As for any change of members: etcd refuses until its members have been connected for five seconds.
fn is_for_now(error: &Error) -> bool {
    error.refusal() == Refusal::UnhealthyCluster || is_election(error)
}

/// Adds a learner; its id. One whose addition was not heard of is in the list.
async fn add_learner(endpoint: &Endpoint, peer_url: &str) -> u64 {
    let urls = [peer_url.to_owned()];
    let refused = |error: &Error| !is_for_now(error);
    match eventually_or(refused, || endpoint.member_add_learner(&urls)).await {
        Ok(added) => added.member.id,
        Err(error) => {
            assert_eq!(error.refusal(), Refusal::PeerUrlExists, "{}", error.chain());
            let list = eventually(|| endpoint.member_list_linearizable()).await.unwrap();
            let mut known = list.members.iter();
            known
                .find(|member| member.peer_urls == urls)
                .expect("it exists")
                .id
        }
    }
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
        whole_view(&members).await;

        let moved = in_one_term("a follower is asked", &members, async |roles| {
            roles.follower.move_leader(roles.follower_id).await
        });
        let error = moved.await.unwrap_err();
        assert_eq!(
            (error.refusal(), error.outcome()),
            (Refusal::NotLeader, Outcome::NotDone)
        );

        let mut joiner = plan.member("joiner");
        let id = add_learner(&members[0].endpoint(), &joiner.peer_url).await;
        let promoted = in_one_term("a learner that never ran is promoted", &members, async |roles| {
            roles.follower.member_promote(id).await
        });
        let error = promoted.await.unwrap_err();
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

        promoted_by_a_follower(&joiner, &members, id).await;
        eventually(|| learner.linearizable_read()).await.unwrap();

        await_that_async("leadership is moved", PATIENCE, async || {
            let now = roles(once(&joiner).chain(&members)).await?;
            let moved = now.leader.within(PATIENCE).move_leader(now.follower_id).await;
            moved.map_err(|error| error.chain())
        })
        .await;
        removed(&members, id).await;
        joiner.kill();

        broken_view(&mut members).await;
    }
}

/// A promotion that was done although it was not heard of is told as one of a member that votes.
async fn promoted_by_a_follower(joiner: &Member, members: &[Member], id: u64) {
    let listed = await_that_async("the learner is promoted", PATIENCE, async || {
        let follower = roles(once(joiner).chain(members)).await?.follower;
        match follower.member_promote(id).await {
            Ok(listed) => Ok(listed),
            Err(error) if error.refusal() == Refusal::MemberNotLearner => {
                let list = follower.member_list_linearizable().await;
                list.map(|list| list.members).map_err(|error| error.chain())
            }
            Err(error) => {
                let waits = matches!(
                    error.refusal(),
                    Refusal::LearnerNotReady | Refusal::NotEnoughStarted
                );
                assert!(waits || is_election(&error), "{}", error.chain());
                Err(error.chain())
            }
        }
    })
    .await;
    assert!(listed.iter().all(|member| !member.is_learner), "{listed:?}");
    assert_eq!(listed.len(), 4, "{listed:?}");
}

async fn removed(members: &[Member], id: u64) {
    let endpoint = members[0].endpoint();
    let refused = |error: &Error| !is_for_now(error);
    match eventually_or(refused, || endpoint.member_remove(id)).await {
        Ok(left) => assert_eq!(left.len(), 3),
        Err(error) => {
            // It was, and was not heard of.
            assert_eq!(error.refusal(), Refusal::MemberNotFound, "{}", error.chain());
            let list = eventually(|| endpoint.member_list_linearizable()).await.unwrap();
            assert_eq!(list.members.len(), 3);
        }
    }
}

fn targets(members: &[Member]) -> Vec<Target> {
    members.iter().map(Member::target).collect()
}

/// What all targets say, once it is as wanted.
async fn view_until(what: &str, members: &[Member], wanted: impl Fn(&QuorumView) -> bool) -> QuorumView {
    let targets = targets(members);
    await_that_async(what, PATIENCE, async || {
        let view = QuorumView::ask(&targets, Duration::from_secs(5)).await;
        match wanted(&view) {
            true => Ok(view),
            false => Err(format!("{view:?}")),
        }
    })
    .await
}

async fn whole_view(members: &[Member]) {
    let whole = |view: &QuorumView| {
        let answered = view.members.iter().all(|member| member.status.is_ok());
        view.readers() == 3 && answered && view.member_list.is_some()
    };
    let view = view_until("all three read", members, whole).await;
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
    let served = |view: &QuorumView| view.readers() == 2 && view.member_list.is_some();
    let view = view_until("two of three read", members, served).await;
    assert_eq!(
        view.members[2].linearizable_read.as_ref().unwrap_err().refusal,
        Refusal::Unreachable
    );

    members[1].kill();
    let one_answers = |view: &QuorumView| {
        assert_eq!((view.readers(), &view.member_list), (0, &None), "{view:?}");
        view.members[0].status.is_ok()
    };
    view_until("the last one answers", members, one_answers).await;

    members[1].start();
    members[0].await_quorum().await;
}
