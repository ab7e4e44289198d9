//! Which ports members listen on: chosen once, remembered in the journal, never changed after.
//!
//! In: what the manifest asks for, what is remembered, what is free and belongs to no other root. Out: a client and a peer port for every member,
//! no two alike. A port that is taken later is a fact (`cannot_start`), not a reason to choose again: the peer URL is
//! what the other members know this one by.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpListener};

use quorate_api::Cluster;
use quorate_core::model::{MemberName, Ordinal};
use serde::{Deserialize, Serialize};

use crate::ground::observe;
use crate::root::registry::Registry;
use crate::run::holder;
use crate::{Error, Root};

/// The first client ports tried; the peer port is the next number.
const BASES: [u16; 6] = [2379, 12379, 22379, 32379, 42379, 52379];
/// How far beyond its own place a later member looks for a free pair.
const TRIES: u16 = 64;
/// How often the kernel is asked for a port that belongs to no other root.
const EPHEMERAL_TRIES: u32 = 64;

/// The ports of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ports {
    pub(crate) client: u16,
    pub(crate) peer: u16,
}

/// What the manifest asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) client: Option<u16>,
    pub(crate) peer: Option<u16>,
}

impl Asked {
    /// The first member's ports, if the manifest names at least one of them.
    fn base(self) -> Option<Ports> {
        match (self.client, self.peer) {
            (None, None) => None,
            (Some(client), peer) => Some(Ports {
                client,
                peer: peer.unwrap_or(client.saturating_add(1)),
            }),
            (None, Some(peer)) => Some(Ports {
                client: peer.saturating_sub(1).max(1),
                peer,
            }),
        }
    }
}

/// Gives every member of `ordinals` that has none its ports.
pub(crate) fn assign(
    known: &BTreeMap<Ordinal, Ports>,
    ordinals: &BTreeSet<Ordinal>,
    asked: Asked,
    of_others: impl FnOnce() -> BTreeSet<u16>,
) -> Result<BTreeMap<Ordinal, Ports>, Error> {
    let missing: Vec<Ordinal> = ordinals
        .iter()
        .filter(|ordinal| !known.contains_key(ordinal))
        .copied()
        .collect();
    if missing.is_empty() {
        return Ok(known.clone());
    }
    let none = || Error::NoPorts {
        members: missing.len() as u32,
    };
    if let Some(base) = asked.base() {
        // Exactly as asked: if one is taken, the status says by whom.
        return extend(known, &missing, base, |_| true).ok_or_else(none);
    }
    let of_others = of_others();
    let free = |ports: Ports| {
        [ports.client, ports.peer]
            .iter()
            .all(|port| !of_others.contains(port) && holder::port_is_free(*port).is_ok())
    };
    let remembered = known.get(&Ordinal(0)).copied();
    if let Some(base) = remembered {
        return extend(known, &missing, base, free)
            .or_else(|| ephemeral(known, &missing, &of_others))
            .ok_or_else(none);
    }
    let exactly = |base: &u16| {
        let base = Ports {
            client: *base,
            peer: base + 1,
        };
        let wanted = |ordinal: &Ordinal| step(base, ordinal.0).is_some_and(free);
        missing
            .iter()
            .all(wanted)
            .then(|| extend(known, &missing, base, |_| true))?
    };
    BASES
        .iter()
        .find_map(exactly)
        .or_else(|| ephemeral(known, &missing, &of_others))
        .ok_or_else(none)
}

/// What would keep a new cluster from beginning, said before anything is made for it.
pub(crate) fn preflight(root: &Root, cluster: &Cluster, registry: Option<Registry>) -> Result<(), Error> {
    let asked = Asked {
        client: cluster.host.client_port,
        peer: cluster.host.peer_port,
    };
    let ordinals = (0..cluster.replicas).map(Ordinal).collect();
    let of_others = || {
        registry
            .map(|registry| registry.ports_of_others(root))
            .unwrap_or_default()
    };
    for (ordinal, ports) in assign(&BTreeMap::new(), &ordinals, asked, of_others)? {
        if let Some(why) = observe::taken(ports) {
            let member = MemberName::of(&cluster.name, ordinal).to_string();
            return Err(Error::PortTaken { member, why });
        }
    }
    Ok(())
}

/// The ports of member `number` counted from `base`.
fn step(base: Ports, number: u32) -> Option<Ports> {
    let offset = u16::try_from(number).ok()?.checked_mul(2)?;
    Some(Ports {
        client: base.client.checked_add(offset)?,
        peer: base.peer.checked_add(offset)?,
    })
}

fn extend(
    known: &BTreeMap<Ordinal, Ports>,
    missing: &[Ordinal],
    base: Ports,
    usable: impl Fn(Ports) -> bool,
) -> Option<BTreeMap<Ordinal, Ports>> {
    let mut all = known.clone();
    for ordinal in missing {
        let unused = |ports: &Ports| {
            let mut others = all.values().flat_map(|p| [p.client, p.peer]);
            ports.client != ports.peer && others.all(|port| port != ports.client && port != ports.peer)
        };
        let mut places =
            (0..u32::from(TRIES)).filter_map(|further| step(base, ordinal.0.checked_add(further)?));
        let ports = places.find(|ports| unused(ports) && usable(*ports))?;
        all.insert(*ordinal, ports);
    }
    Some(all)
}

/// Any free ports, as the kernel gives them.
fn ephemeral(
    known: &BTreeMap<Ordinal, Ports>,
    missing: &[Ordinal],
    of_others: &BTreeSet<u16>,
) -> Option<BTreeMap<Ordinal, Ports>> {
    let mut all = known.clone();
    // Held until all are chosen, so that none is given out twice.
    let mut held = Vec::new();
    let mut next = || {
        for _ in 0..EPHEMERAL_TRIES {
            let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
            let port = socket.local_addr().ok()?.port();
            held.push(socket);
            if !of_others.contains(&port) {
                return Some(port);
            }
        }
        None
    };
    for ordinal in missing {
        all.insert(
            *ordinal,
            Ports {
                client: next()?,
                peer: next()?,
            },
        );
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordinals(count: u32) -> BTreeSet<Ordinal> {
        (0..count).map(Ordinal).collect()
    }

    #[test]
    fn asked_for_ports_follow_each_other() {
        let asked = Asked {
            client: Some(4001),
            peer: None,
        };
        let ports = assign(&BTreeMap::new(), &ordinals(3), asked, BTreeSet::new).unwrap();
        let flat: Vec<u16> = ports.values().flat_map(|p| [p.client, p.peer]).collect();
        assert_eq!(flat, [4001, 4002, 4003, 4004, 4005, 4006]);
        let asked = Asked {
            client: Some(4000),
            peer: Some(4002),
        };
        let ports = assign(&BTreeMap::new(), &ordinals(3), asked, BTreeSet::new).unwrap();
        let distinct: BTreeSet<u16> = ports.values().flat_map(|p| [p.client, p.peer]).collect();
        assert_eq!(distinct.len(), 6, "{ports:?}");
        let asked = Asked {
            client: Some(65530),
            peer: None,
        };
        assert!(assign(&BTreeMap::new(), &ordinals(9), asked, BTreeSet::new).is_err());
    }

    #[test]
    fn what_is_remembered_stays_and_a_taken_base_is_passed_over() {
        let socket = BASES
            .iter()
            .find_map(|base| TcpListener::bind((Ipv4Addr::LOCALHOST, *base)).ok())
            .unwrap();
        let taken = socket.local_addr().unwrap().port();
        let ports = assign(&BTreeMap::new(), &ordinals(3), Asked::default(), BTreeSet::new).unwrap();
        assert!(
            ports.values().all(|p| p.client != taken && p.peer != taken),
            "{ports:?}"
        );
        let more = assign(
            &ports,
            &ordinals(5),
            Asked {
                client: None,
                peer: None,
            },
            BTreeSet::new,
        )
        .unwrap();
        assert!(ports.iter().all(|(ordinal, p)| more[ordinal] == *p));
        assert_eq!(more.len(), 5);
    }

    /// The cluster that they belong to may be stopped just now.
    #[test]
    fn ports_of_another_root_are_passed_over_unless_they_are_asked_for() {
        let ports = |asked, others: BTreeSet<u16>| {
            let all = assign(&BTreeMap::new(), &ordinals(3), asked, || others).unwrap();
            all.values()
                .flat_map(|p| [p.client, p.peer])
                .collect::<BTreeSet<u16>>()
        };
        let first = ports(Asked::default(), BTreeSet::new());
        let second = ports(Asked::default(), first.clone());
        assert!(first.is_disjoint(&second), "{first:?} {second:?}");
        let all_bases: BTreeSet<u16> = BASES.iter().flat_map(|base| *base..base + 6).collect();
        assert!(ports(Asked::default(), all_bases.clone()).is_disjoint(&all_bases));
        let asked = Asked {
            client: Some(4001),
            peer: None,
        };
        assert!(ports(asked, [4001].into()).contains(&4001));
    }
}
