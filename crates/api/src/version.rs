//! Which versions of etcd may run.
//!
//! In: a version as written. Out: the version, or why it is refused and what to write.
//! Never: a patch release that is known to corrupt data; a minor that this quorate does not know.

use std::ops::RangeInclusive;

use semver::Version;

/// The minors of etcd 3 that this quorate runs.
pub const SUPPORTED_MINORS: RangeInclusive<u64> = 4..=7;

/// Why a version is refused: what was expected, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}. {fix}")]
pub struct BadVersion {
    pub expected: String,
    pub fix: String,
}

/// The version in `text`, if this quorate may run it.
pub fn check_version(text: &str) -> Result<Version, BadVersion> {
    let bad = |expected: &str, fix: String| BadVersion {
        expected: expected.to_owned(),
        fix,
    };
    let numbers = "a version of three numbers";
    if let Some(bare) = text.strip_prefix(['v', 'V'])
        && is_dotted_tri(bare)
    {
        return Err(bad(numbers, format!("Write {bare}, not {text}.")));
    }
    let version = match Version::parse(text) {
        Ok(version) if version.pre.is_empty() && version.build.is_empty() => version,
        Ok(version) => {
            let Version {
                major, minor, patch, ..
            } = version;
            return Err(bad(
                "a released version of three numbers",
                format!(
                    "Write {major}.{minor}.{patch}, or another release; previews and rebuilds are not run."
                ),
            ));
        }
        Err(_) => {
            return Err(bad(
                numbers,
                "Write all three numbers and nothing else, for example 3.6.1.".to_owned(),
            ));
        }
    };
    let (first, last) = (*SUPPORTED_MINORS.start(), *SUPPORTED_MINORS.end());
    let range = format!("a version from 3.{first} to 3.{last}");
    match (version.major, version.minor, version.patch) {
        (0..=2, ..) => Err(bad(
            &range,
            "etcd 2 and older speak another protocol; take a release of etcd 3.".to_owned(),
        )),
        (4.., ..) => Err(bad(
            &range,
            "This quorate knows etcd 3 only; use a newer quorate.".to_owned(),
        )),
        (3, minor, _) if minor < first => Err(bad(
            &range,
            format!(
                "etcd before 3.{first} has no learners, so members cannot be added safely, and it is long out of \
                 support; take 3.{first} or newer."
            ),
        )),
        (3, minor, _) if minor > last => Err(bad(
            &range,
            format!("This quorate does not know etcd 3.{minor}; use 3.{last}, or a newer quorate."),
        )),
        (3, 5, 0..=2) => Err(bad(
            "a version that keeps data intact",
            "etcd 3.5.0 to 3.5.2 are known to corrupt data when they are killed; take 3.5.3 or newer."
                .to_owned(),
        )),
        _ => Ok(version),
    }
}

fn is_dotted_tri(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split('.').count() == 3 && text.split('.').all(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted() {
        for text in ["3.4.0", "3.4.23", "3.5.3", "3.5.16", "3.6.0", "3.6.14", "3.7.1"] {
            assert_eq!(check_version(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn refused() {
        let table = [
            (
                "v3.6.1",
                "expected a version of three numbers. Write 3.6.1, not v3.6.1.",
            ),
            (
                "3.6",
                "expected a version of three numbers. Write all three numbers and nothing else, for example 3.6.1.",
            ),
            (
                "latest",
                "expected a version of three numbers. Write all three numbers and nothing else, for example 3.6.1.",
            ),
            (
                "3.06.1",
                "expected a version of three numbers. Write all three numbers and nothing else, for example 3.6.1.",
            ),
            (
                " 3.6.1",
                "expected a version of three numbers. Write all three numbers and nothing else, for example 3.6.1.",
            ),
            (
                "3.6.0-rc.1",
                "expected a released version of three numbers. Write 3.6.0, or another release; previews and rebuilds are not run.",
            ),
            (
                "3.6.1+x",
                "expected a released version of three numbers. Write 3.6.1, or another release; previews and rebuilds are not run.",
            ),
            (
                "2.3.8",
                "expected a version from 3.4 to 3.7. etcd 2 and older speak another protocol; take a release of etcd 3.",
            ),
            (
                "4.0.0",
                "expected a version from 3.4 to 3.7. This quorate knows etcd 3 only; use a newer quorate.",
            ),
            (
                "3.2.28",
                "expected a version from 3.4 to 3.7. etcd before 3.4 has no learners, so members cannot be added safely, and it is long out of support; take 3.4 or newer.",
            ),
            (
                "3.8.0",
                "expected a version from 3.4 to 3.7. This quorate does not know etcd 3.8; use 3.7, or a newer quorate.",
            ),
            (
                "3.5.0",
                "expected a version that keeps data intact. etcd 3.5.0 to 3.5.2 are known to corrupt data when they are killed; take 3.5.3 or newer.",
            ),
            (
                "3.5.2",
                "expected a version that keeps data intact. etcd 3.5.0 to 3.5.2 are known to corrupt data when they are killed; take 3.5.3 or newer.",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(check_version(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
