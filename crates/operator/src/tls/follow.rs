//! Secrets of the user's, kept up to date by watches of nothing but them: they carry no label of ours.
//!
//! In: their names. Out: them as they are, without a request. Ends with the cluster it is kept for.
//! Never: another Secret of the user's, not even its name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::JoinSet;

use crate::runtime::watch::{events, trim};

pub struct Followed {
    namespace: String,
    stores: BTreeMap<String, Store<Secret>>,
    _tasks: JoinSet<()>,
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Followed");
        let names: Vec<&String> = self.stores.keys().collect();
        shown.field("names", &names).finish_non_exhaustive()
    }
}

impl Followed {
    /// Begins to follow them.
    pub fn begin(client: &Client, namespace: &str, names: &[&str]) -> Followed {
        let mut tasks = JoinSet::new();
        let mut follow = |name: &&str| {
            let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let (store, writer) = reflector::store();
            let stream =
                events::watch::<Secret, Secret>(client, Some(namespace), config, trim::any, events::object)
                    .reflect(writer);
            // Errors are retried by the watch itself, with growing pauses; meanwhile the store stays as it was.
            tasks.spawn(stream.for_each(|_| std::future::ready(())));
            ((*name).to_owned(), store)
        };
        let stores = names.iter().map(&mut follow).collect();
        Followed {
            namespace: namespace.to_owned(),
            stores,
            _tasks: tasks,
        }
    }

    /// Does it follow these, and no other?
    pub fn is_of(&self, names: &[&str]) -> bool {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        self.stores.keys().map(String::as_str).eq(names)
    }

    /// Waits until it is known whether they are there.
    pub async fn ready(&self) {
        for store in self.stores.values() {
            // A writer is dropped only with its watch, and that with this.
            let _ = store.wait_until_ready().await;
        }
    }

    pub fn get(&self, name: &str) -> Option<Arc<Secret>> {
        let store = self.stores.get(name)?;
        store.get(&ObjectRef::new(name).within(&self.namespace))
    }
}
