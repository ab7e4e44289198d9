//! The guards a plan must pass before it disturbs anything. Each says what broke without it; each can be switched
//! off, only so that the simulator can show that it is needed.

use std::time::Duration;

use crate::model::{Observed, Time, Version, VersionPath, quorum};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// A first start (`new`, or joining) only on a volume that provably never ran. Without it a member wiped while
    /// the cluster forms starts a second time as if nothing had happened: it votes twice, or forms a second cluster.
    FreshVolume,
    /// A member whose data is gone is removed and comes back under a new id. Without it, it comes back under the old
    /// one, having forgotten what it acknowledged: an acknowledged write can vanish.
    NewIdForWiped,
    /// A volume that was put back to an earlier state, or is of another epoch, does not start. Without it a member
    /// forgets what it acknowledged, and votes twice in one term.
    PresentVolume,
    /// No voter is removed unless the healthy voters that remain are a quorum of what remains. Without it a removal
    /// while another member is down ends in a cluster that cannot elect a leader.
    QuorumAfterRemoval,
    /// A member is stopped on purpose only if the others are a healthy quorum without it. Without it a planned
    /// restart meets a crashed member and writes stop.
    QuorumWhileDisturbed,
    /// One member at a time is disturbed on purpose. Without it a version change stops them all.
    OneDisturbed,
    /// Nothing is disturbed on a view that is not of this pass. Without it a member is stopped because another
    /// was healthy a while ago.
    FreshView,
    /// Versions move along the paths that etcd supports. Without it a member meets data it cannot read.
    VersionStep,
    /// A member that ends is started as the cluster last served, until it is its turn to change. Without it settings that
    /// no member serves with reach each one that ends meanwhile.
    ServedSettings,
    /// A member whose volume goes when it stops is replaced first. Without it a planned restart deletes its data.
    LeavingVolume,
    /// Storage is deleted only of a slot that no member is in, that holds nothing of one, and while every voter serves.
    /// Without it the data of a member goes that is down while it is to go, or whose volume was exchanged for another's.
    NeededStorage,
    /// A volume starts for the member that it belongs to. Without it the copy of a member's volume runs beside the member,
    /// under one id. The gate in a pod keeps to it, whoever is there to ask.
    OwnVolume,
}

impl Guard {
    pub const ALL: [Guard; 12] = [
        Guard::FreshVolume,
        Guard::NewIdForWiped,
        Guard::PresentVolume,
        Guard::QuorumAfterRemoval,
        Guard::QuorumWhileDisturbed,
        Guard::OneDisturbed,
        Guard::FreshView,
        Guard::VersionStep,
        Guard::ServedSettings,
        Guard::LeavingVolume,
        Guard::NeededStorage,
        Guard::OwnVolume,
    ];
}

/// Which guards are on. In production: all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards(u32);

impl Guards {
    pub fn all() -> Self {
        Self(u32::MAX)
    }

    /// Every guard on but one. For the simulator only.
    pub fn without(guard: Guard) -> Self {
        Self(!(1 << guard as u32))
    }

    pub fn on(self, guard: Guard) -> bool {
        self.0 & (1 << guard as u32) != 0
    }

    /// May a voter be removed? `voters` and `healthy` count the others, without the one to go.
    pub fn removal(self, others: Counted) -> bool {
        !self.on(Guard::QuorumAfterRemoval) || others.healthy >= quorum(others.voters)
    }

    /// May a voter be stopped on purpose? It stays in the list, so the quorum is that of all voters. One or two
    /// voters cannot do without any: there a planned stop costs a short outage, and asks that all are well.
    pub fn disturbance(self, others: Counted) -> bool {
        if !self.on(Guard::QuorumWhileDisturbed) {
            return true;
        }
        let voters = others.voters + 1;
        if voters <= 2 {
            others.healthy == others.voters
        } else {
            others.healthy >= quorum(voters)
        }
    }

    /// May a voter be stopped that seems to be stuck? Only if the others are a quorum of all. If one or two voters serve,
    /// all of them take part, so none is stuck.
    pub fn restart(self, others: Counted) -> bool {
        !self.on(Guard::QuorumWhileDisturbed) || others.healthy >= quorum(others.voters + 1)
    }

    /// Is the view young enough to disturb something by it? One from the future was seen before the clock was set back.
    pub fn view(self, observed: &Observed, now: Time) -> bool {
        !self.on(Guard::FreshView) || (observed.at <= now && now - observed.at <= VIEW_AGE_MAX)
    }

    /// May data last served by `from` be started as `to`?
    pub fn version(self, from: Version, to: Version) -> VersionPath {
        if self.on(Guard::VersionStep) {
            from.path_to(to)
        } else {
            VersionPath::Allowed
        }
    }
}

/// A view older than this says nothing about now.
pub const VIEW_AGE_MAX: Duration = Duration::from_secs(5);

/// The voters other than the one in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub voters: usize,
    pub healthy: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_leaves_a_healthy_quorum_of_the_rest() {
        let all = Guards::all();
        let table = [
            (2, 2, true),
            (2, 1, false),
            (1, 1, true),
            (1, 0, false),
            (4, 3, true),
            (4, 2, false),
            (0, 0, false),
        ];
        for (voters, healthy, expected) in table {
            assert_eq!(
                all.removal(Counted { voters, healthy }),
                expected,
                "{healthy} of {voters} others healthy"
            );
        }
    }

    #[test]
    fn a_disturbance_leaves_a_healthy_quorum_of_all() {
        let all = Guards::all();
        let table = [
            (2, 2, true),
            (2, 1, false),
            (4, 3, true),
            (4, 2, false),
            (1, 1, true),
            (1, 0, false),
            (0, 0, true),
        ];
        for (voters, healthy, expected) in table {
            assert_eq!(
                all.disturbance(Counted { voters, healthy }),
                expected,
                "{healthy} of {voters} others healthy"
            );
        }
    }

    #[test]
    fn one_guard_off_leaves_the_others_on() {
        for off in Guard::ALL {
            for guard in Guard::ALL {
                assert_eq!(Guards::without(off).on(guard), guard != off);
            }
        }
    }
}
