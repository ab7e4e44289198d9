//! Plans that nobody should ever make, and the rule that refuses each.

use std::time::Duration;

use super::check;
use crate::memory::{Change, ChangeKind, Disturbance, Mark};
use crate::model::*;
use crate::plan::tests::fixture::{Fixture, id, o, url};
use crate::plan::{Plan, StartHow, Step, WriteBefore};

/// The rules that `steps` break on this fixture, with `bend` applied to the memory the plan wants to store.
fn broken(f: &Fixture, steps: Vec<Step>, bend: impl FnOnce(&mut crate::Memory)) -> Vec<u8> {
    let plan = Plan {
        steps,
        ..Plan::default()
    };
    let mut after = f.memory.clone();
    bend(&mut after);
    let found = check(&f.spec, &f.observed, &f.memory, &after, &plan, f.now);
    found.into_iter().map(|v| v.rule).collect()
}

fn basis(f: &Fixture) -> Basis {
    Basis::of(&f.observed.quorum.as_ref().unwrap().members)
}

fn intend(kind: ChangeKind) -> impl FnOnce(&mut crate::Memory) {
    move |m| {
        m.change = Some(Change {
            kind,
            since: Time(100_000),
        })
    }
}

fn remove(f: &Fixture, n: u32) -> Vec<u8> {
    let step = Step::Remove {
        member: id(n),
        basis: basis(f),
    };
    let writes = Step::Write {
        ordinal: o(0),
        before: WriteBefore::Outage,
    };
    broken(f, vec![step, writes], intend(ChangeKind::Remove(id(n))))
}

fn start(n: u32, how: StartHow, version: Version) -> Step {
    Step::Start {
        ordinal: o(n),
        generation: Generation(0),
        how,
        version,
        config: "c".into(),
    }
}

const V: Version = Version::new(3, 6, 1);

#[test]
fn nothing_is_wrong_with_doing_nothing() {
    assert_eq!(broken(&Fixture::healthy(3), vec![], |_| {}), [0; 0]);
}

#[test]
fn removals() {
    let mut f = Fixture::healthy(3);
    assert_eq!(remove(&f, 2), [2], "wanted, healthy and sound");
    f.spec.replicas = 1;
    assert_eq!(remove(&f, 2), [0; 0]);
    assert_eq!(remove(&f, 1), [2], "out of order");
    f.kill(0);
    assert_eq!(remove(&f, 2), [2], "one healthy of two would be left");
    let mut f = Fixture::healthy(3);
    f.wipe(2).kill(1);
    assert_eq!(remove(&f, 2), [1, 2], "no healthy majority before, none after");
    let mut f = Fixture::healthy(1);
    f.view(0).volume = Volume::Empty;
    assert_eq!(remove(&f, 0), [2, 2, 2], "the last voter");
}

#[test]
fn of_two_voters_the_one_that_stays_must_lead() {
    let mut f = Fixture::healthy(2);
    f.spec.replicas = 1;
    assert_eq!(remove(&f, 1), [0; 0]);
    for leader in [None, Some(id(1)), Some(MemberId(7))] {
        f.observed.quorum.as_mut().unwrap().leader = leader;
        assert_eq!(remove(&f, 1), [2], "{leader:?} leads");
    }
}

#[test]
fn the_survivor_of_two_writes_down_that_it_is_alone() {
    let mut f = Fixture::healthy(2);
    f.spec.replicas = 1;
    let step = Step::Remove {
        member: id(1),
        basis: basis(&f),
    };
    let alone = broken(&f, vec![step], intend(ChangeKind::Remove(id(1))));
    assert_eq!(alone, [2]);
}

#[test]
fn a_member_writes_before_it_leaves_minor_4() {
    let mut f = Fixture::healthy(3);
    f.spec.version = Version::new(3, 5, 33);
    let since = Time(1);
    f.view(2).status.as_mut().unwrap().version = Version::new(3, 4, 35);
    let stop = Step::Stop { ordinal: o(2), since };
    let write = Step::Write {
        ordinal: o(2),
        before: WriteBefore::LeavingMinor4,
    };
    assert_eq!(broken(&f, vec![stop.clone()], |_| {}), [15]);
    assert_eq!(broken(&f, vec![write, stop], |_| {}), [0; 0]);
}

#[test]
fn a_leader_removes_itself_only_if_the_rest_are_a_quorum_of_the_old_list() {
    let mut f = Fixture::healthy(4);
    f.spec.replicas = 3;
    f.observed.quorum.as_mut().unwrap().leader = Some(id(3));
    assert_eq!(remove(&f, 3), [0; 0]);
    f.kill(1);
    assert_eq!(
        remove(&f, 3),
        [2],
        "two of the three that stay know of it, and need three of four to agree"
    );
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    assert_eq!(remove(&f, 3), [0; 0]);
}

#[test]
fn changes_need_a_list_of_this_look_an_intent_and_the_right_basis() {
    let mut f = Fixture::healthy(3);
    f.spec.replicas = 2;
    let step = |basis| Step::Remove { member: id(2), basis };
    let intent = || intend(ChangeKind::Remove(id(2)));
    let good = basis(&f);
    assert_eq!(broken(&f, vec![step(good)], intent()), [0; 0]);
    assert_eq!(broken(&f, vec![step(Basis(1))], intent()), [1]);
    assert_eq!(broken(&f, vec![step(good)], |_| {}), [1], "no intent on record");
    assert_eq!(
        broken(&f, vec![step(good), step(good)], intent()),
        [1],
        "two at once"
    );
    f.now = f.now + Duration::from_secs(6);
    assert_eq!(broken(&f, vec![step(good)], intent()), [1], "an old look");
    f.now = f.observed.at;
    f.silence();
    assert_eq!(broken(&f, vec![step(good)], intent()), [1], "no list");
}

#[test]
fn additions_and_promotions() {
    let mut f = Fixture::healthy(3);
    let add = |f: &Fixture, n| Step::AddLearner {
        ordinal: o(n),
        peer_url: url(n),
        basis: basis(f),
    };
    let intent = |n| intend(ChangeKind::AddLearner(url(n)));
    assert_eq!(broken(&f, vec![add(&f, 3)], intent(3)), [0; 0]);
    assert_eq!(broken(&f, vec![add(&f, 2)], intent(2)), [3], "a member already");
    let promote = |f: &Fixture, n| Step::Promote {
        ordinal: o(n),
        member: id(n),
        basis: basis(f),
    };
    assert_eq!(
        broken(&f, vec![promote(&f, 2)], intend(ChangeKind::Promote(id(2)))),
        [1]
    );
    f.join(3, true);
    assert_eq!(
        broken(&f, vec![add(&f, 4)], intent(4)),
        [1],
        "beside another learner"
    );
    assert_eq!(
        broken(&f, vec![promote(&f, 3)], intend(ChangeKind::Promote(id(3)))),
        [0; 0]
    );
    f.kill(2);
    assert_eq!(
        broken(&f, vec![promote(&f, 3)], intend(ChangeKind::Promote(id(3)))),
        [1],
        "should it die now, two of four would be left"
    );
}

#[test]
fn starts() {
    let mut f = Fixture::healthy(3);
    assert_eq!(
        broken(&f, vec![start(2, StartHow::Resume, V)], |_| {}),
        [7],
        "it runs"
    );
    f.kill(2);
    assert_eq!(broken(&f, vec![start(2, StartHow::Resume, V)], |_| {}), [0; 0]);
    let twice = vec![start(2, StartHow::Resume, V), start(2, StartHow::Resume, V)];
    assert_eq!(broken(&f, twice, |_| {}), [4]);
    for (version, rule) in [
        (Version::new(3, 5, 33), 7),
        (Version::new(3, 6, 0), 7),
        (Version::new(3, 8, 0), 15),
    ] {
        let rules = broken(&f, vec![start(2, StartHow::Resume, version)], |_| {});
        assert!(rules.contains(&rule), "{version}: {rules:?}");
    }
    let new = StartHow::New {
        token: Token("old".into()),
        initial: (0..3).map(|n| (f.spec.member_name(o(n)), url(n))).collect(),
    };
    f.wipe(2);
    assert_eq!(
        broken(&f, vec![start(2, StartHow::Resume, V)], |_| {}),
        [4],
        "nothing to resume"
    );
    assert_eq!(
        broken(&f, vec![start(2, new, V)], |_| {}),
        [4, 4],
        "it ran before, and the cluster exists"
    );
    let join = StartHow::Join {
        initial: (0..3).map(|n| (f.spec.member_name(o(n)), url(n))).collect(),
    };
    assert_eq!(
        broken(&f, vec![start(2, join, V)], |_| {}),
        [4, 4],
        "it ran before, and is no learner"
    );
}

#[test]
fn stops() {
    let f = Fixture::healthy(3);
    let stop = |n| Step::Stop {
        ordinal: o(n),
        since: Time(0),
    };
    assert_eq!(broken(&f, vec![stop(2)], |_| {}), [0; 0]);
    assert_eq!(broken(&f, vec![stop(2), stop(1)], |_| {}), [5]);
    let mut f = Fixture::healthy(3);
    f.kill(1);
    assert_eq!(
        broken(&f, vec![stop(2)], |_| {}),
        [5],
        "only one of the others is healthy"
    );
    f.silence();
    assert_eq!(broken(&f, vec![stop(2)], |_| {}), [5], "no list");
    // Voters are found by what they say and by their URL, not only by what is remembered of them.
    let mut f = Fixture::healthy(3);
    f.memory.slots.values_mut().for_each(|s| s.member = None);
    assert_eq!(broken(&f, vec![stop(2), stop(1)], |_| {}), [5]);
}

/// With too little memory a member ends, as if it were stopped.
#[test]
fn resources() {
    let resize = |n, config: &str| Step::Resize {
        ordinal: o(n),
        config: config.to_owned(),
    };
    let turn = |n| {
        move |m: &mut crate::Memory| {
            m.disturbance = Some(Disturbance {
                ordinal: o(n),
                since: Time(100_000),
                settle: false,
                again: false,
            })
        }
    };
    let mut f = Fixture::healthy(3);
    assert_eq!(
        broken(&f, vec![resize(2, "c")], turn(2)),
        [5],
        "nobody asked for it"
    );
    (0..3).for_each(|n| f.view(n).resize = Resize::Possible);
    assert_eq!(broken(&f, vec![resize(2, "c")], turn(2)), [0; 0]);
    assert_eq!(broken(&f, vec![resize(2, "another")], turn(2)), [5]);
    assert_eq!(broken(&f, vec![resize(2, "c")], |_| {}), [5], "not remembered");
    assert_eq!(broken(&f, vec![resize(2, "c"), resize(1, "c")], turn(2)), [5, 5]);
    f.kill(1);
    let why = "only one of the others is healthy";
    assert_eq!(broken(&f, vec![resize(2, "c")], turn(2)), [5], "{why}");
}

#[test]
fn data() {
    let mut f = Fixture::healthy(3);
    let aside = |generation| Step::SetAside {
        ordinal: o(2),
        generation: Generation(generation),
    };
    assert_eq!(
        broken(&f, vec![aside(0)], |_| {}),
        [6, 6],
        "its present volume, from under its process"
    );
    let next = |m: &mut crate::Memory| {
        let slot = m.slots.get_mut(&o(2)).unwrap();
        slot.generation = Generation(1);
    };
    f.kill(2);
    assert_eq!(
        broken(&f, vec![aside(0)], next),
        [4],
        "given up while it is a member"
    );
    f.view(2).asides = 3;
    assert_eq!(
        broken(
            &f,
            vec![Step::DropAside {
                ordinal: o(2),
                keep: 2,
            }],
            |_| {}
        ),
        [6]
    );
}

#[test]
fn a_volume_that_goes_with_its_member() {
    let stop = Step::Stop {
        ordinal: o(2),
        since: Time(0),
    };
    let mut f = Fixture::healthy(3);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    assert_eq!(remove(&f, 2), [2], "it is wanted and well");
    f.view(2).deletion_pending = true;
    assert_eq!(remove(&f, 2), [0; 0]);
    assert_eq!(broken(&f, vec![stop.clone()], |_| {}), [6]);
    f.leave(2);
    assert_eq!(broken(&f, vec![stop], |_| {}), [0; 0], "it is no member any more");
}

#[test]
fn storage_is_deleted_only_if_nobody_is_on_it_or_wants_it() {
    let seen = StorageId {
        uid: "u".into(),
        version: "1".into(),
    };
    let discard = |storage: &StorageId| Step::Discard {
        ordinal: o(2),
        storage: storage.clone(),
    };
    // A member that was removed; its place is gone.
    let fixture = || {
        let mut f = Fixture::healthy(3);
        f.spec.replicas = 2;
        let members = &mut f.observed.quorum.as_mut().unwrap().members;
        members.retain(|m| m.id != id(2));
        *f.view(2) = SlotView {
            place: Place::Absent,
            volume: Volume::Unknown,
            storage: Some(Storage {
                id: seen.clone(),
                in_use: false,
                size: StorageSize::default(),
                record: Some((Generation(0), true)),
            }),
            ..Fixture::vacant(2)
        };
        let slot = f.memory.slots.get_mut(&o(2)).unwrap();
        *slot = crate::memory::Slot {
            generation: Generation(1),
            ..Default::default()
        };
        f
    };
    let judged = |bend: &dyn Fn(&mut Fixture)| {
        let mut f = fixture();
        bend(&mut f);
        broken(&f, vec![discard(&seen)], |_| {})
    };
    assert_eq!(judged(&|_| {}), [0; 0]);
    type Bend<'a> = (&'static str, &'a dyn Fn(&mut Fixture));
    let bends: [Bend<'_>; 13] = [
        ("it was seen a while ago", &|f| f.now = Time(f.now.0 + 6_000)),
        ("it is wanted", &|f| f.spec.replicas = 3),
        ("nobody says whose it is", &|f| f.observed.quorum = None),
        ("it is in use", &|f| {
            f.view(2).storage.as_mut().unwrap().in_use = true
        }),
        ("it has changed since", &|f| {
            f.view(2).storage.as_mut().unwrap().id.version = "2".into();
        }),
        ("a newer volume is on it", &|f| {
            f.view(2).storage.as_mut().unwrap().record = Some((Generation(1), true));
        }),
        ("it runs", &|f| f.view(2).process = Process::Stopping),
        ("it holds another's data", &|f| {
            f.view(2).volume = Volume::Foreign {
                belongs_to: "x".into(),
                slot: None,
                owner_exists: None,
            };
        }),
        ("it held another's data when it was last seen", &|f| {
            f.memory.slots.get_mut(&o(2)).unwrap().belongs_to = Some("x".into());
        }),
        ("it is listed", &|f| {
            let listed = Listed {
                id: id(7),
                name: String::new(),
                peer_urls: vec![url(2)],
                learner: true,
            };
            f.observed.quorum.as_mut().unwrap().members.push(listed);
        }),
        ("it joins", &|f| {
            let kind = ChangeKind::AddLearner(url(2));
            f.memory.change = Some(Change { kind, since: Time(0) });
        }),
        ("it may be the data of one that does not serve", &|f| {
            f.kill(1);
        }),
        ("another cluster answers", &|f| {
            f.observed.quorum.as_mut().unwrap().cluster = ClusterId(0xbad);
        }),
    ];
    for (why, bend) in bends {
        assert!(judged(bend).contains(&6), "{why}");
    }
    let unknown = |f: &mut Fixture| f.view(2).storage.as_mut().unwrap().record = None;
    assert_eq!(judged(&unknown), [0; 0], "a member was here and is gone");
    assert!(
        judged(&|f| {
            unknown(f);
            f.memory.slots.remove(&o(2));
        })
        .contains(&6)
    );
}

#[test]
fn what_is_latched_stays_latched() {
    let f = Fixture::healthy(3);
    assert_eq!(broken(&f, vec![], |m| m.cluster = None), [4]);
    assert_eq!(broken(&f, vec![], |m| m.bootstrap = None), [4]);
    assert_eq!(broken(&f, vec![], |m| m.slots.clear()), [4, 4, 4]);
    let unmark = |m: &mut crate::Memory| m.slots.get_mut(&o(0)).unwrap().mark = Mark::Never;
    assert_eq!(broken(&f, vec![], unmark), [4]);
}

#[test]
fn storage_grows_one_at_a_time_and_only_to_what_is_wanted() {
    let mut f = Fixture::healthy(3);
    f.spec.storage = Some(20);
    let id = StorageId {
        uid: "u".into(),
        version: "1".into(),
    };
    for n in 0..3 {
        let size = StorageSize {
            asked: Some(10),
            holds: Some(10),
        };
        f.view(n).storage = Some(Storage {
            id: id.clone(),
            in_use: true,
            size,
            record: None,
        });
    }
    let grow = |n, to| Step::Grow {
        ordinal: o(n),
        storage: id.clone(),
        to,
    };
    assert_eq!(broken(&f, vec![grow(0, 20)], |_| {}), [0; 0]);
    assert_eq!(broken(&f, vec![grow(0, 20), grow(1, 20)], |_| {}), [5]);
    assert_eq!(broken(&f, vec![grow(0, 30)], |_| {}), [6]);
    f.now = Time(f.now.0 + 6_000);
    assert_eq!(broken(&f, vec![grow(0, 20)], |_| {}), [6], "seen a while ago");
    f.now = f.observed.at;
    f.spec.storage = Some(5);
    assert_eq!(broken(&f, vec![grow(0, 5)], |_| {}), [6], "it would shrink");
    f.spec.storage = Some(20);
    f.view(1).storage.as_mut().unwrap().size.asked = Some(20);
    assert_eq!(broken(&f, vec![grow(0, 20)], |_| {}), [5], "another still grows");
}

mod change;
mod identity;
mod lost_ca;
mod standstill;
