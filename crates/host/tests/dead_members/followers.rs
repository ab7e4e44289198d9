//! A member of three is killed while the others go on: what is made of its directory is what they hold at that revision.

use std::path::Path;

use quorate_datadir::Source;

use super::etcd::{self, Etcd, Flags};
use super::workload::{Mode, Workload};
use super::{compare, for_seeds, make};

#[test]
fn what_is_made_of_a_dead_member_of_three_is_what_the_others_have() {
    let binaries = etcd::binaries();
    let entries: u64 = for_seeds(binaries.len() as u64, |seed| {
        let (version, binary) = &binaries[seed as usize % binaries.len()];
        one(version, binary, seed)
    })
    .iter()
    .sum();
    assert!(entries > 0, "some entries were only in a log");
}

/// Three members; the first one is asked.
struct Three(Vec<Etcd>);

impl AsRef<Etcd> for Three {
    fn as_ref(&self) -> &Etcd {
        &self.0[0]
    }
}

impl Three {
    fn start(binary: &Path, root: &Path) -> Three {
        let ports: Vec<(u16, u16)> = (0..3).map(|_| etcd::free_ports()).collect();
        let members = (0..)
            .zip(&ports)
            .map(|(number, (_, peer))| format!("m{number}=http://127.0.0.1:{peer}"));
        let members = members.collect::<Vec<_>>().join(",");
        let mut all: Vec<Etcd> = (0..)
            .zip(ports)
            .map(|(number, ports)| {
                let flags = Flags {
                    long_batches: true,
                    ports: Some(ports),
                    cluster: Some((format!("m{number}"), members.clone())),
                    ..Flags::default()
                };
                Etcd::spawn(binary, &root.join(format!("m{number}")), flags)
            })
            .collect();
        all.iter_mut().for_each(Etcd::await_serving);
        Three(all)
    }

    /// A follower that is not the one that is asked.
    fn follower(&self) -> usize {
        let leader = self.0[0].leader();
        (1..3).find(|number| self.0[*number].member() != leader).unwrap()
    }
}

fn one(version: &str, binary: &Path, seed: u64) -> (String, u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let root = tempfile::tempdir().unwrap();
    let mut three = Three::start(binary, root.path());
    // Without compactions: the others go on, and must still have the revision that the dead one had.
    let mut workload = Workload::new(Mode::Plain, false);
    let dead = three.follower();
    workload.amid_which(&mut three, &mut random, 50..400, |three| three.0[dead].kill());
    workload.run(three.as_ref(), &mut random, 10..30);

    let snapshot = root.path().join("made.db");
    let made = make(&root.path().join(format!("m{dead}/data")), &snapshot, binary);
    let ours = Source::open(&snapshot).unwrap();
    compare::hashes(three.as_ref(), &ours, made.revived.revision, &mut random);
    let theirs = root.path().join("real.db");
    three.as_ref().save(&theirs);
    let real = Source::open(&theirs).unwrap();
    assert_eq!(made.left_out.total(), 0, "{}", made.left_out);
    for bucket in ["members", "members_removed", "cluster"] {
        assert_eq!(
            compare::rows(&ours, bucket),
            compare::rows(&real, bucket),
            "rows of {bucket}"
        );
    }
    let by = made
        .by
        .as_ref()
        .map_or(String::new(), |by| format!(" by etcd {}", by.version));
    let line = format!(
        "{version:<7} of three, revision {}, {} entries ({} not known to be committed){by}: {}",
        made.revived.revision,
        made.revived.applied.total(),
        made.revived.beyond_commit,
        made.revived.applied
    );
    (line, made.revived.applied.total())
}
