//! Nothing that is planned leaves three or more voters unable to commit for long.
//!
//! In: each tick, whether a leader serves, and when something last went wrong. Out: a break after
//! [`OUTAGE_TICKS`] without service in a world in which nothing is wrong. Never: blame while a fault is young.

/// So long may a planned operation take the service away: elections, not more.
pub const OUTAGE_TICKS: u64 = 20;

#[derive(Clone, Debug, Default)]
pub struct Outage {
    well: bool,
    since: Option<u64>,
}

/// What the watch sees in a tick.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub tick: u64,
    /// Nothing is wrong now.
    pub calm: bool,
    /// A leader serves and all voters with it.
    pub all_well: bool,
    pub serves: bool,
    pub voters: usize,
}

impl Outage {
    pub fn tick(&mut self, seen: Seen) -> Option<String> {
        if !seen.calm || seen.voters < 3 {
            *self = Self::default();
            return None;
        }
        self.well |= seen.all_well;
        if seen.serves || !self.well {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(seen.tick);
        (seen.tick - since == OUTAGE_TICKS)
            .then(|| format!("no service for {OUTAGE_TICKS} ticks, and nothing was wrong"))
    }
}
