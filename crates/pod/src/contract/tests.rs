//! The words of the contract, letter by letter: a change here breaks pods that run.

use proptest::prelude::*;

use super::*;

fn report(volume: Found) -> Report {
    Report {
        format: FORMAT,
        volume_id: "0123456789abcdef0123456789abcdef".to_owned(),
        fresh_id: false,
        generation: Generation(3),
        volume,
        fired: false,
        blank: false,
        started: Some(Started {
            version: Version::new(3, 6, 1),
            config: "c1".to_owned(),
        }),
        replay_limit: Some(6),
        asides: 2,
        aside_bytes: 8192,
        belongs_to: None,
        newest: None,
        epoch: Epoch(0),
        run: None,
        last_index: None,
    }
}

fn go_ahead(how: How) -> GoAhead {
    GoAhead {
        format: FORMAT,
        pod: "uid".to_owned(),
        volume_id: "id".to_owned(),
        generation: Generation(1),
        version: Version::new(3, 6, 1),
        config: "c1".to_owned(),
        how,
        member: None,
        cluster: Some(ClusterId(0xab)),
        served: false,
        run: None,
        floor: KnownProgress::default(),
    }
}

#[test]
fn a_report_in_letters() {
    let report = report(Found::Data {
        member: MemberId(0x8e9e05c52164694d),
        cluster: ClusterId(0xab),
    });
    let text = report.to_message();
    assert_eq!(
        text,
        r#"{"format":1,"volumeId":"0123456789abcdef0123456789abcdef","freshId":false,"generation":3,"volume":{"data":{"member":"8e9e05c52164694d","cluster":"00000000000000ab"}},"fired":false,"blank":false,"started":{"version":"3.6.1","config":"c1"},"replayLimit":6,"asides":2,"asideBytes":8192}"#
    );
    assert_eq!(Report::read(text.as_bytes()).unwrap(), report);
    let newer = text.replace("\"asides\"", "\"added\":{\"later\":1},\"asides\"");
    assert_eq!(Report::read(newer.as_bytes()).unwrap(), report);
    let other = text.replace("\"format\":1", "\"format\":2");
    assert!(matches!(
        Report::read(other.as_bytes()),
        Err(Unreadable::Format(2))
    ));
}

#[test]
fn a_go_ahead_in_letters() {
    let new = go_ahead(How::New {
        token: Token("t".to_owned()),
        initial: vec![(MemberName("c-0".to_owned()), PeerUrl("http://a:2380".to_owned()))],
    });
    let text = new.to_annotation();
    assert_eq!(
        text,
        r#"{"format":1,"pod":"uid","volumeId":"id","generation":1,"version":"3.6.1","config":"c1","how":{"new":{"token":"t","initial":[["c-0","http://a:2380"]]}},"cluster":"00000000000000ab"}"#
    );
    assert_eq!(GoAhead::read(text.as_bytes()).unwrap(), new);
    for how in [How::Resume, How::Settle, How::Join { initial: vec![] }] {
        let other = go_ahead(how);
        assert_eq!(GoAhead::read(other.to_annotation().as_bytes()).unwrap(), other);
    }
    assert!(GoAhead::read(&vec![b' '; GO_AHEAD_BYTES_MAX + 1]).is_err());
}

#[test]
fn never_ran_is_concluded_only_from_the_recorded_volume() {
    let empty = report(Found::Empty);
    let id = empty.volume_id.clone();
    assert_eq!(empty.first_start(Some(&id)), FirstStart::NotRun);
    assert_eq!(empty.first_start(None), FirstStart::Unknown);
    assert_eq!(empty.first_start(Some("another")), FirstStart::Unknown);
    let nameless = Report {
        volume_id: String::new(),
        ..empty.clone()
    };
    assert_eq!(nameless.first_start(Some("")), FirstStart::Unknown);
    let fired = Report { fired: true, ..empty };
    assert_eq!(fired.first_start(Some(&id)), FirstStart::Unknown);
    let blank = Report { blank: true, ..fired };
    assert_eq!(blank.first_start(Some(&id)), FirstStart::RanWithoutData);
    assert_eq!(blank.first_start(Some("another")), FirstStart::Unknown);
    for other in [
        Found::Unknown { why: String::new() },
        Found::Damaged { why: String::new() },
    ] {
        assert_eq!(report(other).first_start(Some(&id)), FirstStart::Unknown);
    }
}

proptest! {
    #[test]
    fn a_report_fits_whatever_is_in_it(why in ".{0,200}", repeat in 1usize..200, config in ".{0,100}", more in 1usize..60, id in ".{0,60}") {
        let mut long = report(Found::Damaged { why: why.repeat(repeat) });
        long.started = Some(Started { version: Version::new(3, 6, 1), config: config.repeat(more) });
        long.volume_id = id.repeat(more);
        let text = long.to_message();
        prop_assert!(text.len() <= REPORT_BYTES_MAX);
        let damaged = matches!(Report::read(text.as_bytes()).unwrap().volume, Found::Damaged { .. });
        prop_assert!(damaged);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Report::read(&bytes);
        let _ = GoAhead::read(&bytes);
    }

    #[test]
    fn a_spoilt_go_ahead_is_read_without_a_panic(at in 0usize..150, byte in any::<u8>()) {
        let mut bytes = go_ahead(How::Resume).to_annotation().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = GoAhead::read(&bytes);
    }
}
