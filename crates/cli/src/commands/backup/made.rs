//! The members that a restore made, from whatever archive: told to programs and to people.

use std::time::Instant;

use quorate_datadir::{Members, Restored};
use serde::Serialize;

use crate::failure::Failure;
use crate::render::facts;
use crate::say;

/// What was made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Made {
    data_dir: String,
    name: String,
    member_id: String,
    cluster_id: String,
    /// The revision its etcd will be at.
    revision: i64,
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

impl Made {
    /// Of what was wanted and what came of it, in the order of the seats.
    pub fn of(
        wanted: &Members,
        restored: &[Restored],
        cluster_id: u64,
        began: Instant,
    ) -> Result<Made, Failure> {
        let (Some(first), Some(seat)) = (restored.first(), wanted.seats.first()) else {
            return Err(Failure::failed("nothing was made"));
        };
        let members = wanted.seats.iter().zip(restored);
        Ok(Made {
            data_dir: seat.data_dir.display().to_string(),
            name: seat.name.clone(),
            member_id: format!("{:x}", first.member_id),
            cluster_id: format!("{cluster_id:x}"),
            revision: first.revision,
            version: first.target.to_string(),
            size: first.size,
            keys_without_lease: first.without_lease,
            members: members
                .map(|(seat, member)| Member {
                    name: seat.name.clone(),
                    member_id: format!("{:x}", member.member_id),
                    data_dir: seat.data_dir.display().to_string(),
                })
                .collect(),
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    /// Says what should be known of it.
    pub fn warn(&self) {
        if self.keys_without_lease > 0 {
            say::warning(&format!(
                "{} keys go with a lease that nothing tells of; they will not expire",
                self.keys_without_lease
            ));
        }
    }

    /// For people, below the plan.
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
        format!("\n{}", facts::page(&lines))
    }
}
