//! Asking again: how often, how long, and what is worth it.
//!
//! In: one attempt, as a function. Out: its success, or the failure that ended the patience.
//! Never: an attempt after the time is over, or a call that outlives it.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::options::StoreOptions;
use super::trouble::Failure;
use crate::Trouble;

/// Nobody's network is slower than this while it works.
const BYTES_A_SECOND: u64 = 128 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The limits of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub patience: Duration,
    pub tries: u32,
    pub stall: Duration,
}

impl Limits {
    pub fn of(options: &StoreOptions) -> Limits {
        Limits {
            patience: options.patience,
            tries: options.tries.max(1),
            stall: options.stall,
        }
    }
}

/// Tries until it succeeds, fails for good, or the limits are reached; `bytes` that must travel get time of their own.
pub(crate) async fn persist<T, F, A>(limits: Limits, bytes: u64, mut attempt: F) -> Result<T, Failure>
where
    F: FnMut(u32) -> A,
    A: Future<Output = Result<T, Failure>>,
{
    let travel = Duration::from_secs(bytes / BYTES_A_SECOND);
    let end = Instant::now() + limits.patience + travel;
    let mut pauses = Pauses::new();
    for n in 1.. {
        let until = end.min(Instant::now() + limits.stall + travel);
        let failure = match timeout_at(until, attempt(n)).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(failure)) if !worth_another(failure.trouble) => return Err(failure),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::no_answer(limits.stall.min(limits.patience) + travel),
        };
        let wait = pauses.next();
        if n >= limits.tries || Instant::now() + wait >= end {
            return Err(failure.after(n));
        }
        tokio::time::sleep(wait).await;
    }
    unreachable!("the number of tries has a limit")
}

/// Pauses between attempts, each longer than the one before.
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub fn new() -> Pauses {
        Pauses(FIRST_PAUSE)
    }

    /// Half of it is chance, so that many that were sent away together do not return together.
    pub fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause / 2 + pause.mul_f64(fastrand::f64() / 2.0)
    }
}

pub(crate) fn worth_another(trouble: Trouble) -> bool {
    matches!(trouble, Trouble::Throttled | Trouble::Unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(patience: u64, tries: u32) -> Limits {
        Limits {
            patience: Duration::from_secs(patience),
            tries,
            stall: Duration::from_secs(60),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_tries_again_only_where_it_may_help() {
        let mut calls = 0;
        let done = persist(limits(60, 5), 0, |n| {
            calls = n;
            std::future::ready(if n < 3 {
                Err(Failure::no_answer(Duration::ZERO))
            } else {
                Ok(n)
            })
        });
        assert_eq!(done.await.unwrap(), 3);
        let denied = || Failure::new(Trouble::Denied, "no");
        let mut calls = 0;
        let failed = persist(limits(60, 5), 0, |n| {
            calls = n;
            std::future::ready(Err::<(), _>(denied()))
        });
        assert_eq!(failed.await.unwrap_err().trouble, Trouble::Denied);
        assert_eq!(calls, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn limits_hold() {
        let began = Instant::now();
        let hangs = persist(limits(10, 5), 0, |_| {
            std::future::pending::<Result<(), Failure>>()
        });
        assert_eq!(hangs.await.unwrap_err().trouble, Trouble::Unreachable);
        assert!(began.elapsed() <= Duration::from_secs(10));
        let mut calls = 0;
        let busy = persist(limits(600, 4), 0, |n| {
            calls = n;
            std::future::ready(Err::<(), _>(Failure::new(Trouble::Throttled, "busy")))
        });
        assert!(busy.await.unwrap_err().why.contains("busy"));
        assert_eq!(calls, 4);
    }
}
