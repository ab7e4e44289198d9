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
        // The pod was made before this was known; whoever gives the go-ahead knows.
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
        let told = decide(
            &other,
            &record,
            &data,
            Some(go.to_annotation().as_bytes()),
            &before,
        );
        [alone, told]
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
    let [alone, told] = both(&known, floor(1, 0, 0));
    assert!(matches!(alone, Decision::Wait { .. }), "{alone:?}");
    assert!(
        refuses(&told, "of epoch 2, and the cluster is in epoch 1"),
        "{told:?}"
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
    };
    assert_eq!(floor.to_annotation(), r#"{"run":3,"index":70}"#);
    for (text, read) in [
        (floor.to_annotation(), floor),
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
