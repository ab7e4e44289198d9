//! What the operator serves to its cluster: `/metrics`, `/readyz`, `/healthz`, in plain text.
//!
//! Never: more than a handful of connections, or one that stays open without a word; readiness that waits for those who
//! read the metrics.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;

use crate::runtime::health::Health;
use crate::runtime::lease::Leadership;
use crate::runtime::listen::{self, Limits};
use crate::runtime::metrics::Metrics;
use crate::runtime::request_counter::RequestCounter;

const LIMITS: Limits = Limits {
    connections: 16,
    idle: Duration::from_secs(5),
    time: Duration::from_secs(30),
};

#[derive(Clone, Debug)]
pub struct Served {
    pub metrics: Arc<Metrics>,
    pub tenure: Leadership,
    /// What it has asked of the API server.
    pub requests: RequestCounter,
    /// How the watches are.
    pub health: Health,
}

impl Served {
    pub async fn run(self, listener: TcpListener) {
        self.run_within(LIMITS, listener).await;
    }

    async fn run_within(self, limits: Limits, listener: TcpListener) {
        listen::accept(listener, limits, |stream, accepted| {
            let served = self.clone();
            async move { listen::answer(stream, accepted, async |request| served.answer(&request)).await }
        })
        .await;
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
                self.metrics.text(self.tenure.holds(), &self.requests.counts()),
            ),
            "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => match self.health.missing() {
                missing if missing.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
                missing => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("not up yet: {missing}\n"),
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

    fn served() -> Served {
        Served {
            metrics: Arc::default(),
            tenure: Leadership::default(),
            requests: RequestCounter::default(),
            health: Health::default(),
        }
    }

    #[tokio::test]
    async fn readiness_is_answered_while_others_hold_connections() {
        use crate::runtime::listen::tests::{PATIENT, get, idle};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(served().run_within(PATIENT, listener));
        let held = idle(address, 64).await;
        assert_eq!(get(address, "/readyz").await, "HTTP/1.1 200");
        assert_eq!(get(address, "/metrics").await, "HTTP/1.1 200");
        drop(held);
    }

    #[test]
    fn pages() {
        let served = served();
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
