//! Members: added, removed, promoted, described.

use quorate_wire::membershippb::{Attributes, ClusterMemberAttrSetRequest};
use quorate_wire::raftpb::ConfChange;

use super::*;

const ONE: &str = r#"{"id":1,"peerURLs":["http://a:1"],"name":"m1","clientURLs":["http://a:2"]}"#;

fn of_36() -> Case {
    let mut case = seeded()
        .small("meta", b"storageVersion", b"3.6.0")
        .small("meta", b"confState", br#"{"voters":[1],"auto_leave":false}"#)
        .small("members", b"1", ONE.as_bytes());
    case.small.member = 1;
    case
}

fn of_35() -> Case {
    let mut case = of_36();
    case.small
        .rows
        .get_mut("meta")
        .unwrap()
        .remove(b"storageVersion".as_slice());
    case
}

fn of_34() -> Case {
    seeded()
        .small("cluster", b"clusterVersion", b"3.4.0")
        .small("members", b"1", ONE.as_bytes())
}

fn change(case: Case, kind: i32, id: u64, context: &str) -> Case {
    let change = ConfChange {
        id: Some(9),
        r#type: Some(kind),
        node_id: Some(id),
        context: Some(context.into()),
    };
    case.entry(EntryKind::ConfChange, &change.encode_to_vec())
}

fn describe(case: Case, member_id: u64, url: &str) -> Case {
    case.request(InternalRaftRequest {
        cluster_member_attr_set: Some(ClusterMemberAttrSetRequest {
            member_id,
            member_attributes: Some(Attributes {
                name: "m1".into(),
                client_urls: vec![url.into()],
            }),
        }),
        ..Default::default()
    })
}

fn row(result: &Result_, bucket: &str, key: &str) -> Option<String> {
    let value = result.store.small_rows().get(bucket)?.get(key.as_bytes())?;
    Some(String::from_utf8(value.clone()).unwrap())
}

#[test]
fn members_come_and_go() {
    let two = r#"{"id":2,"peerURLs":["http://b:1"],"isPromote":false}"#;
    let learner = r#"{"id":171,"peerURLs":["http://c:1"],"isLearner":true,"isPromote":false}"#;
    let promoted = r#"{"id":171,"peerURLs":null,"isPromote":true}"#;
    let case = change(of_36(), 0, 2, two);
    let case = change(case, 3, 171, learner);
    let result = case.run();
    assert_eq!(result.stop, None);
    assert_eq!(
        row(&result, "members", "2").unwrap(),
        r#"{"id":2,"peerURLs":["http://b:1"]}"#
    );
    assert_eq!(
        row(&result, "members", "ab").unwrap(),
        r#"{"id":171,"peerURLs":["http://c:1"],"isLearner":true}"#
    );
    assert_eq!(
        row(&result, "meta", "confState").unwrap(),
        r#"{"voters":[1,2],"learners":[171],"auto_leave":false}"#
    );
    let result = change(change(case, 0, 171, promoted), 1, 2, "").run();
    assert_eq!(result.stop, None);
    assert_eq!(
        row(&result, "members", "ab").unwrap(),
        r#"{"id":171,"peerURLs":["http://c:1"]}"#
    );
    assert_eq!(row(&result, "members", "2"), None);
    assert_eq!(row(&result, "members_removed", "2").unwrap(), "removed");
    assert_eq!(
        row(&result, "meta", "confState").unwrap(),
        r#"{"voters":[1,171],"auto_leave":false}"#
    );
}

#[test]
fn the_first_member_of_all_is_added() {
    let one = r#"{"id":1,"peerURLs":["http://a:1"],"name":"m1"}"#;
    let mut case = Case::default();
    case.small.member = 1;
    let result = change(case, 0, 1, one).run();
    assert_eq!(row(&result, "members", "1").unwrap(), one);
    assert_eq!(row(&result, "meta", "confState"), None);
    // Of 3.6 and newer one that is there is not added again.
    let result = change(of_36(), 0, 1, one).run();
    assert_eq!(
        (
            result.stop.as_ref(),
            row(&result, "members", "1").unwrap().as_str()
        ),
        (None, ONE)
    );
    assert!(change(of_35(), 0, 1, one).run().stop.is_some());
}

#[test]
fn members_are_changed_where_that_is_certain() {
    let moved = r#"{"id":1,"peerURLs":["http://z:9"],"isPromote":false}"#;
    let result = change(of_36(), 2, 1, moved).run();
    assert_eq!(row(&result, "members", "1").unwrap(), ONE.replace("a:1", "z:9"));
    assert!(change(of_35(), 2, 1, moved).run().stop.is_some());
    assert!(
        change(of_36(), 2, 7, moved).run().stop.is_some(),
        "the context is of another"
    );
}

#[test]
fn doubtful_changes_stop_it() {
    let two = r#"{"id":2,"peerURLs":["http://b:1"]}"#;
    for (case, why) in [
        (change(of_36(), 1, 1, ""), "this very member"),
        (change(of_36(), 1, 5, ""), "not in the database"),
        (change(of_36(), 0, 0, two), "no member"),
        (change(of_36(), 0, 3, two), "another member"),
        (change(of_36(), 0, 2, "{"), "unreadable"),
        (change(of_36(), 0, 2, &two.replace("b:1", "a:1")), "same peer URL"),
        (change(of_36(), 3, 2, two), "not certain"),
        (
            change(of_36().small("members_removed", b"2", b"removed"), 0, 2, two),
            "removed before",
        ),
        (
            change(of_35().small("members", b"7", b"{\"id\":7}"), 0, 2, two),
            "raft configuration",
        ),
        (
            change(of_36().small("members", b"2", b"?"), 1, 2, ""),
            "unreadable",
        ),
    ] {
        let stop = case.run().stop.unwrap();
        assert!(stop.why.contains(why), "{stop} ({why})");
    }
    let learner = two.replace('}', ",\"isLearner\":true}");
    let another = r#"{"id":3,"peerURLs":[],"isLearner":true}"#;
    let case = change(change(of_36(), 3, 2, &learner), 3, 3, another);
    assert!(case.run().stop.unwrap().why.contains("another learner"));
}

#[test]
fn attributes_are_rewritten_where_that_is_certain() {
    for case in [of_36(), of_34()] {
        let result = describe(case, 1, "http://new:1").run();
        assert_eq!(row(&result, "members", "1").unwrap(), ONE.replace("a:2", "new:1"));
    }
    // Releases of 3.5 differ, unless nothing changes.
    assert_eq!(describe(of_35(), 1, "http://a:2").run().stop, None);
    assert!(
        describe(of_35(), 1, "http://new:1")
            .run()
            .stop
            .unwrap()
            .why
            .contains("3.5")
    );
    // The log says that 3.6 will replay it.
    let case = describe(of_35(), 1, "http://new:1").request(InternalRaftRequest {
        cluster_version_set: Some(quorate_wire::membershippb::ClusterVersionSetRequest {
            ver: "3.6.0".into(),
        }),
        ..Default::default()
    });
    assert_eq!(case.run().stop, None);
    // A member that is gone is passed over; one never heard of is not.
    assert_eq!(
        describe(of_36().small("members_removed", b"2", b"removed"), 2, "")
            .run()
            .stop,
        None
    );
    assert!(describe(of_36(), 2, "").run().stop.is_some());
}

#[test]
fn releases_of_35_are_told_apart_where_they_are_known() {
    let new = |patch| {
        let mut case = describe(of_35(), 1, "http://new:1");
        case.by = Some(semver::Version::new(3, 5, patch));
        let result = case.run();
        assert_eq!(result.stop, None);
        row(&result, "members", "1").unwrap()
    };
    assert_eq!(new(19), ONE);
    assert_eq!(new(20), ONE.replace("a:2", "new:1"));
    // From the first entry on it needs no raft configuration.
    let add = |case, id: u64| {
        change(
            case,
            0,
            id,
            &format!(r#"{{"id":{id},"peerURLs":["http://m{id}:1"],"name":"m1"}}"#),
        )
    };
    let mut case = describe(add(add(Case::default(), 1), 2), 1, "http://new:1");
    assert!(case.run().stop.is_some());
    case.by = Some(semver::Version::new(3, 5, 35));
    let result = case.run();
    assert_eq!(result.stop, None);
    assert!(row(&result, "members", "1").unwrap().contains("http://new:1"));
    assert!(row(&result, "members", "2").is_some());
}
