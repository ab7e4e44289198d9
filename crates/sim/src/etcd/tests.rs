use quorate_core::model::Generation;

use super::*;

const V: Version = Version::new(3, 6, 14);
const G: Generation = Generation(0);

fn formed(count: u32) -> EtcdModel {
    formed_as(count, V)
}

fn formed_as(count: u32, version: Version) -> EtcdModel {
    let mut etcd = EtcdModel::new(7);
    let initial: Vec<Place> = (0..count).map(Place).collect();
    for place in &initial {
        etcd.start(
            *place,
            G,
            &As::New {
                token: "t".into(),
                initial: initial.clone(),
            },
            version,
        )
        .unwrap();
    }
    pass(&mut etcd, 30);
    etcd
}

fn pass(etcd: &mut EtcdModel, ticks: u64) {
    (0..ticks).for_each(|_| etcd.advance());
}

fn done(etcd: &mut EtcdModel, via: Place, operation: Operation) -> Result<Asked, EtcdError> {
    let asked = etcd.ask(via, operation)?;
    for _ in 0..20 {
        if let Some(result) = etcd.answer(asked) {
            return result.map(|()| asked);
        }
        etcd.advance();
    }
    Err(EtcdError::Timeout)
}

fn list(etcd: &EtcdModel) -> Vec<u32> {
    let leader = etcd.serving_leader().expect("a leader");
    let (_, conf, _) = etcd.list(leader).unwrap();
    let mut places: Vec<u32> = conf.members.values().map(|m| m.place.0).collect();
    places.sort_unstable();
    places
}

fn id_at(etcd: &EtcdModel, place: Place) -> MemberId {
    etcd.nodes[&place].member().unwrap()
}

#[test]
fn three_members_form_one_cluster_and_acknowledge() {
    let mut etcd = formed(3);
    assert_eq!(list(&etcd), [0, 1, 2]);
    etcd.notes.clear();
    etcd.write(Place(1), 77);
    pass(&mut etcd, 6);
    assert!(
        etcd.notes
            .iter()
            .any(|n| matches!(n, Note::Acknowledged { value: 77, .. })),
        "{:?}",
        etcd.notes
    );
}

#[test]
fn a_learner_joins_catches_up_and_is_promoted() {
    let mut etcd = formed(3);
    let asked = done(&mut etcd, Place(0), Operation::AddLearner(Place(3))).unwrap();
    let id = asked.member.unwrap();
    assert_eq!(
        done(&mut etcd, Place(0), Operation::Promote(id)),
        Err(EtcdError::LearnerNotReady)
    );
    assert_eq!(
        done(&mut etcd, Place(0), Operation::AddLearner(Place(4))),
        Err(EtcdError::TooManyLearners)
    );
    assert_eq!(
        done(&mut etcd, Place(0), Operation::AddLearner(Place(3))),
        Err(EtcdError::PeerUrlExists)
    );
    let initial: Vec<Place> = (0..4).map(Place).collect();
    etcd.start(Place(3), G, &As::Join { initial }, V).unwrap();
    pass(&mut etcd, 20);
    assert_eq!(id_at(&etcd, Place(3)), id);
    done(&mut etcd, Place(0), Operation::Promote(id)).unwrap();
    assert_eq!(
        done(&mut etcd, Place(0), Operation::Promote(id)),
        Err(EtcdError::MemberNotLearner)
    );
    assert_eq!(list(&etcd), [0, 1, 2, 3]);
}

#[test]
fn a_member_is_added_while_a_voter_is_down_from_3_5_30_and_3_6_11_on() {
    let patches = [
        (3, 4, 23, false),
        (3, 5, 27, false),
        (3, 5, 29, false),
        (3, 5, 30, true),
        (3, 6, 10, false),
        (3, 6, 11, true),
        (3, 7, 0, true),
    ];
    for (major, minor, patch, adds) in patches {
        let version = Version::new(major, minor, patch);
        // Three of four are a quorum of five; two of three are none of four.
        for (members, enough) in [(4, true), (3, false)] {
            let mut etcd = formed_as(members, version);
            etcd.kill(Place(members - 1));
            pass(&mut etcd, 30);
            let added = done(&mut etcd, Place(0), Operation::AddLearner(Place(6)));
            let wanted = if adds && enough {
                Ok(())
            } else {
                Err(EtcdError::UnhealthyCluster)
            };
            assert_eq!(added.map(|_| ()), wanted, "{members} members of etcd {version}");
        }
    }
}

#[test]
fn unsafe_changes_are_refused_as_etcd_refuses_them() {
    let mut etcd = formed(3);
    let (one, two) = (id_at(&etcd, Place(1)), id_at(&etcd, Place(2)));
    etcd.kill(Place(2));
    pass(&mut etcd, 14);
    assert_eq!(
        done(&mut etcd, Place(0), Operation::AddLearner(Place(3))),
        Err(EtcdError::UnhealthyCluster)
    );
    assert_eq!(
        done(&mut etcd, Place(0), Operation::Remove(one)),
        Err(EtcdError::UnhealthyCluster)
    );
    assert_eq!(
        done(&mut etcd, Place(0), Operation::Promote(MemberId(1))),
        Err(EtcdError::MemberNotFound)
    );
    done(&mut etcd, Place(0), Operation::Remove(two)).unwrap();
    assert_eq!(list(&etcd), [0, 1]);
    assert_eq!(
        etcd.start(Place(2), G, &As::Resume, V),
        Ok(()),
        "it does not know yet"
    );
    pass(&mut etcd, 20);
    assert!(
        etcd.nodes[&Place(2)].running.is_none(),
        "and ends when it learns it"
    );
}

#[test]
fn the_last_member_cannot_be_removed() {
    let mut etcd = formed(1);
    let id = id_at(&etcd, Place(0));
    assert_eq!(
        done(&mut etcd, Place(0), Operation::Remove(id)),
        Err(EtcdError::NotEnoughStarted)
    );
}

#[test]
fn a_member_with_amnesia_can_lose_an_acknowledged_write() {
    let mut etcd = formed(3);
    let leader = etcd.serving_leader().unwrap();
    let others: Vec<Place> = (0..3).map(Place).filter(|p| *p != leader).collect();
    etcd.kill(others[1]);
    etcd.notes.clear();
    for value in 100..110 {
        etcd.write(leader, value);
    }
    pass(&mut etcd, 8);
    assert!(
        etcd.notes
            .iter()
            .any(|n| matches!(n, Note::Acknowledged { value: 109, .. }))
    );
    // The follower that has the write forgets everything, and comes back under its old id; the leader is gone.
    let initial: Vec<Place> = (0..3).map(Place).collect();
    etcd.wipe(others[0], G);
    etcd.start(others[0], G, &As::Join { initial }, V).unwrap();
    etcd.kill(leader);
    etcd.start(others[1], G, &As::Resume, V).unwrap();
    pass(&mut etcd, 30);
    let wal = etcd.nodes[&others[1]].wal().unwrap();
    assert!(etcd.nodes[&others[1]].leads(), "the stale one leads");
    assert!(
        !wal.log.iter().any(|e| e.kind == Kind::Write(109)),
        "and the write is gone"
    );
}

#[test]
fn two_islands_two_leaders_one_history() {
    let mut etcd = formed(3);
    let old = etcd.serving_leader().unwrap();
    etcd.cut(old, 1);
    etcd.write(old, 500);
    pass(&mut etcd, 2);
    pass(&mut etcd, 12);
    let new = etcd.serving_leader().unwrap();
    assert_ne!(new, old);
    etcd.write(new, 501);
    pass(&mut etcd, 4);
    etcd.heal();
    pass(&mut etcd, 12);
    let log = &etcd.nodes[&old].wal().unwrap().log;
    assert!(log.iter().any(|e| e.kind == Kind::Write(501)), "it follows");
    assert!(
        !log.iter().any(|e| e.kind == Kind::Write(500)),
        "what was never committed is overwritten"
    );
}

#[test]
fn versions_read_only_what_they_can() {
    let mut etcd = formed(1);
    etcd.stop(Place(0));
    assert!(
        etcd.start(Place(0), G, &As::Resume, Version::new(3, 5, 33))
            .is_err()
    );
    assert!(
        etcd.start(Place(0), G, &As::Resume, Version::new(3, 7, 0))
            .is_ok()
    );
    assert!(
        etcd.start(Place(1), G, &As::Resume, V).is_err(),
        "nothing to resume"
    );
}

#[test]
fn leadership_moves_when_asked() {
    let mut etcd = formed(3);
    let leader = etcd.serving_leader().unwrap();
    let target = (0..3).map(Place).find(|p| *p != leader).unwrap();
    let to = id_at(&etcd, target);
    let moved = (0..20).any(|_| {
        let result = etcd.move_leader(leader, to);
        etcd.advance();
        result.is_ok()
    });
    assert!(moved);
    assert_eq!(etcd.serving_leader(), Some(target));
    assert_eq!(
        etcd.move_leader(leader, to),
        Err(EtcdError::BadTransferee),
        "it no longer leads"
    );
}

/// Entries enough for several raft snapshots.
fn write_much(etcd: &mut EtcdModel, via: Place) {
    for value in 0..200 {
        etcd.write(via, 1000 + value);
        pass(etcd, 1);
    }
}

#[test]
fn one_that_is_behind_the_leaders_log_is_sent_a_snapshot() {
    let mut etcd = formed(3);
    etcd.snapshot_count = 40;
    let leader = etcd.serving_leader().unwrap();
    let behind = (0..3).map(Place).find(|p| *p != leader).unwrap();
    etcd.kill(behind);
    write_much(&mut etcd, leader);
    assert!(etcd.nodes[&leader].wal().unwrap().compacted > 100);
    etcd.start(behind, G, &As::Resume, V).unwrap();
    pass(&mut etcd, 30);
    assert_eq!(
        etcd.snapshots_sent,
        Snapshots {
            voters: 1,
            learners: 0
        }
    );
    assert!(etcd.serves(behind));
    let logs: Vec<_> = [leader, behind]
        .map(|p| etcd.nodes[&p].wal().unwrap().log.len())
        .into();
    assert_eq!(logs[0], logs[1]);

    let asked = done(&mut etcd, leader, Operation::AddLearner(Place(3))).unwrap();
    let initial: Vec<Place> = (0..4).map(Place).collect();
    etcd.start(Place(3), G, &As::Join { initial }, V).unwrap();
    pass(&mut etcd, 30);
    assert_eq!(
        etcd.snapshots_sent,
        Snapshots {
            voters: 1,
            learners: 1
        }
    );
    done(&mut etcd, leader, Operation::Promote(asked.member.unwrap())).unwrap();
    // What came with the snapshot is on its disk.
    etcd.kill(Place(3));
    etcd.start(Place(3), G, &As::Resume, V).unwrap();
    pass(&mut etcd, 30);
    assert_eq!(list(&etcd), [0, 1, 2, 3]);
    assert!(etcd.serves(Place(3)));
}

/// As seen with etcd 3.6.16: "too many requests", until somebody writes.
#[test]
fn one_that_was_sent_a_snapshot_serves_after_the_next_entry() {
    let mut etcd = formed(3);
    (etcd.snapshot_count, etcd.apply_gap) = (40, 20);
    let leader = etcd.serving_leader().unwrap();
    write_much(&mut etcd, leader);
    done(&mut etcd, leader, Operation::AddLearner(Place(3))).unwrap();
    let initial: Vec<Place> = (0..4).map(Place).collect();
    etcd.start(Place(3), G, &As::Join { initial }, V).unwrap();
    pass(&mut etcd, 100);
    assert_eq!(etcd.snapshots_sent.learners, 1);
    assert!(!etcd.nodes[&Place(3)].running.as_ref().unwrap().ready);
    etcd.write_nothing(leader);
    pass(&mut etcd, 30);
    assert!(etcd.nodes[&Place(3)].running.as_ref().unwrap().ready);
}

#[test]
fn a_member_that_applies_with_delay_serves_no_read_until_it_has_caught_up() {
    let mut etcd = formed(3);
    let leader = etcd.serving_leader().unwrap();
    let lags = (0..3).map(Place).find(|p| *p != leader).unwrap();
    etcd.node(lags).lags_until = etcd.now + 210;
    write_much(&mut etcd, leader);
    let node = &etcd.nodes[&lags];
    assert!(node.wal().unwrap().commit > node.running.as_ref().unwrap().applied + 20);
    assert!(!etcd.serves(lags) && etcd.serves(leader));
    pass(&mut etcd, 30);
    assert!(etcd.serves(lags));
}

#[test]
fn under_an_alarm_every_member_refuses_writes() {
    let mut etcd = formed(3);
    let member = id_at(&etcd, Place(1));
    assert!(etcd.raise(Place(1), AlarmKind::NoSpace));
    assert_eq!(
        etcd.alarms.iter().copied().collect::<Vec<_>>(),
        [Alarm {
            member,
            kind: AlarmKind::NoSpace
        }]
    );
    etcd.notes.clear();
    etcd.write(Place(2), 7);
    pass(&mut etcd, 8);
    assert!(!etcd.notes.iter().any(|n| matches!(n, Note::Acknowledged { .. })));
    etcd.alarms.clear();
    etcd.write(Place(2), 8);
    pass(&mut etcd, 8);
    assert!(
        etcd.notes
            .iter()
            .any(|n| matches!(n, Note::Acknowledged { value: 8, .. }))
    );
}

#[test]
fn the_survivor_of_two_applies_that_it_is_alone_although_it_leads_no_longer() {
    let mut etcd = formed(2);
    let leader = etcd.serving_leader().unwrap();
    let other = (0..2).map(Place).find(|p| *p != leader).unwrap();
    let gone = id_at(&etcd, other);
    etcd.node(leader).lags_until = etcd.now + 60;
    for value in 0..20 {
        etcd.write(leader, 1000 + value);
    }
    etcd.ask(leader, Operation::Remove(gone)).unwrap();
    pass(&mut etcd, 12);
    let node = &etcd.nodes[&leader];
    assert!(etcd.nodes[&other].running.is_none(), "it has applied its removal");
    assert!(!node.leads(), "without the other it has no quorum");
    assert!(node.running.as_ref().unwrap().conf.members.contains_key(&gone));
    pass(&mut etcd, 80);
    assert_eq!(etcd.serving_leader(), Some(leader));
    assert_eq!(list(&etcd), [leader.0]);
}
