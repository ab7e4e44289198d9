//! Being asked to stop: Ctrl-C, SIGTERM, or the terminal closing.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::failure::{Failure, chain};

/// Requests within this time are one.
const SAME: Duration = Duration::from_secs(2);

/// A request to stop, by a signal.
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

impl Stop {
    /// Listens from now on; until then the signals did what they usually do.
    pub fn listen() -> Result<Stop, Failure> {
        let on = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot listen for signals: {}", chain(&error))))
        };
        // Under nohup a closed terminal is meant to change nothing.
        let hang_up = if ignores_hang_up() {
            None
        } else {
            Some(on(SignalKind::hangup())?)
        };
        Ok(Stop {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up,
        })
    }

    /// Waits for the next request. True: it came from the keyboard.
    pub async fn asked(&mut self) -> bool {
        let hung_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => false,
            _ = hung_up => false,
        }
    }

    /// The next request after the first. What comes at once from other programs is the first one again.
    pub async fn again() {
        let Ok(mut stop) = Stop::listen() else {
            return std::future::pending().await;
        };
        let first = Instant::now();
        loop {
            if stop.asked().await || first.elapsed() > SAME {
                return;
            }
        }
    }
}

fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Signal 1 is the lowest bit.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
