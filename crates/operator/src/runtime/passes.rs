//! The passes under way, each known by its object.
//!
//! In: futures. Out: what each came to, with the object it was about. Never: an end that goes unnoticed; a pass that
//! panics ends as well.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::task::{Id, JoinSet};

use crate::runtime::work::WorkKey;

#[cfg(panic = "abort")]
compile_error!(
    "a pass that panics must not end the operator for all clusters: build with panic = \"unwind\""
);

/// Runs a pass; if it panics, returns the panic's message. What the pass was working on must not be used after that.
pub(crate) async fn caught<T>(pass: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(pass)
        .catch_unwind()
        .await
        .map_err(|payload| message(&*payload))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

/// Passes that come to a `T`.
#[derive(Debug)]
pub struct Passes<T> {
    tasks: JoinSet<T>,
    whose: HashMap<Id, WorkKey>,
}

impl<T> Default for Passes<T> {
    fn default() -> Self {
        Passes {
            tasks: JoinSet::new(),
            whose: HashMap::new(),
        }
    }
}

impl<T: Send + 'static> Passes<T> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.tasks.len()
    }

    pub fn begin(&mut self, key: WorkKey, pass: impl Future<Output = T> + Send + 'static) {
        let id = self.tasks.spawn(pass).id();
        self.whose.insert(id, key);
    }

    /// Waits for the end of any: whose it was, and what it came to, which is nothing if it panicked. `None` if there is
    /// none under way.
    pub async fn ended(&mut self) -> Option<(WorkKey, Option<T>)> {
        loop {
            let (id, result) = match self.tasks.join_next_with_id().await? {
                Ok((id, result)) => (id, Ok(result)),
                Err(error) => (error.id(), Err(error)),
            };
            let Some(key) = self.whose.remove(&id) else {
                continue;
            };
            if let Err(error) = &result {
                tracing::error!("the pass over {key} panicked or was cancelled: {error}");
            }
            return Some((key, result.ok()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_pass_and_nothing_else() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let named = "c";
        assert_eq!(
            caught::<()>(async { panic!("on purpose") }).await,
            Err("on purpose".to_owned())
        );
        assert_eq!(
            caught::<()>(async { panic!("of {named}") }).await,
            Err("of c".to_owned())
        );
        // As in a pass: after the first wait, on a thread of the runtime.
        let pass = caught::<()>(async {
            tokio::task::yield_now().await;
            panic!("later")
        });
        assert_eq!(tokio::spawn(pass).await.unwrap(), Err("later".to_owned()));
    }

    #[tokio::test]
    async fn a_pass_that_panics_ends_like_any_other() {
        let mut passes = Passes::default();
        passes.begin(WorkKey::cluster("n", "bad"), async { panic!("on purpose") });
        assert_eq!(passes.ended().await, Some((WorkKey::cluster("n", "bad"), None)));
        passes.begin(WorkKey::cluster("n", "good"), async { 7 });
        assert_eq!(passes.count(), 1);
        assert_eq!(
            passes.ended().await,
            Some((WorkKey::cluster("n", "good"), Some(7)))
        );
        assert_eq!(passes.ended().await, None);
    }
}
