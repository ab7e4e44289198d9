//! What is reported of volumes in every state that needs no etcd to make.

use proptest::prelude::*;
use quorate_core::model::FirstStart;

use super::*;

struct Volume {
    dir: tempfile::TempDir,
}

impl Volume {
    fn new() -> Volume {
        Volume {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    fn look(&self, generation: u32) -> Report {
        let looking = LookOptions {
            volume: self.dir.path(),
            generation: Generation(generation),
            foretell: true,
            patience: Duration::ZERO,
        };
        look(looking, |_| {})
    }

    fn fill(&self, path: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "nonsense").unwrap();
    }
}

#[test]
fn a_new_volume_gets_an_id_and_keeps_it() {
    let volume = Volume::new();
    let first = volume.look(0);
    assert!(first.fresh_id && !first.fired && first.volume == Found::Empty);
    assert_eq!(first.started, None);
    assert_eq!(first.first_start(Some(&first.volume_id)), FirstStart::NotRun);
    let again = volume.look(0);
    assert_eq!(
        again,
        Report {
            fresh_id: false,
            ..first.clone()
        }
    );
    std::fs::remove_dir_all(volume.layout().own()).unwrap();
    let wiped = volume.look(0);
    assert!(wiped.fresh_id && wiped.volume_id != first.volume_id);
    assert_eq!(wiped.first_start(Some(&first.volume_id)), FirstStart::Unknown);
}

#[test]
fn the_newest_generation_is_reported_whichever_is_looked_at() {
    let volume = Volume::new();
    assert_eq!(volume.look(0).newest, None);
    let Known::Record(mut record) = Record::read(&volume.layout()).unwrap() else {
        panic!("there is a record")
    };
    record.entry_mut(Generation(2)).fired = true;
    record.write(&volume.layout()).unwrap();
    for (looked_at, gone_on_to) in [(0, Some(Generation(2))), (2, None)] {
        let report = volume.look(looked_at);
        assert_eq!(report.newest, Some(Generation(2)));
        assert_eq!(report.gone_on_to(), gone_on_to);
        assert_eq!(Report::read(report.to_message().as_bytes()).unwrap(), report);
    }
    // The record was taken away, and the data not.
    volume.fill("g3/member/snap/db");
    std::fs::remove_dir_all(volume.layout().own()).unwrap();
    let report = volume.look(0);
    assert_eq!(
        (report.belongs_to.as_ref(), report.newest),
        (None, Some(Generation(3)))
    );
}

#[test]
fn what_is_left_without_a_log_is_nothing_only_where_nothing_ran() {
    let volume = Volume::new();
    volume.look(0);
    volume.fill("g0/member/snap/db");
    assert_eq!(volume.look(0).volume, Found::Empty);
    let Known::Record(mut record) = Record::read(&volume.layout()).unwrap() else {
        panic!("there is a record")
    };
    record.entry_mut(Generation(0)).fired = true;
    record.write(&volume.layout()).unwrap();
    let Found::Damaged { why } = volume.look(0).volume else {
        panic!("damaged")
    };
    assert!(why.contains("member/snap/db"), "{why}");
}

#[test]
fn damage_marks_the_generation_so_that_a_wipe_leaves_no_never_ran() {
    let volume = Volume::new();
    volume.look(1);
    volume.fill("g1/member/wal/0000000000000000-0000000000000000.wal");
    let damaged = volume.look(1);
    assert!(matches!(damaged.volume, Found::Damaged { .. }) && damaged.fired);
    std::fs::remove_dir_all(volume.layout().data(Generation(1))).unwrap();
    let wiped = volume.look(1);
    assert!(wiped.volume == Found::Empty && wiped.fired);
    assert_eq!(wiped.first_start(Some(&wiped.volume_id)), FirstStart::Unknown);
    assert!(!volume.look(2).fired, "another generation is another matter");
}

#[test]
fn data_of_the_older_operator_is_adopted_once_and_counts_as_run() {
    let volume = Volume::new();
    volume.fill("member/snap/db");
    // What a crash between the two steps of the move leaves.
    std::fs::create_dir(volume.layout().data(Generation(0))).unwrap();
    let adopted = volume.look(0);
    assert!(adopted.fired && matches!(adopted.volume, Found::Damaged { .. }));
    assert!(!volume.layout().older().exists());
    assert!(
        volume
            .layout()
            .data(Generation(0))
            .join("member/snap/db")
            .exists()
    );
    volume.fill("member/snap/db");
    volume.look(0);
    assert!(volume.layout().older().exists(), "nothing is ever replaced");
}

#[test]
fn a_volume_in_use_is_unknown_and_keeps_its_id() {
    let volume = Volume::new();
    let id = volume.look(0).volume_id;
    let Held::Ours(_hold) = Hold::attempt(&volume.layout(), Generation(0)).unwrap() else {
        panic!("held")
    };
    let report = volume.look(0);
    assert_eq!(report.volume_id, id);
    assert!(matches!(&report.volume, Found::Unknown { why } if why.contains("still in use")));
    assert_eq!(report.first_start(Some(&id)), FirstStart::Unknown);
}

#[test]
fn what_cannot_be_looked_at_is_unknown_with_the_reason() {
    let looking = LookOptions {
        volume: Path::new("/proc"),
        generation: Generation(0),
        foretell: false,
        patience: Duration::ZERO,
    };
    for place in ["/proc", "/proc/version", "/nowhere"] {
        let report = look(
            LookOptions {
                volume: Path::new(place),
                ..looking
            },
            |_| {},
        );
        let Found::Unknown { why } = &report.volume else {
            panic!("{report:?}")
        };
        assert!(why.contains("cannot create") && why.contains(place), "{why}");
        assert!(report.fired && report.volume_id.is_empty());
    }
}

#[test]
fn a_newer_record_is_left_as_it_is() {
    let volume = Volume::new();
    volume.look(0);
    let newer = "{\"format\":9,\"id\":\"other\"}";
    std::fs::write(volume.layout().record(), newer).unwrap();
    let report = volume.look(0);
    assert!(matches!(&report.volume, Found::Unknown { why } if why.contains("format 9")));
    assert!(report.fired && report.volume_id.is_empty());
    assert_eq!(std::fs::read_to_string(volume.layout().record()).unwrap(), newer);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn an_unreadable_record_counts_as_wiped_never_as_not_fired(
        bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..100, spoil in any::<bool>(),
    ) {
        let volume = Volume::new();
        let id = volume.look(0).volume_id;
        std::fs::create_dir(volume.layout().data(Generation(0))).unwrap();
        let mut content = std::fs::read(volume.layout().record()).unwrap();
        content.truncate(cut % content.len());
        std::fs::write(volume.layout().record(), if spoil { bytes } else { content }).unwrap();
        let report = volume.look(0);
        prop_assert!(report.fresh_id && report.fired && report.volume_id != id);
        prop_assert_eq!(report.first_start(Some(&id)), FirstStart::Unknown);
        prop_assert_eq!(report.first_start(Some(&report.volume_id)), FirstStart::Unknown);
    }
}
