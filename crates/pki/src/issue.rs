//! Makes keys and certificates.
//!
//! In: who it is for, the CA, the time. Out: a [`Pair`], in memory only; `files` writes it.
//! Never: a leaf that outlives its CA; a key or its PEM in a `Debug` text.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use time::OffsetDateTime;

use crate::ca::Ca;
use crate::examine::{Pair, PairPem};
use crate::wanted::San;
use crate::{Error, inspect};

/// Certificates begin this long before they are made, for machines whose clocks are a little behind.
pub(crate) const BACKDATED: Duration = Duration::from_secs(5 * 60);

/// What a leaf certificate says.
#[derive(Debug, Clone)]
pub struct Leaf<'a> {
    /// Its common name; of a client, the etcd user it stands for.
    pub common_name: &'a str,
    pub cluster_name: &'a str,
    /// Exactly the names it is valid for.
    pub sans: BTreeSet<San>,
    /// What it may be used for.
    pub usages: LeafUsages,
}

/// What a leaf may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafUsages {
    /// A member: it serves, and dials others and itself with the same certificate.
    ServerAndClient,
    Client,
}

/// A new CA, valid from a little before `now`.
pub(crate) fn ca(cluster_name: &str, lifetime: Duration, now: SystemTime) -> Result<Pair, Error> {
    let mut params = common("quorate CA", cluster_name)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let end = now.checked_add(lifetime).ok_or(Error::Time)?;
    finish("the CA", params, now, end, |params, key| params.self_signed(key))
}

/// A new leaf signed by `ca`, valid from a little before `now`.
pub(crate) fn leaf(leaf: &Leaf<'_>, ca: &Ca, lifetime: Duration, now: SystemTime) -> Result<Pair, Error> {
    let mut params = common(leaf.common_name, leaf.cluster_name)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match leaf.usages {
        LeafUsages::ServerAndClient => {
            vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ]
        }
        LeafUsages::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
    };
    for san in &leaf.sans {
        params.subject_alt_names.push(match san {
            San::Ip(ip) => SanType::IpAddress(*ip),
            San::Dns(name) => {
                let name = name
                    .as_str()
                    .try_into()
                    .map_err(|_| Error::San { text: name.clone() })?;
                SanType::DnsName(name)
            }
        });
    }
    let end = now
        .checked_add(lifetime)
        .ok_or(Error::Time)?
        .min(ca.info.not_after);
    finish(leaf.common_name, params, now, end, |params, key| {
        params.signed_by(key, &ca.issuer)
    })
}

fn common(common_name: &str, organization: &str) -> Result<CertificateParams, Error> {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, organization);
    name.push(DnType::CommonName, common_name);
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.serial_number = Some(random_serial()?);
    Ok(params)
}

fn finish(
    subject: &str,
    mut params: CertificateParams,
    now: SystemTime,
    end: SystemTime,
    sign: impl FnOnce(&CertificateParams, &KeyPair) -> Result<rcgen::Certificate, rcgen::Error>,
) -> Result<Pair, Error> {
    let failed = |source: rcgen::Error| Error::Issue {
        subject: subject.to_owned(),
        source: source.into(),
    };
    let begin = now
        .checked_sub(BACKDATED)
        .ok_or(Error::Time)?
        .max(SystemTime::UNIX_EPOCH);
    params.not_before = whole_seconds(begin)?;
    params.not_after = whole_seconds(end)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let cert = sign(&params, &key).map_err(failed)?;
    let der = cert.der().clone();
    let info = inspect::parse(&der).map(|cert| inspect::describe(&der, &cert));
    let info = info.map_err(|why| Error::Issue {
        subject: subject.to_owned(),
        source: why.into(),
    })?;
    let pem = PairPem {
        cert: cert.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
    };
    Ok(Pair { der, info, key, pem })
}

/// `time` as a certificate carries it: whole seconds, a year of at most four digits.
fn whole_seconds(time: SystemTime) -> Result<OffsetDateTime, Error> {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|_| Error::Time)?
        .as_secs();
    let seconds = i64::try_from(since).map_err(|_| Error::Time)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| Error::Time)
}

/// Sixteen random bytes, positive and never zero.
fn random_serial() -> Result<SerialNumber, Error> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        let got = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::Random { source: errno.into() })?;
        filled += got;
    }
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}
