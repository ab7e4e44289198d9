//! The passes under way, each known by its cluster.
//!
//! In: futures. Out: what each came to, with the cluster it was about. Never: an end that goes unnoticed; a pass that
//! panics ends as well, and its cluster is told.

use std::collections::HashMap;
use std::future::Future;

use tokio::task::{Id, JoinSet};

use crate::events::log_line;
use crate::names::Names;

/// Passes that come to a `T`.
#[derive(Debug)]
pub struct Passes<T> {
    tasks: JoinSet<T>,
    whose: HashMap<Id, Names>,
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

    /// Begins one.
    pub fn begin(&mut self, names: Names, pass: impl Future<Output = T> + Send + 'static) {
        let id = self.tasks.spawn(pass).id();
        self.whose.insert(id, names);
    }

    /// Waits for the end of any: whose it was, and what it came to, which is nothing if it panicked. `None` if there is
    /// none under way.
    pub async fn ended(&mut self) -> Option<(Names, Option<T>)> {
        loop {
            let (id, result) = match self.tasks.join_next_with_id().await? {
                Ok((id, result)) => (id, Some(result)),
                Err(error) => {
                    log_line(&format!("a pass ended before its time: {error}"));
                    (error.id(), None)
                }
            };
            if let Some(names) = self.whose.remove(&id) {
                return Some((names, result));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pass_that_panics_ends_like_any_other() {
        let mut passes = Passes::default();
        passes.begin(Names::of("n", "bad"), async { panic!("on purpose") });
        assert_eq!(passes.ended().await, Some((Names::of("n", "bad"), None)));
        passes.begin(Names::of("n", "good"), async { 7 });
        assert_eq!(passes.count(), 1);
        assert_eq!(passes.ended().await, Some((Names::of("n", "good"), Some(7))));
        assert_eq!(passes.ended().await, None);
    }
}
