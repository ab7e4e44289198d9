//! Reviews over HTTPS.
//!
//! In: a listener, and the certificate to show, which may change at any time. Out: answers. Every pod serves, whether it
//! holds the Lease or not: a verdict needs nothing but the object.
//! Never: a body longer than what an API server can store; a connection without a certificate to show.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use quorate_pki::PairPem;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{PATH, review};
use crate::runtime::listen::{self, Limits};

/// The API server waits for five seconds.
const LIMITS: Limits = Limits {
    connections: 64,
    idle: Duration::from_secs(5),
    time: Duration::from_secs(10),
};
/// Reviews read and judged at the same time: with [`BODY_MAX`], what they take of memory.
const REVIEWS_MAX: usize = 8;
/// How long the body of a review may take to arrive. The API server sends it at once.
const BODY_LIMIT: Duration = Duration::from_secs(2);
/// An object and the one before it, each as long as an API server stores; what is longer goes unjudged here.
const BODY_MAX: usize = 4 << 20;

/// What is shown, once there is something.
pub type Shown = watch::Receiver<Option<Arc<ServerConfig>>>;

/// What a connection is begun with. The words of parsers are left out: they might quote a key.
pub fn showing(pem: &PairPem) -> Result<ServerConfig, &'static str> {
    let chain = CertificateDer::pem_slice_iter(&pem.cert).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| "its certificate is damaged")?;
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|_| "its key is damaged")?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|_| "no version of TLS can be spoken")?;
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    config.map_err(|_| "its certificate and key do not belong together")
}

pub async fn run(listener: TcpListener, shown: Shown) {
    run_within(LIMITS, listener, shown).await;
}

async fn run_within(limits: Limits, listener: TcpListener, shown: Shown) {
    let room = Arc::new(Semaphore::new(REVIEWS_MAX));
    listen::accept(listener, limits, |stream, accepted| {
        let (config, room) = (shown.borrow().clone(), room.clone());
        async move {
            let Some(config) = config else { return };
            // A client that does not trust it, or speaks no TLS, gets no answer.
            if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                listen::answer(stream, accepted, |request| respond(request, room.clone())).await;
            }
        }
    })
    .await;
}

async fn respond(request: Request<Incoming>, room: Arc<Semaphore>) -> Response<Full<Bytes>> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if path != PATH {
        return text(StatusCode::NOT_FOUND, format!("only {PATH}\n"));
    }
    if method != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only POST\n".to_owned());
    }
    let too_long = || {
        text(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("at most {BODY_MAX} bytes\n"),
        )
    };
    if request.body().size_hint().lower() > BODY_MAX as u64 {
        return too_long();
    }
    let Ok(_permit) = room.acquire().await else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "it ends\n".to_owned());
    };
    let body = Limited::new(request.into_body(), BODY_MAX).collect();
    let body = match tokio::time::timeout(BODY_LIMIT, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return too_long(),
        Err(_) => {
            return text(
                StatusCode::REQUEST_TIMEOUT,
                "the body did not arrive\n".to_owned(),
            );
        }
    };
    match review::answer(&body.to_bytes()) {
        Ok(answer) => {
            let mut response = Response::new(Full::new(Bytes::from(answer)));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            response
        }
        Err(bad) => text(StatusCode::BAD_REQUEST, format!("{bad}\n")),
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::SystemTime;

    use quorate_pki::{Ca, Leaf, LeafUsages, San};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn issued(ca: &Ca) -> PairPem {
        let leaf = Leaf {
            common_name: "w",
            cluster_name: "o",
            sans: BTreeSet::from([San::Dns("w.n.svc".to_owned())]),
            usages: LeafUsages::ServerAndClient,
        };
        ca.issue(&leaf, HOUR, SystemTime::now()).unwrap()
    }

    async fn ask(address: std::net::SocketAddr, trusted: &Ca, request: &[u8]) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(&trusted.pem().cert).unwrap();
        roots.add(ca).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("w.n.svc").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        // The connection ends after one answer; how it ends is not looked at.
        let _ = stream.read_to_end(&mut answer).await;
        Ok(String::from_utf8(answer).unwrap())
    }

    fn post(path: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!("POST {path} HTTP/1.1\r\nHost: w\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    }

    #[tokio::test]
    async fn another_certificate_is_shown_without_a_restart_and_limits_hold() {
        let make = || Ca::make("o", HOUR, SystemTime::now()).unwrap();
        let (one, other) = (make(), make());
        let config = |ca: &Ca| Some(Arc::new(showing(&issued(ca)).unwrap()));
        let (show, shown) = watch::channel(None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(run(listener, shown));

        assert!(
            ask(address, &one, b"").await.is_err(),
            "there is nothing to show yet"
        );
        show.send(config(&one)).unwrap();
        let review = r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"kind":"x"}}}"#;
        let answer = ask(address, &one, &post(PATH, review)).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(r#""allowed":true"#),
            "{answer}"
        );
        assert!(ask(address, &other, b"").await.is_err(), "of another CA");

        show.send(config(&other)).unwrap();
        assert!(ask(address, &one, b"").await.is_err(), "of the former CA");
        let answer = ask(address, &other, &post("/elsewhere", "")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        let answer = ask(address, &other, &post(PATH, "{")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        let head = format!("POST {PATH} HTTP/1.1\r\nHost: w\r\nContent-Length: 5000000\r\n\r\n");
        let answer = ask(address, &other, head.as_bytes()).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        server.abort();
    }

    #[tokio::test]
    async fn idle_connections_do_not_switch_admission_off() {
        use crate::runtime::listen::tests::{PATIENT, idle};
        let ca = Ca::make("o", HOUR, SystemTime::now()).unwrap();
        let config = showing(&issued(&ca)).unwrap();
        let (_show, shown) = watch::channel(Some(Arc::new(config)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(run_within(PATIENT, listener, shown));
        let held = idle(address, 64).await;
        let review = r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"kind":"x"}}}"#;
        let answer = ask(address, &ca, &post(PATH, review)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(held);
        server.abort();
    }

    #[test]
    fn a_pair_that_does_not_match_is_not_shown_and_not_quoted() {
        let make = || Ca::make("o", HOUR, SystemTime::now()).unwrap();
        let (one, other) = (issued(&make()), issued(&make()));
        let mixed = PairPem {
            cert: one.cert,
            key: other.key,
        };
        assert!(showing(&mixed).unwrap_err().contains("belong together"));
        let damaged = PairPem {
            cert: mixed.cert,
            key: b"-----BEGIN PRIVATE KEY-----\nsecret\n".to_vec(),
        };
        assert!(!showing(&damaged).unwrap_err().contains("secret"));
    }
}
