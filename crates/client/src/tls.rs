//! TLS material for talking to members.
//!
//! In: PEM, from files or bytes. Out: a checked [`Tls`], whose every error names the file it came from.
//! The server is always verified against the given CA and by name; there is no way to skip it.
//! Key bytes must never be printed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig};

/// Where the TLS material lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the CAs that members' certificates are verified against.
    pub ca: PathBuf,
    /// Our own certificate chain and key, where members demand client certificates.
    pub identity: Option<IdentityFiles>,
}

/// Where a certificate and its key lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A client's certificate and key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    pub cert_pem: Vec<u8>,
    pub key_pem: Vec<u8>,
}

/// Everything needed to open a TLS connection to a member.
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    ca_pem: Vec<u8>,
    identity: Option<Identity>,
    server_name: Option<String>,
}

/// TLS material that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Text that should hold certificates does not.
    #[error("parse certificates in {origin}")]
    Certificates {
        /// The file, or what the bytes were given as.
        origin: String,
        #[source]
        source: pem::Error,
    },
    /// Text that should hold a private key does not.
    #[error("parse the private key in {origin}")]
    Key {
        /// The file, or what the bytes were given as.
        origin: String,
        #[source]
        source: pem::Error,
    },
}

impl Tls {
    pub fn from_pem(ca_pem: Vec<u8>, identity: Option<Identity>) -> Result<Tls, TlsError> {
        check_certificates(&ca_pem, "the CA bytes")?;
        if let Some(identity) = &identity {
            check_certificates(&identity.cert_pem, "the certificate bytes")?;
            check_key(&identity.key_pem, "the key bytes")?;
        }
        Ok(Tls {
            ca_pem,
            identity,
            server_name: None,
        })
    }

    /// Reads and checks PEM files.
    pub fn from_files(files: &TlsFiles) -> Result<Tls, TlsError> {
        let ca_pem = read(&files.ca)?;
        check_certificates(&ca_pem, &files.ca.display().to_string())?;
        let identity = match &files.identity {
            None => None,
            Some(IdentityFiles { cert, key }) => {
                let identity = Identity {
                    cert_pem: read(cert)?,
                    key_pem: read(key)?,
                };
                check_certificates(&identity.cert_pem, &cert.display().to_string())?;
                check_key(&identity.key_pem, &key.display().to_string())?;
                Some(identity)
            }
        };
        Ok(Tls {
            ca_pem,
            identity,
            server_name: None,
        })
    }

    /// Verifies members' certificates against this name instead of the host in their URL.
    pub fn with_server_name(mut self, name: impl Into<String>) -> Tls {
        self.server_name = Some(name.into());
        self
    }

    pub(crate) fn config(&self, host: &str) -> ClientTlsConfig {
        // An IPv6 host stands in brackets in a URL and without them in a certificate.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.server_name.as_deref().unwrap_or(host);
        let config = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.ca_pem))
            .domain_name(name);
        match &self.identity {
            None => config,
            Some(Identity { cert_pem, key_pem }) => {
                config.identity(tonic::transport::Identity::from_pem(cert_pem, key_pem))
            }
        }
    }
}

impl Tls {
    /// The same for a connection that is not gRPC, and the name to verify.
    pub(crate) fn rustls(&self, host: &str) -> Option<(Arc<ClientConfig>, ServerName<'static>)> {
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::pem_slice_iter(&self.ca_pem).filter_map(Result::ok);
        roots.add_parsable_certificates(trusted);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .ok()?
            .with_root_certificates(roots);
        let config = match &self.identity {
            None => config.with_no_client_auth(),
            Some(Identity { cert_pem, key_pem }) => {
                let chain = CertificateDer::pem_slice_iter(cert_pem).filter_map(Result::ok);
                let key = PrivateKeyDer::from_pem_slice(key_pem).ok()?;
                config.with_client_auth_cert(chain.collect(), key).ok()?
            }
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(self.server_name.as_deref().unwrap_or(host).to_owned()).ok()?;
        Some((Arc::new(config), name))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("identity", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}

fn check_certificates(pem: &[u8], origin: &str) -> Result<(), TlsError> {
    let failed = |source| TlsError::Certificates {
        origin: origin.to_owned(),
        source,
    };
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        certificate.map_err(failed)?;
        found = true;
    }
    if found {
        Ok(())
    } else {
        Err(failed(pem::Error::NoItemsFound))
    }
}

fn check_key(pem: &[u8], origin: &str) -> Result<(), TlsError> {
    PrivateKeyDer::from_pem_slice(pem)
        .map(|_| ())
        .map_err(|source| TlsError::Key {
            origin: origin.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed() -> (Vec<u8>, Vec<u8>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (
            made.cert.pem().into_bytes(),
            made.signing_key.serialize_pem().into_bytes(),
        )
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (cert_pem, _) = signed();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("ca.crt"), &cert_pem).unwrap();
        std::fs::write(path("empty.key"), "").unwrap();
        let files = |ca: &str| TlsFiles {
            ca: path(ca),
            identity: Some(IdentityFiles {
                cert: path("ca.crt"),
                key: path("empty.key"),
            }),
        };

        let missing = Tls::from_files(&files("missing.crt")).unwrap_err().to_string();
        assert!(
            missing.starts_with("read ") && missing.ends_with("missing.crt"),
            "{missing}"
        );
        let no_certificate = Tls::from_files(&files("empty.key")).unwrap_err().to_string();
        assert!(no_certificate.ends_with("empty.key"), "{no_certificate}");
        let no_key = Tls::from_files(&files("ca.crt")).unwrap_err().to_string();
        assert!(
            no_key.starts_with("parse the private key") && no_key.ends_with("empty.key"),
            "{no_key}"
        );
    }

    #[test]
    fn debug_shows_no_key() {
        let (cert_pem, key_pem) = signed();
        let identity = Identity {
            cert_pem: cert_pem.clone(),
            key_pem,
        };
        assert_eq!(format!("{identity:?}"), "Identity { .. }");
        let tls = Tls::from_pem(cert_pem, Some(identity))
            .unwrap()
            .with_server_name("member-0");
        assert_eq!(
            format!("{tls:?}"),
            "Tls { identity: true, server_name: Some(\"member-0\"), .. }"
        );
    }
}
