//! A CA in memory: what signs, and what judges pairs that it should have signed.
//!
//! In: PEM texts, the time. Out: PEM texts, judgements. No file is read or written here: on a machine `ensure` does
//! that, elsewhere the keeper of the texts. Never: a key in a `Debug` text or an error.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rcgen::{Issuer, KeyPair};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::Error;
use crate::examine::{self, Pair, PairPem, Timing};
use crate::inspect::{self, CertInfo};
use crate::issue::{self, Leaf};
use crate::layout::PairPaths;
use crate::report::Why;
use crate::wanted::Policy;

/// A CA, ready to sign.
pub struct Ca {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) info: CertInfo,
    pem: PairPem,
    pub(crate) issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ca")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// What the two texts of a pair are called where there are no files.
fn in_memory() -> PairPaths {
    PairPaths {
        cert: PathBuf::from("the certificate"),
        key: PathBuf::from("the key"),
    }
}

impl Ca {
    /// A new one, valid from a little before `now`.
    pub fn make(cluster_name: &str, lifetime: Duration, now: SystemTime) -> Result<Ca, Error> {
        Ca::of(issue::ca(cluster_name, lifetime, now)?)
    }

    /// The CA in two texts, whenever it is valid; or why it is none.
    pub fn read(pem: &PairPem) -> Result<Ca, Why> {
        let pair = examine::pair(&in_memory(), pem.clone())?;
        examine::signs(&pair)?;
        Ca::of(pair).map_err(|_| Why::Unreadable {
            path: in_memory().cert,
            why: "no certificate can be issued with it".to_owned(),
        })
    }

    pub(crate) fn of(pair: Pair) -> Result<Ca, Error> {
        let Pair { der, info, key, pem } = pair;
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|source| Error::Issue {
            subject: "the CA".to_owned(),
            source: source.into(),
        })?;
        Ok(Ca {
            der,
            info,
            pem,
            issuer,
        })
    }

    /// Its certificate and key.
    pub fn pem(&self) -> &PairPem {
        &self.pem
    }

    /// What its certificate says.
    pub fn info(&self) -> &CertInfo {
        &self.info
    }

    /// A new certificate and key.
    pub fn issue(&self, wanted: &Leaf<'_>, lifetime: Duration, now: SystemTime) -> Result<PairPem, Error> {
        Ok(issue::leaf(wanted, self, lifetime, now)?.pem)
    }

    /// Is this pair what is wanted, signed by this CA, and good for a while? Or why it should be reissued.
    pub fn judge(
        &self,
        pem: &PairPem,
        wanted: &Leaf<'_>,
        policy: &Policy,
        now: SystemTime,
    ) -> Result<CertInfo, Why> {
        let pair = examine::pair(&in_memory(), pem.clone())?;
        match examine::fault(&pair, wanted, self, Timing { now, policy }) {
            Some(why) => Err(why),
            None => Ok(pair.info),
        }
    }
}

/// What each certificate in a PEM text says; at least one.
pub fn describe_all(pem: &[u8]) -> Result<Vec<CertInfo>, String> {
    let mut all = Vec::new();
    for der in CertificateDer::pem_slice_iter(pem) {
        let der = der.map_err(|_| "its PEM text is damaged or cut short".to_owned())?;
        all.push(inspect::parse(&der).map(|cert| inspect::describe(&der, &cert))?);
    }
    if all.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{LeafUsages, San};

    fn member(name: &str) -> Leaf<'_> {
        Leaf {
            common_name: name,
            cluster_name: "c",
            sans: BTreeSet::from([San::parse("c-0.c.n.svc").unwrap()]),
            usages: LeafUsages::ServerAndClient,
        }
    }

    #[test]
    fn what_it_issues_it_finds_good_until_the_end_is_near() {
        let (now, policy) = (SystemTime::now(), Policy::default());
        let ca = Ca::make("c", policy.ca_lifetime, now).unwrap();
        let read = Ca::read(ca.pem()).unwrap();
        assert_eq!(read.info(), ca.info());
        let pem = read.issue(&member("c-0"), policy.leaf_lifetime, now).unwrap();
        let info = ca.judge(&pem, &member("c-0"), &policy, now).unwrap();
        let near = info.not_after - policy.renew_before / 2;
        let why = ca.judge(&pem, &member("c-0"), &policy, near).unwrap_err();
        assert!(matches!(why, Why::NearExpiry { .. }), "{why}");
        let why = ca.judge(&pem, &member("c-1"), &policy, now).unwrap_err();
        assert!(matches!(why, Why::WrongName { .. }), "{why}");
    }

    #[test]
    fn another_ca_of_the_same_name_is_distinguished() {
        let (now, policy) = (SystemTime::now(), Policy::default());
        let [one, other] = [(); 2].map(|()| Ca::make("c", policy.ca_lifetime, now).unwrap());
        let pem = one.issue(&member("c-0"), policy.leaf_lifetime, now).unwrap();
        let why = other.judge(&pem, &member("c-0"), &policy, now).unwrap_err();
        assert_eq!(why, Why::NotSignedByCa);
        let mixed = PairPem {
            cert: one.pem().cert.clone(),
            key: other.pem().key.clone(),
        };
        assert_eq!(Ca::read(&mixed).unwrap_err(), Why::KeyMismatch);
        let why = Ca::read(&pem).unwrap_err();
        assert!(matches!(why, Why::WrongUsage { .. }), "{why}");
    }

    #[test]
    fn a_leaf_that_ends_with_its_ca_is_kept() {
        let (now, policy) = (SystemTime::now(), Policy::default());
        let ca = Ca::make("c", policy.renew_before / 2, now).unwrap();
        let pem = ca.issue(&member("c-0"), policy.leaf_lifetime, now).unwrap();
        ca.judge(&pem, &member("c-0"), &policy, now).unwrap();
    }

    #[test]
    fn bundles_are_described_and_keys_are_not() {
        let (now, policy) = (SystemTime::now(), Policy::default());
        let [one, other] = [(); 2].map(|()| Ca::make("c", policy.ca_lifetime, now).unwrap());
        let bundle = [one.pem().cert.clone(), other.pem().cert.clone()].concat();
        let reported = describe_all(&bundle).unwrap();
        assert_eq!(reported, [one.info().clone(), other.info().clone()]);
        assert!(describe_all(b"").is_err());
        let shown = format!("{one:?} {:?}", one.pem());
        assert!(!shown.contains("PRIVATE"), "{shown}");
    }
}
