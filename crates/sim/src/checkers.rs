//! What must hold, whatever happens. Each checker looks from the outside: none asks the planner, its guards or its
//! own safety check.
//!
//! In: notes of the etcd model, steps as they take effect, the world after each tick. Out: [`Break`]s.
//! Never: a change to the world.

mod alarms;
mod asides;
mod clusters;
mod convergence;
mod disturbance;
mod loss;
mod outage;
mod settings;
mod writes;

pub use alarms::ignored_alarm;
pub use clusters::Clusters;
pub use disturbance::GRACE_TICKS;
pub use outage::{Outage, Seen};
pub use writes::Writes;

/// How a world can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BreakKind {
    /// An acknowledged write is gone.
    WriteLost,
    /// A second cluster serves for one root.
    TwoClusters,
    /// `new` on a volume that ever ran.
    NewOnUsed,
    /// A volume was started that was put back to an earlier state.
    RolledBackStarted,
    /// A volume was called rolled back that was not.
    FalseAlarm,
    /// A planned stop or removal took the quorum away.
    PlannedOutage,
    /// Unable to commit for long, though nothing was wrong.
    Outage,
    /// After everything healed, the cluster did not become what is wanted.
    NoConvergence,
    /// More than one membership change in a plan.
    TwoChanges,
    /// Too many sets of old data.
    AsidesUnbounded,
    /// Old data deleted before its replacement served.
    AsideDroppedEarly,
    /// An alarm that is not reported, or that something was changed under.
    AlarmIgnored,
    /// With a quorum's disks gone, more was done than to start what has its data.
    ActedAfterLoss,
    /// A voter was removed whose only fault was what it was started with.
    SettingsCostVoter,
    /// A second member was started with settings that another one fails at.
    SettingsSpread,
    /// The safety check refused what the planner planned.
    CheckDisagrees,
    /// The safety check accepted a plan spoilt on purpose.
    CheckBlind,
}

impl BreakKind {
    /// Is the cluster itself broken, rather than a rule?
    pub fn of_the_world(self) -> bool {
        matches!(
            self,
            BreakKind::WriteLost | BreakKind::TwoClusters | BreakKind::Outage | BreakKind::NoConvergence
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    pub kind: BreakKind,
    pub tick: u64,
    pub detail: String,
}
