//! A small world to plan on: a healthy cluster, bent by the test that uses it.

use std::time::Duration;

use crate::check::check;
use crate::memory::{Bootstrap, Mark, Memory};
use crate::model::*;
use crate::plan::{Plan, Step, WriteBefore, plan};

pub const CLUSTER: ClusterId = ClusterId(0xc1);
pub const V: Version = Version::new(3, 6, 1);

pub fn o(n: u32) -> Ordinal {
    Ordinal(n)
}

/// The id that member `n` has in a fixture.
pub fn id(n: u32) -> MemberId {
    MemberId(0xa0 + u64::from(n))
}

pub fn url(n: u32) -> PeerUrl {
    PeerUrl(format!("https://127.0.0.1:{}", 2380 + 2 * n))
}

/// That version, with the settings of a fixture.
pub fn setup(version: Version) -> Setup {
    Setup {
        version,
        config: "c".into(),
    }
}

#[derive(Clone)]
pub struct Fixture {
    pub spec: Spec,
    pub observed: Observed,
    pub memory: Memory,
    pub now: Time,
    /// What the digest of settings that served before has besides by now.
    pub trust: &'static str,
}

impl Fixture {
    /// Nothing yet: `replicas` empty places.
    pub fn empty(replicas: u32) -> Self {
        let spec = Spec {
            name: "t".into(),
            replicas,
            version: V,
            config: "c".into(),
            paused: false,
            frozen: None,
            accept_rolled_back: None,
            storage: None,
            manifest: None,
            fallback: None,
            own_configs: Default::default(),
            own_fallbacks: Default::default(),
        };
        let observed = Observed {
            login_refused: None,
            unasked: false,
            at: Time(100_000),
            fresh_token: Token("tok".into()),
            slots: (0..replicas).map(|n| (o(n), Self::vacant(n))).collect(),
            quorum: None,
            last: None,
            lost_ca: Default::default(),
        };
        Self {
            spec,
            observed,
            memory: Memory::default(),
            now: Time(100_000),
            trust: "",
        }
    }

    /// `replicas` healthy members, the first of them leading, everything as wanted.
    pub fn healthy(replicas: u32) -> Self {
        let mut f = Self::empty(replicas);
        let members = (0..replicas).map(|n| (o(n), url(n))).collect();
        f.memory.bootstrap = Some(Bootstrap {
            token: Token("old".into()),
            members,
        });
        f.memory.cluster = Some(CLUSTER);
        f.observed.quorum = Some(QuorumView {
            cluster: CLUSTER,
            members: vec![],
            leader: Some(id(0)),
        });
        for n in 0..replicas {
            f.join(n, false);
        }
        // The memory of a cluster that was looked at before.
        let (_, memory) = plan(&f.spec, &f.observed, &f.memory, f.now);
        f.memory = memory;
        f.memory.list = f.memory.list.map(|(basis, _)| (basis, Time(0)));
        f
    }

    pub fn vacant(n: u32) -> SlotView {
        SlotView {
            peer_url: url(n),
            volume: Volume::Empty,
            marks: None,
            durable: None,
            first_start: FirstStart::Unknown,
            leftovers: vec![],
            place: Place::Ready,
            made_for: None,
            storage: None,
            asides: 0,
            resize: Resize::No,
            no_room_aside: None,
            process: Process::Stopped { last: None },
            status: None,
            deletion_pending: false,
            in_service: true,
            cannot_start: None,
            ran: None,
            replay_limit: None,
            located: None,
        }
    }

    /// Member `n` is in the list no more, as etcd answered.
    pub fn leave(&mut self, n: u32) {
        self.observed.last = Some(Outcome {
            step: StepKind::Remove,
            result: StepResult::Done,
            at: self.now,
        });
        self.observed
            .quorum
            .as_mut()
            .unwrap()
            .members
            .retain(|m| m.id != id(n));
    }

    /// Member `n` is in the list, runs and is healthy.
    pub fn join(&mut self, n: u32, learner: bool) {
        let member = id(n);
        let listed = Listed {
            id: member,
            name: format!("t-{n}"),
            peer_urls: vec![url(n)],
            learner,
        };
        self.observed.quorum.as_mut().unwrap().members.push(listed);
        let slot = self.memory.slots.entry(o(n)).or_default();
        slot.member = Some(member);
        slot.mark = Mark::Started;
        slot.version = Some(V);
        slot.served = Some(V);
        let generation = slot.generation;
        let view = self.observed.slots.entry(o(n)).or_insert_with(|| Self::vacant(n));
        view.volume = Volume::Data {
            member,
            cluster: CLUSTER,
        };
        view.process = Process::Running {
            since: Time(0),
            version: V,
            config: "c".into(),
            generation,
        };
        view.status = Some(MemberStatus {
            member,
            cluster: CLUSTER,
            leader: Some(id(0)),
            term: 2,
            applied: 1000,
            version: V,
            db_size: 0,
            db_in_use: 0,
            alarms: Default::default(),
            healthy: true,
        });
    }

    pub fn view(&mut self, n: u32) -> &mut SlotView {
        self.observed.slots.get_mut(&o(n)).unwrap()
    }

    /// Member `n` is down, its data intact.
    pub fn kill(&mut self, n: u32) -> &mut Self {
        let at = self.now;
        let view = self.view(n);
        view.process = Process::Stopped {
            last: Some(Exit {
                at,
                asked: false,
                how: "killed".into(),
            }),
        };
        view.status = None;
        self
    }

    /// Member `n` is down and its volume empty.
    pub fn wipe(&mut self, n: u32) -> &mut Self {
        self.kill(n);
        self.view(n).volume = Volume::Empty;
        self
    }

    pub fn silence(&mut self) -> &mut Self {
        self.observed.quorum = None;
        for view in self.observed.slots.values_mut() {
            if let Some(status) = &mut view.status {
                status.healthy = false;
            }
        }
        self
    }

    pub fn later(&mut self, d: Duration) -> &mut Self {
        self.now = self.now + d;
        self.observed.at = self.now;
        self
    }

    /// Plans, has it checked, and remembers.
    pub fn plan(&mut self) -> Plan {
        let served = self.memory.served_with(self.spec.manifest.as_deref()).is_some();
        let good = self.memory.good.as_ref().filter(|_| served);
        self.spec.fallback = good.map(|good| format!("{}{}", good.setup.config, self.trust));
        let (made, memory) = plan(&self.spec, &self.observed, &self.memory, self.now);
        let refused = check(&self.spec, &self.observed, &self.memory, &memory, &made, self.now);
        assert_eq!(refused, vec![], "the check refuses {made:?}");
        self.memory = memory;
        made
    }

    /// The steps, in words, but for entries that change nothing. That one is written after each change of the voters is
    /// judged here.
    pub fn steps(&mut self) -> Vec<String> {
        let steps = self.plan().steps;
        let written = |step: Option<&Step>| {
            let before = WriteBefore::Outage;
            matches!(step, Some(Step::Write { before: b, .. }) if *b == before)
        };
        let listed = &self.observed.quorum.as_ref().map_or(&[][..], |q| &q.members);
        let votes = |id| listed.iter().any(|m| m.id == id && !m.learner);
        for (n, step) in steps.iter().enumerate() {
            let changes_voters = match step {
                Step::Promote { .. } => true,
                Step::Remove { member, .. } => votes(*member),
                _ => false,
            };
            let next = steps.get(n + 1);
            assert_eq!(written(next), changes_voters, "{step}, then {next:?}");
        }
        let reported = steps.iter().filter(
            |step| !matches!(step, Step::Write { before, .. } if *before != WriteBefore::LeavingMinor4),
        );
        reported.map(Step::to_string).collect()
    }
}

/// The names of what a plan waits for and is blocked by.
pub fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.waits
        .iter()
        .map(|w| w.reason.name())
        .chain(plan.blocks.iter().map(|b| b.reason.name()))
        .collect()
}
