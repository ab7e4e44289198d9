//! Durations as people write them (`90s`, `5m`, `1h30m`, `7d`) and say them (`3 s`, `5 min`).

use std::time::Duration;

/// Reads a duration from the command line.
pub fn parse(text: &str) -> Result<Duration, String> {
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

/// Says a duration with the precision people care about.
pub fn say(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_says() {
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
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
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(say(Duration::from_secs(5)), "5 s");
        assert_eq!(say(Duration::from_secs(300)), "5 min");
        assert_eq!(say(Duration::from_secs(7200)), "2 h");
        assert_eq!(say(Duration::from_secs(864_000)), "10 days");
    }
}
