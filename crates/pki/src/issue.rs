//! Makes keys and certificates.
//!
//! In: who it is for, the CA, the time. Out: PEM texts, in memory only; `files` writes them.
//! Never: a leaf that outlives its CA; a key or its PEM in a `Debug` text.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;

use crate::Error;
use crate::wanted::San;

/// Certificates begin this long before they are made, for machines whose clocks are a little behind.
pub(crate) const BACKDATED: Duration = Duration::from_secs(5 * 60);

/// A fresh certificate and its key. No `Debug`: it holds the key.
pub(crate) struct Made {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) cert_pem: String,
    pub(crate) key_pem: String,
    pub(crate) key: KeyPair,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

/// The authority, ready to sign. No `Debug`: it holds the key.
pub(crate) struct Authority {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The authority of a CA certificate, valid in `validity`, and the key that belongs to it.
    pub(crate) fn new(
        der: CertificateDer<'static>,
        key: KeyPair,
        validity: Range<SystemTime>,
    ) -> Result<Authority, rcgen::Error> {
        let issuer = Issuer::from_ca_cert_der(&der, key)?;
        Ok(Authority {
            der,
            not_before: validity.start,
            not_after: validity.end,
            issuer,
        })
    }
}

/// What a leaf certificate says.
#[derive(Debug, Clone)]
pub(crate) struct Leaf<'a> {
    pub(crate) common_name: &'a str,
    pub(crate) cluster_name: &'a str,
    pub(crate) sans: BTreeSet<San>,
    pub(crate) usages: LeafUsages,
}

/// What a leaf may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeafUsages {
    /// A member: it serves, and dials others and itself with the same certificate.
    ServerAndClient,
    /// A client.
    Client,
}

/// A new CA, valid from a little before `now`.
pub(crate) fn authority(cluster_name: &str, lifetime: Duration, now: SystemTime) -> Result<Made, Error> {
    let mut params = common("quorate CA", cluster_name)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let end = now.checked_add(lifetime).ok_or(Error::Time)?;
    finish("the CA", params, now, end, |params, key| params.self_signed(key))
}

/// A new leaf signed by `authority`, valid from a little before `now`.
pub(crate) fn leaf(
    leaf: &Leaf<'_>,
    authority: &Authority,
    lifetime: Duration,
    now: SystemTime,
) -> Result<Made, Error> {
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
        .min(authority.not_after);
    finish(leaf.common_name, params, now, end, |params, key| {
        params.signed_by(key, &authority.issuer)
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
) -> Result<Made, Error> {
    let failed = |source: rcgen::Error| Error::Issue {
        subject: subject.to_owned(),
        source: source.into(),
    };
    let begin = now
        .checked_sub(BACKDATED)
        .ok_or(Error::Time)?
        .max(SystemTime::UNIX_EPOCH);
    let (not_before, begin) = whole_seconds(begin)?;
    let (not_after, end) = whole_seconds(end)?;
    params.not_before = begin;
    params.not_after = end;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let cert = sign(&params, &key).map_err(failed)?;
    let (cert_pem, key_pem) = (cert.pem(), key.serialize_pem());
    Ok(Made {
        der: cert.der().clone(),
        cert_pem,
        key_pem,
        key,
        not_before,
        not_after,
    })
}

/// `time` as a certificate carries it: whole seconds, a year of at most four digits.
fn whole_seconds(time: SystemTime) -> Result<(SystemTime, OffsetDateTime), Error> {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|_| Error::Time)?
        .as_secs();
    let seconds = i64::try_from(since).map_err(|_| Error::Time)?;
    let exact = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| Error::Time)?;
    Ok((SystemTime::UNIX_EPOCH + Duration::from_secs(since), exact))
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
