//! Alarms that etcd has raised: reported for as long as they last.

use std::collections::BTreeMap;

use super::BlockReason;
use super::pass::Pass;
use crate::model::{Alarm, AlarmKind, MemberId, MemberStatus, Ordinal};

impl Pass<'_> {
    /// Says which alarms there are. True if one of them says that members' data differ: then nothing is changed.
    pub fn report_alarms(&mut self) -> bool {
        let mut reported: BTreeMap<Alarm, Option<Ordinal>> = BTreeMap::new();
        for alarm in self.statuses().flat_map(|(_, status)| &status.alarms) {
            reported
                .entry(*alarm)
                .or_insert_with(|| self.slot_of(alarm.member));
        }
        let corrupt = reported.keys().any(|alarm| alarm.kind == AlarmKind::Corrupt);
        for (alarm, ordinal) in reported {
            let name = ordinal.map_or(format!("member {}", alarm.member), |o| {
                self.spec.member_name(o).to_string()
            });
            match alarm.kind {
                AlarmKind::NoSpace => {
                    let sizes = ordinal
                        .and_then(|o| self.status_of(o))
                        .map_or(String::new(), |status| {
                            let (size, used) = (megabytes(status.db_size), megabytes(status.db_in_use));
                            format!(" ({size} MB, of which {used} MB are in use)")
                        });
                    let detail = format!(
                        "etcd takes no writes: the database of {name}{sizes} has reached its quota, and the alarm NOSPACE \
                         is on until somebody takes it back"
                    );
                    self.block(BlockReason::NoSpace, ordinal, detail);
                }
                AlarmKind::Corrupt => {
                    let detail = format!(
                        "etcd answers no requests: the data of {name} differs from that of the others (alarm CORRUPT); \
                         nothing is changed until somebody has decided who is right"
                    );
                    self.block(BlockReason::Corrupt, ordinal, detail);
                }
            }
        }
        corrupt
    }

    fn statuses(&self) -> impl Iterator<Item = (Ordinal, &MemberStatus)> {
        let slots = self.observed.slots.iter();
        slots.filter_map(|(ordinal, view)| Some((*ordinal, view.status.as_ref()?)))
    }

    fn slot_of(&self, member: MemberId) -> Option<Ordinal> {
        let remembered = self
            .memory
            .slots
            .iter()
            .find(|(_, slot)| slot.member == Some(member));
        let answering = self.statuses().find(|(_, status)| status.member == member);
        remembered
            .map(|(ordinal, _)| *ordinal)
            .or(answering.map(|(ordinal, _)| ordinal))
    }

    fn status_of(&self, ordinal: Ordinal) -> Option<&MemberStatus> {
        self.observed.slots.get(&ordinal)?.status.as_ref()
    }
}

/// In tenths of a million bytes, as a text.
fn megabytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10)
}
