//! Which clusters something happened to. However often that was, a cluster is in here once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::names::Names;

/// Clusters to look at.
#[derive(Debug, Default)]
pub struct Wakeups {
    clusters: Mutex<BTreeSet<Names>>,
    news: Notify,
}

impl Wakeups {
    /// Something happened to a cluster.
    pub fn wake(&self, names: Names) {
        self.clusters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(names);
        self.news.notify_one();
    }

    /// Waits for any, and takes all there are.
    pub async fn next(&self) -> BTreeSet<Names> {
        loop {
            let all = std::mem::take(&mut *self.clusters.lock().unwrap_or_else(PoisonError::into_inner));
            if !all.is_empty() {
                return all;
            }
            self.news.notified().await;
        }
    }
}
