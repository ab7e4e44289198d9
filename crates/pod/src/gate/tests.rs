//! Who may pass: a table of decisions; and a crash after each act.

use quorate_core::model::{ClusterId, Epoch, MemberId, MemberName, PeerUrl, Progress, Token};

use super::*;
use crate::admit::Act;
use crate::contract::FORMAT;
use crate::handover::{self, Launch};
use crate::volume::aside;
use crate::volume::record::Entry;

const ID: &str = "00000000000000000000000000000001";

struct Pod {
    dir: tempfile::TempDir,
    go: std::path::PathBuf,
    shared: std::path::PathBuf,
    program: std::path::PathBuf,
}

impl Pod {
    fn new() -> Pod {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["volume", "shared"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::fs::write(path("program"), "#!quorate").unwrap();
        Pod {
            go: path("start"),
            shared: path("shared"),
            program: path("program"),
            dir,
        }
    }

    fn volume(&self) -> std::path::PathBuf {
        self.dir.path().join("volume")
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.volume())
    }
}

fn gate<'a>(pod: &'a Pod, volume: &'a Path) -> Gate<'a> {
    Gate {
        volume,
        generation: Generation(1),
        version: Version::new(3, 6, 1),
        config: "c",
        pod: "uid",
        member: None,
        go: &pod.go,
        reached: None,
        shared: &pod.shared,
        program: &pod.program,
        owner: None,
        patience: Duration::ZERO,
    }
}

fn record(entry: Entry) -> Record {
    let mut record: Record = serde_json::from_str(&format!("{{\"format\":1,\"id\":\"{ID}\"}}")).unwrap();
    *record.entry_mut(Generation(1)) = entry;
    record
}

fn member(id: u64) -> Data {
    Data::Member(Identity {
        member: MemberId(id),
        cluster: ClusterId(7),
        minor: Some(6),
        last_index: None,
    })
}

fn started(version: Version, config: &str) -> Entry {
    Entry {
        fired: true,
        started: Some(Started {
            version,
            config: config.to_owned(),
        }),
        ..Entry::default()
    }
}

fn new() -> How {
    How::New {
        token: Token("t".to_owned()),
        initial: vec![(MemberName("c-0".to_owned()), PeerUrl("http://a:2380".to_owned()))],
    }
}

fn go(how: How) -> GoAhead {
    GoAhead {
        format: FORMAT,
        pod: "uid".to_owned(),
        volume_id: ID.to_owned(),
        generation: Generation(1),
        version: Version::new(3, 6, 1),
        config: "c".to_owned(),
        how,
        member: None,
        cluster: None,
        served: false,
        run: Some(5),
        floor: KnownProgress::default(),
    }
}

fn decided(entry: Entry, data: &Data, go: Option<GoAhead>) -> Decision {
    let pod = Pod::new();
    let bytes = go.map(|go| go.to_annotation().into_bytes());
    let volume = pod.volume();
    decide(
        &gate(&pod, &volume),
        &record(entry),
        data,
        bytes.as_deref(),
        &KnownProgress::default(),
    )
}

fn passes(decision: &Decision) -> bool {
    matches!(decision, Decision::Pass(_))
}

fn waits(decision: &Decision, part: &str) -> bool {
    matches!(decision, Decision::Wait { why } if why.contains(part))
}

fn refuses(decision: &Decision, part: &str) -> bool {
    matches!(decision, Decision::Refuse { why } if why.contains(part))
}

#[test]
fn a_plain_restart_passes_by_itself_and_nothing_else_does() {
    let same = || started(Version::new(3, 6, 1), "c");
    assert!(passes(&decided(same(), &member(1), None)));
    let seen = Entry {
        member: Some(MemberId(1)),
        cluster: Some(ClusterId(7)),
        ..same()
    };
    assert!(passes(&decided(seen.clone(), &member(1), None)));
    assert!(waits(
        &decided(seen, &member(2), None),
        "not of the member that was seen"
    ));
    assert!(waits(&decided(same(), &Data::Nothing, None), "first start"));
    assert!(waits(&decided(Entry::default(), &member(1), None), "no record"));
    let other = started(Version::new(3, 5, 30), "c");
    assert!(waits(
        &decided(other, &member(1), None),
        "with etcd 3.6.1 after 3.5.30"
    ));
    let other = started(Version::new(3, 6, 1), "d");
    assert!(waits(
        &decided(other, &member(1), None),
        "another configuration; no go-ahead yet"
    ));
    let damaged = Data::Damaged {
        why: "torn".to_owned(),
    };
    assert!(waits(&decided(same(), &damaged, None), "torn"));
}

#[test]
fn a_first_start_needs_a_go_ahead_and_a_volume_where_nothing_ran() {
    for how in [
        new(),
        How::Join {
            initial: vec![(MemberName("c-0".to_owned()), PeerUrl("u".to_owned()))],
        },
    ] {
        let decision = decided(Entry::default(), &Data::Nothing, Some(go(how.clone())));
        let admission = Admission {
            how,
            identity: None,
            served: false,
            run: Some((Some(5), Epoch(0))),
        };
        assert_eq!(decision, Decision::Pass(admission));
    }
    let executed = || Entry {
        fired: true,
        ..Entry::default()
    };
    assert!(passes(&decided(executed(), &Data::Blank, Some(go(new())))));
    assert!(waits(&decided(executed(), &Data::Blank, None), "first start"));
    assert!(refuses(
        &decided(executed(), &Data::Blank, Some(go(How::Resume))),
        "log is blank"
    ));
    let seen = Entry {
        member: Some(MemberId(1)),
        ..executed()
    };
    assert!(refuses(
        &decided(seen, &Data::Blank, Some(go(new()))),
        "was not before"
    ));
    let remains = Data::Remains { why: String::new() };
    assert!(passes(&decided(Entry::default(), &remains, Some(go(new())))));
    let fired = Entry {
        fired: true,
        ..Entry::default()
    };
    assert!(refuses(
        &decided(fired, &Data::Nothing, Some(go(new()))),
        "executed before"
    ));
    assert!(refuses(
        &decided(Entry::default(), &member(1), Some(go(new()))),
        "over the data"
    ));
    let damaged = Data::Damaged { why: String::new() };
    assert!(refuses(
        &decided(Entry::default(), &damaged, Some(go(new()))),
        "over damaged"
    ));
}

#[test]
fn going_on_needs_the_data_of_the_member_that_is_meant() {
    let old = || started(Version::new(3, 5, 30), "c");
    for how in [How::Resume, How::Settle] {
        assert!(passes(&decided(old(), &member(1), Some(go(how.clone())))));
        let expected = GoAhead {
            member: Some(MemberId(1)),
            cluster: Some(ClusterId(7)),
            ..go(how.clone())
        };
        assert!(passes(&decided(old(), &member(1), Some(expected.clone()))));
        assert!(refuses(
            &decided(old(), &member(2), Some(expected)),
            "member 2 of cluster 7"
        ));
        let foreign = GoAhead {
            cluster: Some(ClusterId(8)),
            ..go(how.clone())
        };
        assert!(refuses(&decided(old(), &member(1), Some(foreign)), "cluster 8"));
        assert!(refuses(
            &decided(old(), &Data::Nothing, Some(go(how))),
            "there is none"
        ));
    }
}

#[test]
fn a_go_ahead_for_anything_else_is_waited_on() {
    let table = [
        (
            GoAhead {
                pod: "other".to_owned(),
                ..go(new())
            },
            "for the pod other",
        ),
        (
            GoAhead {
                generation: Generation(0),
                ..go(new())
            },
            "for generation g0",
        ),
        (
            GoAhead {
                version: Version::new(3, 6, 2),
                ..go(new())
            },
            "for version 3.6.2",
        ),
        (
            GoAhead {
                config: "d".to_owned(),
                ..go(new())
            },
            "for configuration d",
        ),
        (
            GoAhead {
                format: 2,
                ..go(new())
            },
            "format 2",
        ),
    ];
    for (go, part) in table {
        let decision = decided(Entry::default(), &Data::Nothing, Some(go));
        assert!(waits(&decision, part), "{decision:?}");
    }
    let other = GoAhead {
        volume_id: "2".to_owned(),
        ..go(new())
    };
    assert!(refuses(
        &decided(Entry::default(), &Data::Nothing, Some(other)),
        "for volume 2"
    ));
}

#[test]
fn neither_an_older_generation_nor_an_older_etcd_passes() {
    let pod = Pod::new();
    let volume = pod.volume();
    let mut record = record(started(Version::new(3, 6, 1), "c"));
    record.entry_mut(Generation(2)).fired = true;
    let decision = decide(
        &gate(&pod, &volume),
        &record,
        &member(1),
        None,
        &KnownProgress::default(),
    );
    assert!(refuses(&decision, "gone on to g2"), "{decision:?}");
    let newer = Data::Member(Identity {
        member: MemberId(1),
        cluster: ClusterId(7),
        minor: Some(7),
        last_index: None,
    });
    let decision = decided(started(Version::new(3, 6, 1), "c"), &newer, Some(go(How::Resume)));
    assert!(refuses(&decision, "etcd 3.7 has written"), "{decision:?}");
}

/// Runs the first `acts` of a first start, as if it was killed after them.
fn killed_after(acts: usize, pod: &Pod) -> Record {
    let (layout, volume) = (pod.layout(), pod.volume());
    let gate = gate(pod, &volume);
    let looking = crate::look::LookOptions {
        volume: &volume,
        generation: gate.generation,
        foretell: false,
        patience: Duration::ZERO,
    };
    std::fs::create_dir_all(layout.data(Generation(0)).join("member/snap")).unwrap();
    crate::look::look(looking, |_| {});
    let Known::Record(record) = Record::read(&layout).unwrap() else {
        panic!("looked at")
    };
    let admission = Admission {
        how: new(),
        identity: None,
        served: false,
        run: Some((Some(5), Epoch(0))),
    };
    let mut now = record.clone();
    for act in Act::ALL.into_iter().take(acts) {
        admit::run(act, &gate, &layout, &mut now, &admission).unwrap();
    }
    record
}

#[test]
fn a_crash_after_any_act_leaves_a_gate_that_passes() {
    for acts in 0..=Act::ALL.len() {
        let pod = Pod::new();
        let record = killed_after(acts, &pod);
        let volume = pod.volume();
        let go = GoAhead {
            volume_id: record.id.clone(),
            ..go(new())
        };
        std::fs::write(&pod.go, go.to_annotation()).unwrap();
        pass(&gate(&pod, &volume), |_| {}).unwrap();
        let launch = Launch::read(&pod.shared).unwrap();
        assert!(launch.first && launch.volume_id == record.id, "after {acts} acts");
        assert_eq!(
            std::fs::read(pod.shared.join(handover::PROGRAM)).unwrap(),
            b"#!quorate"
        );
        assert!(!pod.layout().data(Generation(0)).exists());
        assert_eq!(aside::count(&pod.layout()).unwrap().0, 1, "after {acts} acts");
        let Known::Record(after) = Record::read(&pod.layout()).unwrap() else {
            panic!("a record")
        };
        let entry = after.entry(Generation(1));
        assert!(!entry.fired && entry.pod.as_deref() == Some("uid"));
    }
}

#[test]
fn what_was_replaced_is_thinned_out_only_once_its_replacement_has_served() {
    let admitted = |entry: &Entry, go: Option<GoAhead>| {
        let entry = Entry {
            member: Some(MemberId(1)),
            cluster: Some(ClusterId(7)),
            ..entry.clone()
        };
        match decided(entry, &member(1), go) {
            Decision::Pass(admission) => admission,
            other => panic!("{other:?}"),
        }
    };
    let same = started(Version::new(3, 6, 1), "c");
    let resume = |served| GoAhead {
        served,
        ..go(How::Resume)
    };
    let other = started(Version::new(3, 6, 0), "c");
    assert!(!admitted(&same, None).served);
    assert!(!admitted(&other, Some(resume(false))).served);
    let known = admitted(&other, Some(resume(true)));
    assert!(known.served);
    // From then on the volume itself knows.
    let pod = Pod::new();
    let volume = pod.volume();
    let mut now = crate::admit::record_after(&gate(&pod, &volume), &record(same), &known);
    let noted = now.entry(Generation(1));
    assert!(noted.served && admitted(&noted, None).served);
    let layout = pod.layout();
    for aside in ["g0-1", "g0-2", "g0-3"] {
        std::fs::create_dir_all(layout.asides().join(aside).join("member")).unwrap();
    }
    let unproven = Admission {
        served: false,
        ..known.clone()
    };
    admit::run(Act::Thin, &gate(&pod, &volume), &layout, &mut now, &unproven).unwrap();
    assert_eq!(aside::count(&layout).unwrap().0, 3);
    admit::run(Act::Thin, &gate(&pod, &volume), &layout, &mut now, &known).unwrap();
    assert_eq!(aside::count(&layout).unwrap().0 as usize, aside::KEPT);
}

#[test]
fn a_volume_passes_for_the_member_that_it_belongs_to_and_for_no_other() {
    let pod = Pod::new();
    let volume = pod.volume();
    let whose = |text: &str| text.parse::<MemberRef>().unwrap();
    let (own, swapped, renamed) = (whose("ns/c/c-0"), whose("ns/c/c-1"), whose("ns/copy/copy-0"));
    let at = |member| Gate {
        member,
        ..gate(&pod, &volume)
    };
    let entry = started(Version::new(3, 6, 1), "c");
    let go = go(How::Resume).to_annotation();
    // A volume of before that was known passes, and belongs to its member from then on.
    let unbound = record(entry);
    let Decision::Pass(admission) = decide(
        &at(Some(&own)),
        &unbound,
        &member(1),
        None,
        &KnownProgress::default(),
    ) else {
        panic!("a plain restart");
    };
    let bound = admit::record_after(&at(Some(&own)), &unbound, &admission);
    assert_eq!(bound.belongs_to, Some(own.clone()));
    assert!(matches!(
        decide(
            &at(Some(&own)),
            &bound,
            &member(1),
            None,
            &KnownProgress::default()
        ),
        Decision::Pass(_)
    ));
    for other in [&swapped, &renamed] {
        for go in [None, Some(go.as_bytes())] {
            match decide(
                &at(Some(other)),
                &bound,
                &member(1),
                go,
                &KnownProgress::default(),
            ) {
                Decision::Refuse { why } => assert!(why.contains("belongs to the member ns/c/c-0"), "{why}"),
                passed => panic!("{passed:?}"),
            }
        }
    }
    assert_eq!("ns/c".parse::<MemberRef>().ok(), None);
}

#[test]
fn waiting_ends_after_a_while_and_says_each_reason_once() {
    let pod = Pod::new();
    killed_after(0, &pod);
    std::fs::write(&pod.go, "{").unwrap();
    let volume = pod.volume();
    let patient = Gate {
        patience: Duration::from_millis(900),
        ..gate(&pod, &volume)
    };
    let mut reported = Vec::new();
    let error = pass(&patient, |why| reported.push(why.to_owned())).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains("gave up"), "{error}");
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("does not count"), "{reported:?}");
}

#[test]
fn a_volume_that_was_wiped_since_the_look_is_refused() {
    let pod = Pod::new();
    killed_after(3, &pod);
    std::fs::remove_dir_all(pod.volume()).unwrap();
    std::fs::create_dir(pod.volume()).unwrap();
    std::fs::write(&pod.go, go(new()).to_annotation()).unwrap();
    let error = pass(&gate(&pod, &pod.volume()), |_| {}).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(error.to_string().contains("wiped or exchanged"), "{error}");
}

mod put_back;
