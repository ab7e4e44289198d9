//! The end of a process's log, for the words of a failure.

use std::fmt;
use std::path::{Path, PathBuf};

/// The last lines of a log file; nothing if there is none.
pub(crate) fn log_tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// What was seen, and the log of the process it was seen in; the log is read when this is displayed.
pub(crate) struct WithLog<S> {
    pub(crate) seen: S,
    pub(crate) log: PathBuf,
}

impl<S: fmt::Display> fmt::Display for WithLog<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.seen, log_tail(&self.log))
    }
}
