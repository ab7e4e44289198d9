//! Times and points as people write them: `2026-05-02T10:00:00Z`, `2026-05-02 10:00` here, `10m ago`, revision `811`.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::duration;

/// A point of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    Revision(i64),
    Time(Timestamp),
}

pub fn parse(text: &str) -> Result<Timestamp, String> {
    at(text, Timestamp::now())
}

/// Reads a revision or a time.
pub fn point(text: &str) -> Result<Point, String> {
    match text.trim().parse::<i64>() {
        Ok(revision) if revision >= 1 => Ok(Point::Revision(revision)),
        Ok(_) => Err("expected a revision from 1 on, or a time".to_owned()),
        Err(_) => parse(text).map(Point::Time),
    }
}

fn at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    let wrong = || "expected a time such as 2026-05-02T10:00:00Z, or '10m ago'".to_owned();
    if text == "now" {
        return Ok(now);
    }
    if let Some(ago) = text.strip_suffix("ago") {
        let ago = duration::parse(&ago.replace(' ', "")).map_err(|_| wrong())?;
        let ago = SignedDuration::try_from(ago).map_err(|_| wrong())?;
        return now.checked_sub(ago).map_err(|_| wrong());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    // Without an offset it is what the clock on the wall says here.
    let local = text.parse::<DateTime>().map_err(|_| wrong())?;
    let zoned = local.to_zoned(TimeZone::system()).map_err(|_| wrong())?;
    Ok(zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let now: Timestamp = "2026-05-02T10:00:00Z".parse().unwrap();
        let read_as = |text: &str| at(text, now).map(|time| time.to_string());
        assert_eq!(read_as("10m ago").unwrap(), "2026-05-02T09:50:00Z");
        assert_eq!(read_as("1d 1h ago").unwrap(), "2026-05-01T09:00:00Z");
        assert_eq!(
            read_as("2026-05-02T12:00:00+02:00").unwrap(),
            "2026-05-02T10:00:00Z"
        );
        assert_eq!(read_as("now").unwrap(), "2026-05-02T10:00:00Z");
        assert!(read_as("2026-05-02 10:00").is_ok());
        for wrong in ["", "ago", "yesterday", "10 ago", "12", "2026-13-01T00:00:00Z"] {
            assert!(at(wrong, now).is_err(), "{wrong}");
        }
        assert_eq!(point("811"), Ok(Point::Revision(811)));
        assert!(point("0").is_err() && point("-3").is_err());
        assert!(matches!(point("10m ago"), Ok(Point::Time(_))));
    }
}
