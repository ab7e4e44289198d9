//! Why an object is refused, in the form in which Kubernetes says such things: `spec.storage: Required value: …`.
//!
//! In: the faults that the rules of a manifest find. Out: the same, where the older operator had words for it with
//! exactly those words first, since scripts look for them.

use std::fmt;

use crate::fault::{Fault, Mismatch};
use crate::path::{FieldPath, Segment};
use crate::validate::is_reserved;

/// One thing that refuses an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub path: FieldPath,
    /// What is wrong with it, and what to do.
    pub text: String,
}

/// Everything that refuses an object; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Rejection(pub Vec<Refusal>);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "{only}"),
            several => {
                let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
        }
    }
}

impl From<&Fault> for Refusal {
    fn from(fault: &Fault) -> Refusal {
        let Fault {
            path,
            line: _,
            mismatch,
            fix,
        } = fault;
        let Mismatch::Value { got, expected } = mismatch else {
            return Refusal {
                path: path.clone(),
                text: format!("unknown field. {fix}"),
            };
        };
        if *path == FieldPath::of("spec.version") && got != "nothing" {
            return Refusal {
                path: path.clone(),
                text: format!("Invalid value: {got:?}: {}. {fix}", of_a_version(got, expected)),
            };
        }
        if let Some(Segment::Key(name)) = path.segments().last()
            && is_reserved(name)
        {
            let text = format!(
                "Invalid value: {name:?}: Annotation name is a reserved name ('etcd.improbable.io' prefix). {fix}"
            );
            return Refusal {
                path: FieldPath::of("spec.podTemplate.metadata"),
                text,
            };
        }
        let text = if got == "nothing" {
            format!("Required value: {expected}. {fix}")
        } else {
            format!("Invalid value: {got}: expected {expected}. {fix}")
        };
        Refusal {
            path: path.clone(),
            text,
        }
    }
}

/// What is wrong with a version.
fn of_a_version(text: &str, expected: &str) -> String {
    match semver::Version::parse(text) {
        Err(_) => format!("{text} is not in dotted-tri format"),
        Ok(version) if version.major != 3 => "only Etcd version 3 is supported".to_owned(),
        Ok(_) => format!("expected {expected}"),
    }
}
