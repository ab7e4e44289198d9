//! Room on the file system that holds the root: observed by the supervisor, and by each reader of the status, since nothing
//! can be written where it is full.
//!
//! In: the root. Out: whether there is room, and what the status says of it.

use std::path::Path;

use quorate_core::reason::{BlockReason, StatusReason};

use crate::status::{Block, Status};

/// With less than this neither the journal nor the status is sure to be written.
const FULL: u64 = 1 << 20;
/// etcd allocates its write-ahead log in parts of this size, the next one in advance.
const WAL_PART: u64 = 64 << 20;
/// What etcd says when it ends for lack of room.
const NO_SPACE: &str = "no space left on device";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    Little,
    None,
}

/// `starved`: a member ended because it could not write.
fn judge(free: u64, members: usize, starved: bool) -> Room {
    let part = WAL_PART.saturating_mul(members.max(1) as u64);
    match free {
        free if free < FULL || (starved && free < part) => Room::None,
        free if free < part.saturating_mul(2) => Room::Little,
        _ => Room::Enough,
    }
}

fn free(root: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(root).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Why no member can be started, if there is no room for it to write.
pub(crate) fn full(root: &Path) -> Option<String> {
    let free = free(root)?;
    (judge(free, 1, false) == Room::None).then(|| {
        format!(
            "the disk of {} is full: make room, and it is started",
            root.display()
        )
    })
}

impl Status {
    /// Says how it is with the disk now, in place of what was said before.
    pub(crate) fn check_disk(&mut self) {
        if let Some(free) = free(&self.root.clone()) {
            self.report_free_space(free);
        }
    }

    fn report_free_space(&mut self, free: u64) {
        let [is_full, is_short] = [BlockReason::DiskFull.name(), StatusReason::DiskNearlyFull.name()];
        self.blocks.retain(|block| block.reason != is_full);
        self.problems.retain(|problem| !problem.starts_with(is_short));
        let starved = self
            .members
            .iter()
            .any(|member| member.process.contains(NO_SPACE));
        let (root, left) = (self.root.display().to_string(), free >> 20);
        match judge(free, self.members.len(), starved) {
            Room::Enough => {}
            Room::Little => self.problems.push(format!(
                "{is_short}: {left} MiB are left on the disk of {root}; etcd ends when it cannot write, make room"
            )),
            Room::None => {
                self.ready = false;
                let dead: Vec<&str> = self
                    .members
                    .iter()
                    .filter(|member| member.pid.is_none())
                    .map(|member| member.name.as_str())
                    .collect();
                let dead = match dead.as_slice() {
                    [] => String::new(),
                    names => format!("; not running: {}", names.join(", ")),
                };
                let detail = format!(
                    "the disk of {root} is full ({left} MiB left): etcd ends when it cannot write, and neither the journal \
                     nor this status can be written{dead}; make room, and it goes on by itself"
                );
                let block = Block {
                    reason: is_full.to_owned(),
                    member: None,
                    detail,
                };
                self.blocks.insert(0, block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Member;

    #[test]
    fn what_is_full_for_etcd_depends_on_its_log() {
        assert_eq!(judge(0, 3, false), Room::None);
        assert_eq!(judge(FULL - 1, 0, false), Room::None);
        assert_eq!(judge(20 << 20, 3, false), Room::Little);
        assert_eq!(judge(20 << 20, 3, true), Room::None);
        assert_eq!(judge(383 << 20, 3, true), Room::Little);
        assert_eq!(judge(384 << 20, 3, true), Room::Enough);
        assert_eq!(judge(u64::MAX - 1, usize::MAX, true), Room::None, "no overflow");
    }

    #[test]
    fn a_full_disk_is_said_once_with_what_is_dead_and_taken_back() {
        let mut status = Status {
            ready: true,
            members: vec![Member {
                name: "t-0".to_owned(),
                process: format!("ended: exit status: 1: write: {NO_SPACE}"),
                ..Member::default()
            }],
            ..Status::default()
        };
        status.report_free_space(0);
        status.report_free_space(0);
        assert_eq!((status.blocks.len(), status.ready), (1, false));
        let detail = &status.blocks[0].detail;
        assert!(
            detail.contains("not running: t-0") && detail.contains("make room"),
            "{detail}"
        );
        status.report_free_space(100 << 20);
        assert!(status.blocks.is_empty() && status.problems[0].starts_with("DiskNearlyFull: 100 MiB"));
        status.report_free_space(1 << 40);
        assert!(status.blocks.is_empty() && status.problems.is_empty());
    }
}
