//! What to do next: `plan(spec, observed, memory, now)`.
//!
//! In: the wanted cluster, one look at the real one, what was remembered. Out: steps that are safe to run now, what
//! is waited for, what is blocked, and the memory to store before the first step runs.
//! Never: more than one membership change, more than one member disturbed on purpose, a conclusion from the absence
//! of an answer.
//!
//! The order of the files below is the order of importance: keep what runs running, finish what was begun, repair,
//! and only then change what the user asked to change.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::guard::Guards;
use crate::memory::Memory;
use crate::model::{Observed, Spec, Time};
pub use crate::reason::{Block, BlockReason, Wait, WaitReason};

mod step;
pub use step::{StartHow, Step, WriteBefore};

/// The verdict of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// To be done now, in this order.
    pub steps: Vec<Step>,
    pub waits: Vec<Wait>,
    pub blocks: Vec<Block>,
    /// When to look again at the latest.
    pub requeue_after: Duration,
}

mod alarms;
mod bootstrap;
mod change;
mod facts;
mod identity;
mod members;
mod pass;
mod running;
#[cfg(test)]
pub(crate) mod tests;

use identity::judged;
use pass::Pass;

/// How long each thing may take before it is thought of differently.
pub mod pace {
    use std::time::Duration;

    /// An intended membership change that is not visible after this long did not happen.
    pub const CHANGE_DEADLINE: Duration = Duration::from_secs(6);
    /// After etcd refused a change, the next try comes no sooner than this.
    pub const CHANGE_RETRY: Duration = Duration::from_millis(500);
    /// A learner that does not get on for this long is stuck. It may be receiving gigabytes, and says nothing meanwhile.
    pub const LEARNER_PATIENCE: Duration = Duration::from_secs(600);
    /// A voter that runs without serving is restarted after the first of these, and then ever less often. It may be
    /// replaying a long log or receiving a snapshot.
    pub const STUCK: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(2 * 3600));
    /// How long a member that runs may be silent before an entry is written for it; then twice as long, and so on.
    pub const SILENT: Duration = Duration::from_secs(2);
    /// The first member that is restarted for a lost CA has this long to start before the next is tried.
    pub const LOST_CA: Duration = Duration::from_secs(60);
    /// Once it answers, it has this long from its start to hear the others. They may serve, and not be heard by quorate alone.
    pub const HEARS_OTHERS: Duration = Duration::from_secs(10);
    /// A member that was restarted for a change and does not serve for this long is taken back. It may have to load a
    /// large database, or an image.
    pub const COME_UP: Duration = Duration::from_secs(300);
    /// A member that runs and has not answered for this long, so many times in a row, does not serve; nor does one that
    /// answers and knows no leader. It is counted, so that a clock that jumps is no proof.
    pub const UNANSWERED: (Duration, u32) = (Duration::from_secs(30), 10);
    pub const LEADERLESS: (Duration, u32) = (Duration::from_secs(3), 10);
    /// Starts with what served, after which what is wanted is tried now and then.
    pub const GOOD_TRIES: u32 = 3;
    /// A member that serves is waited for this long, from its start, until clients are sent to it too.
    pub const IN_SERVICE: Duration = Duration::from_secs(60);
    /// Starts of a member that nobody saw end, asked for within this time, are one.
    pub const SAME_START: Duration = Duration::from_secs(10);
    /// After the safety check refused a plan, the next one comes no sooner than this.
    pub const AFTER_REFUSAL: Duration = Duration::from_secs(2);
    /// How often a learner may fail in one place, and how long it is left alone then: at first, and at most.
    pub const LEARNER_TRIES: u32 = 3;
    pub const LEARNER_PAUSE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
    /// How often a learner's progress is marked.
    pub const LEARNER_MARK: Duration = Duration::from_secs(10);
    /// A member healthy for this long has recovered: its starts are forgotten.
    pub const STABLE: Duration = Duration::from_secs(10);
    /// The first and the longest pause before a crashed member is started again.
    pub const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
    /// Starts without ever getting healthy after which a member's data is given up (set aside, not deleted).
    pub const CRASH_LIMIT: u32 = 6;
    /// How often one slot is replaced for crashing before that is left to people.
    pub const REPLACEMENTS_MAX: u32 = 2;
    /// How often leadership is asked to move before a member is disturbed all the same.
    pub const HANDOVER_TRIES: u32 = 3;
    /// How often a member is restarted only to take a raft snapshot, and how long that may take to show the last time.
    pub const SETTLES_MAX: u32 = 3;
    pub const SETTLED: Duration = Duration::from_secs(60);
    /// Sets of old data kept per slot once its replacement serves, and the most there may ever be.
    pub const ASIDES: (u32, u32) = (2, 4);
}

/// What to do next, with every guard on.
pub fn plan(spec: &Spec, observed: &Observed, memory: &Memory, now: Time) -> (Plan, Memory) {
    plan_with(spec, observed, memory, now, Guards::all())
}

/// What to do next. Only the simulator passes anything but `Guards::all()`.
pub fn plan_with(
    spec: &Spec,
    observed: &Observed,
    memory: &Memory,
    now: Time,
    guards: Guards,
) -> (Plan, Memory) {
    let observed = &judged(spec, observed, memory, guards);
    let mut pass = Pass::new(spec, observed, memory, now, guards);
    pass.report_deletions();
    pass.report_no_room();
    let corrupt = pass.report_alarms();
    if let Some(frozen) = &spec.frozen {
        pass.block(frozen.reason, None, frozen.detail.clone());
    }
    if spec.paused {
        pass.wait(
            WaitReason::Paused,
            None,
            "spec.paused is set: nothing is started, stopped or changed",
        );
        return pass.finish();
    }
    if pass.outdated() {
        pass.wait(
            WaitReason::OldView,
            None,
            "the observation is stale; observing again",
        );
        return pass.finish();
    }
    if pass.memory.bootstrap.is_none() {
        if spec.frozen.is_none() {
            pass.bootstrap();
        }
        return pass.finish();
    }
    pass.learn();
    if observed.unasked {
        // Nobody knows who serves: what ended is started from its own data, and nothing else is concluded or done.
        pass.keep_running();
        pass.only_starts();
        return pass.finish();
    }
    pass.judge_change();
    pass.give_up_what_served();
    pass.keep_running();
    let login_refused = pass.report_login();
    if pass.quorum().is_none() {
        if !login_refused {
            pass.without_quorum();
            if !corrupt {
                pass.restart_unproven();
            }
            pass.restart_after_lost_ca();
            if spec.frozen.is_none() && !corrupt {
                pass.grow_storage_of_stopped();
            }
        }
        return pass.finish();
    }
    if corrupt {
        return pass.finish();
    }
    pass.write_unanswered_change_down();
    pass.write_for_silent();
    // From here on a quorum has answered in this very pass. At most one of these does something.
    let decided = pass.unknown_members() | pass.tend_learner();
    let steps = pass.steps();
    let repairs = !decided && pass.repair();
    // A repair may wait for the very member that does not serve. One that is started now has its turn first.
    let waits = !decided && pass.steps() == steps && !pass.starts_one();
    let restarts = waits && (pass.restart_unproven() || pass.restart_stuck());
    let decided = decided || repairs || restarts;
    if spec.frozen.is_some() {
        // Who is missing has been lost: nothing else is changed.
        let _ = decided || pass.grow();
        pass.clear_wanted_places();
        return pass.finish();
    }
    // Size before version: a cluster that is short of a member is made whole before another one is stopped.
    let decided = decided || pass.resize();
    let _ = decided || pass.roll();
    pass.grow_storage();
    pass.retire();
    pass.finish()
}
