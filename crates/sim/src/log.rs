//! The readable course of a run: one line per event, fixed columns, virtual time.
//!
//! In: events. Out: text that is the same for the same seed. Never: anything that differs between two runs, and no
//! work at all when nobody will read it.

use std::fmt;

#[derive(Clone, Debug, Default)]
pub struct EventLog {
    on: bool,
    now: u64,
    lines: Vec<String>,
}

impl EventLog {
    /// A log that keeps its lines, or one that drops them.
    pub fn new(on: bool) -> Self {
        Self {
            on,
            now: 0,
            lines: Vec::new(),
        }
    }

    /// Sets the time of the following lines.
    pub fn at(&mut self, tick: u64) {
        self.now = tick;
    }

    pub fn on(&self) -> bool {
        self.on
    }

    /// One event: who, and what.
    pub fn event(&mut self, who: &str, what: fmt::Arguments<'_>) {
        if self.on {
            let ms = self.now * crate::TICK_MS;
            self.lines
                .push(format!("{:>5}.{}  {who:<9} {what}", ms / 1000, ms % 1000 / 100));
        }
    }

    pub fn text(&self) -> String {
        self.lines.join("\n")
    }
}
