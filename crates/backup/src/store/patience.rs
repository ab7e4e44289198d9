//! Asking again: how often, how long, and what is worth it.
//!
//! In: one attempt, as a function. Out: its success, or the failure that ended the patience.
//! Never: an attempt after the time is over, or a call that outlives it.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

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

/// Bytes that must travel, which takes time of its own. How many may turn out during an attempt.
#[derive(Debug, Default)]
pub(crate) struct Travel(AtomicU64);

impl Travel {
    /// Nothing worth speaking of.
    pub fn none() -> &'static Travel {
        static NONE: Travel = Travel(AtomicU64::new(0));
        &NONE
    }

    pub fn of(bytes: u64) -> Travel {
        Travel(AtomicU64::new(bytes))
    }

    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed) / BYTES_A_SECOND)
    }
}

/// Tries until it succeeds, fails for good, or the limits are reached.
pub(crate) async fn persist<T, F, A>(limits: Limits, travel: &Travel, mut attempt: F) -> Result<T, Failure>
where
    F: FnMut(u32) -> A,
    A: Future<Output = Result<T, Failure>>,
{
    let began = Instant::now();
    let end = || began + limits.patience + travel.time();
    let mut pauses = Pauses::new();
    for n in 1.. {
        let own = Instant::now();
        let until = || end().min(own + limits.stall + travel.time());
        let failure = tokio::select! {
            // An answer that is there counts, however late.
            biased;
            done = attempt(n) => match done {
                Ok(done) => return Ok(done),
                Err(failure) if !worth_another(failure.trouble) => return Err(failure),
                Err(failure) => failure,
            },
            () = passed(until) => Failure::no_answer(own.elapsed()),
        };
        let wait = pauses.next();
        if n >= limits.tries || Instant::now() + wait >= end() {
            return Err(failure.after(n));
        }
        tokio::time::sleep(wait).await;
    }
    unreachable!("the number of tries has a limit")
}

/// Ends when a moment has passed that may move while it is waited for.
pub(crate) async fn passed(moment: impl Fn() -> Instant) {
    loop {
        let at = moment();
        if at <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(at).await;
    }
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
        let done = persist(limits(60, 5), Travel::none(), |n| {
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
        let failed = persist(limits(60, 5), Travel::none(), |n| {
            calls = n;
            std::future::ready(Err::<(), _>(denied()))
        });
        assert_eq!(failed.await.unwrap_err().trouble, Trouble::Denied);
        assert_eq!(calls, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn limits_hold() {
        let began = Instant::now();
        let hangs = persist(limits(10, 5), Travel::none(), |_| {
            std::future::pending::<Result<(), Failure>>()
        });
        assert_eq!(hangs.await.unwrap_err().trouble, Trouble::Unreachable);
        assert!(began.elapsed() <= Duration::from_secs(10));
        let mut calls = 0;
        let busy = persist(limits(600, 4), Travel::none(), |n| {
            calls = n;
            std::future::ready(Err::<(), _>(Failure::new(Trouble::Throttled, "busy")))
        });
        assert!(busy.await.unwrap_err().why.contains("busy"));
        assert_eq!(calls, 4);
    }

    /// A large object may take its time, once it is known to be large.
    #[tokio::test(start_paused = true)]
    async fn bytes_get_time_of_their_own() {
        let travel = Travel::default();
        let slow = persist(limits(10, 5), &travel, |_| async {
            travel.set(100 * BYTES_A_SECOND);
            tokio::time::sleep(Duration::from_secs(90)).await;
            Ok::<_, Failure>(7)
        });
        assert_eq!(slow.await.unwrap(), 7);
        let small_travel = Travel::of(10);
        let small = persist(limits(10, 5), &small_travel, |_| async {
            tokio::time::sleep(Duration::from_secs(90)).await;
            Ok::<_, Failure>(7)
        });
        assert_eq!(small.await.unwrap_err().trouble, Trouble::Unreachable);
    }
}
