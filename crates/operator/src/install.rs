//! Everything that installs the operator, as one stream of YAML documents.
//!
//! In: [`Settings`]. Out: definitions, namespace, account, rights, Deployment and Services, and if asked for the webhook's
//! configurations and NetworkPolicies, in an order in which `kubectl apply -f -` can take them. Applying the stream again changes nothing.
//!
//! What must never happen: a right that is not listed one by one; a document that only some API servers read alike.

mod deployment;
mod network;
mod rights;
mod stream;

pub use stream::stream;

/// The name of the operator's objects.
pub const NAME: &str = "quorate-operator";
/// Where the operator lives by default.
pub const NAMESPACE: &str = "quorate-system";
/// The port of the operator's pods for `/metrics` and `/readyz`.
pub const METRICS_PORT: u16 = 8080;
/// The user the operator runs as: nobody in particular, and not root.
pub const USER: i64 = 65532;

/// How the operator is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of the operator itself; clusters may live in any.
    pub namespace: String,
    /// The image with quorate as its entry point.
    pub image: String,
    /// How many pods: one works, the others stand by.
    pub replicas: u32,
    /// With the admission webhook.
    pub webhook: bool,
    /// The only namespace that clusters may live in; it has rights nowhere else then.
    pub watch_namespace: Option<String>,
    pub network_policy: bool,
    /// The repository of etcd's images, where it is not the usual one.
    pub etcd_repository: Option<String>,
    /// Secrets with which the operator's own image is pulled.
    pub pull_secrets: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            namespace: NAMESPACE.to_owned(),
            image: concat!("quorate:", env!("CARGO_PKG_VERSION")).to_owned(),
            replicas: 1,
            webhook: false,
            watch_namespace: None,
            network_policy: false,
            etcd_repository: None,
            pull_secrets: Vec::new(),
        }
    }
}

/// Why the stream could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {what} as YAML")]
pub struct InstallError {
    what: &'static str,
    source: serde_saphyr::ser::Error,
}

#[cfg(test)]
mod tests;
