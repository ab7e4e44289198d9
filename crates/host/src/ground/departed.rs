//! Members that left: nobody needs their certificates any more.
//!
//! In: the manifest in force, the journal, the processes, the volumes. Out: their names. Never: one that is wanted or
//! remembered as a member, that still runs, or whose data directory is still there.

use quorate_core::memory::{Mark, Slot};
use quorate_core::model::{MemberName, Ordinal};

use crate::ground::Ground;
use crate::run::Record;

impl Ground {
    /// The journal remembers the place of each of them for ever, for the next member there must not take old data for its own.
    pub(crate) fn departed(&self) -> Vec<MemberName> {
        let slots = self.journal.memory.slots.iter();
        let unused = slots.filter(|(ordinal, slot)| self.is_unused(**ordinal, slot));
        unused.map(|(ordinal, _)| self.name(*ordinal)).collect()
    }

    fn is_unused(&self, ordinal: Ordinal, slot: &Slot) -> bool {
        let name = self.name(ordinal);
        let wanted = ordinal.0 < self.cluster.replicas;
        let member = slot.mark != Mark::Never || slot.member.is_some();
        let runs = || match Record::read(&self.root.record(&name)) {
            Ok(None) => false,
            Ok(Some(record)) => record.lives().unwrap_or(true),
            Err(_) => true,
        };
        let has_data = || self.root.generations(&name).map_or(true, |all| !all.is_empty());
        !wanted && !member && self.runner.member(ordinal).is_none() && !runs() && !has_data()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use quorate_core::model::{Generation, MemberId, Time};

    use super::*;
    use crate::Root;
    use crate::etcd::find::Places;
    use crate::root::journal::Journal;
    use crate::run::Identity;

    /// The ground of a cluster of one that had more members once.
    fn ground(root: &Path) -> Ground {
        let root = Root::at(root).unwrap();
        root.prepare().unwrap();
        let text = quorate_api::default_manifest("c", 1, &semver::Version::new(3, 6, 1));
        let manifest = quorate_api::parse(&text, "").unwrap();
        let (cluster, _) = quorate_api::resolve(&manifest, quorate_api::Ground::Host, &text, "").unwrap();
        let left = Slot {
            generation: Generation(1),
            ..Slot::default()
        };
        let mut journal = Journal::new("c", true);
        journal.memory.slots = (0..4).map(|ordinal| (Ordinal(ordinal), left.clone())).collect();
        Ground::new(root, journal, cluster, "/nothing".into(), Places::default())
    }

    #[test]
    fn who_is_needed_or_still_there_has_not_departed() {
        let dir = tempfile::tempdir().unwrap();
        let mut ground = ground(dir.path());
        let names = |ground: &Ground| {
            ground
                .departed()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&ground), ["c-1", "c-2", "c-3"]);
        let [first, second, third] = [1, 2, 3].map(Ordinal);
        let slot = |ground: &mut Ground, change: fn(&mut Slot)| {
            change(ground.journal.memory.slots.get_mut(&first).unwrap());
        };
        slot(&mut ground, |slot| slot.mark = Mark::Intended);
        assert_eq!(names(&ground), ["c-2", "c-3"]);
        slot(&mut ground, |slot| {
            (slot.mark, slot.member) = (Mark::Never, Some(MemberId(7)))
        });
        assert_eq!(names(&ground), ["c-2", "c-3"]);
        slot(&mut ground, |slot| slot.member = None);
        ground.cluster.replicas = 2;
        assert_eq!(names(&ground), ["c-2", "c-3"]);

        let volume = ground.root.volume(&ground.name(second), Generation(0));
        std::fs::create_dir_all(&volume).unwrap();
        assert_eq!(names(&ground), ["c-3"]);
        std::fs::remove_dir(&volume).unwrap();

        let data_dir = ground.root.volume(&ground.name(third), Generation(0));
        let mut process = Command::new("cat")
            .args(["-", &data_dir.display().to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let record = Record {
            identity: Identity::of(process.id()).unwrap().unwrap(),
            since: Time(0),
            data_dir,
            generation: Generation(0),
            version: "3.6.1".parse().unwrap(),
            config: String::new(),
            trusted: None,
        };
        record.write(&ground.root.record(&ground.name(third))).unwrap();
        assert_eq!(names(&ground), ["c-2"]);
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(names(&ground), ["c-2", "c-3"]);
    }
}
