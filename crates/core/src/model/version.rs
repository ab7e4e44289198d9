//! etcd's versions and which way they may move: one minor at a time, never down, never onto a patch that is
//! known to corrupt data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    /// Always 3 in what quorate supports.
    pub major: u32,
    /// The step that upgrades may not skip.
    pub minor: u32,
    pub patch: u32,
}

/// The text is not `major.minor.patch`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version of the form 3.6.1")]
pub struct VersionError(pub String);

impl FromStr for Version {
    type Err = VersionError;
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let mut parts = text.split('.').map(|p| {
            // "+1" and "" parse or fail oddly; only plain digits are meant.
            if p.is_empty() || !p.bytes().all(|b| b.is_ascii_digit()) {
                None
            } else {
                p.parse().ok()
            }
        });
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) => {
                Ok(Self { major, minor, patch })
            }
            _ => Err(VersionError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Version {
    type Error = VersionError;
    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(v: Version) -> String {
        v.to_string()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether data written by one version may be taken over by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionPath {
    /// Nothing to do, or one allowed step.
    Allowed,
    /// The target is older; etcd's own downgrade is the only way down.
    Downgrade,
    /// More than one minor at once.
    SkipsMinor,
    /// The present patch must first go to `at_least` within its minor.
    PatchFirst {
        /// The first patch from which the next minor may be reached.
        at_least: Version,
    },
    /// The target is known to corrupt data.
    Corrupting,
    /// Not a version this quorate knows.
    Unknown,
}

impl Version {
    /// The oldest and newest minor of etcd 3 that quorate runs.
    pub const MINORS: std::ops::RangeInclusive<u32> = 4..=7;

    /// Shorthand for tests and tables.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// 3.5.0 to 3.5.2 could lose or diverge data after a crash under load.
    pub fn corrupts(self) -> bool {
        self.major == 3 && self.minor == 5 && self.patch <= 2
    }

    /// May a member that ran `self` be started as `to`?
    pub fn path_to(self, to: Version) -> VersionPath {
        if to.major != 3 || !Self::MINORS.contains(&to.minor) {
            return VersionPath::Unknown;
        }
        if to < self {
            return VersionPath::Downgrade;
        }
        if to != self && to.corrupts() {
            return VersionPath::Corrupting;
        }
        if to.minor > self.minor.saturating_add(1) {
            return VersionPath::SkipsMinor;
        }
        // Before 3.5.26 removed members could come back to life in the v3 store that 3.6 reads.
        let ready = Version::new(3, 5, 26);
        if self.minor == 5 && to.minor == 6 && self < ready {
            return VersionPath::PatchFirst { at_least: ready };
        }
        VersionPath::Allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn parses_only_three_plain_numbers() {
        assert_eq!(v("3.6.14"), Version::new(3, 6, 14));
        for bad in [
            "",
            "3",
            "3.6",
            "v3.6.1",
            "3.6.1-rc.0",
            "3.6.1.2",
            "3..1",
            "+3.6.1",
            "3.6.99999999999",
        ] {
            assert!(bad.parse::<Version>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn orders_by_number_not_by_text() {
        assert!(v("3.5.9") < v("3.5.16"));
    }

    #[test]
    fn paths() {
        use VersionPath::*;
        let table = [
            ("3.5.16", "3.5.16", Allowed),
            ("3.4.23", "3.5.16", Allowed),
            ("3.5.16", "3.5.33", Allowed),
            (
                "3.5.16",
                "3.6.1",
                PatchFirst {
                    at_least: v("3.5.26"),
                },
            ),
            ("3.5.26", "3.6.1", Allowed),
            ("3.6.1", "3.7.0", Allowed),
            ("3.4.23", "3.6.1", SkipsMinor),
            ("3.5.33", "3.7.0", SkipsMinor),
            ("3.6.1", "3.5.33", Downgrade),
            ("3.6.2", "3.6.1", Downgrade),
            ("3.4.23", "3.5.1", Corrupting),
            ("3.5.1", "3.5.16", Allowed),
            ("3.5.1", "3.5.1", Allowed),
            ("3.6.1", "3.8.0", Unknown),
            ("3.4.23", "4.0.0", Unknown),
        ];
        for (from, to, expected) in table {
            assert_eq!(v(from).path_to(v(to)), expected, "{from} -> {to}");
        }
    }
}
