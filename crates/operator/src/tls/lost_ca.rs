//! Members that run and trust an authority which nobody has any more: all Secrets of a cluster were deleted.
//!
//! In: the members' objects, who answers, all Secrets as they should be. Out: whom to restart. What such a member shows is of
//! the new authority as soon as kubelet has it, and what it trusts is of the old one until it is restarted; so members
//! refuse each other and the operator, and no quorum will be seen that the planner could restart them under. A
//! restart from a member's own data is safe at any time; what it costs here is lost already.
//! Never: a restart of a member that answers, or that was restarted for this before; of all, before one has shown that
//! it starts.

use std::collections::BTreeSet;

use quorate_core::Memory;
use quorate_core::model::Ordinal;

use crate::cluster::execute::{Requests, take_down};
use crate::cluster::observe::Objects;
use crate::cluster::pod_state::{PodState, Stage};
use crate::names::Names;
use crate::requests::effect::Effect;

/// What to ask for: restarts, nothing while they go on, or `none_left`.
pub fn restart(
    names: &Names,
    (objects, memory): (&Objects, &Memory),
    config: &str,
    answer: &BTreeSet<Ordinal>,
    none_left: Effect,
) -> Requests {
    let made_so = |pod: &PodState| pod.made_for.as_ref().is_some_and(|made| made.config == config);
    let runs = |pod: &PodState| matches!(pod.stage, Stage::Running { .. } | Stage::Passing);
    let pods = |of: &dyn Fn(&PodState) -> bool| -> BTreeSet<Ordinal> {
        let slots = objects.slots.iter();
        let chosen = slots.filter(|(_, slot)| slot.pods.iter().any(of));
        chosen.map(|(ordinal, _)| *ordinal).collect()
    };
    let others = pods(&|pod| runs(pod) && !made_so(pod));
    if others.is_empty() {
        return Requests {
            effects: vec![none_left],
            news: Vec::new(),
        };
    }
    let shown = !pods(&|pod| matches!(pod.stage, Stage::Running { .. }) && made_so(pod)).is_empty();
    let remade = memory.slots.iter().filter(|(_, slot)| slot.member.is_some());
    let remade = remade
        .map(|(ordinal, _)| objects.slot(*ordinal).peer)
        .any(|peer| peer.is_none_or(|peer| peer.deleting || peer.config == config));
    let under_way = remade || !pods(&|pod| pod.terminating || made_so(pod)).is_empty();
    let limit = match (shown, under_way) {
        (true, _) => usize::MAX,
        (false, false) => 1,
        (false, true) => 0,
    };
    let mut requests = Requests::default();
    for ordinal in others.iter().rev().filter(|o| !answer.contains(o)).take(limit) {
        let slot = objects.slot(*ordinal);
        let down = take_down(&slot, &names.member(*ordinal).to_string());
        requests.effects.extend(down.effects);
        requests.news.extend(down.news);
    }
    requests
}

#[cfg(test)]
mod tests {
    use quorate_core::memory::Slot;
    use quorate_core::model::{Generation, MemberId, Time, Version};

    use super::*;
    use crate::cluster::pod_state::MadeFor;
    use crate::cluster::slot::{Owner, Peer, SlotObjects};
    use crate::requests::effect::Kind;

    /// Three members, which run with these configurations; `None` is one that is being made anew.
    fn world(configs: [Option<&str>; 3]) -> (Objects, Memory) {
        let (version, generation) = (Version::new(3, 6, 1), Generation(1));
        let (mut objects, mut memory) = (Objects::default(), Memory::default());
        for (n, config) in (0u32..).zip(configs) {
            let mut slot = SlotObjects::default();
            if let Some(config) = config {
                slot.peer = Some(Peer {
                    uid: format!("peer-{n}"),
                    resource_version: String::new(),
                    deleting: false,
                    obsolete_finalizer: None,
                    owner: Owner::Ours,
                    version,
                    generation,
                    config: config.to_owned(),
                });
                slot.pods.push(PodState {
                    role: None,
                    lacks: Default::default(),
                    ready: true,
                    name: format!("c-{n}-x"),
                    uid: format!("pod-{n}"),
                    created: Time(1),
                    terminating: false,
                    gone_by: None,
                    node: None,
                    made_for: Some(MadeFor {
                        generation,
                        version,
                        config: config.to_owned(),
                    }),
                    ip: None,
                    stage: Stage::Running { since: Time(2) },
                    report: None,
                });
            }
            objects.slots.insert(Ordinal(n), slot);
            let known = Slot {
                member: Some(MemberId(n.into())),
                ..Slot::default()
            };
            memory.slots.insert(Ordinal(n), known);
        }
        (objects, memory)
    }

    /// Whose EtcdPeers are deleted; `None` if it is over.
    fn asked(configs: [Option<&str>; 3], answer: &[u32]) -> Option<Vec<String>> {
        let (objects, memory) = world(configs);
        let over = Effect::Annotate {
            kind: Kind::Secret,
            name: "c-ca".to_owned(),
            uid: String::new(),
            annotations: Default::default(),
        };
        let answer = answer.iter().copied().map(Ordinal).collect();
        let names = Names::of("n", "c");
        let requests = restart(&names, (&objects, &memory), "new", &answer, over.clone());
        if requests.effects == [over] {
            return None;
        }
        let deleted = requests.effects.into_iter().map(|effect| match effect {
            Effect::Delete {
                kind: Kind::Peer,
                name,
                ..
            } => name,
            other => panic!("{other}"),
        });
        Some(deleted.collect())
    }

    #[test]
    fn one_is_restarted_first_and_all_others_when_it_runs() {
        let (old, new) = (Some("old"), Some("new"));
        assert_eq!(asked([old, old, old], &[]).unwrap(), ["c-2"]);
        assert!(
            asked([old, old, None], &[]).unwrap().is_empty(),
            "it is being made"
        );
        assert_eq!(asked([old, old, new], &[]).unwrap(), ["c-1", "c-0"]);
        assert!(
            asked([None, None, new], &[]).is_none(),
            "nobody trusts the old one"
        );
        assert!(asked([new, new, new], &[0, 1, 2]).is_none());
    }

    #[test]
    fn who_answers_is_left_to_the_planner() {
        let (old, new) = (Some("old"), Some("new"));
        assert!(asked([old, old, old], &[0, 1, 2]).unwrap().is_empty());
        assert_eq!(asked([old, old, new], &[1]).unwrap(), ["c-0"]);
    }
}
