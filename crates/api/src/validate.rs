//! The rules of a manifest.
//!
//! In: a manifest as written, and the ground it is for. Out: all faults and all warnings, at once.
//! Never: a rule that another fault hides; a fault without advice.

use crate::fault::{Fault, Mismatch, Warning};
use crate::manifest::{EtcdCluster, GROUP};
use crate::path::FieldPath;
use crate::resolve;

mod auth;
mod host;
mod options;
mod pod;
mod retention;
mod storage;
mod tls;
mod upkeep;

/// Where the members will live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    Host,
    Kubernetes,
}

/// The longest cluster name: a DNS label, less the room for a member's `-NN`.
pub const MAX_NAME: usize = 60;
/// The same on Kubernetes, where a Service is called after the cluster with `-client` behind.
pub const MAX_NAME_KUBERNETES: usize = 56;
/// The most members that are accepted: far more than is sensible, and few enough to count.
pub const MAX_REPLICAS: u32 = 99;
/// The most members that etcd advises.
const ADVISED_REPLICAS: u32 = 7;

/// Everything that is wrong with `manifest` on `ground`, and everything worth knowing.
pub fn validate(manifest: &EtcdCluster, ground: Ground) -> (Vec<Fault>, Vec<Warning>) {
    let mut found = Findings::on(ground);
    resolve::read(manifest, &mut found);
    (found.faults, found.warnings)
}

/// What the rules have found so far.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) ground: Ground,
    pub(crate) faults: Vec<Fault>,
    pub(crate) warnings: Vec<Warning>,
}

impl Findings {
    pub(crate) fn on(ground: Ground) -> Findings {
        Findings {
            ground,
            faults: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(crate) fn fault(&mut self, path: FieldPath, got: impl Into<String>, expected: &str, fix: &str) {
        let (got, expected, fix) = (got.into(), expected.to_owned(), fix.to_owned());
        self.faults.push(Fault {
            path,
            line: None,
            mismatch: Mismatch::Value { got, expected },
            fix,
        });
    }

    pub(crate) fn missing(&mut self, path: &str, expected: &str, fix: &str) {
        self.fault(FieldPath::of(path), "nothing", expected, fix);
    }

    pub(crate) fn warn(&mut self, path: FieldPath, text: impl Into<String>) {
        self.warnings.push(Warning {
            path,
            text: text.into(),
        });
    }
}

pub(crate) use auth::auth;
pub(crate) use host::host;
pub(crate) use options::{options, quota};
pub(crate) use pod::pod;
pub(crate) use storage::storage;
pub(crate) use tls::tls;
pub(crate) use upkeep::upkeep;

pub(crate) fn name(name: Option<&str>, found: &mut Findings) -> String {
    let path = FieldPath::of("metadata.name");
    let Some(name) = name else {
        found.missing(
            "metadata.name",
            "the cluster's name",
            "Give it one, for example `name: my-cluster`.",
        );
        return String::new();
    };
    let (longest, why) = match found.ground {
        Ground::Host => (
            MAX_NAME,
            "A member's name is this with its number behind, and host names end at 63; choose a shorter one.",
        ),
        Ground::Kubernetes => (
            MAX_NAME_KUBERNETES,
            "The Service for clients is this with -client behind, and its name ends at 63; choose a shorter one.",
        ),
    };
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let label = !name.is_empty() && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-');
    if !label {
        found.fault(
            path,
            format!("the text {name:?}"),
            "lower-case letters, digits and '-', with a letter or digit at both ends",
            "Members, pods and host names are built from it; choose a name of that form.",
        );
    } else if name.len() > longest {
        found.fault(
            path,
            format!("a name of {} characters", name.len()),
            &format!("at most {longest} characters"),
            why,
        );
    } else if found.ground == Ground::Kubernetes && name.starts_with(|c: char| c.is_ascii_digit()) {
        found.fault(
            path,
            format!("the text {name:?}"),
            "a name that begins with a letter",
            "The cluster's Service bears this name, and Kubernetes wants a letter first.",
        );
    }
    name.to_owned()
}

pub(crate) fn replicas(replicas: Option<i64>, found: &mut Findings) -> u32 {
    let path = FieldPath::of("spec.replicas");
    let Some(replicas) = replicas else {
        found.missing(
            "spec.replicas",
            "the number of members",
            "Write 3 to survive the loss of one, or 1 to try it out.",
        );
        return 0;
    };
    if replicas < 1 {
        let fix = match found.ground {
            Ground::Host => {
                "Write 3 to survive the loss of one, or 1 to try it out; `quorate down` stops a cluster and keeps its data."
            }
            Ground::Kubernetes => "Write 3 to survive the loss of one, or 1 to try it out.",
        };
        found.fault(path, replicas.to_string(), "at least 1", fix);
        return 0;
    }
    let Some(count) = u32::try_from(replicas)
        .ok()
        .filter(|count| *count <= MAX_REPLICAS)
    else {
        found.fault(
            path,
            replicas.to_string(),
            &format!("at most {MAX_REPLICAS}"),
            "In most places 5 is the most that is sensible.",
        );
        return 0;
    };
    if count > ADVISED_REPLICAS {
        let text = format!(
            "etcd advises at most {ADVISED_REPLICAS} members: each one more makes every write slower, and 7 survive the loss \
             of three."
        );
        found.warn(path.clone(), text);
    }
    if count % 2 == 0 {
        let (less, more) = (count - 1, count + 1);
        let text = if less == 1 {
            "2 members are lost when either is lost, which is worse than 1; use 1 or 3.".to_owned()
        } else {
            format!(
                "{count} members survive no more losses than {less} do, and more must agree; use {less} or {more}."
            )
        };
        found.warn(path, text);
    }
    count
}

pub(crate) fn version(version: Option<&str>, found: &mut Findings) -> semver::Version {
    let none = semver::Version::new(0, 0, 0);
    let Some(text) = version else {
        found.missing(
            "spec.version",
            "the version of etcd to run",
            "Write one, for example `version: 3.6.1`.",
        );
        return none;
    };
    match crate::check_version(text) {
        Ok(version) => version,
        Err(bad) => {
            found.fault(FieldPath::of("spec.version"), text, &bad.expected, &bad.fix);
            none
        }
    }
}

/// Whether the annotation name belongs to quorate.
pub(crate) fn is_reserved(annotation: &str) -> bool {
    annotation
        .strip_prefix(GROUP)
        .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
