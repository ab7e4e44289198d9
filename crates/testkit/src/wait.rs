//! Waiting for a condition: the one loop for all tests.

use std::fmt::Display;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How often the condition is evaluated.
const INTERVAL: Duration = Duration::from_millis(10);

/// What a look at a condition returns: `bool`, `Option<T>`, or `Result<T, E>` whose error is what was seen instead.
pub trait Awaited {
    /// What is there once the condition holds.
    type Value;
    /// What is seen while it does not.
    type Seen: Display;

    /// Which of both it is.
    fn look(self) -> Result<Self::Value, Self::Seen>;
}

impl Awaited for bool {
    type Value = ();
    type Seen = &'static str;

    fn look(self) -> Result<(), &'static str> {
        self.then_some(()).ok_or("false")
    }
}

impl<T> Awaited for Option<T> {
    type Value = T;
    type Seen = &'static str;

    fn look(self) -> Result<T, &'static str> {
        self.ok_or("none")
    }
}

impl<T, E: Display> Awaited for Result<T, E> {
    type Value = T;
    type Seen = E;

    fn look(self) -> Result<T, E> {
        self
    }
}

/// Waits until the condition holds. After `patience` it panics with what was awaited, how long, and what was last seen.
#[track_caller]
pub fn await_that<A: Awaited>(what: &str, patience: Duration, mut condition: impl FnMut() -> A) -> A::Value {
    let began = Instant::now();
    loop {
        match condition().look() {
            Ok(value) => return value,
            Err(seen) => assert!(
                began.elapsed() < patience,
                "{}",
                failure(what, began.elapsed(), &seen)
            ),
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Waits until a child process has ended.
#[track_caller]
pub fn await_end(what: &str, patience: Duration, child: &mut Child) -> ExitStatus {
    await_that(what, patience, || {
        child.try_wait().expect("our own child can be awaited")
    })
}

/// [`await_that`] for a condition that is itself asynchronous.
pub async fn await_that_async<A: Awaited>(
    what: &str,
    patience: Duration,
    mut condition: impl AsyncFnMut() -> A,
) -> A::Value {
    let began = Instant::now();
    loop {
        match condition().await.look() {
            Ok(value) => return value,
            Err(seen) => assert!(
                began.elapsed() < patience,
                "{}",
                failure(what, began.elapsed(), &seen)
            ),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn failure(what: &str, waited: Duration, seen: &dyn Display) -> String {
    format!("waited {waited:.1?} and it is still not so that {what}; last seen: {seen}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_returned_once_there_is_one() {
        let mut looks = 0;
        let value = await_that("there were three looks", Duration::from_secs(60), || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(value, 3);
    }

    #[test]
    fn a_time_out_reports_what_was_awaited_and_last_seen() {
        let waited = std::panic::catch_unwind(|| {
            await_that("the sun rises", Duration::ZERO, || Err::<(), _>("the moon"))
        });
        let words = waited.unwrap_err().downcast::<String>().unwrap();
        assert!(
            words.contains("the sun rises") && words.contains("last seen: the moon"),
            "{words}"
        );
    }
}
