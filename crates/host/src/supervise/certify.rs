//! Certificates in the supervisor's loop: kept good, their CA rotated, members asked for proofs.
//!
//! In: the journal, the files in `pki/`. Out: what members are restarted for, and what quorate itself connects with.
//! Nobody is stopped here: a member that trusts other CAs than are wanted is restarted by the planner. While certificates
//! cannot be brought up to date nothing is changed, and members are healed.

use std::collections::{BTreeMap, BTreeSet};

use quorate_client::{Address, Port, Tls, prove};
use quorate_core::memory::Mark;
use quorate_core::model::{Frozen, MemberName, Ordinal};
use quorate_core::reason::BlockReason;
use quorate_core::rotation::Proven;

use super::{Event, Supervision};
use crate::Error;
use crate::ground::certs::{CertKeeper, CertPolicy, Rotation};
use crate::ground::{certs, manifest};
use crate::status::{Block, Status};

/// What is wrong with the certificates, as a block.
#[derive(Debug, Default)]
pub(super) struct CertFaults {
    /// They could not be brought up to date.
    pub(super) failed: Option<String>,
    /// One of them does not serve.
    invalid: Option<String>,
}

impl CertFaults {
    /// While they cannot be brought up to date, nothing is changed. They come first: what ends while they are wrong may end
    /// for that alone.
    pub(super) fn frozen(&self, manifest: Option<Frozen>) -> Option<Frozen> {
        let Some(failed) = &self.failed else {
            return manifest;
        };
        let reason = BlockReason::Certificates;
        let detail = format!("{failed}; nothing is changed until that is mended");
        Some(Frozen { reason, detail }.besides(manifest))
    }

    /// Says that one does not serve: what is done about other things goes on.
    pub(super) fn show(&self, status: &mut Status) {
        if let Some(detail) = self.invalid.clone() {
            status.ready = false;
            status.blocks.push(Block {
                reason: BlockReason::Certificates.name().to_owned(),
                member: None,
                detail,
            });
        }
    }
}

impl<E: FnMut(Event)> Supervision<E> {
    /// Does so again, and shows what is wrong.
    pub(super) async fn look_at_certificates(&mut self) {
        self.cert_faults.failed = self.certify().await.err().map(|error| error.chain());
        // However far that came: a pause holds at once, and so does its end.
        self.spec.paused = self.ground.cluster.paused;
    }

    /// Brings certificates up to date, and what depends on them.
    pub(super) async fn certify(&mut self) -> Result<(), Error> {
        // Before they are looked at: what is changed meanwhile is looked at again.
        self.certificates = certs::stamp(&self.ground.root);
        if !self.ground.journal.tls {
            self.spec = manifest::spec(&self.ground.cluster, &self.manifest.text, manifest::NO_TLS);
            return Ok(());
        }
        let departed = self.ground.departed();
        let known = self.ground.ordinals().into_iter().map(|o| self.ground.name(o));
        let members: Vec<MemberName> = known.filter(|name| !departed.contains(name)).collect();
        let may = match self.ground.journal.memory.bootstrap {
            None => CertPolicy::Create,
            Some(_) if self.ground.cluster.paused => CertPolicy::Freeze,
            Some(_) => CertPolicy::Renew,
        };
        let slots = self.ground.journal.memory.slots.iter();
        let started: Vec<MemberName> = slots
            .filter(|(_, slot)| slot.mark != Mark::Never)
            .map(|(ordinal, _)| self.ground.name(*ordinal))
            .collect();
        let (root, cluster) = (self.ground.root.clone(), self.ground.cluster.name.clone());
        let keeper = CertKeeper {
            root: &root,
            cluster: &cluster,
            members: &members,
            departed: &departed,
            started: &started,
            may,
        };
        let mut prepared = keeper.prepare()?;
        let mut moved = Vec::new();
        for (port, rotation) in &prepared.rotations {
            let proven = self.all_have_proven(*port, rotation, &prepared.trusted).await;
            moved.extend(keeper.rotate(rotation, proven)?);
        }
        if !moved.is_empty() {
            moved.into_iter().for_each(|news| self.line(news));
            prepared = keeper.prepare()?;
        }
        let wrong = |what| format!("{}: {what}", BlockReason::Certificates);
        self.rotating = prepared.rotates();
        self.problems.certificates = prepared.problem.map(wrong).into_iter().collect();
        self.cert_faults.invalid = prepared.invalid;
        self.trust(prepared.tls, prepared.trusted);
        Ok(())
    }

    /// A supervisor that begins while they cannot be brought up to date: members that have certificates are looked after all
    /// the same.
    pub(super) fn begin_without(&mut self, error: Error) -> Result<(), Error> {
        let root = self.ground.root.clone();
        let keeper = CertKeeper {
            root: &root,
            cluster: &self.ground.cluster.name,
            members: &[],
            departed: &[],
            started: &[],
            may: CertPolicy::Freeze,
        };
        match keeper.published() {
            Ok(Some((tls, trusted))) if self.ground.journal.memory.bootstrap.is_some() => {
                self.trust(tls, trusted);
                self.cert_faults.failed = Some(error.chain());
                Ok(())
            }
            _ => Err(error),
        }
    }

    fn trust(&mut self, tls: Tls, trusted: String) {
        self.ground.clients.renew(Some(tls));
        self.spec = manifest::spec(&self.ground.cluster, &self.manifest.text, &trusted);
        self.ground.trusted = trusted;
    }

    /// Has every member that was started proven at this port what this stage of a rotation is for?
    async fn all_have_proven(&mut self, port: Port, rotation: &Rotation, trusted: &str) -> bool {
        let before = self.proven.remove(&port);
        let Some(tls) = &rotation.proof else {
            return false;
        };
        let before = before
            .as_ref()
            .and_then(|proven| proven.now(rotation.stage, trusted));
        let mut proven = before.cloned().unwrap_or_default();
        let slots = self.ground.journal.memory.slots.iter();
        let started: BTreeSet<Ordinal> = slots
            .filter(|(_, slot)| slot.mark != Mark::Never)
            .map(|(ordinal, _)| *ordinal)
            .collect();
        let url = |ordinal: Ordinal| match port {
            Port::Client => self.ground.client_url(ordinal),
            Port::Peer => self.ground.peer_url(ordinal).map(|url| url.to_string()),
        };
        let address = |ordinal: &Ordinal| Some((*ordinal, url(*ordinal)?.into()));
        let open: BTreeMap<Ordinal, Address> = started.difference(&proven).filter_map(address).collect();
        proven.extend(prove(port, &open, tls).await);
        let all = started.is_subset(&proven);
        self.proven
            .insert(port, Proven::new(rotation.stage, trusted, proven));
        all
    }
}
