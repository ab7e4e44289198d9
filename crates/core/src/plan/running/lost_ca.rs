//! Members whose processes trust only CAs that nobody has any more. They show certificates of another CA by now, so they
//! refuse each other and everyone else: mostly no quorum will be seen under which they could be restarted one by one. A
//! start from a member's own data is safe at any time, and the quorum is lost already. Where only the CA for clients is
//! lost, members still reach each other, and a quorum is seen through those that were restarted: the others follow one by
//! one.
//!
//! Never: a stop of a member that answers; of more than one before one has shown that it starts as wanted, and hears no
//! quorum; of one whose volume goes with its process.

use crate::guard::Counted;
use crate::model::{MemberId, Ordinal, Process, Time};
use crate::plan::pass::{Known, Pass};
use crate::plan::{Step, WaitReason, pace};

impl Pass<'_> {
    /// While no quorum answers: restarts one of them, and all others once that one runs as wanted and does not hear them. The
    /// data of one whose volume goes with its process may be needed: it is replaced when the others serve, or left to people.
    pub fn restart_after_lost_ca(&mut self) {
        let ordinals = self.ordinals().into_iter();
        let all = ordinals.filter_map(|ordinal| Some((ordinal, self.trusts_lost_ca(ordinal)?)));
        let (kept, lost): (Vec<_>, Vec<_>) = all.partition(|(ordinal, _)| self.deletion_pending(*ordinal));
        self.report_lost_ca(&lost, &kept);
        let Some(first) = lost.last().copied() else {
            return;
        };
        let others = self.ordinals().into_iter();
        let mut shown = others.filter_map(|o| self.shows_new_ca(o)).peekable();
        if shown.peek().is_some() {
            if shown.any(|hears_nobody| hears_nobody) {
                for (ordinal, since) in lost {
                    self.step(Step::Stop { ordinal, since });
                }
            }
            return;
        }
        let begun = self.memory.disturbance.as_ref().map(|d| self.elapsed(d.since));
        if begun.is_some_and(|ago| ago < pace::LOST_CA) {
            return;
        }
        let (ordinal, since) = first;
        self.disturb_and_stop(ordinal, since, false);
    }

    /// Of one that runs as wanted, with a CA that is there: whether it has had the time to hear the others.
    fn shows_new_ca(&self, ordinal: Ordinal) -> Option<bool> {
        let view = self.view(ordinal)?;
        let Process::Running { since, .. } = view.process else {
            return None;
        };
        let pause = match view.status {
            Some(_) => pace::HEARS_OTHERS,
            None => pace::LOST_CA,
        };
        let shown = self.runs_as_wanted(ordinal) && !self.observed.lost_ca.contains(&ordinal);
        shown.then(|| self.elapsed(since) >= pause)
    }

    fn report_lost_ca(&mut self, restarted: &[(Ordinal, Time)], kept: &[(Ordinal, Time)]) {
        let names = |members: &[(Ordinal, Time)]| {
            let names = members.iter().map(|(o, _)| self.spec.member_name(*o).to_string());
            names.collect::<Vec<_>>().join(", ")
        };
        let reported = [
            (
                restarted,
                "trust a CA that is lost, and are restarted with the new one",
            ),
            (
                kept,
                "trust a CA that is lost, and are not restarted, for somebody asked for their volumes to be deleted: \
                 their data would be gone",
            ),
        ];
        let reported = reported.into_iter().filter(|(members, _)| !members.is_empty());
        let details: Vec<String> = reported
            .map(|(members, what)| format!("{} {what}", names(members)))
            .collect();
        if !details.is_empty() {
            self.wait(WaitReason::CaLost, None, details.join("; "));
        }
    }

    /// Those besides `member`. Who trusts only a lost CA cannot be heard; but a quorum answers through those that can, so it is
    /// taken to serve.
    pub fn others_heard_or_not(&self, member: MemberId) -> Counted {
        let unheard = |k: &Known| k.ordinal.is_some_and(|o| self.trusts_lost_ca(o).is_some());
        let others = self.voters().into_iter().filter(|k| k.listed.id != member);
        let others: Vec<Known> = others.collect();
        Counted {
            voters: others.len(),
            healthy: others.iter().filter(|k| k.healthy || unheard(k)).count(),
        }
    }

    /// Since when its process runs, if that trusts only CAs that are lost and does not answer.
    pub fn trusts_lost_ca(&self, ordinal: Ordinal) -> Option<Time> {
        let view = self.view(ordinal)?;
        let unheard = view.status.is_none() && self.observed.lost_ca.contains(&ordinal);
        match &view.process {
            Process::Running { since, config, .. } if unheard && *config != self.spec.config_of(ordinal) => {
                Some(*since)
            }
            _ => None,
        }
    }
}
