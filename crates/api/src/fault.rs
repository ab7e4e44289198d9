//! What is said about a manifest: faults, which refuse it, and warnings, which do not.
//!
//! Both are read by people: one paragraph each, with the field, what is there, what was expected and what to
//! do about it.

use std::fmt;

use crate::path::FieldPath;

/// Something that refuses a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub path: FieldPath,
    /// The line of the manifest, from one, where that is known.
    pub line: Option<usize>,
    pub mismatch: Mismatch,
    pub fix: String,
}

/// How a field differs from what a manifest may say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    UnknownField,
    Value { got: String, expected: String },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault {
            path,
            line: _,
            mismatch,
            fix,
        } = self;
        match mismatch {
            Mismatch::UnknownField => write!(f, "unknown field {path}. {fix}"),
            Mismatch::Value { got, expected } => write!(f, "{path}: found {got}, expected {expected}. {fix}"),
        }
    }
}

/// Something to know about a manifest that is accepted all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub path: FieldPath,
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

/// A manifest that is refused, with everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    /// Where it came from: a file name.
    pub origin: String,
    /// What is wrong; never empty.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, fault) in self.faults.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            match fault.line {
                Some(line) => write!(f, "{}:{line}: {fault}", self.origin)?,
                None => write!(f, "{}: {fault}", self.origin)?,
            }
        }
        Ok(())
    }
}
