//! What keeps a new cluster from beginning.
//!
//! A cluster that exists waits for a taken port to become free and serves meanwhile with what it has. One that has
//! never run has nothing to wait with: `up` gives up and says why.

use std::time::Duration;

use quorate_host::{Root, Status, control};
use tokio::sync::Notify;

use crate::failure::Failure;

/// How often the status is looked at until the cluster serves.
const LOOK: Duration = Duration::from_millis(250);

/// Waits until something is in the way (a port that is taken, data that is not its own); for ever once it `served`.
pub async fn found(root: &Root, served: &Notify) -> Failure {
    let began = jiff::Timestamp::now();
    let look = async {
        loop {
            tokio::time::sleep(LOOK).await;
            let status = control::read_status(root.path()).ok().flatten();
            let fresh = |status: &Status| {
                status
                    .updated_at
                    .parse::<jiff::Timestamp>()
                    .is_ok_and(|at| at >= began)
            };
            if let Some(failure) = status.filter(fresh).as_ref().and_then(in_the_way) {
                return failure;
            }
        }
    };
    tokio::select! {
        failure = look => failure,
        () = served.notified() => std::future::pending().await,
    }
}

fn in_the_way(status: &Status) -> Option<Failure> {
    let begun = status.cluster_id.is_some() || status.members.iter().any(|member| member.pid.is_some());
    // A cluster whose data is gone did begin; it waits for its data to be put back.
    let lost = status.blocks.iter().any(|block| block.reason == "QuorumLost");
    if begun || lost || status.blocks.is_empty() {
        return None;
    }
    let why: Vec<&str> = status.blocks.iter().map(|block| block.detail.as_str()).collect();
    let reason = &status.blocks[0].reason;
    Some(Failure::refused(format!("the cluster {} cannot begin: {}", status.cluster, why.join("; "))).and(&format!(
        "Nothing was started. Mend that, or change the manifest {} (`quorate explain {reason}` says more).",
        status.manifest.display()
    )))
}

#[cfg(test)]
mod tests {
    use quorate_host::{Block, Member};

    use super::*;

    #[test]
    fn only_a_cluster_that_has_not_begun_is_given_up() {
        let block = Block {
            reason: "CannotStart".to_owned(),
            member: None,
            detail: "port 1 is taken".to_owned(),
        };
        let blocked = Status {
            cluster: "c".to_owned(),
            blocks: vec![block],
            ..Status::default()
        };
        let text = in_the_way(&blocked).unwrap().to_string();
        assert!(
            text.starts_with("the cluster c cannot begin: port 1 is taken. Nothing was started."),
            "{text}"
        );
        assert!(
            in_the_way(&Status {
                cluster_id: Some("1".to_owned()),
                ..blocked.clone()
            })
            .is_none()
        );
        let member = Member {
            pid: Some(1),
            ..Member::default()
        };
        assert!(
            in_the_way(&Status {
                members: vec![member],
                ..blocked
            })
            .is_none()
        );
        assert!(in_the_way(&Status::default()).is_none());
    }
}
