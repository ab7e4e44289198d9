//! Durations as people write them: `90s`, `5m`, `1h30m`, `7d`.

use std::time::Duration;

/// The longest that a change may wait before it is in the archive.
const PERIOD_MAX: Duration = Duration::from_secs(3600);

/// Reads a duration from a command line or a manifest.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a duration such as 30s, 5m or 1h30m".to_owned();
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        let part = number.checked_mul(seconds).map(Duration::from_secs);
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = &rest[letters..];
    }
    Ok(total)
}

/// Reads how long a change may wait before the backup agent writes it to the archive.
pub fn parse_backup_period(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        period if period < Duration::from_secs(1) => Err("expected one second or more".to_owned()),
        period if period > PERIOD_MAX => Err("expected one hour or less".to_owned()),
        period => Ok(period),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        for bad in [
            "",
            "5",
            "m",
            "5x",
            "-1s",
            "1 s",
            "99999999999999999999h",
            "18446744073709551615h",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn periods_are_neither_nothing_nor_endless() {
        for good in ["1s", "60m", "59m60s"] {
            assert!(parse_backup_period(good).is_ok(), "{good}");
        }
        for wrong in ["0s", "2h", "60m1s", "x"] {
            assert!(parse_backup_period(wrong).is_err(), "{wrong}");
        }
    }
}
