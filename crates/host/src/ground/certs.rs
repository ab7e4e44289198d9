//! Certificates of the members and of quorate itself, and the rotation of the CA that signs them.
//!
//! In: the root, who is in the cluster, who has proven what. Out: the client's TLS material and the CAs that are trusted,
//! which members are restarted for. Leaves are renewed under running members: etcd reads them at each handshake.
//! Never: a CA replaced at once while members run that trust one which is still there ([`quorate_core::rotation`]); any
//! file written while the user has paused the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use quorate_client::{Identity, Port, Tls};
use quorate_core::model::{MemberName, Time};
use quorate_core::rotation::{Move, Seen, Stage, next};
use quorate_pki::{Ca, Cas, Layout, Leaf, LeafUsages, MemberIdentity, PairPaths, Policy, Wanted};

use crate::status::{self, Certs};
use crate::{Error, Root};

/// The etcd user that quorate acts as.
const ROOT: &str = "root";
/// How long a stage of a rotation that nobody asked for lasts at least, so that clients can read `ca.crt` again.
const OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);

/// Whose certificates are kept.
#[derive(Debug)]
pub(crate) struct CertKeeper<'a> {
    pub(crate) root: &'a Root,
    pub(crate) cluster: &'a str,
    pub(crate) members: &'a [MemberName],
    /// Members that left: what was issued for them is removed.
    pub(crate) departed: &'a [MemberName],
    /// Those of `members` that were started, and so had certificates before.
    pub(crate) started: &'a [MemberName],
    pub(crate) may: CertPolicy,
}

/// What may become of certificates that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertPolicy {
    /// Anything: nobody uses them yet.
    Create,
    /// They are kept good, and their CA is replaced in stages.
    Renew,
    /// Nothing: the user asked for that.
    Freeze,
}

/// Certificates that are in place.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// For quorate's own connections.
    pub(crate) tls: Tls,
    /// The fingerprints of all CAs that are trusted, as [`disjoint`] reads them: what members are restarted for.
    pub(crate) trusted: String,
    /// Of the CAs that clients and members know each other by, and of those between members.
    pub(crate) rotations: [(Port, Rotation); 2],
    /// What is wrong with them, although they serve.
    pub(crate) problem: Option<String>,
    /// One of them does not serve, and none is issued in its place now.
    pub(crate) invalid: Option<String>,
}

/// How far the CAs at one port of the members are on their way to the next.
#[derive(Debug)]
pub(crate) struct Rotation {
    pub(crate) stage: Stage,
    /// What members have to prove, while the CA is being replaced.
    pub(crate) proof: Option<Tls>,
    due: bool,
    ripe: bool,
    name: &'static str,
    layout: Layout,
}

impl Prepared {
    /// Is a CA being replaced?
    pub(crate) fn rotates(&self) -> bool {
        self.rotations.iter().any(|(_, one)| one.stage != Stage::Steady)
    }
}

impl CertKeeper<'_> {
    /// Makes sure that the members and the client have certificates, as the stages of rotations ask.
    pub(crate) fn prepare(&self) -> Result<Prepared, Error> {
        let dir = self.root.pki();
        let (policy, now) = (Policy::default(), SystemTime::now());
        let failed = |source| self.failed(source);
        if self.may == CertPolicy::Renew {
            quorate_pki::restore_trust(&dir, now).map_err(failed)?;
        }
        let keyless = |cas: &Cas| cas.signer().is_none() && !cas.trusted().is_empty() && self.serve();
        let before = self.read(now)?;
        let lost: Vec<&(Layout, Cas)> = before.iter().filter(|(_, cas)| keyless(cas)).collect();
        match self.may {
            CertPolicy::Freeze => {
                drop(quorate_pki::inspect_all(&Layout::new(&dir).ca().cert).map_err(failed)?)
            }
            CertPolicy::Renew if !lost.is_empty() => {
                for (layout, cas) in &before {
                    cas.publish(layout.dir()).map_err(failed)?;
                }
            }
            CertPolicy::Renew | CertPolicy::Create => {
                quorate_pki::ensure(&dir, &self.wanted()?, &policy, now).map_err(failed)?;
            }
        }
        let problem = lost.first().map(|(layout, _)| lost_key(layout));
        let kept_from = match (self.may, &problem) {
            (CertPolicy::Freeze, _) => Some("spec.paused keeps it from being issued again: take that out"),
            (_, Some(_)) => {
                Some("without ca.key it cannot be issued again until the next CA signs: put ca.key back")
            }
            (_, None) => None,
        };
        let invalid = kept_from.and_then(|why| Some(format!("{}; {why}", self.invalid(now)?)));
        let [(layout, clients), (peer_layout, peers)] = self.read(now)?;
        let signer = |cas: &Cas| cas.signer().map(|ca| ca.info().fingerprint);
        let shared = layout != peer_layout && signer(&peers) == signer(&clients);
        let trusted = digest(&clients.trusted(), &peers.trusted());
        let of_clients = self.rotation("CA", layout, &clients, OVERLAP, now)?;
        // Nobody but members has to take up what changed between them.
        let mut of_peers = self.rotation("peer CA", peer_layout, &peers, Duration::ZERO, now)?;
        of_peers.due |= shared;
        Ok(Prepared {
            tls: self.tls(clients.bundle(), self.own()?)?,
            trusted,
            rotations: [(Port::Client, of_clients), (Port::Peer, of_peers)],
            problem,
            invalid,
        })
    }

    /// What quorate connects with, and the fingerprints of all CAs that are trusted, as members were given them: no key of a
    /// CA is read. Nothing, if other CAs were put in their place: only what reads the keys can tell what that is for.
    pub(crate) fn published(&self) -> Result<Option<(Tls, String)>, Error> {
        let layout = Layout::new(&self.root.pki());
        let read_all = |path: &Path| -> Result<Vec<String>, Error> {
            let all = quorate_pki::inspect_all(path).map_err(|source| self.failed(source))?;
            let mut all: Vec<String> = all.iter().map(|ca| ca.fingerprint.to_string()).collect();
            all.sort();
            Ok(all)
        };
        let trusted = |layout: &Layout| -> Result<Option<Vec<String>>, Error> {
            let (present, given) = (read_all(&layout.ca().cert)?, layout.trusted_copy());
            let replaced = given.exists() && !read_all(&given)?.iter().any(|ca| present.contains(ca));
            Ok((!replaced).then_some(present))
        };
        let (Some(clients), Some(peers)) = (trusted(&layout)?, trusted(&peer_cas(&layout))?) else {
            return Ok(None);
        };
        let bundle = read(&layout.ca().cert)?;
        Ok(Some((self.tls(bundle, self.own()?)?, digest(&clients, &peers))))
    }

    /// What is wrong with the first certificate in use that is missing, damaged or expired.
    fn invalid(&self, now: SystemTime) -> Option<String> {
        let layout = Layout::new(&self.root.pki());
        let of = |member: &MemberName| [layout.server(member.as_str()), layout.peer(member.as_str())];
        let of_members = self.started.iter().flat_map(of);
        let mut pairs = of_members.chain([own_files(self.root), layout.client()]);
        pairs.find_map(|pair| {
            if let Some(missing) = [&pair.cert, &pair.key].into_iter().find(|file| !file.exists()) {
                return Some(format!("{} is missing", missing.display()));
            }
            match quorate_pki::inspect(&pair.cert) {
                Ok(info) if info.not_after > now => None,
                Ok(info) => Some(format!(
                    "{} expired at {}",
                    pair.cert.display(),
                    status::rfc3339(time(info.not_after))
                )),
                Err(source) => Some(self.failed(source).chain()),
            }
        })
    }

    /// The CAs for clients and those between members, which may be the same.
    fn read(&self, now: SystemTime) -> Result<[(Layout, Cas); 2], Error> {
        let layout = Layout::new(&self.root.pki());
        let peers = peer_cas(&layout);
        let read = |layout: &Layout| Cas::read(layout.dir(), now).map_err(|source| self.failed(source));
        let (clients, between) = (read(&layout)?, read(&peers)?);
        Ok([(layout, clients), (peers, between)])
    }

    fn rotation(
        &self,
        name: &'static str,
        layout: Layout,
        cas: &Cas,
        overlap: Duration,
        now: SystemTime,
    ) -> Result<Rotation, Error> {
        let stage = match (cas.next(), cas.retires_former()) {
            (Some(_), _) => Stage::Introducing,
            (None, true) => Stage::Retiring,
            (None, false) => Stage::Steady,
        };
        // Twice as long as its leaves live, so that none of them is cut short.
        let ends = cas.expires_within(Policy::default().leaf_lifetime * 2, now);
        // A time in the future is of a clock that was set back.
        let since = cas.since().and_then(|since| now.duration_since(since).ok());
        Ok(Rotation {
            stage,
            proof: self.proof(cas, stage)?,
            due: cas.asked() || cas.signer().is_none() || ends,
            ripe: cas.asked() || since.is_none_or(|ago| ago >= overlap),
            name,
            layout,
        })
    }

    /// Makes the next move of a rotation, if its time has come, and says which: then everything is to be prepared again.
    pub(crate) fn rotate(&self, rotation: &Rotation, proven: bool) -> Result<Option<String>, Error> {
        if self.may != CertPolicy::Renew {
            return Ok(None);
        }
        let Rotation { name, layout, .. } = rotation;
        let seen = Seen {
            due: rotation.due,
            written: true,
            proven,
            ripe: rotation.ripe,
        };
        let (dir, now) = (layout.dir(), SystemTime::now());
        let failed = |source| self.failed(source);
        let cas = Cas::read(dir, now).map_err(failed)?;
        Ok(match next(rotation.stage, seen) {
            Move::Stay => {
                // It was carried out, and a crash left the request behind.
                if rotation.stage == Stage::Steady && layout.rotation_request().exists() {
                    quorate_pki::clear_rotation_request(dir).map_err(failed)?;
                }
                None
            }
            Move::Introduce => {
                let lifetime = Policy::default().ca_lifetime;
                cas.introduce(dir, self.cluster, lifetime, now).map_err(failed)?;
                Some(format!(
                    "a new {name} is introduced; members are restarted one by one to trust it beside the present one"
                ))
            }
            Move::Switch => {
                cas.switch(dir).map_err(failed)?;
                Some(format!(
                    "all members trust the new {name}; it signs all its certificates from now on"
                ))
            }
            Move::Drop => {
                cas.drop_former(dir).map_err(failed)?;
                Some(format!(
                    "all members show certificates of the new {name}; they are restarted one by one to trust the former \
                     no longer"
                ))
            }
        })
    }

    fn failed(&self, source: quorate_pki::Error) -> Error {
        let dir = self.root.pki();
        Error::Certificates { dir, source }
    }

    fn wanted(&self) -> Result<Wanted, Error> {
        let members = self.members.iter();
        let identities: Result<Vec<_>, _> = members
            .map(|name| MemberIdentity::local(name.as_str(), []))
            .collect();
        let mut wanted = Wanted::new(self.cluster, identities.map_err(|source| self.failed(source))?);
        wanted.departed = self.departed.iter().map(MemberName::to_string).collect();
        Ok(wanted)
    }

    /// Everyone who runs has certificates, and so does quorate.
    fn serve(&self) -> bool {
        whole(&own_files(self.root)) && self.started.iter().all(|name| lacking(self.root, name).is_none())
    }

    /// The certificate that quorate connects with.
    fn own(&self) -> Result<Identity, Error> {
        let own = own_files(self.root);
        Ok(Identity {
            cert_pem: read(&own.cert)?,
            key_pem: read(&own.key)?,
        })
    }

    fn tls(&self, trusted: Vec<u8>, identity: Identity) -> Result<Tls, Error> {
        Tls::from_pem(trusted, Some(identity)).map_err(|error| Error::ClientTls {
            dir: self.root.pki(),
            why: error.to_string(),
        })
    }

    fn proof(&self, cas: &Cas, stage: Stage) -> Result<Option<Tls>, Error> {
        match (stage, cas.next(), cas.signer()) {
            // A member that answers to a certificate of the next CA trusts it.
            (Stage::Introducing, Some(next), _) => {
                let identity = self.issue(next)?;
                self.tls(cas.bundle(), identity).map(Some)
            }
            // A member that one that trusts the new CA alone connects to shows a certificate of it.
            (Stage::Retiring, _, Some(signer)) => {
                let identity = self.issue(signer)?;
                self.tls(signer.pem().cert.clone(), identity).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn issue(&self, ca: &Ca) -> Result<Identity, Error> {
        let leaf = Leaf {
            common_name: ROOT,
            cluster_name: self.cluster,
            sans: BTreeSet::new(),
            usages: LeafUsages::Client,
        };
        let pem = ca
            .issue(&leaf, Policy::default().leaf_lifetime, SystemTime::now())
            .map_err(|source| self.failed(source))?;
        Ok(Identity {
            cert_pem: pem.cert,
            key_pem: pem.key,
        })
    }
}

fn lost_key(layout: &Layout) -> String {
    format!(
        "{} is missing, or is not the key of ca.crt: members go on with the certificates they have, and a new CA is \
         introduced; clients must read ca.crt again within a day. Until that CA signs, no certificate can be renewed or \
         made for a new member; quorate certs rotate leaves out the day",
        layout.ca().key.display()
    )
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::file("read", path, source))
}

/// What members are restarted for, as [`disjoint`] reads it: one list, if the same CAs are for both.
fn digest(clients: &[String], peers: &[String]) -> String {
    let mut digest = clients.join(",");
    if peers != clients {
        digest = format!("{digest}|{}", peers.join(","));
    }
    digest
}

/// Where the CAs are that members know each other by: with those for clients, until an earlier quorate's cluster has got a
/// directory for them.
pub(crate) fn peer_cas(layout: &Layout) -> Layout {
    Some(layout.peers())
        .filter(|peers| peers.dir().exists())
        .unwrap_or_else(|| layout.clone())
}

/// Has someone asked for another CA?
pub(crate) fn rotation_asked(root: &Root) -> bool {
    let layout = Layout::new(&root.pki());
    [layout.peers(), layout]
        .iter()
        .any(|one| one.rotation_request().exists())
}

/// Have these lists of CAs, as [`Prepared::trusted`] writes them, none in common for clients, or none between members?
pub(crate) fn disjoint(one: &str, other: &str) -> bool {
    // One list is for both.
    let lists = |text: &'_ str| -> [BTreeSet<String>; 2] {
        let (clients, peers) = text.split_once('|').unwrap_or((text, text));
        [clients, peers].map(|list| list.split(',').map(str::to_owned).collect())
    };
    let (one, other) = (lists(one), lists(other));
    one.iter().zip(&other).any(|(one, other)| one.is_disjoint(other))
}

/// Files looked at for a change.
const FILES_MAX: usize = 4096;

/// Enough of each file's metadata to notice that it was changed, made or deleted.
pub(crate) type CertsStamp = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// As the certificates are now, at a glance.
pub(crate) fn stamp(root: &Root) -> CertsStamp {
    let mut stamp = CertsStamp::new();
    let mut open = vec![root.pki()];
    while let Some(directory) = open.pop() {
        for entry in directory.read_dir().into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if stamp.len() >= FILES_MAX {
                return stamp;
            }
            if metadata.is_dir() {
                open.push(entry.path());
            }
            stamp.insert(entry.path(), (metadata.modified().ok(), metadata.len()));
        }
    }
    stamp
}

/// Why a member cannot be started, if it has no certificates.
pub(crate) fn lacking(root: &Root, member: &MemberName) -> Option<String> {
    let layout = Layout::new(&root.pki());
    let pairs = [layout.server(member.as_str()), layout.peer(member.as_str())];
    let missing = pairs
        .into_iter()
        .find(|pair| !(pair.cert.exists() && pair.key.exists()))?;
    Some(format!(
        "it has no certificate: {} is missing",
        missing.cert.display()
    ))
}

fn time(at: SystemTime) -> Time {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn whole(pair: &PairPaths) -> bool {
    pair.cert.exists() && pair.key.exists()
}

/// What quorate itself connects with. Until an earlier quorate's cluster has one for it alone, that is the client's.
fn own_files(root: &Root) -> PairPaths {
    let layout = Layout::new(&root.pki());
    Some(layout.root()).filter(whole).unwrap_or(layout.client())
}

/// The files that quorate's own commands need: they act as etcd's root user.
pub fn own_certs(root: &Root) -> Certs {
    let PairPaths { cert, key } = own_files(root);
    let ca = Layout::new(&root.pki()).ca().cert;
    Certs { ca, cert, key }
}

/// The files that an application needs.
pub(crate) fn client_files(root: &Root) -> Certs {
    let layout = Layout::new(&root.pki());
    Certs {
        ca: layout.ca().cert,
        cert: layout.client().cert,
        key: layout.client().key,
    }
}
