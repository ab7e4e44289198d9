//! Volumes that were put back to an earlier state, or are of another epoch.

use super::*;

#[test]
fn a_volume_that_was_rolled_back_or_is_of_another_epoch_passes_neither_alone_nor_with_a_go_ahead() {
    let pod = Pod::new();
    let volume = pod.volume();
    let gate = gate(&pod, &volume);
    let floor = |epoch, run, index| KnownProgress {
        epoch: Epoch(epoch),
        reached: Progress { run, index },
        ..KnownProgress::default()
    };
    let known = Entry {
        run: Some(7),
        epoch: Epoch(2),
        ..started(Version::new(3, 6, 1), "c")
    };
    let data = Data::Member(Identity {
        member: MemberId(1),
        cluster: ClusterId(7),
        minor: Some(6),
        last_index: Some(500),
    });
    let both = |entry: &Entry, floor: KnownProgress| {
        let record = record(entry.clone());
        let go = GoAhead {
            floor,
            ..go(How::Resume)
        };
        let alone = decide(&gate, &record, &data, None, &floor);
        // The pod was made before this was known; the operator that gives the go-ahead knows.
        let before = KnownProgress {
            epoch: entry.epoch,
            ..KnownProgress::default()
        };
        let other = Gate {
            config: "other",
            ..gate
        };
        let go = GoAhead {
            config: "other".to_owned(),
            ..go
        };
        let reported = decide(
            &other,
            &record,
            &data,
            Some(go.to_annotation().as_bytes()),
            &before,
        );
        [alone, reported]
    };
    for decision in both(&known, floor(2, 7, 500)) {
        assert!(passes(&decision), "{decision:?}");
    }
    for (floor, why) in [
        (floor(2, 8, 0), "rolled back: it knows of start 7, and start 8"),
        (
            floor(2, 7, 501),
            "rolled back: its log ends at index 500, and it had reached 501",
        ),
        (floor(3, 0, 0), "of epoch 2, and the cluster is in epoch 3"),
    ] {
        for decision in both(&known, floor) {
            assert!(refuses(&decision, why), "{decision:?}");
        }
    }
    // Of a later epoch than is known here: it waits for somebody who knows, and one who does not is not believed.
    let [alone, reported] = both(&known, floor(1, 0, 0));
    assert!(matches!(alone, Decision::Wait { .. }), "{alone:?}");
    assert!(
        refuses(&reported, "of epoch 2, and the cluster is in epoch 1"),
        "{reported:?}"
    );
    // A first start beside data of a later epoch does not pass either.
    let first = go(new()).to_annotation();
    let mut later = record(Entry::default());
    later.entry_mut(Generation(0)).epoch = Epoch(1);
    let decision = decide(
        &gate,
        &later,
        &Data::Nothing,
        Some(first.as_bytes()),
        &KnownProgress::default(),
    );
    assert!(refuses(&decision, "of epoch 1"), "{decision:?}");
    // A volume of before starts were counted passes.
    let before = started(Version::new(3, 6, 1), "c");
    for decision in both(&before, floor(0, 8, 0)) {
        assert!(passes(&decision), "{decision:?}");
    }
}

#[test]
fn a_volume_of_an_earlier_cluster_of_the_same_name_waits_for_a_go_ahead() {
    let pod = Pod::new();
    let volume = pod.volume();
    let own: MemberRef = "ns/c/c-0".parse().unwrap();
    let gate = Gate {
        member: Some(&own),
        ..gate(&pod, &volume)
    };
    // All that is written on it fits: the names, the generation, the version, the configuration, the ids of its own data.
    let mut earlier = record(Entry {
        member: Some(MemberId(1)),
        cluster: Some(ClusterId(7)),
        ..started(Version::new(3, 6, 1), "c")
    });
    earlier.belongs_to = Some(own.clone());
    let floor = |member: Option<u64>, cluster: Option<u64>| KnownProgress {
        member: member.map(MemberId),
        cluster: cluster.map(ClusterId),
        ..KnownProgress::default()
    };
    let report = |floor: &KnownProgress| {
        let report = crate::look::to_report(&earlier, false, Generation(1), member(1));
        report.passes_alone(&own, Version::new(3, 6, 1), "c", floor)
    };
    for floor in [floor(None, None), floor(Some(1), Some(7)), floor(None, Some(7))] {
        let decision = decide(&gate, &earlier, &member(1), None, &floor);
        assert!(passes(&decision), "{decision:?}");
        assert!(report(&floor), "the operator expects the same");
    }
    for floor in [
        floor(Some(2), Some(7)),
        floor(Some(1), Some(8)),
        floor(None, Some(8)),
    ] {
        let decision = decide(&gate, &earlier, &member(1), None, &floor);
        let part = "the data is that of member 1 of cluster 7, and not of member";
        assert!(waits(&decision, part), "{decision:?}");
        assert!(!report(&floor), "the operator expects the same");
        // A pod may be older than what is known now; the operator that gives the go-ahead knows.
        let right = GoAhead {
            member: Some(MemberId(1)),
            cluster: Some(ClusterId(7)),
            ..go(How::Resume)
        };
        let wrong = GoAhead {
            cluster: Some(ClusterId(8)),
            ..right.clone()
        };
        let reported = |go: GoAhead| {
            decide(
                &gate,
                &earlier,
                &member(1),
                Some(go.to_annotation().as_bytes()),
                &floor,
            )
        };
        assert!(passes(&reported(right)));
        assert!(refuses(&reported(wrong), "and not of member 1, cluster 8"));
    }
}

#[test]
fn the_number_of_a_start_is_written_with_the_go_ahead_and_never_lowered() {
    let pod = Pod::new();
    let volume = pod.volume();
    let gate = gate(&pod, &volume);
    let admission = |run| Admission {
        how: How::Resume,
        identity: None,
        served: false,
        run,
    };
    let run = |record: &Record| record.entry(Generation(1)).run;
    let first = admit::record_after(
        &gate,
        &record(Entry::default()),
        &admission(Some((Some(5), Epoch(3)))),
    );
    assert_eq!(run(&first), Some(5));
    assert_eq!(first.epoch(), Some(Epoch(3)));
    let alone = admit::record_after(&gate, &first, &admission(None));
    assert_eq!(alone, first, "a plain restart writes nothing");
    let older = admit::record_after(&gate, &first, &admission(Some((Some(4), Epoch(3)))));
    assert_eq!(run(&older), Some(5));
}

#[test]
fn what_is_known_to_be_on_a_volume_in_letters() {
    let floor = KnownProgress {
        epoch: Epoch(0),
        reached: Progress { run: 3, index: 70 },
        ..KnownProgress::default()
    };
    assert_eq!(floor.to_annotation(), r#"{"run":3,"index":70}"#);
    let whose = KnownProgress {
        member: Some(MemberId(0xa1)),
        cluster: Some(ClusterId(7)),
        ..floor
    };
    assert_eq!(
        whose.to_annotation(),
        r#"{"run":3,"index":70,"member":"00000000000000a1","cluster":"0000000000000007"}"#
    );
    for (text, read) in [
        (floor.to_annotation(), floor),
        (whose.to_annotation(), whose),
        (String::new(), KnownProgress::default()),
        ("{}".to_owned(), KnownProgress::default()),
        (
            r#"{"epoch":1,"later":{}}"#.to_owned(),
            KnownProgress {
                epoch: Epoch(1),
                ..KnownProgress::default()
            },
        ),
    ] {
        assert_eq!(KnownProgress::read(text.as_bytes()).unwrap(), read, "{text}");
    }
    assert!(KnownProgress::read(b"{").is_err());
}
