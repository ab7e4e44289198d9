//! The operator's requests to the API server, counted by verb and resource. An operator at rest makes none but for its
//! watches and its Lease; this is how that shows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::util::MapRequestLayer;

/// A connection that has said nothing for this long is given up. A watch of a quiet resource is ended by the API server
/// sooner than that (after 290 s), and recreated; with less, quiet watches would be recreated more often.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// What was asked: the verb, and the resource with its part (`etcdclusters/status`).
pub type RequestLabels = (&'static str, String);

#[derive(Clone, Debug, Default)]
pub struct RequestCounter(Arc<Mutex<BTreeMap<RequestLabels, u64>>>);

impl RequestCounter {
    /// A client whose requests are counted.
    pub fn client(&self, config: Config) -> Result<Client, kube::Error> {
        let config = patient(config);
        let counter = self.clone();
        let layer = MapRequestLayer::new(move |request: http::Request<Body>| {
            counter.count(request.method(), request.uri());
            request
        });
        Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
    }

    fn count(&self, method: &http::Method, uri: &http::Uri) {
        if let Some(asked) = asked(method, uri.path(), uri.query().unwrap_or_default()) {
            *self.lock().entry(asked).or_default() += 1;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<RequestLabels, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All counts so far.
    pub fn counts(&self) -> BTreeMap<RequestLabels, u64> {
        self.lock().clone()
    }
}

/// With a limit to how long a connection may say nothing.
fn patient(mut config: Config) -> Config {
    config.read_timeout = Some(SILENCE_MAX);
    // Counted from the request, not from when its connection was last used.
    config.reset_reader_on_write = true;
    config
}

/// Names of objects and namespaces are left out: what is counted must not grow with them.
fn asked(method: &http::Method, path: &str, query: &str) -> Option<RequestLabels> {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let prefix = match *parts.first()? {
        "api" => 2,
        "apis" => 3,
        _ => return None,
    };
    parts.drain(..prefix.min(parts.len()));
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    let (resource, named) = (parts.first()?, parts.get(1).is_some());
    let resource = match parts.get(2) {
        Some(part) => format!("{resource}/{part}"),
        None => (*resource).to_owned(),
    };
    let verb = match *method {
        http::Method::GET if query.split('&').any(|p| matches!(p, "watch=true" | "watch=1")) => "watch",
        http::Method::GET if named => "get",
        http::Method::GET => "list",
        http::Method::POST => "create",
        http::Method::PUT => "update",
        http::Method::PATCH => "patch",
        http::Method::DELETE => "delete",
        _ => "other",
    };
    Some((verb, resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_connection_ends_but_not_before_a_quiet_watch_does() {
        let config = patient(Config::new("https://192.0.2.1".parse().unwrap()));
        let watch = Duration::from_secs(290 + 5);
        assert!(config.read_timeout.is_some_and(|limit| limit > watch));
        assert!(config.reset_reader_on_write);
    }

    #[test]
    fn requests_are_distinguished_without_names() {
        use http::Method;
        let table = [
            (Method::GET, "/api/v1/pods", "watch=true&x=1", ("watch", "pods")),
            (Method::GET, "/api/v1/pods", "limit=500", ("list", "pods")),
            (
                Method::PATCH,
                "/api/v1/namespaces/n/pods/p",
                "",
                ("patch", "pods"),
            ),
            (
                Method::PUT,
                "/apis/etcd.improbable.io/v1alpha1/namespaces/n/etcdclusters/c/status",
                "",
                ("update", "etcdclusters/status"),
            ),
            (
                Method::GET,
                "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
                "",
                ("get", "leases"),
            ),
            (
                Method::POST,
                "/apis/apps/v1/namespaces/n/replicasets",
                "",
                ("create", "replicasets"),
            ),
        ];
        for (method, path, query, (verb, resource)) in table {
            assert_eq!(
                asked(&method, path, query),
                Some((verb, resource.to_owned())),
                "{path}"
            );
        }
        assert_eq!(asked(&Method::GET, "/version", ""), None);
        assert_eq!(asked(&Method::GET, "/api", ""), None);
    }
}
