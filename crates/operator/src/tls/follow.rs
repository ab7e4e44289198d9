//! The user's two Secrets, kept up to date by watches of nothing but them: they carry no label of ours.
//!
//! In: their names. Out: them as they are, without a request. Ends with the cluster it is kept for.
//! Never: another Secret of the user's, not even its name.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use quorate_api::TlsSecrets;
use tokio::task::JoinSet;

use crate::runtime::watch::{events, trim};

pub struct Followed {
    namespace: String,
    names: TlsSecrets,
    client: Store<Secret>,
    peer: Store<Secret>,
    _tasks: JoinSet<()>,
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Followed");
        shown.field("names", &self.names).finish_non_exhaustive()
    }
}

impl Followed {
    /// Begins to follow them.
    pub fn begin(client: &Client, namespace: &str, names: &TlsSecrets) -> Followed {
        let mut tasks = JoinSet::new();
        let mut follow = |name: &str| {
            let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let (store, writer) = reflector::store();
            let stream = events::watch::<Secret>(client, Some(namespace), config, trim::any).reflect(writer);
            // Errors are retried by the watch itself, with growing pauses; meanwhile the store stays as it was.
            tasks.spawn(stream.for_each(|_| std::future::ready(())));
            store
        };
        Followed {
            namespace: namespace.to_owned(),
            names: names.clone(),
            client: follow(&names.client),
            peer: follow(&names.peer),
            _tasks: tasks,
        }
    }

    /// Does it follow these?
    pub fn is_of(&self, names: &TlsSecrets) -> bool {
        self.names == *names
    }

    /// Waits until it is known whether they are there.
    pub async fn ready(&self) {
        // A writer is dropped only with its watch, and that with this.
        let _ = self.client.wait_until_ready().await;
        let _ = self.peer.wait_until_ready().await;
    }

    /// The client's and the peers', or which one is not there.
    pub fn both(&self) -> Result<(Arc<Secret>, Arc<Secret>), String> {
        let get = |store: &Store<Secret>, name: &str| {
            let secret = store.get(&ObjectRef::new(name).within(&self.namespace));
            secret.ok_or_else(|| {
                format!(
                    "Secret {name:?}, which spec.tls names, is not there; make it, with tls.crt, tls.key and ca.crt"
                )
            })
        };
        Ok((
            get(&self.client, &self.names.client)?,
            get(&self.peer, &self.names.peer)?,
        ))
    }
}
