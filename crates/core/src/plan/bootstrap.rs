//! The first start of a cluster, decided once and latched: who is in it, under which token.
//!
//! Never: a second time. A volume that was started belongs to that bootstrap for ever; if too few of its volumes are
//! left to make a quorum, a person decides, not the planner.

use super::pass::Pass;
use super::{BlockReason, StartHow, WaitReason};
use crate::memory::{Bootstrap, Mark};
use crate::model::{MemberName, Ordinal, PeerUrl, Process, Version, VersionPath, Volume, quorum};

impl Pass<'_> {
    /// Begins: latches the first members and starts them all at once.
    pub fn bootstrap(&mut self) {
        let ordinals: Vec<Ordinal> = (0..self.spec.replicas).map(Ordinal).collect();
        let version = self.spec.version;
        if self.guards.version(version, version) == VersionPath::Unknown || version.corrupts() {
            let detail = format!("etcd {version} is not one that quorate starts a cluster with");
            return self.block(BlockReason::VersionPath, None, detail);
        }
        let ready = ordinals.iter().map(|o| self.ready_to_begin(*o));
        // All places are made at once; none is started before every one is there and empty.
        let ready: Vec<Option<PeerUrl>> = ready.collect();
        let Some(urls) = ready.into_iter().collect::<Option<Vec<PeerUrl>>>() else {
            return;
        };
        let members = ordinals.iter().copied().zip(urls).collect();
        let token = self.observed.fresh_token.clone();
        self.memory.bootstrap = Some(Bootstrap { token, members });
        for ordinal in ordinals {
            self.slot_mut(ordinal).mark = Mark::Never;
            self.start(ordinal, self.as_first_member());
        }
    }

    /// A slot takes part only if nothing is there. Otherwise says what is in the way.
    fn ready_to_begin(&mut self, ordinal: Ordinal) -> Option<PeerUrl> {
        let name = self.spec.member_name(ordinal);
        let Some(view) = self.view(ordinal) else {
            self.wait(
                WaitReason::Forming,
                Some(ordinal),
                format!("{name} has not been looked at yet"),
            );
            return None;
        };
        // What keeps a former process from starting says nothing of one that is started as something else.
        let setup = self.spec.setup_of(ordinal);
        let other = view.made_for.as_ref().is_some_and(|made_for| *made_for != setup);
        if let Some(why) = view.cannot_start.as_ref().filter(|_| !other) {
            self.block(
                BlockReason::CannotStart,
                Some(ordinal),
                format!("{name} cannot be started: {why}"),
            );
            return None;
        }
        // A place is not taken away from a process.
        match view.process {
            Process::Running { .. } => {
                let left = "a process of a cluster that is not on record runs in";
                return self.leave_to_people(ordinal, left, "end it, and move its data away");
            }
            Process::Stopping => {
                self.wait(
                    WaitReason::MemberStopping,
                    Some(ordinal),
                    format!("{name} is stopping"),
                );
                return None;
            }
            Process::Stopped { .. } => {}
        }
        if !self.placed(ordinal, &setup) {
            return None;
        }
        if view.volume == Volume::Unknown {
            self.wait(
                WaitReason::Forming,
                Some(ordinal),
                format!("the volume of {name} cannot be looked at yet"),
            );
            return None;
        }
        if view.volume != Volume::Empty || !view.leftovers.is_empty() {
            let left = "data of a cluster that is not on record lies in";
            return self.leave_to_people(ordinal, left, "move it away");
        }
        Some(view.peer_url.clone())
    }

    fn leave_to_people(&mut self, ordinal: Ordinal, left: &str, do_so: &str) -> Option<PeerUrl> {
        let name = self.spec.member_name(ordinal);
        let detail = format!(
            "{left} the place of {name}; it is left as it is: {do_so}, or bring back what remembers that cluster"
        );
        self.block(BlockReason::ForeignData, Some(ordinal), detail);
        None
    }

    fn as_first_member(&self) -> StartHow {
        let Some(bootstrap) = &self.memory.bootstrap else {
            return StartHow::Resume;
        };
        let initial = bootstrap
            .members
            .iter()
            .map(|(o, url)| (self.spec.member_name(*o), url.clone()));
        StartHow::New {
            token: bootstrap.token.clone(),
            initial: initial.collect::<Vec<(MemberName, PeerUrl)>>(),
        }
    }

    /// Goes on while the cluster has never answered: first members that provably never ran may still start.
    pub fn form(&mut self) {
        let Some(bootstrap) = self.memory.bootstrap.clone() else {
            return;
        };
        let mut sound = 0;
        for &ordinal in bootstrap.members.keys() {
            let fresh = self.fresh(ordinal);
            let Some(view) = self.view(ordinal) else { continue };
            let data = matches!(view.volume, Volume::Data { .. } | Volume::Unknown);
            if fresh && self.stopped(ordinal) {
                self.start(ordinal, self.as_first_member());
            }
            if fresh || data {
                sound += 1;
            }
        }
        let (all, needed) = (bootstrap.members.len(), quorum(bootstrap.members.len()));
        if sound < needed {
            let detail = format!(
                "the cluster was started but never seen to serve, and only {sound} of its {all} volumes are left; \
                 {needed} are needed. It may have served: no new cluster is started over it"
            );
            self.block(BlockReason::QuorumLost, None, detail);
        } else {
            let wanted: Version = self.spec.version;
            self.wait(
                WaitReason::Forming,
                None,
                format!("{all} members of etcd {wanted} are forming the cluster"),
            );
        }
    }
}
