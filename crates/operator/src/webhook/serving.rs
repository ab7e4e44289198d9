//! Reviews over HTTPS.
//!
//! In: a listener, and the certificate to show, which may change at any time. Out: answers. Every pod serves, whether it
//! holds the Lease or not: a verdict needs nothing but the object.
//! Never: a connection without a certificate to show; a review that waits for clients that send nothing.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
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

use super::body::{self, Unread};
use super::{PATH, review};
use crate::runtime::listen::{self, Accepted, Limits};

/// The API server waits for five seconds.
const LIMITS: Limits = Limits {
    connections: 64,
    idle: Duration::from_secs(5),
    time: Duration::from_secs(10),
};
/// Large reviews read and judged at the same time: with [`body::MAX`], what they take of memory.
const LARGE_MAX: usize = 8;
/// How long the body of a review may take to arrive. The API server sends it at once.
const BODY_LIMIT: Duration = Duration::from_secs(2);

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
    run_within((LIMITS, BODY_LIMIT), listener, shown).await;
}

async fn run_within((limits, body_limit): (Limits, Duration), listener: TcpListener, shown: Shown) {
    let places = Arc::new(Semaphore::new(LARGE_MAX));
    listen::accept(listener, limits, |stream, accepted| {
        let (config, places) = (shown.borrow().clone(), places.clone());
        async move {
            let Some(config) = config else { return };
            // A client that does not trust it, or speaks no TLS, gets no answer.
            if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                let respond = |request| respond(request, body_limit, &places, &accepted);
                listen::answer(stream, accepted.clone(), respond).await;
            }
        }
    })
    .await;
}

async fn respond(
    request: Request<Incoming>,
    limit: Duration,
    places: &Semaphore,
    accepted: &Accepted,
) -> Response<Full<Bytes>> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if path != PATH {
        return text(StatusCode::NOT_FOUND, format!("only {PATH}\n"));
    }
    if method != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only POST\n".to_owned());
    }
    let (body, _place) = match body::read(request.into_body(), limit, places).await {
        Ok(read) => read,
        Err(Unread::TooLong) => {
            let words = format!("at most {} bytes\n", body::MAX);
            return text(StatusCode::PAYLOAD_TOO_LARGE, words);
        }
        Err(Unread::Incomplete) => {
            return text(
                StatusCode::REQUEST_TIMEOUT,
                "the body did not arrive\n".to_owned(),
            );
        }
    };
    accepted.request_arrived();
    match review::answer(&body) {
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
    use tokio_rustls::client::TlsStream;
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

    /// A connection on which this was sent.
    async fn sent(
        address: std::net::SocketAddr,
        trusted: &Ca,
        request: &[u8],
    ) -> std::io::Result<TlsStream<TcpStream>> {
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
        Ok(stream)
    }

    async fn ask(address: std::net::SocketAddr, trusted: &Ca, request: &[u8]) -> std::io::Result<String> {
        let mut stream = sent(address, trusted, request).await?;
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
        let server = tokio::spawn(run_within((PATIENT, HOUR), listener, shown));
        let held = idle(address, 64).await;
        let review = r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"kind":"x"}}}"#;
        let answer = ask(address, &ca, &post(PATH, review)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(held);
        server.abort();
    }

    /// Nothing ends by itself here: a review that waits for one of them is never answered.
    #[tokio::test]
    async fn nor_do_requests_whose_body_does_not_arrive() {
        use crate::runtime::listen::tests::PATIENT;
        let ca = Ca::make("o", HOUR, SystemTime::now()).unwrap();
        let config = showing(&issued(&ca)).unwrap();
        let (_show, shown) = watch::channel(Some(Arc::new(config)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = Limits {
            connections: 2 * LARGE_MAX,
            ..PATIENT
        };
        let server = tokio::spawn(run_within((limits, HOUR), listener, shown));
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nHost: w\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
        );
        let asked = async {
            let mut held = Vec::new();
            for begin in [&b""[..], b"{"].repeat(4 * LARGE_MAX) {
                let mut stream = sent(address, &ca, head.as_bytes()).await.unwrap();
                // Its body is waited for from here on.
                let mut goes_on = [0; 12];
                stream.read_exact(&mut goes_on).await.unwrap();
                assert_eq!(&goes_on, b"HTTP/1.1 100");
                stream.write_all(begin).await.unwrap();
                held.push(stream);
            }
            let long = "x".repeat(300_000);
            let review = format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","request":{{"uid":"{long}","kind":{{"kind":"x"}}}}}}"#
            );
            let short = review.replace(&long, "u");
            for review in [short, review] {
                let answer = ask(address, &ca, &post(PATH, &review)).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer:.100}");
            }
            held.len()
        };
        let held = tokio::time::timeout(Duration::from_secs(120), asked).await;
        assert_eq!(held, Ok(8 * LARGE_MAX), "the review was not answered");
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
