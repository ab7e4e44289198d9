use quorate_api::edit;
use quorate_host::{Root, Status, control};

use crate::arguments;
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::render::status::no_quorum;
use crate::{progress, say};

/// More members than this are asked about.
pub const MANY: u32 = 9;

/// Refuses more members than are sensible, unless the user agreed.
pub fn ask_about_many(wanted: u32, yes: bool) -> Result<(), Failure> {
    if wanted <= MANY || yes {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "{wanted} members are more than etcd is made for: each write waits for {} of them, and five or seven lose no less",
        wanted / 2 + 1
    ))
    .and("Add --yes if that is what you want."))
}

/// Sets the number of members.
pub async fn run(root: &Root, arguments: &arguments::Scale) -> Result<(), Failure> {
    let wanted = arguments.replicas;
    ask_about_many(wanted, arguments.yes)?;
    let manifest = Manifest::of(root)?;
    let status = control::read_status(root.path())?;
    let running = status.as_ref().is_some_and(|status| status.supervisor.running);
    progress::can_wait(arguments.wait, running, root)?;
    let (from, name) = (manifest.cluster().replicas, manifest.cluster().name.clone());
    if manifest.change(|text| edit::set_replicas(text, wanted))? {
        say::line(&format!(
            "{}: replicas {from} to {wanted}. {}",
            manifest.path().display(),
            outlook(status.as_ref(), &name, what_follows(&name, from, wanted))
        ));
    } else {
        say::line(&format!(
            "{} asks for {wanted} already.",
            manifest.path().display()
        ));
    }
    progress::follow(arguments.wait, root, running, |status| is_done(status, wanted)).await
}

/// What follows, and when, where it cannot follow yet.
fn outlook(status: Option<&Status>, name: &str, follows: String) -> String {
    match status.and_then(no_quorum) {
        Some(words) => {
            format!("{name} {words}. No member joins or leaves until there is a quorum; then {follows}")
        }
        None => follows,
    }
}

fn what_follows(name: &str, from: u32, wanted: u32) -> String {
    let (first, last) = (from.min(wanted), from.max(wanted).saturating_sub(1));
    let named = match last - first {
        0 => format!("{name}-{first}"),
        1 => format!("{name}-{first} and {name}-{last}"),
        _ => format!("{name}-{first} to {name}-{last}"),
    };
    match (wanted > from, first == last) {
        (true, true) => format!("{named} will join, as a learner until it has caught up."),
        (true, false) => format!("{named} will join, one at a time, each a learner until it has caught up."),
        (false, true) => format!("{named} will leave; its data is set aside."),
        (false, false) => format!("{named} will leave, one at a time; their data is set aside."),
    }
}

fn is_done(status: &Status, wanted: u32) -> bool {
    status.spec.replicas == wanted && status.members.len() == wanted as usize
}

#[cfg(test)]
mod tests {
    use quorate_host::Member;

    use super::*;

    #[test]
    fn nobody_is_said_to_join_without_a_quorum() {
        let outlook_of = |healthy: [bool; 3], running| {
            let member = |healthy| Member {
                role: "voter".to_owned(),
                healthy,
                ..Member::default()
            };
            let mut status = Status {
                members: healthy.map(member).into(),
                ..Status::default()
            };
            status.supervisor.running = running;
            outlook(Some(&status), "c", what_follows("c", 3, 4))
        };
        let joins = "c-3 will join, as a learner until it has caught up.";
        assert_eq!(outlook_of([true, true, false], true), joins);
        assert_eq!(
            outlook_of([true, false, false], true),
            format!(
                "c has no quorum: 1 of 3 voting members healthy, 2 needed. No member joins or leaves until there is a \
                 quorum; then {joins}"
            )
        );
        assert_eq!(outlook_of([false; 3], false), joins, "nobody knows");
    }

    #[test]
    fn it_is_said_who_joins_and_who_leaves() {
        let table = [
            (
                1,
                5,
                "c-1 to c-4 will join, one at a time, each a learner until it has caught up.",
            ),
            (
                3,
                5,
                "c-3 and c-4 will join, one at a time, each a learner until it has caught up.",
            ),
            (3, 4, "c-3 will join, as a learner until it has caught up."),
            (3, 2, "c-2 will leave; its data is set aside."),
            (
                5,
                3,
                "c-3 and c-4 will leave, one at a time; their data is set aside.",
            ),
        ];
        for (from, wanted, words) in table {
            assert_eq!(what_follows("c", from, wanted), words);
        }
    }
}
