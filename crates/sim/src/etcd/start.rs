//! How a process starts on a volume: what etcd does with `new`, `existing` and data that is already there.
//!
//! In: a place, a volume, the flags. Out: a running member, or why it ended at once.
//! Never: flags that matter when there is a log; never an id that the flags alone decide for a joining member.

use std::collections::BTreeMap;

use quorate_core::model::{ClusterId, Generation, MemberId, Version};

use super::{ConfChange, Data, Entry, EtcdModel, Kind, Node, Place, Role, Running, Wal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum As {
    /// `--initial-cluster-state=new`, a token and all first members.
    New { token: String, initial: Vec<Place> },
    /// `--initial-cluster-state=existing` and the list, itself included.
    Join { initial: Vec<Place> },
    /// No word about it; there must be a log. A binary without flags would bootstrap; the ground refuses that.
    Resume,
}

/// Why a process ended at once.
pub type CannotStart = &'static str;

/// FNV-1a: stable, like the ids that etcd hashes.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn first_id(place: Place, token: &str) -> MemberId {
    MemberId(hash(&format!("{} {token}", place.url())))
}

impl EtcdModel {
    /// Starts etcd at `place` on one of its volumes.
    pub fn start(
        &mut self,
        place: Place,
        volume: Generation,
        flags: &As,
        version: Version,
    ) -> Result<(), CannotStart> {
        self.node(place).volumes.entry(volume).or_default();
        match &self.nodes[&place].volumes[&volume] {
            Data::Damaged => return Err("data is damaged"),
            Data::Wal(wal) => readable(wal.version, version)?,
            Data::Empty => {
                let wal = match flags {
                    As::New { token, initial } => self.form(place, token, initial, version)?,
                    As::Join { initial } => self.join(place, initial, version)?,
                    As::Resume => return Err("no write-ahead log"),
                };
                self.node(place).volumes.insert(volume, Data::Wal(wal));
            }
        }
        let patience = self.rng.u64(2..=4);
        self.requests += 1;
        let born = self.requests;
        let node = self.node(place);
        let Some(Data::Wal(wal)) = node.volumes.get_mut(&volume) else {
            return Err("no write-ahead log");
        };
        wal.version = wal.version.max(version);
        let conf = wal.conf();
        if conf.removed.contains(&wal.member) {
            return Err("removed from the cluster");
        }
        node.running = Some(Running {
            version,
            generation: volume,
            conf,
            applied: wal.commit,
            counted: wal.commit,
            role: Role::Follower,
            leader: None,
            quiet: 0,
            patience,
            ends_at: None,
            active: BTreeMap::new(),
            born,
            ready: false,
            durable: wal.commit,
            stored: node.stored.get(&volume).copied().unwrap_or(0).min(wal.log.len()),
        });
        Ok(())
    }

    fn form(
        &mut self,
        place: Place,
        token: &str,
        initial: &[Place],
        version: Version,
    ) -> Result<Wal, CannotStart> {
        let member = first_id(place, token);
        let started = |n: &Node| {
            n.running
                .as_ref()
                .and_then(|r| r.conf.members.get(&member))
                .is_some_and(|m| m.published)
        };
        let known = initial.iter().any(|p| {
            *p != place
                && self.linked(place, *p)
                && self
                    .nodes
                    .get(p)
                    .is_some_and(|n| n.running.is_some() && started(n))
        });
        if known {
            return Err("member has already been bootstrapped");
        }
        let mut sorted: Vec<Place> = initial.to_vec();
        sorted.sort_unstable();
        let ids: Vec<MemberId> = sorted.iter().map(|p| first_id(*p, token)).collect();
        let cluster = ClusterId(hash(&format!("{ids:?}")));
        let log: Vec<Entry> = sorted
            .iter()
            .zip(ids)
            .map(|(p, id)| {
                let change = ConfChange::Add {
                    id,
                    place: *p,
                    learner: false,
                    named: true,
                };
                Entry {
                    term: 1,
                    kind: Kind::Conf { request: 0, change },
                }
            })
            .collect();
        let commit = log.len();
        Ok(Wal {
            member,
            cluster,
            log,
            compacted: 0,
            term: 1,
            vote: None,
            commit,
            version,
        })
    }

    fn join(&mut self, place: Place, initial: &[Place], version: Version) -> Result<Wal, CannotStart> {
        let peers = initial.iter().filter(|p| **p != place && self.linked(place, **p));
        let known = peers.filter_map(|p| {
            let node = self.nodes.get(p)?;
            let running = node.running.as_ref()?;
            let wal = node.wal()?;
            let mut conf = running.conf.clone();
            for entry in wal.log.get(running.applied..running.stored).unwrap_or_default() {
                let _ = conf.apply(entry.kind);
            }
            (!conf.members.is_empty()).then_some((wal.cluster, conf))
        });
        let Some((cluster, conf)) = known.max_by_key(|(_, conf)| conf.removed.len() + conf.members.len())
        else {
            return Err("cannot fetch cluster info from peer urls");
        };
        if conf.members.len() != initial.len() {
            return Err("member count is unequal");
        }
        if conf.members.values().any(|m| !initial.contains(&m.place)) {
            return Err("no match found for existing member");
        }
        let Some(member) = conf
            .members
            .iter()
            .find(|(_, m)| m.place == place)
            .map(|(id, _)| *id)
        else {
            return Err("not in the member list");
        };
        // isCompatibleWithCluster: the cluster's version is that of its oldest member, and this one must know it.
        let minors = conf
            .members
            .values()
            .filter_map(|m| self.nodes.get(&m.place)?.running.as_ref());
        if minors
            .map(|r| r.version.minor)
            .min()
            .is_some_and(|oldest| version.minor < oldest)
        {
            return Err("incompatible with current running cluster");
        }
        Ok(Wal {
            member,
            cluster,
            log: Vec::new(),
            compacted: 0,
            term: 0,
            vote: None,
            commit: 0,
            version,
        })
    }
}

/// May a binary read data that `data` last served?
fn readable(data: Version, binary: Version) -> Result<(), CannotStart> {
    if binary.minor < data.minor {
        return Err("data was served by a newer minor");
    }
    if data.minor <= 5 && binary.minor >= 7 {
        return Err("data is too old to be read");
    }
    Ok(())
}
