//! Reads one certificate for people and for [`crate::ensure`]'s judgement.
//!
//! In: a PEM file with one certificate (a key in it is not looked at). Out: [`CertInfo`].
//! Never: a panic on any bytes; more than [`crate::files::MAX_FILE`] bytes read.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::ca::describe_all;
use crate::wanted::San;
use crate::{Error, files};

/// SHA-256 of a certificate's DER form; shown as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(der: &[u8]) -> Fingerprint {
        Fingerprint(Sha256::digest(der).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Something a certificate may be used for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Usage {
    /// Signing in a handshake.
    DigitalSignature,
    CertSign,
    CrlSign,
    /// Being a TLS server.
    ServerAuth,
    /// Being a TLS client.
    ClientAuth,
    /// Something quorate never asks for.
    Other(String),
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertInfo {
    /// Whom it is for, e.g. `CN=demo-0, O=demo`.
    pub subject: String,
    /// The common name alone; empty where there is none.
    pub common_name: String,
    pub issuer: String,
    /// The DNS names and IP addresses it is valid for.
    pub sans: BTreeSet<San>,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
    /// SHA-256 of its DER form.
    pub fingerprint: Fingerprint,
    /// It may sign other certificates.
    pub is_ca: bool,
    /// What it may be used for, sorted.
    pub usages: Vec<Usage>,
}

/// Reads the certificate in `path`.
pub fn inspect(path: &Path) -> Result<CertInfo, Error> {
    let not_one = |why: String| Error::NotACertificate {
        path: path.to_owned(),
        why,
    };
    let pem = files::read(path)?.ok_or_else(|| Error::Read {
        path: path.to_owned(),
        source: std::io::ErrorKind::NotFound.into(),
    })?;
    let der = certificate_der(&pem).map_err(not_one)?;
    let cert = parse(&der).map_err(not_one)?;
    Ok(describe(&der, &cert))
}

/// Reads all certificates in `path`; at least one.
pub fn inspect_all(path: &Path) -> Result<Vec<CertInfo>, Error> {
    let pem = files::read(path)?.ok_or_else(|| Error::Read {
        path: path.to_owned(),
        source: std::io::ErrorKind::NotFound.into(),
    })?;
    describe_all(&pem).map_err(|why| Error::NotACertificate {
        path: path.to_owned(),
        why,
    })
}

/// The one certificate in a PEM text.
pub(crate) fn certificate_der(pem: &[u8]) -> Result<CertificateDer<'static>, String> {
    let mut found = CertificateDer::pem_slice_iter(pem);
    match (found.next(), found.next()) {
        (None, _) => Err("it holds no certificate".to_owned()),
        (Some(Ok(der)), None) => Ok(der),
        (Some(Err(_)), _) | (_, Some(Err(_))) => Err("its PEM text is damaged or cut short".to_owned()),
        (Some(Ok(_)), Some(Ok(_))) => Err("it holds more than one certificate".to_owned()),
    }
}

/// The certificate in `der`, all of it.
pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], cert)) => Ok(cert),
        Ok(_) => Err("bytes follow the certificate".to_owned()),
        Err(_) => Err("its content is not an X.509 certificate".to_owned()),
    }
}

/// What `cert`, parsed from `der`, says.
pub(crate) fn describe(der: &[u8], cert: &X509Certificate<'_>) -> CertInfo {
    CertInfo {
        subject: cert.subject().to_string(),
        common_name: cert
            .subject()
            .iter_common_name()
            .next()
            .and_then(|name| name.as_str().ok())
            .unwrap_or_default()
            .to_owned(),
        issuer: cert.issuer().to_string(),
        sans: sans(cert),
        not_before: system_time(cert.validity().not_before),
        not_after: system_time(cert.validity().not_after),
        fingerprint: Fingerprint::of(der),
        is_ca: cert.is_ca(),
        usages: usages(cert),
    }
}

fn sans(cert: &X509Certificate<'_>) -> BTreeSet<San> {
    let Ok(Some(extension)) = cert.subject_alternative_name() else {
        return BTreeSet::new();
    };
    let san = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(San::Dns(name.to_ascii_lowercase())),
        GeneralName::IPAddress(bytes) => <[u8; 4]>::try_from(*bytes)
            .map(IpAddr::from)
            .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
            .ok()
            .map(San::Ip),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(san).collect()
}

fn usages(cert: &X509Certificate<'_>) -> Vec<Usage> {
    let mut usages = BTreeSet::new();
    if let Ok(Some(extension)) = cert.key_usage() {
        let flags = extension.value;
        let named = [
            (flags.digital_signature(), Usage::DigitalSignature),
            (flags.key_cert_sign(), Usage::CertSign),
            (flags.crl_sign(), Usage::CrlSign),
            (
                flags.key_encipherment(),
                Usage::Other("keyEncipherment".to_owned()),
            ),
            (flags.key_agreement(), Usage::Other("keyAgreement".to_owned())),
        ];
        usages.extend(named.into_iter().filter(|(set, _)| *set).map(|(_, usage)| usage));
    }
    if let Ok(Some(extension)) = cert.extended_key_usage() {
        let eku = extension.value;
        let named = [
            (eku.server_auth, Usage::ServerAuth),
            (eku.client_auth, Usage::ClientAuth),
            (eku.any, Usage::Other("any".to_owned())),
            (eku.code_signing, Usage::Other("codeSigning".to_owned())),
        ];
        usages.extend(named.into_iter().filter(|(set, _)| *set).map(|(_, usage)| usage));
        usages.extend(eku.other.iter().map(|oid| Usage::Other(oid.to_id_string())));
    }
    usages.into_iter().collect()
}

fn system_time(time: ASN1Time) -> SystemTime {
    let seconds = time.timestamp();
    let span = Duration::from_secs(seconds.unsigned_abs());
    let moved = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(span)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(span)
    };
    moved.unwrap_or(SystemTime::UNIX_EPOCH)
}
