//! `quorate snapshot restore FILE --data-dir DIR`: a data directory that etcd starts from.

use quorate_datadir::{Restore, restore};
use semver::Version;
use serde::Serialize;

use super::{form, offline};
use crate::arguments::snapshot::Restore as Arguments;
use crate::failure::Failure;
use crate::render::facts;
use crate::say;

/// What was made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    data_dir: String,
    name: String,
    /// In hexadecimal digits, as etcd shows it.
    member_id: String,
    cluster_id: String,
    revision: i64,
    /// The oldest etcd that it is for.
    version: String,
    size: u64,
    keys_without_lease: u64,
}

/// Makes it and says what it is.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let member = arguments.member;
    let for_version = member.for_version.as_deref().map(minor).transpose()?;
    let (data_dir, name) = (arguments.data_dir.display().to_string(), member.name.clone());
    let wanted = Restore {
        snapshot: arguments.file,
        data_dir: arguments.data_dir,
        wal_dir: member.wal_dir,
        name: member.name,
        initial_cluster: member.initial_cluster,
        token: member.initial_cluster_token,
        peer_urls: member.initial_advertise_peer_urls,
        skip_hash_check: arguments.skip_hash_check,
        bump: member.bump_revision,
        to_revision: arguments.to_revision,
        for_version,
    };
    let restored = offline::run("copied", |progress| Ok(restore(&wanted, progress)?))?;
    if restored.without_lease > 0 {
        say::warning(&format!(
            "{} keys go with a lease that the snapshot no longer has; they will not expire",
            restored.without_lease
        ));
    }
    let shown = Shown {
        data_dir,
        name,
        member_id: format!("{:x}", restored.member_id),
        cluster_id: format!("{:x}", restored.cluster_id),
        revision: restored.revision,
        version: restored.target.to_string(),
        size: restored.size,
        keys_without_lease: restored.without_lease,
    };
    form::show(arguments.output, &shown, || {
        facts::page(&[
            ("restored", shown.data_dir.clone()),
            ("member", format!("{} ({})", shown.name, shown.member_id)),
            ("cluster", shown.cluster_id.clone()),
            ("revision", shown.revision.to_string()),
            ("size", facts::size(shown.size)),
            ("for", format!("etcd {}", shown.version)),
        ])
    })
}

/// A version as people say it: `3.5`, or `3.5.16`.
pub fn minor(text: &str) -> Result<Version, Failure> {
    let whole = if text.matches('.').count() == 1 {
        format!("{text}.0")
    } else {
        text.to_owned()
    };
    Version::parse(&whole).map_err(|_| {
        Failure::usage(format!(
            "{text:?} is no version of etcd: expected one such as 3.5"
        ))
    })
}
