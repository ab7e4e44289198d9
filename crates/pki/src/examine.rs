//! Judges a certificate and its key, in memory or as they are on disk.
//!
//! In: two texts, or two paths, and what is wanted of them. Out: the good pair, or the reason to remake it.
//! Never: an IO error taken for a broken file; a text that quotes a key.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use rcgen::KeyPair;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::ca::Ca;
use crate::inspect::{self, CertInfo, Usage};
use crate::issue::{Leaf, LeafUsages};
use crate::layout::PairPaths;
use crate::report::Why;
use crate::wanted::Policy;
use crate::{Error, files};

/// A certificate and the key that belongs to it. No `Debug`: it holds the key.
pub(crate) struct Pair {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) info: CertInfo,
    pub(crate) key: KeyPair,
    pub(crate) pem: PairPem,
}

/// A certificate and its key as PEM text. Its `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct PairPem {
    pub cert: Vec<u8>,
    pub key: Vec<u8>,
}

impl fmt::Debug for PairPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairPem").finish_non_exhaustive()
    }
}

/// What an examination comes to.
pub(crate) type Verdict = Result<Pair, Why>;

/// When it is, and what that means for a certificate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing<'a> {
    pub(crate) now: SystemTime,
    pub(crate) policy: &'a Policy,
}

impl Timing<'_> {
    fn ending(&self, info: &CertInfo) -> Option<Why> {
        let until = info.not_after;
        match until.duration_since(self.now) {
            Err(_) => Some(Why::Expired { until }),
            Ok(left) if left.is_zero() => Some(Why::Expired { until }),
            Ok(left) if left < self.policy.renew_before => Some(Why::NearExpiry { until }),
            Ok(_) => None,
        }
    }
}

/// The CA. One that begins in the future is good: see [`crate::Report::clock_behind`].
pub(crate) fn ca(paths: &PairPaths, timing: Timing<'_>) -> Result<Verdict, Error> {
    Ok(load(paths)?.and_then(|pair| may_sign(pair, timing)))
}

fn may_sign(pair: Pair, timing: Timing<'_>) -> Verdict {
    signs(&pair)?;
    match timing.ending(&pair.info) {
        Some(why) => Err(why),
        None => Ok(pair),
    }
}

/// Is it a CA's at all, whenever it is valid?
pub(crate) fn signs(pair: &Pair) -> Result<(), Why> {
    let info = &pair.info;
    if info.is_ca && info.usages.contains(&Usage::CertSign) {
        return Ok(());
    }
    Err(Why::WrongUsage {
        found: info.usages.clone(),
    })
}

/// A leaf that should say `wanted` and be signed by `ca`.
pub(crate) fn leaf(
    paths: &PairPaths,
    wanted: &Leaf<'_>,
    ca: &Ca,
    timing: Timing<'_>,
) -> Result<Verdict, Error> {
    let judge = |pair: Pair| match fault(&pair, wanted, ca, timing) {
        Some(why) => Err(why),
        None => Ok(pair),
    };
    Ok(load(paths)?.and_then(judge))
}

/// Did `ca` issue this certificate to `name`, and is the key beside it, if there is one, its own?
pub(crate) fn is_issued(paths: &PairPaths, name: &str, ca: &Ca) -> Result<bool, Error> {
    let Some(pem) = files::read(&paths.cert)? else {
        return Ok(false);
    };
    let Ok(der) = inspect::certificate_der(&pem) else {
        return Ok(false);
    };
    let Ok(cert) = inspect::parse(&der) else {
        return Ok(false);
    };
    let public_key = &cert.public_key().subject_public_key.data;
    let matches = |pem: Vec<u8>| private_key(&pem).is_some_and(|key| key.public_key_raw() == &**public_key);
    let key_fits = files::read(&paths.key)?.is_none_or(matches);
    let info = inspect::describe(&der, &cert);
    Ok(key_fits && !info.is_ca && info.common_name == name && signed_by(&der, &ca.der))
}

/// What is wrong with a leaf that should say `wanted` and be signed by `ca`.
pub(crate) fn fault(pair: &Pair, wanted: &Leaf<'_>, ca: &Ca, timing: Timing<'_>) -> Option<Why> {
    let info = &pair.info;
    if info.is_ca || !usages_fit(&info.usages, wanted.usages) {
        return Some(Why::WrongUsage {
            found: info.usages.clone(),
        });
    }
    if !signed_by(&pair.der, &ca.der) {
        return Some(Why::NotSignedByCa);
    }
    if info.sans != wanted.sans {
        return Some(Why::WrongSans {
            found: info.sans.clone(),
            wanted: wanted.sans.clone(),
        });
    }
    if info.common_name != wanted.common_name {
        let (found, wanted) = (info.common_name.clone(), wanted.common_name.to_owned());
        return Some(Why::WrongName { found, wanted });
    }
    // Under a CA that is not valid yet either, it is the clock that is wrong, and no new leaf would help.
    if info.not_before > timing.now && ca.info.not_before <= timing.now {
        return Some(Why::NotYetValid {
            from: info.not_before,
        });
    }
    // One that ends with its CA would not live longer if it were recreated; it is the CA's turn.
    timing.ending(info).filter(|_| info.not_after < ca.info.not_after)
}

fn usages_fit(found: &[Usage], wanted: LeafUsages) -> bool {
    let wanted = match wanted {
        LeafUsages::ServerAndClient => {
            BTreeSet::from([Usage::DigitalSignature, Usage::ServerAuth, Usage::ClientAuth])
        }
        LeafUsages::Client => BTreeSet::from([Usage::DigitalSignature, Usage::ClientAuth]),
    };
    found.iter().cloned().collect::<BTreeSet<_>>() == wanted
}

fn signed_by(cert: &CertificateDer<'_>, ca: &CertificateDer<'_>) -> bool {
    let (Ok(cert), Ok(ca)) = (inspect::parse(cert), inspect::parse(ca)) else {
        return false;
    };
    cert.issuer() == ca.subject() && cert.verify_signature(Some(ca.public_key())).is_ok()
}

fn load(paths: &PairPaths) -> Result<Verdict, Error> {
    let missing = |path: &Path| {
        Ok(Err(Why::Missing {
            path: path.to_owned(),
        }))
    };
    let Some(cert_pem) = files::read(&paths.cert)? else {
        return missing(&paths.cert);
    };
    let Some(key_pem) = files::read(&paths.key)? else {
        return missing(&paths.key);
    };
    Ok(pair(
        paths,
        PairPem {
            cert: cert_pem,
            key: key_pem,
        },
    ))
}

/// Reads a pair; `names` are what its two parts are called.
pub(crate) fn pair(names: &PairPaths, pem: PairPem) -> Verdict {
    let unreadable = |path: &Path, why: String| Why::Unreadable {
        path: path.to_owned(),
        why,
    };
    let der = inspect::certificate_der(&pem.cert).map_err(|why| unreadable(&names.cert, why))?;
    let (info, public_key) = match inspect::parse(&der) {
        Ok(cert) => (
            inspect::describe(&der, &cert),
            cert.public_key().subject_public_key.data.to_vec(),
        ),
        Err(why) => return Err(unreadable(&names.cert, why)),
    };
    // The parsers' own words are left out: they might quote what they stumbled over.
    let Some(key) = private_key(&pem.key) else {
        return Err(unreadable(
            &names.key,
            "it is not a private key in PEM form".to_owned(),
        ));
    };
    if key.public_key_raw() != public_key {
        return Err(Why::KeyMismatch);
    }
    Ok(Pair { der, info, key, pem })
}

/// The key in a PEM text. Its label counts: etcd goes by it, rcgen alone would not.
fn private_key(pem: &[u8]) -> Option<KeyPair> {
    let der = PrivateKeyDer::from_pem_slice(pem).ok()?;
    KeyPair::try_from(&der).ok()
}
