//! How far long work has come, on standard error, where a person watches it.
//!
//! In: bytes done, and of how many. Out: one line, drawn over itself a few times a second, gone when it is dropped.
//! What else is written meanwhile goes first, and it is drawn anew below. Never: a byte of it where nobody watches.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::render::status::bytes_in_words;

/// How often it is drawn at most.
const PAUSE: Duration = Duration::from_millis(200);
/// How often a line is written where nobody watches.
const LINE_PAUSE: Duration = Duration::from_secs(10);
const WIDTH: u64 = 24;

/// Whether there is one on the terminal.
static DRAWN: Mutex<bool> = Mutex::new(false);

/// Takes it off the terminal, and keeps it off until this is dropped: something else is to be written.
pub fn aside() -> MutexGuard<'static, bool> {
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    if *drawn {
        put("\r\x1b[K");
        *drawn = false;
    }
    drawn
}

/// A line that shows how far something is.
pub struct Bar {
    doing: &'static str,
    began: Instant,
    drawn: Option<Instant>,
    watched: bool,
    lines: bool,
}

impl Bar {
    /// For work that is `doing` something.
    pub fn new(doing: &'static str) -> Bar {
        Bar {
            doing,
            began: Instant::now(),
            drawn: None,
            watched: std::io::stderr().is_terminal(),
            lines: false,
        }
    }

    /// Where there is no terminal, a line now and then instead.
    pub fn with_lines(self) -> Bar {
        Bar { lines: true, ..self }
    }

    /// Draws it, if it was not just drawn.
    pub fn show(&mut self, done: u64, total: Option<u64>) {
        let now = Instant::now();
        if !self.watched && self.lines && now - self.drawn.unwrap_or(self.began) >= LINE_PAUSE {
            self.drawn = Some(now);
            return put(&format!("{}\n", plain(self.doing, done, total, now - self.began)));
        }
        let soon = self.drawn.is_some_and(|drawn| now - drawn < PAUSE);
        if !self.watched || soon || now - self.began < PAUSE {
            return;
        }
        self.drawn = Some(now);
        let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
        *drawn = true;
        put(&format!(
            "\r{}\x1b[K",
            line(self.doing, done, total, now - self.began)
        ));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        drop(aside());
    }
}

fn put(text: &str) {
    let mut err = std::io::stderr().lock();
    // Nobody reading is no reason to fail.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

fn plain(doing: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let whole = line(doing, done, total, took);
    whole.trim_start_matches(['█', '░', ' ']).to_owned()
}

fn line(doing: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let speed = bytes_in_words(done.saturating_mul(1000) / millis);
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let done = done.min(total);
            let part = |whole: u64| u64::try_from(u128::from(done) * u128::from(whole) / u128::from(total));
            let filled = part(WIDTH).unwrap_or(WIDTH);
            let bar = "█".repeat(usize::try_from(filled).unwrap_or(0));
            let rest = "░".repeat(usize::try_from(WIDTH - filled).unwrap_or(0));
            let percent = part(100).unwrap_or(100);
            let (done, total) = (bytes_in_words(done), bytes_in_words(total));
            format!("{bar}{rest} {percent:3} %  {doing} {done} of {total}, {speed}/s")
        }
        None => format!("{doing} {}, {speed}/s", bytes_in_words(done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_and_how_fast() {
        let second = Duration::from_secs(1);
        let half = line("read", 512, Some(1024), second);
        assert_eq!(
            half,
            "████████████░░░░░░░░░░░░  50 %  read 512 B of 1 KiB, 512 B/s"
        );
        assert!(line("read", 4096, Some(1024), second).contains("100 %  read 1 KiB of 1 KiB"));
        assert_eq!(line("read", 2048, None, 2 * second), "read 2 KiB, 1 KiB/s");
        assert_eq!(line("read", 0, Some(0), Duration::ZERO), "read 0 B, 0 B/s");
    }
}
