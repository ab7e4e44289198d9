//! Waiting for a change that was asked for (`--wait`), and saying how it gets on.
//!
//! In: the root and what "done" means. Out: a line whenever something new is done or waited for; success once the
//! status shows the change in force with nothing left to do, or a failure that says what it was still waiting for.

use std::time::{Duration, Instant};

use quorate_host::{Root, Status};

use crate::arguments::Wait;
use crate::failure::Failure;
use crate::{duration, roots, say};

/// The supervisor looks at the manifest and writes the status about this often.
const PAUSE: Duration = Duration::from_millis(250);

/// Refuses to wait where there is nobody to wait for. To be asked before anything is changed.
pub fn can_wait(wait: Wait, running: bool, root: &Root) -> Result<(), Failure> {
    if !wait.wait || running {
        return Ok(());
    }
    let words = format!(
        "--wait was given, but no supervisor runs the cluster under {}",
        root.path().display()
    );
    Err(Failure::failed(words).and("Nothing was changed. Start it with `quorate up`, or leave --wait out."))
}

/// What to say once the manifest is changed, and the waiting if it was asked for.
pub async fn follow(
    wait: Wait,
    root: &Root,
    running: bool,
    done: impl Fn(&Status) -> bool,
) -> Result<(), Failure> {
    let option = roots::option(root);
    if !running {
        say::line(&format!(
            "No supervisor runs: this takes effect at the next `quorate up{option}`."
        ));
        return Ok(());
    }
    if !wait.wait {
        say::line(&format!("`quorate status --watch{option}` shows how it gets on."));
        return Ok(());
    }
    until(wait.timeout, root, done).await
}

async fn until(limit: Duration, root: &Root, done: impl Fn(&Status) -> bool) -> Result<(), Failure> {
    let began = Instant::now();
    let mut said: Vec<String> = Vec::new();
    loop {
        let status = roots::status(root)?;
        if is_settled(&status) && done(&status) {
            say::line(&format!("Done in {:.1} s.", began.elapsed().as_secs_f64()));
            return Ok(());
        }
        if !status.supervisor.running {
            let words = "the supervisor ended before the change was done";
            return Err(Failure::failed(words).and("The manifest keeps it: the next `quorate up` goes on."));
        }
        let now = lines(&status);
        now.iter()
            .filter(|line| !said.contains(line))
            .for_each(|line| say::note(line));
        if began.elapsed() >= limit {
            return Err(timed_out(limit, &now));
        }
        said = now;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Nothing is left to do.
fn is_settled(status: &Status) -> bool {
    status.ready && status.plan.is_empty() && status.waits.is_empty() && status.blocks.is_empty()
}

/// What it does and why it does not, a line each.
fn lines(status: &Status) -> Vec<String> {
    let plan = status.plan.iter().map(|step| format!("  {step}"));
    let line = |word: &str, reason: &str, member: Option<&str>, detail: &str| match member {
        Some(member) if !detail.contains(member) => format!("  {word} {reason}: {member}: {detail}"),
        _ => format!("  {word} {reason}: {detail}"),
    };
    let waits = status
        .waits
        .iter()
        .map(|w| line("waiting,", &w.reason, w.member.as_deref(), &w.detail));
    let blocks = status
        .blocks
        .iter()
        .map(|b| line("blocked,", &b.reason, b.member.as_deref(), &b.detail));
    plan.chain(waits).chain(blocks).collect()
}

fn timed_out(limit: Duration, now: &[String]) -> Failure {
    let left: Vec<&str> = now.iter().map(|line| line.trim()).collect();
    let left = if left.is_empty() {
        String::new()
    } else {
        format!(" ({})", left.join("; "))
    };
    Failure::failed(format!("not done within {}{left}", duration::say(limit)))
        .and("It goes on all the same: see `quorate status`, or wait longer with --timeout.")
}

#[cfg(test)]
mod tests {
    use quorate_host::{Block, Wait as Waited};

    use super::*;

    #[test]
    fn settled_means_ready_and_nothing_left() {
        let ready = Status {
            ready: true,
            ..Status::default()
        };
        assert!(is_settled(&ready));
        assert!(!is_settled(&Status::default()));
        let waits = vec![Waited {
            reason: "Forming".to_owned(),
            detail: "x".to_owned(),
            ..Waited::default()
        }];
        assert!(!is_settled(&Status { waits, ..ready }));
    }

    #[test]
    fn a_timeout_says_what_is_left() {
        let block = Block {
            reason: "CannotStart".to_owned(),
            member: Some("etcd-1".to_owned()),
            detail: "port".to_owned(),
        };
        let status = Status {
            plan: vec!["stop member 2".to_owned()],
            blocks: vec![block],
            ..Status::default()
        };
        let text = timed_out(Duration::from_secs(300), &lines(&status)).to_string();
        assert!(
            text.starts_with(
                "not done within 5 min (stop member 2; blocked, CannotStart: etcd-1: port). It goes on"
            ),
            "{text}"
        );
    }
}
