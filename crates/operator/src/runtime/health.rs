//! How the watches are: which are up, and what is wrong with those that are not.
//!
//! In: what each watch meets. Out: lines for the log, and a text for the readiness probe. Never: a
//! line for each of many errors in a row.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of all watches, by the resource that each is for.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<BTreeMap<String, Watched>>>);

#[derive(Debug, Default)]
struct Watched {
    /// It has seen everything there is, once.
    up: bool,
    /// What is wrong since it last went well.
    wrong: Option<String>,
}

impl Health {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a watch for `resource`.
    pub fn expect(&self, resource: &str) {
        self.lock().entry(resource.to_owned()).or_default();
    }

    /// A watch has failed, and is tried again. Out: a line for the log, for the first failure in a row.
    pub fn failed(&self, resource: &str, why: &str) -> Option<String> {
        let mut all = self.lock();
        let watch = all.entry(resource.to_owned()).or_default();
        let first = watch.wrong.is_none();
        watch.wrong = Some(why.to_owned());
        first.then(|| format!("the watch of {resource} failed; retrying: {why}"))
    }

    /// A watch goes well; `up` if it has just seen everything there is. Out: a line for the log, if it did not before.
    pub fn well(&self, resource: &str, up: bool) -> Option<String> {
        let mut all = self.lock();
        let watch = all.entry(resource.to_owned()).or_default();
        watch.up |= up;
        let failed = watch.wrong.take().is_some();
        failed.then(|| format!("the watch of {resource} recovered"))
    }

    /// Which watches are not up yet, and why; empty if all are.
    pub fn missing(&self) -> String {
        let all = self.lock();
        let missing = all.iter().filter(|(_, watch)| !watch.up);
        let reported = missing.map(|(resource, watch)| match &watch.wrong {
            Some(why) => format!("{resource} ({why})"),
            None => resource.clone(),
        });
        reported.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_fails_is_logged_once_and_again_when_it_goes_on() {
        let health = Health::default();
        for resource in ["pods", "secrets"] {
            health.expect(resource);
        }
        assert_eq!(health.missing(), "pods, secrets");
        assert!(health.failed("pods", "forbidden").unwrap().contains("pods"));
        assert_eq!(health.failed("pods", "still forbidden"), None);
        assert_eq!(health.well("secrets", true), None);
        assert_eq!(health.missing(), "pods (still forbidden)");
        assert!(health.well("pods", true).is_some());
        assert_eq!(health.well("pods", false), None);
        assert_eq!(health.missing(), "");
        assert!(health.failed("pods", "gone").is_some());
        assert_eq!(health.missing(), "", "it was up, and what it saw is still there");
    }
}
