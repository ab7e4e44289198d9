//! A member that runs and does not answer may lack nothing but a log entry ([`WriteBefore::Serving`]): another writes one.

use std::time::Duration;

use crate::model::Ordinal;
use crate::plan::pass::{Known, Pass};
use crate::plan::{WriteBefore, pace};

impl Pass<'_> {
    /// Has an entry written if a member has been silent for a while, and again each time that has doubled.
    pub fn write_for_silent(&mut self) {
        let silent = self.known().into_iter().find_map(|known: Known| {
            let ordinal = known.ordinal.filter(|o| self.silent_enough(*o))?;
            Some((known.listed.id, ordinal))
        });
        let Some((member, ordinal)) = silent else { return };
        if self.have_another_write(member, WriteBefore::Serving) {
            self.slot_mut(ordinal).entry_written = Some(self.now);
        }
    }

    fn silent_enough(&self, ordinal: Ordinal) -> bool {
        let slot = self.memory.slot(ordinal);
        let answers = self.view(ordinal).is_none_or(|v| v.status.is_some());
        let Some(since) = slot.unhealthy_since.filter(|_| !answers) else {
            return false;
        };
        let written = slot.entry_written.filter(|at| *at <= self.now);
        let waited = written.map_or(Duration::ZERO, |at| at - since);
        self.elapsed(since) >= (waited * 2).max(pace::SILENT)
    }
}
