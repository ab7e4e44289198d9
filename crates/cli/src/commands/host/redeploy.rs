//! `quorate redeploy --reason R`: every member is restarted, one at a time.

use std::collections::BTreeMap;

use quorate_api::edit;
use quorate_host::{Root, Status, control};

use crate::arguments;
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::{progress, say};

/// Sets the reason, which is what makes members restart.
pub async fn run(root: &Root, arguments: &arguments::Redeploy) -> Result<(), Failure> {
    let reason = arguments.reason.trim();
    if reason.is_empty() {
        return Err(
            Failure::usage("--reason is empty").and("Say why, for example --reason 'new kernel, 2 May'.")
        );
    }
    let manifest = Manifest::of(root)?;
    let status = control::read_status(root.path())?;
    let running = status.as_ref().is_some_and(|status| status.supervisor.running);
    progress::can_wait(arguments.wait, running, root)?;
    let before = processes(status.as_ref());
    if !manifest.change(|text| edit::set_redeploy_reason(text, reason))? {
        return Err(Failure::usage(format!(
            "{reason:?} is the reason of the last redeployment already"
        ))
        .and("Members are restarted when the reason changes: give another, for example with the date."));
    }
    let file = manifest.path().display();
    say::line(&format!(
        "{file}: forceRedeploymentReason {reason:?}. Members restart one at a time, the highest number first."
    ));
    progress::follow(arguments.wait, root, running, |status| is_done(status, &before)).await
}

fn processes(status: Option<&Status>) -> BTreeMap<String, u32> {
    let members = status.into_iter().flat_map(|status| &status.members);
    members
        .filter_map(|member| Some((member.name.clone(), member.pid?)))
        .collect()
}

/// Every member runs in another process than before.
fn is_done(status: &Status, before: &BTreeMap<String, u32>) -> bool {
    let now = processes(Some(status));
    now.iter().all(|(name, pid)| before.get(name) != Some(pid))
}

#[cfg(test)]
mod tests {
    use quorate_host::Member;

    use super::*;

    #[test]
    fn done_when_no_process_is_an_old_one() {
        let status = |pids: [u32; 2]| {
            let member = |pid: u32| Member {
                name: format!("c-{}", pid % 10),
                pid: Some(pid),
                ..Member::default()
            };
            Status {
                members: pids.map(member).into(),
                ..Status::default()
            }
        };
        let before = processes(Some(&status([10, 11])));
        assert!(!is_done(&status([10, 21]), &before));
        assert!(is_done(&status([20, 21]), &before));
    }
}
