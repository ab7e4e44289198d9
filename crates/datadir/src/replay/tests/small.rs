//! Where it stops, what it counts, and the place in the log that it leaves.

use quorate_wire::etcdserverpb::{AuthEnableRequest, LeaseCheckpointRequest};

use super::*;

#[test]
fn it_stops_at_the_first_kind_that_is_not_exactly_known() {
    let case = seeded()
        .put(put("a", ""))
        .request(InternalRaftRequest {
            lease_checkpoint: Some(LeaseCheckpointRequest::default()),
            ..Default::default()
        })
        .put(put("a", ""))
        .request(InternalRaftRequest {
            auth_enable: Some(AuthEnableRequest {}),
            ..Default::default()
        });
    let result = case.run();
    let stop = result.stop.unwrap();
    assert_eq!((stop.index, stop.kind), (102, "lease checkpoint"));
    let remaining = result.kinds.without(&result.applied);
    assert_eq!(remaining.total(), 3);
    assert_eq!(remaining.to_string(), "1 auth enable, 1 lease checkpoint, 1 put");
    assert_eq!(
        stop.to_string(),
        "entry 102 (lease checkpoint): its effect is not exactly known here"
    );
}

#[test]
fn with_authentication_or_an_alarm_nothing_is_applied_but_nothing() {
    for (auth_enabled, alarmed) in [(true, false), (false, true)] {
        let mut case = seeded().entry(EntryKind::Normal, b"").put(put("a", ""));
        case.small.auth_enabled = auth_enabled;
        case.small.alarmed = alarmed;
        let result = case.run();
        assert_eq!(result.applied.to_string(), "1 no-op");
        assert_eq!(result.stop.unwrap().index, 102);
    }
}

#[test]
fn unreadable_rows_stop_it() {
    let case = seeded().small("lease", b"12345678", b"\xff").put(put("a", ""));
    assert!(case.run().stop.unwrap().why.contains("lease"));
    let case = seeded()
        .small("lease", b"other", &[8, 5, 16, 60])
        .put(put("a", ""));
    assert!(case.run().stop.unwrap().why.contains("lease"));
    let case = seeded()
        .small("meta", b"finishedCompactRev", b"short")
        .put(put("a", ""));
    assert!(case.run().stop.unwrap().why.contains("compaction"));
}

#[test]
fn memory_is_limited() {
    let mut case = Case::default().delete("k", "l");
    for number in 0..1000 {
        case = case.row(
            2 + number,
            0,
            kv(&format!("k{number}"), 2 + number, 2 + number, 1, "", 0),
        );
    }
    assert_eq!(case.run().rows.len(), 1000);
    let stop = case.run_within(10_000).stop.unwrap();
    assert!(stop.why.contains("10000 bytes"), "{stop}");
    assert_eq!((stop.index, stop.kind), (101, "delete"));
}

#[test]
fn the_place_in_the_log_is_kept() {
    let meta = |case: Case| case.run().store.small_rows()["meta"].clone();
    let old = meta(seeded().put(put("a", "")).entry(EntryKind::Normal, b""));
    assert_eq!(old.len(), 1);
    assert_eq!(old[b"consistent_index".as_slice()], 102u64.to_be_bytes());
    let new = meta(
        seeded()
            .small("meta", b"term", &[0, 0, 0, 0, 0, 0, 0, 1])
            .put(put("a", "")),
    );
    assert_eq!(new[b"term".as_slice()], 7u64.to_be_bytes());
    // No entry, no change.
    let result = seeded().small("meta", b"consistent_index", b"12345678").run();
    assert_eq!(
        result.store.small_rows()["meta"][b"consistent_index".as_slice()],
        b"12345678"
    );
}

#[test]
fn the_clusters_version_only_rises() {
    let set = |case: Case, version: &str| {
        case.request(InternalRaftRequest {
            cluster_version_set: Some(quorate_wire::membershippb::ClusterVersionSetRequest {
                ver: version.into(),
            }),
            ..Default::default()
        })
    };
    let result = set(set(seeded(), "3.5.0"), "3.6.0").run();
    assert_eq!(
        result.store.small_rows()["cluster"][b"clusterVersion".as_slice()],
        b"3.6.0"
    );
    assert!(
        set(set(seeded(), "3.6.0"), "3.5.0")
            .run()
            .stop
            .unwrap()
            .why
            .contains("lowers")
    );
    for strange in ["", "3.6", "v3.6.0", "3.6.0-rc.1"] {
        assert!(set(seeded(), strange).run().stop.is_some(), "{strange}");
    }
}

#[test]
fn a_log_that_touches_too_much_is_not_applied_at_all() {
    let long = |number: usize| PutRequest {
        key: number.to_be_bytes().repeat(1 << 20),
        ..Default::default()
    };
    let mut survey = Survey::default();
    let requests: Vec<Vec<u8>> = (0..40)
        .map(|number| InternalRaftRequest {
            put: Some(long(number)),
            ..Default::default()
        })
        .map(|request| request.encode_to_vec())
        .collect();
    let entries: Vec<Entry<'_>> = (1..)
        .zip(&requests)
        .map(|(index, data)| Entry {
            index,
            term: 1,
            kind: EntryKind::Normal,
            data,
        })
        .collect();
    entries.iter().for_each(|entry| survey.add(entry));
    assert_eq!(survey.stop().unwrap().index, 32);
    assert_eq!(survey.kinds().total(), 40);
    let mut applying = survey.learn(Small::default(), usize::MAX).apply();
    let stop = applying.entry(&entries[0]).unwrap_err();
    assert!(stop.why.contains("memory"), "{stop}");
}

proptest::proptest! {
    /// Whatever an entry holds, it is applied or not, and nothing panics.
    #[test]
    fn any_entry_is_applied_or_not(
        entries in proptest::collection::vec((0u8..3, proptest::collection::vec(proptest::num::u8::ANY, 0..40)), 0..20),
    ) {
        let mut case = seeded();
        for (kind, data) in entries {
            let kind = [EntryKind::Normal, EntryKind::ConfChange, EntryKind::ConfChangeV2][usize::from(kind)];
            case = case.entry(kind, &data);
        }
        let result = case.run();
        proptest::prop_assert_eq!(
            result.applied.total() + u64::from(result.stop.is_some()) <= result.kinds.total(),
            true
        );
    }

    /// Requests whose bytes were changed, too.
    #[test]
    fn any_changed_request_is_applied_or_not(at in 0usize..200, to in proptest::num::u8::ANY) {
        let mut case = seeded()
            .put(PutRequest { lease: 5, prev_kv: true, ..put("a", "value") })
            .delete("a", "c")
            .grant(77, 60)
            .revoke(5)
            .compact(7);
        let mut left = at;
        for (_, data) in &mut case.entries {
            if let Some(byte) = data.get_mut(left) {
                *byte = to;
                break;
            }
            left -= data.len();
        }
        let result = case.run();
        proptest::prop_assert!(result.applied.total() <= 5);
    }
}
