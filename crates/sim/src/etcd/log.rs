//! What a member has on disk: the write-ahead log, and the member list that follows from it.
//!
//! In: entries, in the order raft committed them. Out: the list ([`Conf`]) and whether a change was valid when it
//! was applied. Never: a list that does not follow from the log alone, and never a removed id that comes back.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::model::{ClusterId, Generation, Listed, MemberId, PeerUrl, Version, quorum};

use super::EtcdError;

/// A host: where a member can live and be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u32);

impl Place {
    /// Where quorate itself sits.
    pub const SITE: Place = Place(1000);

    /// The URL under which peers reach a member here.
    pub fn url(self) -> PeerUrl {
        PeerUrl(format!("https://node-{}:2380", self.0))
    }

    /// The place behind a URL made by [`Place::url`].
    pub fn of(url: &PeerUrl) -> Option<Place> {
        url.as_str()
            .strip_prefix("https://node-")?
            .strip_suffix(":2380")?
            .parse()
            .ok()
            .map(Place)
    }
}

/// One entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term of the leader that made it.
    pub term: u64,
    pub kind: Kind,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A new leader's first word.
    Noop,
    /// A client's unique value.
    Write(u64),
    /// A member tells its name and client URLs: it has started.
    Publish(MemberId),
    /// A change of the member list.
    Conf { request: u64, change: ConfChange },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfChange {
    Add {
        id: MemberId,
        /// Where it is (or will be).
        place: Place,
        /// Does not vote yet.
        learner: bool,
        /// It is known by name already: only true for first members.
        named: bool,
    },
    /// A learner becomes a voter.
    Promote(MemberId),
    Remove(MemberId),
}

/// A member's write-ahead log and hard state.
#[derive(Clone, Debug)]
pub struct Wal {
    pub member: MemberId,
    pub cluster: ClusterId,
    /// All entries; index 1 is `log[0]`. Of the first [`Wal::compacted`] only what they made is left: a snapshot.
    pub log: Vec<Entry>,
    /// How many entries lie before the log's first one. They cannot be sent to others any more.
    pub compacted: usize,
    /// The newest term heard of.
    pub term: u64,
    /// Whom it voted for in that term.
    pub vote: Option<MemberId>,
    /// How much of the log is known to be committed.
    pub commit: usize,
    /// The newest version that served it.
    pub version: Version,
}

impl Wal {
    /// The list of members, as far as it is known to be committed.
    pub fn conf(&self) -> Conf {
        let mut conf = Conf::default();
        for entry in &self.log[..self.commit] {
            let _ = conf.apply(entry.kind);
        }
        conf
    }

    /// The term and index of the last entry: what elections compare.
    pub fn last(&self) -> (u64, usize) {
        (self.log.last().map_or(0, |e| e.term), self.log.len())
    }

    /// Enters a newer term, forgetting the vote of the older one.
    pub fn enter(&mut self, term: u64) {
        if term > self.term {
            self.term = term;
            self.vote = None;
        }
    }

    /// Takes a snapshot of what is applied once there are `every` new entries, and keeps half as many for those who are
    /// a little behind (etcd: `snapshot-count` and `snapshot-catchup-entries`).
    pub fn compact(&mut self, applied: usize, every: usize) {
        let kept = every / 2;
        if applied.saturating_sub(self.compacted) > every + kept {
            self.compacted = applied - kept;
        }
    }
}

/// The content of one volume.
#[derive(Clone, Debug, Default)]
pub enum Data {
    #[default]
    Empty,
    Wal(Wal),
    /// Something etcd cannot start from.
    Damaged,
}

impl Data {
    /// The log, if there is one.
    pub fn wal(&self) -> Option<&Wal> {
        match self {
            Data::Wal(wal) => Some(wal),
            Data::Empty | Data::Damaged => None,
        }
    }

    /// The log, to write to.
    pub fn wal_mut(&mut self) -> Option<&mut Wal> {
        match self {
            Data::Wal(wal) => Some(wal),
            Data::Empty | Data::Damaged => None,
        }
    }
}

/// All volumes of a place.
pub type Volumes = BTreeMap<Generation, Data>;

/// A member of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfMember {
    pub place: Place,
    pub learner: bool,
    /// Its name is known ("started", in etcd's words).
    pub named: bool,
    /// It has published its client URLs.
    pub published: bool,
}

/// The member list as one member has applied it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conf {
    pub members: BTreeMap<MemberId, ConfMember>,
    /// Ids that are gone for ever.
    pub removed: BTreeSet<MemberId>,
}

impl Conf {
    /// The members that vote.
    pub fn voters(&self) -> impl Iterator<Item = (MemberId, ConfMember)> + '_ {
        self.members
            .iter()
            .filter(|(_, m)| !m.learner)
            .map(|(id, m)| (*id, *m))
    }

    /// How many votes win.
    pub fn quorum(&self) -> usize {
        quorum(self.voters().count())
    }

    pub fn votes(&self, id: MemberId) -> bool {
        self.members.get(&id).is_some_and(|m| !m.learner)
    }

    /// The list as a client sees it.
    pub fn listed(&self, cluster: &str) -> Vec<Listed> {
        let row = |(id, m): (&MemberId, &ConfMember)| Listed {
            id: *id,
            name: if m.named {
                format!("{cluster}-{}", m.place.0)
            } else {
                String::new()
            },
            peer_urls: vec![m.place.url()],
            learner: m.learner,
        };
        self.members.iter().map(row).collect()
    }

    /// Applies one entry; a change that is not valid now changes nothing and says why
    /// (etcd: `ValidateConfigurationChange`).
    pub fn apply(&mut self, kind: Kind) -> Result<(), EtcdError> {
        match kind {
            Kind::Noop | Kind::Write(_) => {}
            Kind::Publish(id) => {
                if let Some(member) = self.members.get_mut(&id) {
                    member.named = true;
                    member.published = true;
                }
            }
            Kind::Conf { change, .. } => self.change(change)?,
        }
        Ok(())
    }

    fn change(&mut self, change: ConfChange) -> Result<(), EtcdError> {
        match change {
            ConfChange::Add {
                id,
                place,
                learner,
                named,
            } => {
                if self.removed.contains(&id) || self.members.contains_key(&id) {
                    return Err(EtcdError::MemberNotFound);
                }
                if self.members.values().any(|m| m.place == place) {
                    return Err(EtcdError::PeerUrlExists);
                }
                if learner && self.members.values().any(|m| m.learner) {
                    return Err(EtcdError::TooManyLearners);
                }
                self.members.insert(
                    id,
                    ConfMember {
                        place,
                        learner,
                        named,
                        published: false,
                    },
                );
            }
            ConfChange::Promote(id) => {
                let member = self.members.get_mut(&id).ok_or(EtcdError::MemberNotFound)?;
                if !member.learner {
                    return Err(EtcdError::MemberNotLearner);
                }
                member.learner = false;
            }
            ConfChange::Remove(id) => {
                self.members.remove(&id).ok_or(EtcdError::MemberNotFound)?;
                self.removed.insert(id);
            }
        }
        Ok(())
    }
}
