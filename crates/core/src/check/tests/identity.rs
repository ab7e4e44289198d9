//! Volumes that are not as they were left: rolled back, of another epoch, another's.

use super::*;

#[test]
fn nothing_starts_from_a_volume_that_is_not_as_it_was_left() {
    let fixture = || {
        let mut f = Fixture::healthy(3);
        f.kill(2).view(2).marks = Some(VolumeMarks {
            epoch: Epoch(0),
            run: Some(7),
            last_index: Some(500),
        });
        f.memory.slots.get_mut(&o(2)).unwrap().reached = Progress { run: 7, index: 500 };
        f
    };
    let judged = |bend: &dyn Fn(&mut Fixture)| {
        let mut f = fixture();
        bend(&mut f);
        broken(&f, vec![start(2, StartHow::Resume, V)], |_| {})
    };
    assert_eq!(judged(&|_| {}), [0; 0]);
    type Bend<'a> = (&'static str, &'a dyn Fn(&mut Fixture));
    let bends: [Bend<'_>; 7] = [
        ("it lacks a start", &|f| {
            f.view(2).marks.as_mut().unwrap().run = Some(6)
        }),
        ("it lacks entries", &|f| {
            f.view(2).marks.as_mut().unwrap().last_index = Some(499);
        }),
        ("it is of an older epoch", &|f| f.memory.epoch = Epoch(1)),
        ("it is of a newer epoch", &|f| {
            f.view(2).marks.as_mut().unwrap().epoch = Epoch(1)
        }),
        ("it is another member's data", &|f| {
            f.view(2).volume = Volume::Data {
                member: id(1),
                cluster: ClusterId(0xc1),
            };
        }),
        ("it is another member's volume", &|f| {
            f.view(2).volume = Volume::Foreign {
                belongs_to: "x".into(),
                slot: None,
                owner_exists: None,
            };
        }),
        ("the ground says so", &|f| {
            f.view(2).volume = Volume::RolledBack { why: String::new() };
        }),
    ];
    for (why, bend) in bends {
        assert!(judged(bend).contains(&4), "{why}");
    }
}

#[test]
fn how_far_a_volume_had_come_is_not_forgotten() {
    let mut f = Fixture::healthy(3);
    let reached = Progress { run: 7, index: 500 };
    f.memory.slots.get_mut(&o(0)).unwrap().reached = reached;
    f.memory.epoch = Epoch(1);
    let slot = |m: &mut crate::Memory, run, index| {
        m.slots.get_mut(&o(0)).unwrap().reached = Progress { run, index };
    };
    assert_eq!(broken(&f, vec![], |m| slot(m, 8, 501)), [0; 0]);
    assert_eq!(broken(&f, vec![], |m| slot(m, 6, 500)), [4]);
    assert_eq!(broken(&f, vec![], |m| slot(m, 7, 499)), [4]);
    assert_eq!(broken(&f, vec![], |m| m.epoch = Epoch(0)), [4]);
}

#[test]
fn how_far_the_only_volume_had_come_is_forgotten_only_as_the_user_agreed() {
    let forgets = |bend: &dyn Fn(&mut Fixture), left: Progress| {
        let mut f = Fixture::healthy(1);
        f.kill(0).silence().view(0).marks = Some(VolumeMarks {
            epoch: Epoch(0),
            run: Some(6),
            last_index: Some(400),
        });
        f.memory.slots.get_mut(&o(0)).unwrap().reached = Progress { run: 7, index: 500 };
        f.spec.accept_rolled_back = Some("t-0 from start 7 index 500 to start 6 index 400".into());
        bend(&mut f);
        broken(&f, vec![start(0, StartHow::Resume, V)], |m| {
            m.slots.get_mut(&o(0)).unwrap().reached = left;
        })
    };
    let found = Progress { run: 6, index: 400 };
    assert_eq!(forgets(&|_| {}, found), [0; 0]);
    assert_eq!(
        forgets(&|_| {}, Progress::default()),
        [4],
        "more than was agreed to"
    );
    assert!(forgets(&|f| f.spec.accept_rolled_back = None, found).contains(&4));
    assert!(forgets(&|f| f.view(0).marks.as_mut().unwrap().run = Some(5), found).contains(&4));
    let other = |f: &mut Fixture| {
        let slot = f.memory.slot(o(0));
        f.memory.slots.insert(o(1), slot);
    };
    assert!(forgets(&other, found).contains(&4), "there is another member");
}
