//! What a step is done for, in words for logs: `stop etcd-2` alone leaves open whether it is restarted, replaced or goes.
//!
//! In: a step, what is wanted, and the memory that was stored with the step's plan. Out: the reason that these two know.
//! Never: a guess; where they know none there is none.

use crate::memory::{Disturbance, Memory};
use crate::model::{MemberId, Ordinal, Setup, Spec, Version};
use crate::plan::Step;
use crate::transitions::{slot_of, subject};

/// Why this step is done, if that is on record.
pub fn purpose(step: &Step, spec: &Spec, memory: &Memory) -> Option<String> {
    let ordinal = match step {
        Step::MoveLeader { from, .. } => slot_of(*from, memory),
        _ => subject(step, memory),
    }?;
    let why = Purpose {
        spec,
        memory,
        ordinal,
    };
    let wanted = spec.setup_of(ordinal);
    match step {
        Step::Start { version, config, .. } => why.disturbed(&setup(*version, config)),
        Step::Provide { version, config, .. } => why.changed(&setup(*version, config)),
        Step::AddLearner { .. } => Some(why.replicas()),
        Step::Stop { .. } if memory.disturbance.as_ref().is_some_and(|d| d.ordinal == ordinal) => {
            why.disturbed(&wanted)
        }
        Step::Stop { .. } | Step::MoveLeader { .. } | Step::Remove { .. } | Step::SetAside { .. }
            if !spec.wants(ordinal) =>
        {
            Some(why.not_wanted())
        }
        Step::Remove { member, .. } => Some(why.removed(*member)),
        Step::SetAside { .. } => Some(why.given_up()),
        Step::Stop { .. } => why.has_no_member().then(|| why.given_up()),
        Step::MoveLeader { .. } => why.changed(&wanted),
        // They say it themselves, or are left to be done by another step.
        Step::Promote { .. }
        | Step::Write { .. }
        | Step::Grow { .. }
        | Step::Resize { .. }
        | Step::DropAside { .. }
        | Step::Withdraw { .. }
        | Step::Discard { .. } => None,
    }
}

fn setup(version: Version, config: &str) -> Setup {
    let config = config.to_owned();
    Setup { version, config }
}

struct Purpose<'a> {
    spec: &'a Spec,
    memory: &'a Memory,
    ordinal: Ordinal,
}

impl Purpose<'_> {
    fn replicas(&self) -> String {
        format!("spec.replicas is {}", self.spec.replicas)
    }

    fn not_wanted(&self) -> String {
        format!("{}: it is not wanted any more", self.replicas())
    }

    fn given_up(&self) -> String {
        "its data was given up: a new member takes its place".to_owned()
    }

    fn has_no_member(&self) -> bool {
        self.memory.cluster.is_some() && self.memory.slot(self.ordinal).member.is_none()
    }

    fn removed(&self, member: MemberId) -> String {
        let learner = self.memory.learner.as_ref().is_some_and(|l| l.member == member);
        match learner {
            true => "it is withdrawn: it did not become a voter".to_owned(),
            false => "a new member takes its place".to_owned(),
        }
    }

    /// Why it is restarted on purpose.
    fn disturbed(&self, to: &Setup) -> Option<String> {
        let disturbance = self.memory.disturbance.as_ref();
        match disturbance.filter(|d| d.ordinal == self.ordinal)? {
            Disturbance { again: true, .. } => Some("it ran and did not serve".to_owned()),
            Disturbance { settle: true, .. } => Some(format!(
                "it takes a raft snapshot before it goes to etcd {}",
                self.spec.version
            )),
            _ => self.changed(to),
        }
    }

    /// What is different from what it last served with.
    fn changed(&self, to: &Setup) -> Option<String> {
        let rejected = self.memory.rejected.as_ref();
        if rejected.is_some_and(|r| r.member == self.ordinal && r.setup == self.spec.setup_of(r.member)) {
            return Some("it goes back to what it served with: the change did not serve".to_owned());
        }
        let slot = self.memory.slot(self.ordinal);
        let ran = slot.served_as.or(slot.started)?;
        if ran.version != to.version {
            return Some(format!("it goes from etcd {} to {}", ran.version, to.version));
        }
        (ran.config != to.config).then(|| "its settings have changed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::memory::{LearnerWatch, Rejected, Slot};
    use crate::model::{Basis, ClusterId, Generation, Time};
    use crate::plan::StartHow;

    const OLD: Version = Version::new(3, 5, 9);
    const NEW: Version = Version::new(3, 6, 1);

    fn spec(version: Version, config: &str) -> Spec {
        Spec {
            name: "c".to_owned(),
            replicas: 3,
            version,
            config: config.to_owned(),
            storage: None,
            paused: false,
            accept_rolled_back: None,
            frozen: None,
            manifest: None,
            fallback: None,
            own_configs: BTreeMap::new(),
            own_fallbacks: BTreeMap::new(),
        }
    }

    /// Four members that serve with etcd 3.5.9 and the settings `a`.
    fn memory() -> Memory {
        let slot = |n: u32| Slot {
            member: Some(MemberId(u64::from(n) + 10)),
            served_as: Some(setup(OLD, "a")),
            ..Slot::default()
        };
        Memory {
            cluster: Some(ClusterId(1)),
            slots: (0..4).map(|n| (Ordinal(n), slot(n))).collect(),
            ..Memory::default()
        }
    }

    fn disturbed(settle: bool, again: bool) -> Memory {
        let disturbance = Disturbance {
            ordinal: Ordinal(2),
            since: Time(0),
            settle,
            again,
        };
        Memory {
            disturbance: Some(disturbance),
            ..memory()
        }
    }

    #[test]
    fn a_step_is_done_for_what_is_wanted_and_on_record() {
        let stop = |n| Step::Stop {
            ordinal: Ordinal(n),
            since: Time(0),
        };
        let remove = |n| Step::Remove {
            member: MemberId(n),
            basis: Basis::of(&[]),
        };
        let lead = Step::MoveLeader {
            from: MemberId(12),
            to: MemberId(10),
        };
        let aside = |n| Step::SetAside {
            ordinal: Ordinal(n),
            generation: Generation(0),
        };
        let start = |version, config: &str| Step::Start {
            ordinal: Ordinal(2),
            generation: Generation(0),
            how: StartHow::Resume,
            version,
            config: config.to_owned(),
        };
        let (same, newer, other) = (spec(OLD, "a"), spec(NEW, "b"), spec(OLD, "b"));
        let mut replaced = memory();
        replaced.slots.insert(Ordinal(2), Slot::default());
        let rejected = Memory {
            rejected: Some(Rejected {
                setup: setup(OLD, "b"),
                member: Ordinal(2),
                why: "in words".to_owned(),
            }),
            ..disturbed(false, false)
        };
        let withdrawn = Memory {
            learner: Some(LearnerWatch {
                member: MemberId(12),
                applied: 0,
                progressed: Time(0),
            }),
            ..memory()
        };
        let surplus = Some("spec.replicas is 3: it is not wanted any more");
        let (version, lost) = (
            Some("it goes from etcd 3.5.9 to 3.6.1"),
            Some("a new member takes its place"),
        );
        for (step, spec, memory, expected) in [
            (stop(2), &newer, disturbed(false, false), version),
            (lead, &newer, memory(), version),
            (
                stop(2),
                &other,
                disturbed(false, false),
                Some("its settings have changed"),
            ),
            (
                stop(2),
                &same,
                disturbed(false, true),
                Some("it ran and did not serve"),
            ),
            (
                stop(2),
                &newer,
                disturbed(true, false),
                Some("it takes a raft snapshot before it goes to etcd 3.6.1"),
            ),
            (start(NEW, "b"), &newer, disturbed(false, false), version),
            (start(OLD, "a"), &newer, memory(), None),
            (
                stop(2),
                &other,
                rejected,
                Some("it goes back to what it served with: the change did not serve"),
            ),
            (
                stop(2),
                &same,
                replaced,
                Some("its data was given up: a new member takes its place"),
            ),
            (stop(3), &same, memory(), surplus),
            (aside(3), &same, memory(), surplus),
            (remove(13), &same, memory(), surplus),
            (remove(12), &same, memory(), lost),
            (
                remove(12),
                &same,
                withdrawn,
                Some("it is withdrawn: it did not become a voter"),
            ),
            (remove(99), &same, memory(), None),
            (stop(2), &same, memory(), None),
        ] {
            assert_eq!(purpose(&step, spec, &memory).as_deref(), expected, "{step}");
        }
    }
}
