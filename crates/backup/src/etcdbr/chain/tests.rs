//! Plans over listings made up here.

use proptest::prelude::*;

use super::*;

fn listing(names: &[&str]) -> Listing {
    Listing::of(names.iter().map(|name| (format!("v2/{name}"), 1)))
}

fn none() -> BTreeSet<String> {
    BTreeSet::new()
}

fn spans(plan: &Plan) -> Vec<(i64, i64)> {
    let base = (0, plan.base.name.last);
    let deltas = plan
        .deltas
        .iter()
        .map(|delta| (delta.name.start, delta.name.last));
    std::iter::once(base).chain(deltas).collect()
}

#[test]
fn the_newest_full_and_what_follows() {
    let listing = listing(&[
        "Full-00000000-00000010-100.gz",
        "Incr-00000011-00000020-110.gz",
        "Full-00000000-00000020-120.gz",
        "Incr-00000021-00000030-130.gz",
        "Incr-00000031-00000035-140.gz",
    ]);
    let newest = plan(&listing, Wanted::Newest, &none()).unwrap();
    assert_eq!(spans(&newest), [(0, 20), (21, 30), (31, 35)]);
    assert_eq!((newest.reaches, newest.inside), (35, false));
    let earlier = plan(&listing, Wanted::Revision(25), &none()).unwrap();
    assert_eq!(spans(&earlier), [(0, 20), (21, 30)]);
    let before = plan(&listing, Wanted::Revision(15), &none()).unwrap();
    assert_eq!(spans(&before), [(0, 10), (11, 20)]);
    let inside = plan(&listing, Wanted::Revision(5), &none()).unwrap();
    assert_eq!((spans(&inside), inside.inside), (vec![(0, 10)], true));
    // The newest full cannot be read: an older one leads to the same end.
    let without = BTreeSet::from(["v2/Full-00000000-00000020-120.gz".to_owned()]);
    let older = plan(&listing, Wanted::Newest, &without).unwrap();
    assert_eq!(spans(&older), [(0, 10), (11, 20), (21, 30), (31, 35)]);
    let past = plan(&listing, Wanted::Revision(36), &none()).unwrap_err();
    assert_eq!(past.missing, Some(Missing { from: 36, to: 36 }));
    assert_eq!(past.reaches, Some(35));
}

#[test]
fn by_time() {
    let listing = listing(&[
        "Full-00000000-00000010-100.gz",
        "Incr-00000011-00000020-110.gz",
        "Full-00000000-00000020-120.gz",
        "Incr-00000021-00000030-130.gz",
        "Incr-00000031-00000035-140.gz",
    ]);
    let at = |second| plan(&listing, Wanted::Time(second), &none());
    assert_eq!(spans(&at(105).unwrap()), [(0, 10), (11, 20)]);
    // What was uploaded in that second need not have all of it.
    assert_eq!(spans(&at(110).unwrap()), [(0, 10), (11, 20), (21, 30)]);
    assert_eq!(spans(&at(119).unwrap()), [(0, 10), (11, 20), (21, 30)]);
    assert_eq!(spans(&at(125).unwrap()), [(0, 20), (21, 30)]);
    assert_eq!(spans(&at(500).unwrap()), [(0, 20), (21, 30), (31, 35)]);
    assert_eq!(at(99).unwrap_err().reaches, None);
}

#[test]
fn overlaps_and_holes() {
    let two_writers = listing(&[
        "Full-00000000-00000010-100",
        "Incr-00000011-00000020-110",
        "Incr-00000011-00000018-111",
        "Incr-00000019-00000030-120",
        "Incr-00000021-00000025-121",
        "Incr-00000031-00000040-130",
    ]);
    let newest = plan(&two_writers, Wanted::Newest, &none()).unwrap();
    assert_eq!(spans(&newest), [(0, 10), (11, 20), (19, 30), (31, 40)]);
    let hole = listing(&[
        "Full-00000000-00000010-100",
        "Incr-00000011-00000020-110",
        "Incr-00000031-00000040-130",
    ]);
    let missing = plan(&hole, Wanted::Newest, &none()).unwrap_err();
    assert_eq!(missing.missing, Some(Missing { from: 21, to: 30 }));
    assert_eq!(
        missing.to_string(),
        "revisions 21 to 30 are missing; 20 can be reached"
    );
    assert_eq!(
        spans(&plan(&hole, Wanted::Revision(20), &none()).unwrap()),
        [(0, 10), (11, 20)]
    );
    let deltas_only = listing(&["Incr-00000011-00000020-110"]);
    assert_eq!(
        plan(&deltas_only, Wanted::Newest, &none()).unwrap_err().reaches,
        None
    );
    assert_eq!(
        plan(&Listing::default(), Wanted::Newest, &none())
            .unwrap_err()
            .reaches,
        None
    );
}

#[test]
fn ties() {
    let listing = listing(&[
        "Full-00000000-00000020-100",
        "Full-00000000-00000020-140.final",
        "Incr-00000011-00000020-110",
        "Full-00000000-00000010-90",
    ]);
    let newest = plan(&listing, Wanted::Newest, &none()).unwrap();
    assert_eq!(
        (newest.base.name.created, newest.deltas.len(), newest.reaches),
        (140, 0, 20)
    );
    let without = BTreeSet::from([newest.base.key]);
    assert_eq!(
        plan(&listing, Wanted::Newest, &without)
            .unwrap()
            .base
            .name
            .created,
        100
    );
}

#[test]
fn a_base_that_is_not_what_its_name_says() {
    let listing = listing(&[
        "Full-00000000-00000010-100",
        "Incr-00000005-00000010-99",
        "Incr-00000011-00000020-110",
        "Incr-00000021-00000030-120",
    ]);
    let newest = plan(&listing, Wanted::Newest, &none()).unwrap();
    let settled = |revision, wanted| newest.settle(&listing, revision, wanted, &none());
    let later = settled(25, Wanted::Newest).unwrap();
    assert_eq!(spans(&later)[1..], [(21, 30)]);
    // Newer than all deltas.
    let newest_of_all = settled(99, Wanted::Newest).unwrap();
    assert_eq!((newest_of_all.deltas.len(), newest_of_all.reaches), (0, 99));
    let inside = settled(25, Wanted::Revision(15)).unwrap();
    assert!(inside.inside && inside.deltas.is_empty());
    // Taken of a member that was behind: an older delta helps.
    assert_eq!(
        spans(&settled(7, Wanted::Newest).unwrap())[1..],
        [(5, 10), (11, 20), (21, 30)]
    );
    let missing = settled(3, Wanted::Newest).unwrap_err();
    assert_eq!(missing.missing, Some(Missing { from: 4, to: 4 }));
}

proptest! {
    /// Whatever lies there: a plan has no hole, and there is none only where none can be.
    #[test]
    fn plans_hold(
        fulls in proptest::collection::vec((1i64..60, 0i64..9), 0..4),
        deltas in proptest::collection::vec((1i64..60, 0i64..12, 0i64..9), 0..14),
        wanted in prop_oneof![Just(Wanted::Newest), (1i64..70).prop_map(Wanted::Revision)],
    ) {
        let mut names: Vec<String> = fulls.iter().map(|(last, at)| format!("Full-0-{last}-{at}")).collect();
        names.extend(deltas.iter().map(|(start, more, at)| format!("Incr-{start}-{}-{at}", start + more)));
        names.sort();
        names.dedup();
        let listing = Listing::of(names.into_iter().map(|name| (name, 1)));
        let goal = match wanted {
            Wanted::Revision(revision) => Some(revision),
            _ => listing.newest(),
        };
        // Which revisions can be reached from some full, one step at a time.
        let reachable = |from: i64, to: i64| {
            let mut at = from;
            while at < to {
                let next = listing.deltas.iter().filter(|d| d.name.start <= at + 1).map(|d| d.name.last).max();
                match next {
                    Some(next) if next > at => at = next,
                    _ => return false,
                }
            }
            true
        };
        let possible = goal.is_some_and(|goal| listing.fulls.iter().any(|f| f.name.last <= goal && reachable(f.name.last, goal)));
        match plan(&listing, wanted, &none()) {
            Ok(plan) if plan.inside => {
                prop_assert!(!possible);
                prop_assert!(plan.base.name.last > goal.unwrap() && plan.deltas.is_empty());
            }
            Ok(plan) => {
                prop_assert!(possible);
                let mut at = plan.base.name.last;
                for delta in &plan.deltas {
                    prop_assert!(delta.name.start <= at + 1 && delta.name.last > at);
                    at = delta.name.last;
                }
                prop_assert_eq!(at, plan.reaches);
                prop_assert!(at >= goal.unwrap());
            }
            Err(unreachable) => {
                prop_assert!(!possible);
                prop_assert!(unreachable.reaches.is_none_or(|reaches| reaches < goal.unwrap()));
            }
        }
    }
}
