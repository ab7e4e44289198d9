//! The etcd that is to run on what is written: formats differ a little from minor to minor.

use std::fmt;

use semver::Version;

use crate::Error;

/// A minor of etcd 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    V3_4,
    V3_5,
    V3_6,
    V3_7,
}

impl Target {
    /// The minor of `version`; refused if it is none that is known.
    pub fn of(version: &Version) -> Result<Target, Error> {
        match (version.major, version.minor) {
            (3, 4) => Ok(Target::V3_4),
            (3, 5) => Ok(Target::V3_5),
            (3, 6) => Ok(Target::V3_6),
            (3, 7) => Ok(Target::V3_7),
            _ => Err(Error::refused(
                format!("what etcd {version} needs is not known"),
                "data can be written for etcd 3.4 to 3.7",
            )),
        }
    }

    /// Its number after `3.`.
    pub fn minor(self) -> u64 {
        match self {
            Target::V3_4 => 4,
            Target::V3_5 => 5,
            Target::V3_6 => 6,
            Target::V3_7 => 7,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "3.{}", self.minor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors() {
        for (text, target) in [
            ("3.4.23", Target::V3_4),
            ("3.5.0", Target::V3_5),
            ("3.6.16", Target::V3_6),
            ("3.7.0-rc.1", Target::V3_7),
        ] {
            let version = Version::parse(text).unwrap();
            assert_eq!(Target::of(&version).unwrap(), target);
            assert_eq!(target.minor(), version.minor);
        }
        for text in ["3.3.27", "3.8.0", "4.5.0"] {
            let error = Target::of(&Version::parse(text).unwrap()).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
