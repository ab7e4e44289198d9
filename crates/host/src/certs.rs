//! Certificates of the members and of quorate itself.
//!
//! In: the root and who is in the cluster. Out: the client's TLS material and the fingerprint of the authority,
//! which members are restarted for. Leaves are renewed under running members: etcd reads them at each handshake.

use std::time::SystemTime;

use quorate_client::{IdentityFiles, Tls, TlsFiles};
use quorate_core::model::MemberName;
use quorate_pki::{Layout, MemberIdentity, Policy, Wanted};

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
}

/// Makes sure that `members` and the client have certificates.
pub(crate) fn prepare(root: &Root, cluster: &str, members: &[MemberName]) -> Result<Prepared, Error> {
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
    let report = quorate_pki::ensure(&dir, &wanted, &Policy::default(), SystemTime::now()).map_err(failed)?;
    let layout = Layout::new(&dir);
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
    Ok(Prepared {
        tls,
        fingerprint: report.ca_fingerprint.to_string(),
        authority_changed: report.ca_changed,
        changed: report.changed(),
    })
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
