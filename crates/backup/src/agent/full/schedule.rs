//! When full copies are due.
//!
//! In: a line as cron knows it, in UTC. Out: the next time after a time.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::fmt;
use std::str::FromStr as _;

use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::Error;

/// When full copies are due.
#[derive(Debug, Clone, Default)]
pub struct Schedule(Option<Box<Cron>>);

impl Schedule {
    /// Only when one is needed for another reason.
    pub fn never() -> Schedule {
        Schedule(None)
    }

    /// Reads a line of five fields (minute, hour, day, month, weekday), or one such as `@daily`. UTC.
    pub fn parse(line: &str) -> Result<Schedule, Error> {
        let cron = Cron::from_str(line.trim()).map_err(|why| {
            Error::refused(
                format!("{line:?} is not a schedule: {why}"),
                "give five fields as cron knows them, such as \"0 */6 * * *\" for every six hours, in UTC",
            )
        })?;
        Ok(Schedule(Some(Box::new(cron))))
    }

    /// The first time after this one.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let time = time.to_zoned(TimeZone::UTC);
        let next = self.0.as_ref()?.find_next_occurrence(&time, false).ok()?;
        Some(next.timestamp())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("never"),
            Some(cron) => f.write_str(cron.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_time_is_in_utc() {
        let schedule = Schedule::parse("30 */6 * * *").unwrap();
        let next = |text: &str| schedule.after(text.parse().unwrap()).unwrap().to_string();
        assert_eq!(next("2026-03-01T00:29:59Z"), "2026-03-01T00:30:00Z");
        assert_eq!(next("2026-03-01T00:30:00Z"), "2026-03-01T06:30:00Z");
        assert_eq!(next("2026-02-28T18:30:00Z"), "2026-03-01T00:30:00Z");
        assert!(Schedule::never().after(Timestamp::UNIX_EPOCH).is_none());
        for wrong in ["", "x", "61 * * * *", "* *"] {
            let told = Schedule::parse(wrong).unwrap_err().to_string();
            assert!(told.contains("not a schedule"), "{told}");
        }
    }
}
