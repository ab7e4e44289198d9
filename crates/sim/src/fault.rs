//! What goes wrong, and how often: each seed picks its own mixture (swarm), within a budget that keeps the world
//! winnable.
//!
//! In: a seed. Out: a [`Swarm`]; and, tick by tick, faults done to the world. Never: a loss that by itself destroys
//! a quorum's data, unless this seed is one that breaks the budget on purpose; then the end must be a block.

use std::collections::BTreeMap;

use quorate_core::model::Ordinal;

mod disks;
mod inject;
mod stranger;

pub use disks::{change_pending, committed_conf, newest_conf};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind { $($(#[$doc])* $name,)* }
        impl FaultKind {
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$name),*];
        }
    };
}

kinds! {
    /// A member's process dies.
    KillMember,
    /// quorate dies, somewhere in its pass.
    KillExecutor,
    /// One place is cut off.
    CutOne,
    /// The network splits in two.
    Split,
    /// A disk acknowledges late.
    SlowDisk,
    /// A disk does not answer at all for a while.
    StalledDisk,
    /// A disk stops answering, and some time later its content is gone.
    DyingDisk,
    /// The disks of so many members are gone at once that no quorum is left.
    QuorumLoss,
    /// A member's database has reached its quota.
    NoSpaceAlarm,
    /// A member's data differs from the others'.
    CorruptAlarm,
    /// A member applies what is committed with delay.
    ApplyLag,
    /// A volume's content is gone.
    WipeVolume,
    /// A volume's content is unreadable.
    DamageVolume,
    /// A step is never done.
    LostStep,
    /// A step is done twice, the second time late.
    DuplicateStep,
    /// A look takes so long that it is old when it is used.
    StaleView,
    /// A second quorate, which read the memory earlier.
    SecondExecutor,
    /// Somebody puts other data where a volume was.
    ForeignData,
    /// Somebody adds a member.
    UnknownMember,
    /// A member's port is taken.
    PortTaken,
    /// The binary crashes at once.
    CrashLoop,
    /// quorate's clock jumps ahead.
    ClockAhead,
    /// quorate's clock is set back.
    ClockBack,
    /// The answer to a membership change is lost; the change may still happen.
    LostAnswer,
    /// A member runs but gives no status.
    Mute,
    /// A volume cannot be looked at.
    Blind,
    /// A plan is spoilt on purpose: the safety check must refuse it.
    BadPlan,
    /// A volume is put back to a snapshot of it.
    RollBack,
}

/// What kind of trouble a seed prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// A bit of everything.
    Mixed,
    /// Version and config changes among crashes and old views.
    Rolling,
    /// Lost disks while others lag.
    Disks,
    /// Sizes up and down, with disks that stall.
    Sizes,
    /// The budget does not hold.
    Hopeless,
    /// Trouble from the first moment.
    Forming,
    /// Nothing goes wrong but the user.
    Calm,
}

#[derive(Clone, Debug)]
pub struct Swarm {
    /// Chance per tick, in 1/65536, of each fault that is on.
    pub rates: BTreeMap<FaultKind, u16>,
    /// Chance per tick of an edit by the user, in 1/65536.
    pub edits: u16,
    pub ticks: u64,
    pub theme: Theme,
    /// A slot whose disks break again and again.
    pub cursed: Option<Ordinal>,
    /// quorate is cut off for so many of the first ticks.
    pub blind_start: u64,
}

impl Swarm {
    /// The mixture of a seed.
    pub fn of(rng: &mut fastrand::Rng) -> Self {
        let themes = [
            Theme::Mixed,
            Theme::Mixed,
            Theme::Rolling,
            Theme::Rolling,
            Theme::Disks,
            Theme::Disks,
            Theme::Sizes,
            Theme::Hopeless,
            Theme::Forming,
            Theme::Calm,
        ];
        let theme = themes[rng.usize(..themes.len())];
        let favoured: &[FaultKind] = match theme {
            Theme::Mixed | Theme::Calm => &[],
            Theme::Rolling => &[
                FaultKind::KillMember,
                FaultKind::StaleView,
                FaultKind::StalledDisk,
                FaultKind::CutOne,
            ],
            Theme::Disks => &[
                FaultKind::WipeVolume,
                FaultKind::RollBack,
                FaultKind::SlowDisk,
                FaultKind::StalledDisk,
                FaultKind::CutOne,
                FaultKind::KillMember,
            ],
            Theme::Sizes => &[
                FaultKind::DyingDisk,
                FaultKind::StalledDisk,
                FaultKind::SlowDisk,
                FaultKind::Mute,
            ],
            Theme::Hopeless => &[
                FaultKind::WipeVolume,
                FaultKind::DamageVolume,
                FaultKind::QuorumLoss,
            ],
            Theme::Forming => &[
                FaultKind::WipeVolume,
                FaultKind::SlowDisk,
                FaultKind::KillMember,
                FaultKind::KillExecutor,
                FaultKind::CutOne,
            ],
        };
        let mut rates = BTreeMap::new();
        for kind in FaultKind::ALL {
            let (on, rate) = (rng.u8(..) < 90, rng.u16(60..600));
            let favourite = favoured.contains(kind);
            if favourite || (on && theme != Theme::Calm) {
                rates.insert(*kind, if favourite { rate.saturating_mul(2) } else { rate });
            }
        }
        let edits = match theme {
            Theme::Rolling | Theme::Sizes | Theme::Calm => rng.u16(600..1800),
            _ => rng.u16(100..900),
        };
        let ticks = if theme == Theme::Forming {
            rng.u64(60..200)
        } else {
            rng.u64(150..500)
        };
        let cursed = (theme == Theme::Disks && rng.u8(..) < 100).then(|| Ordinal(rng.u32(..3)));
        if cursed.is_some() {
            rates.insert(FaultKind::DamageVolume, 4000);
        }
        let blind_start = if theme == Theme::Forming && rng.bool() {
            rng.u64(10..80)
        } else {
            0
        };
        Self {
            rates,
            edits,
            ticks,
            theme,
            cursed,
            blind_start,
        }
    }
}
