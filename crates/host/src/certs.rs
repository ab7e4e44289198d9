//! Certificates of the members and of quorate itself.
//!
//! In: the root and who is in the cluster. Out: the client's TLS material and the fingerprint of the authority,
//! which members are restarted for. Leaves are renewed under running members: etcd reads them at each handshake.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use quorate_client::{IdentityFiles, Tls, TlsFiles};
use quorate_core::model::MemberName;
use quorate_pki::{Layout, MemberIdentity, PairPaths, Policy, Wanted};

use crate::status::Certs;
use crate::{Error, Root};

/// Certificates that are in place.
pub(crate) struct Prepared {
    /// For quorate's own connections.
    pub(crate) tls: Tls,
    pub(crate) fingerprint: String,
    /// The authority is new: what trusted the former one must be restarted, all at once.
    pub(crate) authority_changed: bool,
    pub(crate) changed: bool,
    /// What is wrong with them, although they serve.
    pub(crate) problem: Option<String>,
}

/// What may become of certificates that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    /// Anything: nobody uses them yet.
    Begin,
    /// They are kept good; but where only the key that signed them is lost, and all others are there, they stay: another
    /// authority would stop everyone.
    Renew,
    /// Nothing: the user asked for that.
    Stay,
}

/// Makes sure that `members` and the client have certificates; those `started` had them before.
pub(crate) fn prepare(
    root: &Root,
    cluster: &str,
    members: &[MemberName],
    started: &[MemberName],
    may: May,
) -> Result<Prepared, Error> {
    let dir = root.pki();
    let failed = |source| Error::Certificates {
        dir: dir.clone(),
        source,
    };
    let identities: Result<Vec<_>, _> = members
        .iter()
        .map(|name| MemberIdentity::local(name.as_str(), []))
        .collect();
    let wanted = Wanted {
        // etcd takes a certificate's name for a user's: with authentication on, quorate must still be able to act.
        client_name: "root".to_owned(),
        ..Wanted::new(cluster, identities.map_err(failed)?)
    };
    let layout = Layout::new(&dir);
    let (policy, now) = (Policy::default(), SystemTime::now());
    let lost = match may {
        May::Begin => None,
        May::Renew | May::Stay => quorate_pki::authority_without_key(&dir, &policy, now).map_err(failed)?,
    };
    let whole = |pair: &PairPaths| pair.cert.exists() && pair.key.exists();
    let serve = whole(&layout.client()) && started.iter().all(|name| lacking(root, name).is_none());
    let lost = lost.filter(|_| serve);
    let as_it_is = match (&lost, may) {
        (Some(authority), _) => Some(authority.clone()),
        (None, May::Stay) => Some(quorate_pki::inspect(&layout.ca().cert).map_err(failed)?),
        (None, _) => None,
    };
    let (fingerprint, authority_changed, changed) = match &as_it_is {
        Some(authority) => (authority.fingerprint.to_string(), false, false),
        None => {
            let report = quorate_pki::ensure(&dir, &wanted, &policy, now).map_err(failed)?;
            (
                report.ca_fingerprint.to_string(),
                report.ca_changed,
                report.changed(),
            )
        }
    };
    let client = layout.client();
    let identity = Some(IdentityFiles {
        cert: client.cert,
        key: client.key,
    });
    let tls = Tls::from_files(&TlsFiles {
        ca: layout.ca().cert,
        identity,
    });
    let tls = tls.map_err(|error| Error::ClientTls {
        dir: dir.clone(),
        why: error.to_string(),
    })?;
    let key = layout.ca().key;
    let problem = lost.map(|_| {
        format!(
            "{} is missing, or is not the key of ca.crt: members go on with the certificates they have, and none can be \
             renewed or made for a new member; put it back. Who has lost it for good moves ca.crt away as well: all members \
             are then restarted at once with a new authority, which clients must be given",
            key.display()
        )
    });
    Ok(Prepared {
        tls,
        fingerprint,
        authority_changed,
        changed,
        problem,
    })
}

/// Files looked at for a change.
const FILES_MAX: usize = 4096;

/// What tells that a file was changed, made or deleted.
pub(crate) type Stamp = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// As the certificates are now, at a glance.
pub(crate) fn stamp(root: &Root) -> Stamp {
    let mut stamp = Stamp::new();
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

/// The files a client needs.
pub(crate) fn client_files(root: &Root) -> Certs {
    let layout = Layout::new(&root.pki());
    Certs {
        ca: layout.ca().cert,
        cert: layout.client().cert,
        key: layout.client().key,
    }
}
