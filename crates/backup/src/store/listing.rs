//! A long list, page by page.
//!
//! In: a prefix and where to begin. Out: every object below it. Patience counts from the last object that came: a list of
//! any length may go on as long as it gets on, and one that breaks is continued where it broke.
//! Never: a list without a limit.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::time::Instant;

use super::objects::Objects;
use super::patience::{Limits, Pauses, passed, worth_another};
use super::trouble::Failure;
use super::{Found, LIST_LIMIT};

/// What has come so far.
struct Seen {
    all: BTreeMap<String, Found>,
    progress: Instant,
}

pub(crate) async fn list(
    objects: &Objects,
    limits: Limits,
    prefix: &str,
    after: Option<&str>,
) -> Result<Vec<Found>, Failure> {
    let below = if prefix.is_empty() {
        String::new()
    } else {
        format!("{prefix}/")
    };
    let seen = Mutex::new(Seen {
        all: BTreeMap::new(),
        progress: Instant::now(),
    });
    let mut pauses = Pauses::new();
    let mut tries = 0;
    loop {
        // Servers list in the order of names, so what was not seen comes after what was.
        let (last, count) = {
            let seen = seen.lock().expect("nothing panics here");
            (seen.all.keys().next_back().cloned(), seen.all.len())
        };
        let each = |found: Found| {
            let mut seen = seen.lock().expect("nothing panics here");
            if seen.all.len() >= LIST_LIMIT {
                return Err(Failure::too_many());
            }
            seen.progress = Instant::now();
            if found.name.starts_with(&below) {
                seen.all.insert(found.name.clone(), found);
            }
            Ok(())
        };
        let attempt = objects.list(prefix, last.as_deref().or(after), each);
        let stands_still = || seen.lock().expect("nothing panics here").progress + limits.patience;
        let failure = tokio::select! {
            listed = attempt => match listed {
                Ok(()) => break,
                Err(failure) if !worth_another(failure.trouble) => return Err(failure),
                Err(failure) => failure,
            },
            () = passed(stands_still) => return Err(Failure::no_answer(limits.patience)),
        };
        let (now_count, progress) = {
            let seen = seen.lock().expect("nothing panics here");
            (seen.all.len(), seen.progress)
        };
        if now_count > count {
            (tries, pauses) = (0, Pauses::new());
        }
        tries += 1;
        let wait = pauses.next();
        if tries >= limits.tries || Instant::now() + wait >= progress + limits.patience {
            return Err(failure.after(tries));
        }
        tokio::time::sleep(wait).await;
    }
    let seen = seen.into_inner().expect("nothing panics here");
    Ok(seen.all.into_values().collect())
}
