//! What the operator serves to its cluster: `/metrics`, `/readyz`, `/healthz`, in plain text.
//!
//! Never: more than a handful of connections, or one that stays open without a word.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::figures::Figures;
use crate::health::Health;
use crate::lease::Tenure;
use crate::requests::Requests;

/// Connections at the same time.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may take, all in all.
const CONNECTION_LIMIT: Duration = Duration::from_secs(30);
const HEADER_LIMIT: Duration = Duration::from_secs(5);

/// What is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// The figures.
    pub figures: Arc<Figures>,
    /// Whether it leads.
    pub tenure: Tenure,
    /// What it has asked of the API server.
    pub requests: Requests,
    /// How the watches are.
    pub health: Health,
}

impl Served {
    /// Listens at `address`.
    pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
        TcpListener::bind(address).await
    }

    /// Serves for ever.
    pub async fn run(self, listener: TcpListener) {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else {
                return;
            };
            let Ok((stream, _)) = listener.accept().await else {
                // Out of file descriptors, say: that passes.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let served = self.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let answer = served.answer(&request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_LIMIT)
                    .serve_connection(TokioIo::new(stream), service);
                let _ = tokio::time::timeout(CONNECTION_LIMIT, connection).await;
                drop(permit);
            });
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let (status, text) = self.page(request.method(), request.uri().path());
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response
    }

    fn page(&self, method: &Method, path: &str) -> (StatusCode, String) {
        if *method != Method::GET && *method != Method::HEAD {
            return (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        }
        match path {
            "/metrics" => (
                StatusCode::OK,
                self.figures.text(self.tenure.holds(), &self.requests.counts()),
            ),
            "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => match self.health.missing() {
                missing if missing.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
                missing => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("these watches are not up yet: {missing}\n"),
                ),
            },
            _ => (
                StatusCode::NOT_FOUND,
                "try /metrics, /readyz or /healthz\n".to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        let served = Served {
            figures: Arc::default(),
            tenure: Tenure::default(),
            requests: Requests::default(),
            health: Health::default(),
        };
        served.health.expect("pods");
        let get = |path| served.page(&Method::GET, path).0;
        assert_eq!(get("/readyz"), StatusCode::SERVICE_UNAVAILABLE);
        assert!(served.page(&Method::GET, "/readyz").1.contains("pods"));
        served.health.well("pods", true);
        assert_eq!(get("/readyz"), StatusCode::OK);
        assert_eq!(get("/metrics"), StatusCode::OK);
        assert_eq!(get("/secrets"), StatusCode::NOT_FOUND);
        assert_eq!(
            served.page(&Method::POST, "/metrics").0,
            StatusCode::METHOD_NOT_ALLOWED
        );
    }
}
