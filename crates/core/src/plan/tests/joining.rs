//! As what a new member is started.

use super::changing::{bad, pass, runs, served, want};
use super::fixture::*;
use crate::model::*;

fn learner(n: u32) -> Listed {
    Listed {
        id: id(n),
        name: String::new(),
        peer_urls: vec![url(n)],
        learner: true,
    }
}

/// It becomes a voter sooner, and the change is tried on a member that is known to be well.
#[test]
fn a_learner_comes_with_the_settings_that_served() {
    let mut f = served(3);
    want(&mut f, V, "bad");
    f.spec.replicas = 4;
    f.observed.slots.insert(o(3), Fixture::vacant(3));
    assert_eq!(f.steps(), ["add member 3 (https://127.0.0.1:2386) as a learner"]);
    f.observed.quorum.as_mut().unwrap().members.push(learner(3));
    pass(&mut f, bad);
    assert_eq!(runs(&mut f, 3), Some((V, "c".to_owned())));
}

/// Where the only member has settings of its own, nobody has served with those of all, although they are remembered with its
/// first start: a new member comes with what is wanted by now.
#[test]
fn a_learner_does_not_come_with_settings_that_nobody_served_with() {
    let mut f = served(1);
    let good = f.memory.good.as_mut().unwrap();
    (good.setup.config, good.unproven) = ("bad".to_owned(), true);
    f.spec.own_configs = [(o(0), "c".to_owned())].into();
    want(&mut f, V, "else");
    f.spec.replicas = 2;
    f.observed.slots.insert(o(1), Fixture::vacant(1));
    assert_eq!(f.steps(), ["add member 1 (https://127.0.0.1:2382) as a learner"]);
    f.observed.quorum.as_mut().unwrap().members.push(learner(1));
    pass(&mut f, bad);
    assert_eq!(runs(&mut f, 1), Some((V, "else".to_owned())));
}

/// All voters serve with a later patch than what is remembered as good: that has to serve with the common settings, too.
#[test]
fn a_learner_comes_with_no_older_patch_than_all_serve_with() {
    let mut f = served(3);
    let later = Version {
        patch: V.patch + 1,
        ..V
    };
    f.spec.version = later;
    for n in 0..3 {
        let runs = setup(later);
        // Not yet for long enough to be known to serve so for good.
        f.memory.slots.get_mut(&o(n)).unwrap().served = Some(later);
        if let Process::Running { version, .. } = &mut f.view(n).process {
            *version = later;
        }
        f.spec.own_configs.insert(o(n), runs.config);
    }
    want(&mut f, later, "else");
    f.spec.replicas = 4;
    f.observed.slots.insert(o(3), Fixture::vacant(3));
    f.view(3).place = Place::Absent;
    assert_eq!(
        f.steps(),
        [format!("make a place for member 3 (g0), etcd {later}")]
    );
}
