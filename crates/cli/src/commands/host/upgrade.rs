//! `quorate upgrade VERSION`.
//!
//! What the planner would block is refused here already, before the manifest is touched: a minor skipped, a way back,
//! a patch known to corrupt data, a version that is not on this machine.

use quorate_api::edit;
use quorate_core::model::{Version, VersionPath};
use quorate_host::etcd::find::{self, Places};
use quorate_host::{Root, Status, control};

use crate::arguments;
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::{progress, say};

pub async fn run(root: &Root, arguments: &arguments::Upgrade) -> Result<(), Failure> {
    let text = &arguments.version;
    let wanted = quorate_api::check_version(text)
        .map_err(|bad| Failure::usage(format!("{text:?} is no version to upgrade to: {bad}")))?;
    let target: Version = wanted
        .to_string()
        .parse()
        .map_err(|error| Failure::usage(format!("{error}")))?;
    let manifest = Manifest::of(root)?;
    let status = control::read_status(root.path())?;
    let running = status.as_ref().is_some_and(|status| status.supervisor.running);
    progress::can_wait(arguments.wait, running, root)?;
    if let Some(status) = &status {
        allowed(status, target)?;
    }
    find::find_etcd(Some(target), &Places::of(Some(root.path()), None, None))
        .map_err(|error| Failure::from(error).and("Nothing was changed."))?;
    let from = manifest.cluster().version.clone();
    if manifest.change(|text| edit::set_version(text, &wanted))? {
        let file = manifest.path().display();
        say::line(&format!(
            "{file}: version {from} to {wanted}. Members follow one at a time, the highest number first."
        ));
    } else {
        say::line(&format!(
            "{} asks for {wanted} already.",
            manifest.path().display()
        ));
    }
    progress::follow(arguments.wait, root, running, |status| {
        is_done(status, &wanted.to_string())
    })
    .await
}

/// May every member go from what it runs, or ran last, to `target`?
fn allowed(status: &Status, target: Version) -> Result<(), Failure> {
    for member in &status.members {
        let Some(present) = member
            .version
            .as_deref()
            .and_then(|text| text.parse::<Version>().ok())
        else {
            continue;
        };
        let (name, minor) = (&member.name, present.minor + 1);
        let why = match present.path_to(target) {
            VersionPath::Allowed => continue,
            VersionPath::Downgrade => "etcd must not be started on the data of a newer version".to_owned(),
            VersionPath::SkipsMinor => format!("etcd moves one minor at a time: go to 3.{minor} first"),
            VersionPath::PatchFirst { at_least } => format!(
                "before {at_least}, removed members could come back to life in what 3.{minor} reads: go to {at_least} \
                 or a later 3.{} first",
                present.minor
            ),
            VersionPath::Corrupting => "that version is known to corrupt data".to_owned(),
            VersionPath::Unknown => "this quorate does not know that version".to_owned(),
        };
        return Err(Failure::refused(format!(
            "no upgrade from {present} (of {name}) to {target}: {why}"
        ))
        .and("Nothing was changed; `quorate explain VersionPath` says more."));
    }
    Ok(())
}

fn is_done(status: &Status, wanted: &str) -> bool {
    status.spec.version == wanted
        && status
            .members
            .iter()
            .all(|member| member.version.as_deref() == Some(wanted))
}

#[cfg(test)]
mod tests {
    use quorate_host::Member;

    use super::*;

    fn running(versions: &[&str]) -> Status {
        let member = |version: &&str| Member {
            version: Some((*version).to_owned()),
            ..Member::default()
        };
        Status {
            members: versions.iter().map(member).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn the_way_is_judged_for_every_member() {
        let v = |text: &str| text.parse::<Version>().unwrap();
        assert!(allowed(&running(&["3.5.35", "3.6.1"]), v("3.6.16")).is_ok());
        for (present, target, word) in [
            ("3.5.35", "3.7.0", "go to 3.6 first"),
            ("3.6.1", "3.5.35", "newer version"),
            ("3.5.16", "3.6.1", "3.5.26"),
            ("3.4.23", "3.5.1", "corrupt"),
        ] {
            let failure = allowed(&running(&["3.6.1", present]), v(target)).unwrap_err();
            assert_eq!(failure.code(), 3);
            let alone = allowed(&running(&[present]), v(target)).unwrap_err();
            assert!(alone.to_string().contains(word), "{alone}");
        }
        assert!(is_done(
            &Status {
                spec: quorate_host::Wanted {
                    version: "3.6.1".to_owned(),
                    ..Default::default()
                },
                ..running(&["3.6.1"])
            },
            "3.6.1"
        ));
        assert!(
            !is_done(&running(&["3.6.1"]), "3.6.1"),
            "the supervisor has not read it yet"
        );
    }
}
