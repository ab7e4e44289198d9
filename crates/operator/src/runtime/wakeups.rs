//! Which objects something happened to. However often that was, an object is in here once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::runtime::work::WorkKey;

/// Objects to look at.
#[derive(Debug, Default)]
pub struct Wakeups {
    woken: Mutex<BTreeSet<WorkKey>>,
    news: Notify,
}

impl Wakeups {
    /// Something happened to an object, or to one that belongs to it.
    pub fn wake(&self, key: WorkKey) {
        self.woken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key);
        self.news.notify_one();
    }

    /// Waits for any, and takes all there are.
    pub async fn next(&self) -> BTreeSet<WorkKey> {
        loop {
            let all = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
            if !all.is_empty() {
                return all;
            }
            self.news.notified().await;
        }
    }
}
