//! The host ground itself: everything that observing and executing share.
//!
//! In: the root and the manifest in force. Out: where each member is and what it is called. What it decides once (the
//! ports) is in the journal; what runs is the runner's.

pub(crate) mod build;
pub(crate) mod certs;
mod departed;
pub(crate) mod execute;
pub(crate) mod last_index;
pub(crate) mod manifest;
pub(crate) mod observe;
pub(crate) mod ports;
pub(crate) mod replay;

use std::collections::BTreeSet;
use std::path::PathBuf;

use quorate_api::Cluster;
use quorate_client::Members;
use quorate_core::model::{MemberName, Ordinal, PeerUrl, Version};

use crate::etcd::find::{EtcdBinary, Finder, Places};
use crate::ground::last_index::LastIndexes;
use crate::ground::ports::Asked;
use crate::ground::replay::Replays;
use crate::root::journal::Journal;
use crate::root::registry::Registry;
use crate::run::{Record, Runner};
use crate::{Error, Root};

/// One cluster on this machine.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) root: Root,
    pub(crate) journal: Journal,
    pub(crate) cluster: Cluster,
    pub(crate) runner: Runner,
    pub(crate) clients: Members,
    pub(crate) replays: Replays,
    /// The CAs that members started now will trust; empty without TLS.
    pub(crate) trusted: String,
    /// Where the other roots of this machine are, if that can be known.
    pub(crate) registry: Option<Registry>,
    pub(crate) last_indexes: LastIndexes,
    finder: Option<Finder>,
}

impl Ground {
    pub(crate) fn new(
        root: Root,
        journal: Journal,
        cluster: Cluster,
        launcher: PathBuf,
        places: Places,
    ) -> Ground {
        let finder = Some(Finder::new(places));
        Ground {
            root,
            journal,
            cluster,
            runner: Runner::new(launcher),
            clients: Members::default(),
            replays: Replays::default(),
            trusted: String::new(),
            registry: None,
            last_indexes: LastIndexes::default(),
            finder,
        }
    }

    pub(crate) fn name(&self, ordinal: Ordinal) -> MemberName {
        MemberName::of(&self.cluster.name, ordinal)
    }

    /// Every slot that is wanted or known.
    pub(crate) fn ordinals(&self) -> BTreeSet<Ordinal> {
        let wanted = (0..self.cluster.replicas).map(Ordinal);
        wanted.chain(self.journal.memory.slots.keys().copied()).collect()
    }

    /// Where clients reach the member at `ordinal`, once it has ports.
    pub(crate) fn client_url(&self, ordinal: Ordinal) -> Option<String> {
        self.journal
            .ports
            .get(&ordinal)
            .map(|ports| build::client_url(*ports, self.journal.tls))
    }

    /// Where members reach the member at `ordinal`, once it has ports.
    pub(crate) fn peer_url(&self, ordinal: Ordinal) -> Option<PeerUrl> {
        self.journal
            .ports
            .get(&ordinal)
            .map(|ports| build::peer_url(*ports, self.journal.tls))
    }

    /// Gives ports to members that have none. Until the cluster has begun they are chosen again each time: nobody
    /// knows them yet, and what was free may have been taken.
    pub(crate) fn assign_ports(&mut self) -> Result<(), Error> {
        if self.journal.memory.bootstrap.is_none() && self.runner.running() == 0 {
            self.journal.ports.clear();
        }
        let asked = Asked {
            client: self.cluster.host.client_port,
            peer: self.cluster.host.peer_port,
        };
        let registry = self.registry.as_ref();
        let of_others = || {
            registry
                .map(|registry| registry.ports_of_others(&self.root))
                .unwrap_or_default()
        };
        let ports = ports::assign(&self.journal.ports, &self.ordinals(), asked, of_others)?;
        self.journal.ports = ports;
        Ok(())
    }

    /// Are there members without ports, or may theirs still change?
    pub(crate) fn lacks_ports(&self) -> bool {
        let has = |ordinal: &Ordinal| self.journal.ports.contains_key(ordinal);
        self.journal.memory.bootstrap.is_none() || !self.ordinals().iter().all(has)
    }

    /// Takes over members that run already: those of a supervisor that is gone.
    pub(crate) fn adopt(&mut self) -> Result<Vec<Ordinal>, Error> {
        let mut adopted = Vec::new();
        for ordinal in self.ordinals() {
            if self.runner.member(ordinal).is_some() {
                continue;
            }
            let name = self.name(ordinal);
            let Some(record) = Record::read(&self.root.record(&name))? else {
                continue;
            };
            let pid = record.identity.pid;
            let lives = record.lives().map_err(|source| Error::Process {
                doing: "look at",
                pid,
                source,
            })?;
            // A record of another root, copied here, is of a process that is none of ours.
            let ours = record.data_dir == self.root.volume(&name, record.generation);
            if !lives || !ours {
                continue;
            }
            let evidence = self.root.first_start(&name, record.generation);
            if self
                .runner
                .adopt(ordinal, record, self.root.log(&name), evidence)?
            {
                adopted.push(ordinal);
            }
        }
        Ok(adopted)
    }

    /// The etcd of a version. Asking a binary may take a while, so it is not done on the loop's own thread.
    pub(crate) async fn etcd(&mut self, version: Version) -> Result<EtcdBinary, Error> {
        if let Some(known) = self.finder.as_ref().and_then(|finder| finder.recall(version)) {
            return Ok(known);
        }
        let mut finder = self
            .finder
            .take()
            .unwrap_or_else(|| Finder::new(Places::default()));
        let searched = tokio::task::spawn_blocking(move || {
            let found = finder.find(Some(version));
            (finder, found)
        });
        match searched.await {
            Ok((finder, found)) => {
                self.finder = Some(finder);
                found
            }
            Err(error) => Err(Error::file(
                "look for",
                &self.root.bin(),
                std::io::Error::other(error),
            )),
        }
    }
}
