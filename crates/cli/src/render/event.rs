//! One event of a running cluster as a line: when, and what, with the part that matters in colour.

use clap::builder::styling::Style;
use quorate_core::reason::BlockReason;

use super::style::{self, paint};

/// The line for `text`, printed at `time` (hours, minutes, seconds).
pub fn line(time: &str, text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let first = match weight(first) {
        Some((style, length)) => format!("{}{}", paint(style, &first[..length]), &first[length..]),
        None => first.to_owned(),
    };
    let rest: String = lines.map(|line| format!("\n          {line}")).collect();
    format!("{}  {first}{rest}", paint(style::DIM, time))
}

/// Whether the line says what blocks a plan.
pub fn is_block(text: &str) -> bool {
    head(text).is_some_and(|head| BlockReason::ALL.iter().any(|reason| reason.name() == head))
}

fn head(text: &str) -> Option<&str> {
    text.split_once(": ").map(|(head, _)| head)
}

/// What of the line is to be coloured, from its beginning, and how.
fn weight(text: &str) -> Option<(Style, usize)> {
    let head = head(text)?;
    if is_block(text) || head.ends_with(" ended") {
        return Some((style::BAD, head.len()));
    }
    let in_doubt = ["not done", "it is not clear whether it was done"]
        .iter()
        .find_map(|words| text.find(words));
    in_doubt.map(|_| (style::WARN, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_coloured_and_what_is_long_hangs() {
        let plain = |text: &str| anstream::adapter::strip_str(&line("10:00:00", text)).to_string();
        assert_eq!(plain("stop member 1"), "10:00:00  stop member 1");
        assert_eq!(
            plain("no etcd:\n  /bin/etcd: gone"),
            "10:00:00  no etcd:\n            /bin/etcd: gone"
        );
        assert_eq!(weight("etcd-1 ended: signal 9"), Some((style::BAD, 12)));
        assert_eq!(weight("CannotStart: a port"), Some((style::BAD, 11)));
        assert_eq!(weight("etcd-1 stopped: exit code 0"), None);
        assert_eq!(weight("stop member 1"), None);
        let doubt = "promote learner 3: not done: LearnerNotReady";
        assert_eq!(weight(doubt), Some((style::WARN, doubt.len())));
    }
}
