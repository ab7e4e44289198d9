//! Chains, held against a model that knows nothing but sets of revisions.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn base(revision: i64, compact_revision: i64) -> Base {
    Base {
        revision,
        compact_revision,
    }
}

fn link(from: i64, to: i64) -> Link {
    Link { from, to }
}

#[test]
fn the_newest_full_before_the_point_is_taken() {
    let bases = [base(100, 20), base(195, 150)];
    let links = [link(101, 150), link(151, 180), link(191, 200), link(141, 160)];
    let at = |revision| chain(&bases, &links, Goal::Revision(revision));
    let found = at(155).unwrap();
    assert_eq!((found.base, found.cut, found.revision), (0, None, 155));
    let steps = [(0, 101, 150), (1, 151, 155)].map(|(link, from, to)| Step { link, from, to });
    assert_eq!(found.steps, steps);
    // Inside a full: the one before does not reach it.
    assert_eq!(at(185).unwrap().cut, Some(185));
    assert_eq!(at(60).unwrap().cut, Some(60));
    assert_eq!((at(10), at(201)), (None, None));
    let end = chain(&bases, &links, Goal::End).unwrap();
    assert_eq!((end.base, end.revision), (1, 200));
    // Without the newest: what the older one reaches.
    let end = chain(&bases[..1], &links, Goal::End).unwrap();
    assert_eq!((end.base, end.revision), (0, 180));
    assert_eq!(reachable(&bases, &links), [(20, 200)]);
    assert_eq!(reachable(&bases[..1], &links), [(20, 180)]);
    assert_eq!((last_known(&bases, &links), last_known(&[], &[])), (200, 0));
    assert_eq!(chain(&[], &links, Goal::End), None);
}

/// All revisions that can be reached, one by one.
fn model(bases: &[Base], links: &[Link]) -> BTreeSet<i64> {
    let mut found = BTreeSet::new();
    for base in bases {
        found.extend(base.oldest()..=base.revision);
        let mut next = base.revision + 1;
        while links.iter().any(|link| (link.from..=link.to).contains(&next)) {
            found.insert(next);
            next += 1;
        }
    }
    found
}

fn bases() -> impl Strategy<Value = Vec<Base>> {
    let one = (1i64..60, -1i64..60).prop_map(|(revision, compact)| base(revision, compact.min(revision)));
    prop::collection::vec(one, 0..4)
}

fn links() -> impl Strategy<Value = Vec<Link>> {
    let one = (1i64..70, 0i64..12).prop_map(|(from, length)| link(from, from + length));
    prop::collection::vec(one, 0..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_the_model_reaches_is_reached_and_nothing_else(bases in bases(), links in links(), wanted in 0i64..85) {
        let model = model(&bases, &links);
        let found = chain(&bases, &links, Goal::Revision(wanted));
        prop_assert_eq!(found.is_some(), model.contains(&wanted));
        if let Some(found) = found {
            holds(&found, &bases, &links, wanted)?;
        }
        let end = chain(&bases, &links, Goal::End);
        prop_assert_eq!(end.as_ref().map(|end| end.revision), model.last().copied());
        if let Some(end) = end {
            holds(&end, &bases, &links, end.revision)?;
        }
        let ranges: BTreeSet<i64> = reachable(&bases, &links).into_iter().flat_map(|(from, to)| from..=to).collect();
        prop_assert_eq!(ranges, model);
    }
}

/// It begins at its base, goes on without a hole, and ends where it should; no newer base could have been taken.
fn holds(found: &Chain, bases: &[Base], links: &[Link], wanted: i64) -> Result<(), TestCaseError> {
    let base = bases[found.base];
    prop_assert_eq!(found.revision, wanted);
    if let Some(cut) = found.cut {
        prop_assert!(found.steps.is_empty() && base.oldest() <= cut && cut < base.revision);
        prop_assert_eq!(cut, wanted);
        return Ok(());
    }
    let mut at = base.revision;
    for step in &found.steps {
        prop_assert_eq!(step.from, at + 1);
        prop_assert!(step.from <= step.to);
        prop_assert!(links[step.link].from <= step.from && step.to <= links[step.link].to);
        at = step.to;
    }
    prop_assert_eq!(at, wanted);
    for newer in bases
        .iter()
        .filter(|newer| newer.revision > base.revision && newer.revision <= wanted)
    {
        let covered =
            (newer.revision + 1..=wanted).all(|r| links.iter().any(|l| (l.from..=l.to).contains(&r)));
        prop_assert!(!covered, "{:?} would have led there", newer);
    }
    Ok(())
}
