use quorate_wire::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_wire::etcdserverpb::request_op::Request;
use quorate_wire::etcdserverpb::{Compare, DeleteRangeRequest, RangeRequest, RequestOp, TxnRequest};

use super::*;

fn op(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

fn put_op(key: &str, value: &str) -> RequestOp {
    op(Request::RequestPut(put(key, value)))
}

fn delete_op(key: &str, range_end: &str) -> RequestOp {
    op(Request::RequestDeleteRange(DeleteRangeRequest {
        key: key.into(),
        range_end: range_end.into(),
        prev_kv: false,
    }))
}

fn range_op(revision: i64) -> RequestOp {
    op(Request::RequestRange(RangeRequest {
        key: b"a".into(),
        revision,
        ..Default::default()
    }))
}

fn compare(key: &str, result: CompareResult, target: CompareTarget, with: TargetUnion) -> Compare {
    Compare {
        result: result as i32,
        target: target as i32,
        key: key.into(),
        range_end: Vec::new(),
        target_union: Some(with),
    }
}

fn run(txn: TxnRequest) -> Result_ {
    seeded()
        .request(InternalRaftRequest {
            txn: Some(txn),
            ..Default::default()
        })
        .run()
}

fn does_hold(compare: Compare) -> bool {
    let result = run(TxnRequest {
        compare: vec![compare],
        success: vec![put_op("yes", "")],
        failure: vec![put_op("no", "")],
    });
    assert_eq!(result.stop, None);
    match result.rows[..] {
        [ref row] if row.starts_with("8/0 +yes") => true,
        [ref row] if row.starts_with("8/0 +no") => false,
        _ => panic!("{:?}", result.rows),
    }
}

#[test]
fn one_revision_numbered_in_order() {
    let result = run(TxnRequest {
        compare: Vec::new(),
        success: vec![
            put_op("z", "1"),
            range_op(0),
            delete_op("a", "c"),
            RequestOp { request: None },
            put_op("a", "again"),
        ],
        failure: vec![put_op("no", "")],
    });
    assert_eq!(
        result.rows,
        ["8/0 +z c8 v1 \"1\"", "8/1 -a", "8/2 -b", "8/3 +a c8 v1 \"again\""]
    );
    assert_eq!(result.store.revision(), 8);
}

#[test]
fn one_without_effect_takes_no_revision() {
    let result = run(TxnRequest {
        compare: Vec::new(),
        success: vec![delete_op("x", ""), range_op(7)],
        failure: Vec::new(),
    });
    assert_eq!((result.rows.len(), result.store.revision()), (0, 7));
    assert_eq!(result.stop, None);
}

#[test]
fn every_target_compares() {
    use CompareResult::{Equal, Greater, Less, NotEqual};
    use CompareTarget::{Create, Lease, Mod, Value, Version};
    let text = |value: &str| TargetUnion::Value(value.into());
    for (key, result, target, with, expected) in [
        ("a", Equal, Value, text("three"), true),
        ("a", Equal, Value, text("two"), false),
        ("a", Less, Value, text("z"), true),
        ("a", Greater, Value, text("thred"), true),
        ("a", NotEqual, Value, text(""), true),
        ("a", Equal, Create, TargetUnion::CreateRevision(5), true),
        ("a", Less, Create, TargetUnion::CreateRevision(5), false),
        ("a", Equal, Mod, TargetUnion::ModRevision(6), true),
        ("a", Greater, Mod, TargetUnion::ModRevision(5), true),
        ("a", Equal, Version, TargetUnion::Version(2), true),
        ("b", Equal, Lease, TargetUnion::Lease(5), true),
        ("a", Equal, Lease, TargetUnion::Lease(5), false),
        // One that is not there: zero, but for its value.
        ("x", Equal, Version, TargetUnion::Version(0), true),
        ("x", Equal, Create, TargetUnion::CreateRevision(0), true),
        ("x", Greater, Mod, TargetUnion::ModRevision(-1), true),
        ("x", Equal, Value, text(""), false),
        ("x", NotEqual, Value, text("v"), false),
        // What is asked for does not fit the target: zero.
        ("a", Greater, Mod, TargetUnion::Version(99), true),
        ("x", Equal, Lease, TargetUnion::Version(99), true),
    ] {
        let shown = format!("{key} {result:?} {target:?} {with:?}");
        assert_eq!(does_hold(compare(key, result, target, with)), expected, "{shown}");
    }
}

#[test]
fn ranges_compare_every_key() {
    let spanning = |end: &str, version| Compare {
        range_end: end.into(),
        ..compare(
            "a",
            CompareResult::Less,
            CompareTarget::Version,
            TargetUnion::Version(version),
        )
    };
    assert!(does_hold(spanning("d", 3)));
    assert!(!does_hold(spanning("d", 2)), "a has version 2");
    assert!(does_hold(Compare {
        key: b"b".into(),
        ..spanning("\0", 2)
    }));
    assert!(
        does_hold(Compare {
            key: b"x".into(),
            ..spanning("z", 1)
        }),
        "none there, version 0"
    );
    let values = Compare {
        range_end: b"\0".into(),
        ..compare(
            "b",
            CompareResult::Less,
            CompareTarget::Value,
            TargetUnion::Value(b"t".into()),
        )
    };
    assert!(does_hold(values));
}

#[test]
fn inner_transactions_see_the_store_before() {
    // The outer put comes first, and the inner comparison does not see it.
    let inner = TxnRequest {
        compare: vec![compare(
            "n",
            CompareResult::Equal,
            CompareTarget::Version,
            TargetUnion::Version(0),
        )],
        success: vec![put_op("inner", "not there")],
        failure: vec![put_op("inner", "there")],
    };
    let second = TxnRequest {
        compare: vec![compare(
            "a",
            CompareResult::Equal,
            CompareTarget::Version,
            TargetUnion::Version(9),
        )],
        success: vec![put_op("second", "no")],
        failure: vec![
            op(Request::RequestTxn(TxnRequest::default())),
            put_op("second", "yes"),
        ],
    };
    let result = run(TxnRequest {
        compare: Vec::new(),
        success: vec![
            put_op("n", ""),
            op(Request::RequestTxn(inner)),
            op(Request::RequestTxn(second)),
            put_op("last", ""),
        ],
        failure: Vec::new(),
    });
    assert_eq!(result.stop, None);
    assert_eq!(
        result.rows,
        [
            "8/0 +n c8 v1 \"\"",
            "8/1 +inner c8 v1 \"not there\"",
            "8/2 +second c8 v1 \"yes\"",
            "8/3 +last c8 v1 \"\""
        ]
    );
}

#[test]
fn one_change_that_is_refused_refuses_all() {
    let lost_lease = op(Request::RequestPut(PutRequest {
        lease: 9,
        ..put("a", "")
    }));
    let missing = op(Request::RequestPut(PutRequest {
        ignore_value: true,
        ..put("x", "")
    }));
    for bad in [lost_lease, missing] {
        let nested = op(Request::RequestTxn(TxnRequest {
            success: vec![bad.clone()],
            ..Default::default()
        }));
        for bad in [bad.clone(), nested] {
            let result = run(TxnRequest {
                compare: Vec::new(),
                success: vec![put_op("n", ""), bad],
                failure: Vec::new(),
            });
            assert_eq!((result.rows.len(), result.stop), (0, None));
        }
        // In the branch that is not taken it does not matter.
        let result = run(TxnRequest {
            compare: Vec::new(),
            success: vec![put_op("n", "")],
            failure: vec![bad],
        });
        assert_eq!(result.rows.len(), 1);
    }
}

#[test]
fn what_depends_on_who_applies_it_is_not_decided() {
    let reads = |revision| {
        run(TxnRequest {
            compare: Vec::new(),
            success: vec![put_op("n", ""), range_op(revision)],
            failure: Vec::new(),
        })
    };
    assert_eq!(reads(3).rows.len(), 1);
    let stop = reads(8).stop.unwrap();
    assert!(stop.why.contains("revision 8"), "{stop}");
    assert_eq!((stop.index, stop.kind), (101, "txn"));
    let mut compacted = seeded().small("meta", b"finishedCompactRev", &keyspace::row_key(4, 0));
    compacted = compacted.request(InternalRaftRequest {
        txn: Some(TxnRequest {
            compare: Vec::new(),
            success: vec![range_op(3)],
            failure: Vec::new(),
        }),
        ..Default::default()
    });
    assert!(compacted.run().stop.is_some());
}

#[test]
fn what_makes_etcd_panic_is_not_applied() {
    let result = run(TxnRequest {
        compare: Vec::new(),
        success: vec![
            delete_op("a", ""),
            op(Request::RequestPut(PutRequest {
                ignore_value: true,
                ..put("a", "")
            })),
        ],
        failure: Vec::new(),
    });
    assert!(result.stop.unwrap().why.contains("gone"));
    let strange = Compare {
        target: 17,
        ..compare(
            "a",
            CompareResult::Equal,
            CompareTarget::Mod,
            TargetUnion::ModRevision(0),
        )
    };
    let result = run(TxnRequest {
        compare: vec![strange],
        ..Default::default()
    });
    assert!(result.stop.unwrap().why.contains("unknown way"));
}
