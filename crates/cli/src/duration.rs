//! Durations as people say them: `3 s`, `5 min`.

use std::time::Duration;

pub use quorate_api::parse_duration as parse;

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
    fn durations_are_said_in_one_unit() {
        assert_eq!(say(Duration::from_secs(5)), "5 s");
        assert_eq!(say(Duration::from_secs(300)), "5 min");
        assert_eq!(say(Duration::from_secs(7200)), "2 h");
        assert_eq!(say(Duration::from_secs(864_000)), "10 days");
    }
}
