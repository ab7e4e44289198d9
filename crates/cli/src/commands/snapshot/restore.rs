//! `quorate snapshot restore FILE --data-dir DIR`: a data directory that etcd starts from.

use quorate_datadir::{Restore, restore};
use semver::Version;

use super::{form, offline};
use crate::arguments::snapshot::Restore as Arguments;
use crate::commands::restored_members::Made;
use crate::failure::Failure;

/// Makes it and says what it is.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let began = std::time::Instant::now();
    let member = arguments.member;
    let for_version = member.for_version.as_deref().map(minor).transpose()?;
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
    let made = Made::one(&wanted.name, &wanted.data_dir, &restored, began);
    made.warn();
    form::show(arguments.output, &made, || made.page())
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
