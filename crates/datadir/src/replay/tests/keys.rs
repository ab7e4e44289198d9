//! Puts, deletions, leases and compactions.

use super::*;

#[test]
fn puts_go_on_where_the_database_ends() {
    let result = seeded()
        .put(put("a", "four"))
        .put(put("n", ""))
        .put(put("a", "five"))
        .delete("a", "")
        .put(put("a", "six"))
        .run();
    assert_eq!(result.stop, None);
    assert_eq!(
        result.rows,
        [
            "8/0 +a c5 v3 \"four\"",
            "9/0 +n c9 v1 \"\"",
            "10/0 +a c5 v4 \"five\"",
            "11/0 -a",
            "12/0 +a c12 v1 \"six\""
        ]
    );
    assert_eq!(result.store.revision(), 12);
    assert_eq!(result.applied.to_string(), "1 delete, 4 put");
}

#[test]
fn the_bytes_of_a_row_are_etcds() {
    // Rows of the formats' test vector: a put with all six fields, and a deletion.
    let mut applying = Survey::default().learn(Small::default(), 1 << 20).apply();
    let mut rows = Vec::new();
    for (lease_grant, put, delete_range) in [
        (Some(LeaseGrantRequest { id: 0x1234, ttl: 60 }), None, None),
        (
            None,
            Some(PutRequest {
                lease: 0x1234,
                ..put("l1", "v0")
            }),
            None,
        ),
        (
            None,
            None,
            Some(quorate_wire::etcdserverpb::DeleteRangeRequest {
                key: b"l1".into(),
                ..Default::default()
            }),
        ),
    ] {
        let request = InternalRaftRequest {
            lease_grant,
            put,
            delete_range,
            ..Default::default()
        };
        let data = request.encode_to_vec();
        let entry = Entry {
            index: 4,
            term: 2,
            kind: EntryKind::Normal,
            data: &data,
        };
        rows.extend(applying.entry(&entry).unwrap());
    }
    assert_eq!(
        rows[0].value,
        [
            0x0a, 2, b'l', b'1', 0x10, 2, 0x18, 2, 0x20, 1, 0x2a, 2, b'v', b'0', 0x30, 0xb4, 0x24
        ]
    );
    assert_eq!(
        rows[0].key,
        [0, 0, 0, 0, 0, 0, 0, 2, b'_', 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(rows[1].value, [0x0a, 2, b'l', b'1']);
    assert_eq!(
        rows[1].key,
        [0, 0, 0, 0, 0, 0, 0, 3, b'_', 0, 0, 0, 0, 0, 0, 0, 0, b't']
    );
}

#[test]
fn a_put_on_a_lease_that_is_gone_changes_nothing() {
    let with = |lease| PutRequest {
        lease,
        ..put("a", "x")
    };
    let result = seeded().put(with(9)).put(with(5)).run();
    assert_eq!(result.rows, ["8/0 +a c5 v3 \"x\" l5"]);
    assert_eq!(result.applied.total(), 2);
    for lease in [-1, i64::MAX] {
        let result = seeded().put(with(lease)).run();
        assert!(result.stop.unwrap().why.contains("lease"), "{lease}");
    }
}

#[test]
fn puts_may_keep_value_or_lease() {
    let keep_value = |key: &str, lease| PutRequest {
        ignore_value: true,
        lease,
        ..put(key, "")
    };
    let keep_lease = |key: &str| PutRequest {
        ignore_lease: true,
        ..put(key, "new")
    };
    let result = seeded()
        .put(keep_value("b", 0))
        .put(keep_value("b", 5))
        .put(keep_lease("b"))
        .put(keep_lease("missing"))
        .put(keep_value("missing", 0))
        .put(keep_value("b", 0))
        .run();
    assert_eq!(result.stop, None);
    assert_eq!(
        result.rows,
        [
            "8/0 +b c3 v2 \"bee\"",
            "9/0 +b c3 v3 \"bee\" l5",
            "10/0 +b c3 v4 \"new\" l5",
            "11/0 +b c3 v5 \"new\""
        ]
    );
    // A key whose lease is not there: etcd panics.
    let result = Case::default()
        .row(2, 0, kv("a", 2, 2, 1, "", 8))
        .put(keep_lease("a"))
        .run();
    assert!(result.stop.unwrap().why.contains("lease 8"));
}

#[test]
fn ranges_are_deleted_in_order_and_only_what_is_there() {
    let result = seeded()
        .delete("a", "c")
        .delete("x", "z")
        .delete("a", "")
        .delete("b", "\0")
        .run();
    assert_eq!(result.rows, ["8/0 -a", "8/1 -b", "9/0 -c"]);
    assert_eq!(result.store.revision(), 9);
    assert_eq!(
        seeded().delete("c", "a").run().rows,
        [""; 0],
        "the end before the beginning"
    );
    assert_eq!(seeded().delete("c", "c").run().rows, [""; 0]);
    assert!(seeded().delete("", "").run().stop.is_some());
    assert!(seeded().put(put("", "x")).run().stop.is_some());
}

#[test]
fn a_revoked_lease_takes_its_keys_along() {
    let attach = |key: &str, lease| PutRequest {
        lease,
        ..put(key, "")
    };
    let result = seeded()
        .put(attach("zz", 5))
        .grant(6, 1)
        .put(attach("a", 6))
        .put(attach("n", 6))
        .put(put("n", "freed"))
        .revoke(5)
        .revoke(5)
        .revoke(6)
        .put(attach("q", 6))
        .run();
    assert_eq!(result.stop, None);
    assert_eq!(
        result.rows[4..],
        ["12/0 -b".to_owned(), "12/1 -zz".to_owned(), "13/0 -a".to_owned()]
    );
    assert_eq!(result.store.small_rows()["lease"].len(), 0);
    // One without keys takes no revision.
    let result = seeded().grant(6, 10).revoke(6).put(put("a", "")).run();
    assert_eq!(result.rows, ["8/0 +a c5 v3 \"\""]);
}

#[test]
fn only_keys_of_the_lease_are_kept_although_nothing_else_touches_them() {
    let result = Case::default()
        .lease(5, 60)
        .row(2, 0, kv("moved", 2, 2, 1, "", 5))
        .row(3, 0, kv("stays", 3, 3, 1, "", 5))
        .row(4, 0, kv("gone", 4, 4, 1, "", 5))
        .row(5, 0, kv("moved", 2, 5, 2, "", 0))
        .gone(6, "gone")
        .revoke(5)
        .run();
    assert_eq!(result.rows, ["7/0 -stays"]);
}

#[test]
fn leases_are_granted_once_and_not_too_short() {
    let result = seeded()
        .grant(5, 10)
        .grant(7, 1)
        .grant(8, 9_000_000_001)
        .grant(0, 5)
        .grant(9, 600)
        .run();
    assert_eq!(result.stop, None);
    let rows: Vec<(Vec<u8>, Vec<u8>)> = result.store.small_rows()["lease"].clone().into_iter().collect();
    assert_eq!(
        rows,
        [
            (5i64.to_be_bytes().to_vec(), vec![8, 5, 16, 60]),
            (7i64.to_be_bytes().to_vec(), vec![8, 7, 16, 2]),
            (9i64.to_be_bytes().to_vec(), vec![8, 9, 16, 0xd8, 4])
        ]
    );
    assert!(seeded().grant(-5, 10).run().stop.is_some());
    assert!(seeded().revoke(-5).run().stop.is_some());
}

#[test]
fn a_compaction_is_scheduled_if_it_is_possible() {
    let scheduled = |result: &Result_| {
        result
            .store
            .small_rows()
            .get("meta")
            .and_then(|meta| meta.get(b"scheduledCompactRev".as_slice()).cloned())
    };
    assert_eq!(scheduled(&seeded().compact(8).run()), None, "in the future");
    assert_eq!(
        scheduled(&seeded().compact(7).compact(6).run()),
        Some(keyspace::row_key(7, 0))
    );
    let before = seeded().small("meta", b"finishedCompactRev", &keyspace::row_key(6, 0));
    assert_eq!(scheduled(&before.compact(6).run()), None, "done before");
    let before = seeded()
        .small("meta", b"scheduledCompactRev", &keyspace::row_key(9, 0))
        .put(put("a", ""));
    assert!(before.run().stop.unwrap().why.contains("unfinished compaction"));
}

#[test]
fn the_revision_is_at_least_the_compacted_one() {
    let result = Case::default()
        .small("meta", b"finishedCompactRev", &keyspace::row_key(20, 0))
        .put(put("a", ""))
        .run();
    assert_eq!(result.rows, ["21/0 +a c21 v1 \"\""]);
    assert_eq!(
        Case::default().put(put("a", "")).run().rows,
        ["2/0 +a c2 v1 \"\""]
    );
}
