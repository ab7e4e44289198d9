//! What the launcher refuses, and what it notes before it lets go.

use quorate_core::model::{ClusterId, Generation, MemberId, Version};

use super::*;
use crate::contract::Started;
use crate::volume::judge::Identity;

struct Pod {
    dir: tempfile::TempDir,
}

impl Pod {
    /// A pod whose first start on generation 0 was let through.
    fn admitted() -> Pod {
        let pod = Pod {
            dir: tempfile::tempdir().unwrap(),
        };
        for path in [pod.shared(), pod.layout().own(), pod.launch(true).data_dir] {
            std::fs::create_dir_all(path).unwrap();
        }
        pod.record().write(&pod.layout()).unwrap();
        pod.launch(true).write(&pod.shared()).unwrap();
        pod
    }

    fn shared(&self) -> PathBuf {
        self.dir.path().join("shared")
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.dir.path().join("volume"))
    }

    fn record(&self) -> Record {
        let json = r#"{"format":1,"id":"00000000000000000000000000000001","generations":
            {"0":{"fired":false,"started":{"version":"3.6.1","config":"c"},"pod":"uid"}}}"#;
        serde_json::from_str(json).unwrap()
    }

    fn launch(&self, first: bool) -> Launch {
        let json = serde_json::json!({
            "format": 1, "volume": self.layout().root(), "volumeId": "00000000000000000000000000000001",
            "generation": 0, "dataDir": self.layout().data(Generation(0)), "pod": "uid",
            "started": {"version": "3.6.1", "config": "c"}, "first": first,
            "firstArguments": ["--initial-cluster-state=new"], "arguments": ["--initial-cluster-state=existing"],
        });
        serde_json::from_value(json).unwrap()
    }

    fn ready(&self, arguments: &[&str]) -> Result<Ready, Error> {
        let launching = Launching {
            shared: &self.shared(),
            program: "/bin/true".into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            patience: Duration::ZERO,
        };
        launching.ready(|_| {})
    }
}

fn refused(result: Result<Ready, Error>, part: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
    assert!(error.to_string().contains(part), "{part:?} is not in {error}");
}

#[test]
fn a_first_start_is_noted_before_it_happens_and_happens_once() {
    let pod = Pod::admitted();
    let ready = pod.ready(&["--name=c-0"]).unwrap();
    let data_dir = format!("--data-dir={}", pod.launch(true).data_dir.display());
    assert_eq!(
        ready.arguments,
        ["--name=c-0", "--initial-cluster-state=new", &data_dir]
    );
    let busy = pod.ready(&[]).unwrap_err();
    assert_eq!(busy.exit_code(), 1);
    assert!(busy.to_string().contains("still in use"), "{busy}");
    drop(ready);
    let Known::Record(record) = Record::read(&pod.layout()).unwrap() else {
        panic!("a record")
    };
    assert!(record.entry(Generation(0)).fired);
    refused(pod.ready(&[]), "its data has gone");
    // The mark in the pod alone is enough, and so is the one on the volume.
    pod.record().write(&pod.layout()).unwrap();
    refused(pod.ready(&[]), "its data has gone");
    record.write(&pod.layout()).unwrap();
    std::fs::remove_file(pod.shared().join(EXECUTED)).unwrap();
    refused(pod.ready(&[]), "its data has gone");
}

#[test]
fn only_what_was_let_through_last_is_launched() {
    let pod = Pod::admitted();
    let mut record = pod.record();
    record.entry_mut(Generation(0)).pod = Some("another".to_owned());
    record.write(&pod.layout()).unwrap();
    refused(pod.ready(&[]), "given to another pod");
    let mut record = pod.record();
    record.entry_mut(Generation(0)).started = Some(Started {
        version: Version::new(3, 7, 0),
        config: "c".to_owned(),
    });
    record.write(&pod.layout()).unwrap();
    refused(pod.ready(&[]), "with something else since");
    let mut record = pod.record();
    record.entry_mut(Generation(1)).fired = true;
    record.write(&pod.layout()).unwrap();
    refused(pod.ready(&[]), "with something else since");
    let mut other = pod.record();
    other.id = "00000000000000000000000000000002".to_owned();
    other.write(&pod.layout()).unwrap();
    refused(pod.ready(&[]), "wiped or exchanged");
    std::fs::remove_dir_all(pod.layout().root()).unwrap();
    std::fs::create_dir(pod.layout().root()).unwrap();
    refused(pod.ready(&[]), "wiped or exchanged");
    assert!(!pod.shared().join(EXECUTED).exists());
}

#[test]
fn without_the_gate_nothing_is_launched() {
    let pod = Pod::admitted();
    std::fs::remove_file(pod.shared().join(crate::handover::LAUNCH)).unwrap();
    let error = pod.ready(&[]).unwrap_err();
    assert!(
        error.chain().contains("has let nothing through"),
        "{}",
        error.chain()
    );
}

#[test]
fn who_etcd_is_is_not_for_the_command_line_to_say() {
    let pod = Pod::admitted();
    for argument in [
        "--force-new-cluster",
        "-data-dir=/tmp",
        "--initial-cluster=a=b",
        "--wal-dir",
        "--discovery=x",
    ] {
        refused(pod.ready(&[argument]), argument);
    }
    assert!(!is_decided_here(OsStr::new("--initial-advertise-peer-urls=x")));
    assert!(!is_decided_here(OsStr::new("data-dir")));
}

#[test]
fn data_is_gone_on_from_only_if_it_is_the_same() {
    let pod = Pod::admitted();
    let member = |id| {
        Data::Member(Identity {
            member: MemberId(id),
            cluster: ClusterId(7),
            minor: None,
            last_index: None,
        })
    };
    let mut record = pod.record();
    let first = pod.launch(true);
    assert!(
        check(&first, &record, &member(1), false)
            .unwrap_err()
            .contains("first start over")
    );
    record.entry_mut(Generation(0)).fired = true;
    assert_eq!(check(&first, &record, &member(1), true), Ok(LaunchMode::Resume));
    assert_eq!(
        check(&first, &record, &Data::Blank, true),
        Ok(LaunchMode::FirstStart)
    );
    let resume = pod.launch(false);
    assert!(
        check(&resume, &record, &Data::Blank, true)
            .unwrap_err()
            .contains("blank")
    );
    remember(&pod.layout(), &first, &mut record, &member(1));
    assert!(
        check(&first, &record, &Data::Blank, true)
            .unwrap_err()
            .contains("blank")
    );
    assert_eq!(check(&first, &record, &member(1), true), Ok(LaunchMode::Resume));
    assert!(
        check(&first, &record, &member(2), true)
            .unwrap_err()
            .contains("exchanged")
    );
    let mut resume = pod.launch(false);
    resume.member = Some(MemberId(2));
    assert_eq!(check(&resume, &record, &member(2), false), Ok(LaunchMode::Resume));
    assert!(
        check(&resume, &record, &member(1), false)
            .unwrap_err()
            .contains("exchanged")
    );
    assert!(
        check(&resume, &pod.record(), &Data::Nothing, false)
            .unwrap_err()
            .contains("has gone")
    );
    let damaged = Data::Damaged {
        why: "torn".to_owned(),
    };
    assert!(
        check(&resume, &record, &damaged, false)
            .unwrap_err()
            .contains("torn")
    );
}

#[test]
fn a_volume_that_takes_no_mark_is_not_started_on_and_can_be_tried_again() {
    let pod = Pod::admitted();
    // In the way of the temporary file, as a full disk would be.
    let in_the_way = pod.layout().own().join("volume.json.tmp");
    std::fs::create_dir(&in_the_way).unwrap();
    let error = pod.ready(&[]).unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
    std::fs::remove_dir(&in_the_way).unwrap();
    pod.ready(&[]).unwrap();
}
