//! Whom a store's certificate may be from.
//!
//! In: the address' `ca=FILE`. Out: a client that trusts that CA and no other; without one, whom the machine trusts;
//! on a machine that knows none, as in an image that holds nothing but us, the public CAs.
//! Never: a certificate that is not checked.

use std::path::Path;
use std::sync::Once;

use object_store::{Certificate, ClientOptions};

use crate::Error;

/// A CA's file is small; a bundle of all public ones has a quarter of this.
const LIMIT: u64 = 1 << 20;

pub(super) fn trusting(ca: Option<&Path>, client: ClientOptions) -> Result<ClientOptions, Error> {
    one_crypto_provider();
    let certificates = match ca {
        Some(path) => read(path).map_err(|source| Error::File {
            doing: "read the CA in",
            path: path.to_owned(),
            source,
        })?,
        None if !rustls_native_certs::load_native_certs().certs.is_empty() => return Ok(client),
        None => {
            let public = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
            public.filter_map(|der| Certificate::from_der(der).ok()).collect()
        }
    };
    // These and no others: a private CA is given for a server that no public one may speak for.
    let client = client.with_no_system_certificates(true);
    Ok(certificates
        .into_iter()
        .fold(client, ClientOptions::with_root_certificate))
}

fn read(path: &Path) -> std::io::Result<Vec<Certificate>> {
    use std::io::{Error, Read};
    let mut pem = Vec::new();
    std::fs::File::open(path)?.take(LIMIT + 1).read_to_end(&mut pem)?;
    if pem.len() as u64 > LIMIT {
        return Err(Error::other("it is too large to be one"));
    }
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(Error::other("it holds no certificate in PEM")),
        Err(error) => Err(Error::other(error)),
    }
}

/// The client's TLS takes the process' provider, and panics without one. One that is there already is as good.
fn one_crypto_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
