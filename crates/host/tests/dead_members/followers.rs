//! A member of three is killed while the others go on: what is made of its directory is what they hold at that revision.

use std::path::Path;

use quorate_datadir::Source;
use quorate_testkit::{ClusterSlot, Start, newest_of_each_minor};

use super::member::{Member, long_batches};
use super::workload::{Mode, Workload};
use super::{compare, for_seeds, make};

#[test]
fn what_is_made_of_a_dead_member_of_three_is_what_the_others_have() {
    let versions = newest_of_each_minor();
    let entries: u64 = for_seeds(versions.len() as u64, |seed| {
        one(&versions[seed as usize % versions.len()], seed)
    })
    .iter()
    .sum();
    assert!(entries > 0, "some entries were only in a log");
}

/// Three members; the first one is asked.
struct Three(Vec<Member>);

impl AsRef<Member> for Three {
    fn as_ref(&self) -> &Member {
        &self.0[0]
    }
}

impl Three {
    fn start(version: &str, root: &Path) -> Three {
        let starts = Start::cluster(version, root, 3).into_iter().map(long_batches);
        let mut all: Vec<Member> = starts.map(|start| Member::spawn(&start)).collect();
        all.iter_mut().for_each(Member::await_serving);
        Three(all)
    }

    /// A follower that is not the one that is asked.
    fn follower(&self) -> usize {
        let (_, leader) = self.0[0].id_and_leader();
        let follows = |number: &usize| self.0[*number].id_and_leader().0 != leader;
        (1..3).find(follows).unwrap()
    }
}

fn one(version: &str, seed: u64) -> (String, u64) {
    let _slot = ClusterSlot::acquire();
    let mut random = fastrand::Rng::with_seed(seed);
    let root = tempfile::tempdir().unwrap();
    let mut three = Three::start(version, root.path());
    // Without compactions: the others go on, and must still have the revision that the dead one had.
    let mut workload = Workload::new(Mode::Plain, false);
    let dead = three.follower();
    workload.amid_which(&mut three, &mut random, 50..400, |three| three.0[dead].kill());
    workload.run(three.as_ref(), &mut random, 10..30);

    let snapshot = root.path().join("made.db");
    let made = make(three.0[dead].data_dir(), &snapshot, &three.0[dead].binary());
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
