//! The members that a restore made, from a snapshot or whatever archive: printed for programs and for people.

use std::path::Path;
use std::time::Instant;

use quorate_datadir::{Members, Restored};
use serde::Serialize;

use crate::failure::Failure;
use crate::render::count::count;
use crate::render::facts;
use crate::say;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Made {
    data_dir: String,
    name: String,
    /// In hexadecimal digits, as etcd shows it.
    member_id: String,
    cluster_id: String,
    /// The revision its etcd will be at.
    revision: i64,
    /// The oldest etcd that it is for.
    version: String,
    size: u64,
    keys_without_lease: u64,
    members: Vec<Member>,
    seconds: f64,
}

/// A member that was made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: String,
    member_id: String,
    data_dir: String,
}

impl Member {
    fn of(name: &str, data_dir: &Path, made: &Restored) -> Member {
        Member {
            name: name.to_owned(),
            member_id: format!("{:x}", made.member_id),
            data_dir: data_dir.display().to_string(),
        }
    }
}

impl Made {
    /// Of what was wanted and what came of it, in the order of the seats.
    pub fn of(wanted: &Members, restored: &[Restored], began: Instant) -> Result<Made, Failure> {
        let seats = wanted.seats.iter().zip(restored);
        let mut members = seats.map(|(seat, member)| Member::of(&seat.name, &seat.data_dir, member));
        match (members.next(), restored.first()) {
            (Some(first), Some(made)) => Ok(Made::new(first, members, made, began)),
            _ => Err(Failure::failed("nothing was made")),
        }
    }

    pub fn one(name: &str, data_dir: &Path, restored: &Restored, began: Instant) -> Made {
        Made::new(
            Member::of(name, data_dir, restored),
            std::iter::empty(),
            restored,
            began,
        )
    }

    fn new(first: Member, others: impl Iterator<Item = Member>, made: &Restored, began: Instant) -> Made {
        Made {
            data_dir: first.data_dir.clone(),
            name: first.name.clone(),
            member_id: first.member_id.clone(),
            cluster_id: format!("{:x}", made.cluster_id),
            revision: made.revision,
            version: made.target.to_string(),
            size: made.size,
            keys_without_lease: made.without_lease,
            members: std::iter::once(first).chain(others).collect(),
            seconds: began.elapsed().as_secs_f64(),
        }
    }

    /// Says what should be known of it.
    pub fn warn(&self) {
        if self.keys_without_lease > 0 {
            say::warning(&format!(
                "{} with a lease that nothing describes, and will not expire",
                count(self.keys_without_lease, "key goes", "keys go")
            ));
        }
    }

    pub fn page(&self) -> String {
        let mut lines: Vec<(&str, String)> = Vec::new();
        for member in &self.members {
            lines.push(("restored", member.data_dir.clone()));
            lines.push(("member", format!("{} ({})", member.name, member.member_id)));
        }
        lines.push(("cluster", self.cluster_id.clone()));
        lines.push(("revision", self.revision.to_string()));
        lines.push(("size", facts::size(self.size)));
        lines.push(("for", format!("etcd {}", self.version)));
        lines.push(("seconds", format!("{:.1}", self.seconds)));
        facts::page(&lines)
    }
}
