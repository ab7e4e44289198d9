//! Data that was given up: older generations of a slot, kept under `aside/` in bounded number.
//!
//! In: a volume that is held. Out: older generations out of the way, the oldest asides deleted once the present data
//! has been started from. Never: the present generation touched; more than [`MOST`]; anything deleted that was not
//! moved aside first.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use quorate_core::model::Generation;
use quorate_datadir::{durable, move_aside};

use super::judge::{Data, judge};
use super::layout::Layout;
use crate::Error;
use crate::contract::NO_ROOM_ASIDE;
use crate::error::{data, file};

/// How many asides there may be; with more to come, a start is refused.
pub const MOST: usize = 4;
/// How many stay when a member goes on from its data.
pub const KEPT: usize = 2;

/// The asides, oldest first.
pub(crate) fn list(layout: &Layout) -> Result<Vec<PathBuf>, Error> {
    let asides = layout.asides();
    let entries = match asides.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(file("list", &asides)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(file("list", &asides))?;
        let age = entry.file_name().to_str().and_then(age_of);
        found.extend(age.map(|age| (age, entry.path())));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// How many asides there are, and the room they take.
pub(crate) fn count(layout: &Layout) -> Result<(u32, u64), Error> {
    let all = list(layout)?;
    let room = all.iter().map(|aside| quorate_datadir::room_of(aside));
    Ok((u32::try_from(all.len()).unwrap_or(u32::MAX), room.sum()))
}

/// Generations older than `present` that lie where data lives.
pub(crate) fn leftovers(layout: &Layout, present: Generation) -> Result<Vec<Generation>, Error> {
    let all = layout.generations().map_err(file("list", layout.root()))?;
    Ok(all.into_iter().filter(|other| *other < present).collect())
}

/// Those of them that are kept aside: not logs in which nothing was ever promised.
fn to_keep(layout: &Layout, present: Generation) -> Result<Vec<Generation>, Error> {
    let mut kept = Vec::new();
    for older in leftovers(layout, present)? {
        if judge(&layout.data(older))? != Data::Blank {
            kept.push(older);
        }
    }
    Ok(kept)
}

/// Refuses where the older generations would not fit beside the asides there are.
pub(crate) fn has_room(layout: &Layout, present: Generation) -> Result<(), Error> {
    let (there, more) = (list(layout)?.len(), to_keep(layout, present)?.len());
    if there + more <= MOST {
        return Ok(());
    }
    let asides = layout.asides();
    Err(Error::refused(
        layout.root(),
        format!(
            "{there} {NO_ROOM_ASIDE} {} and {more} more would join them, at most {MOST} may; delete those that nobody \
             needs",
            asides.display()
        ),
    ))
}

/// Moves the older generations out of the way.
pub(crate) fn set_aside(layout: &Layout, present: Generation) -> Result<(), Error> {
    let asides = layout.asides();
    for older in leftovers(layout, present)? {
        let from = layout.data(older);
        // One that never had anything is not worth a place. Only an empty directory goes by this.
        if std::fs::remove_dir(&from).is_ok() {
            continue;
        }
        if judge(&from)? == Data::Blank {
            clear_blank(layout, &from)?;
            std::fs::remove_dir_all(&from).map_err(file("delete", &from))?;
            continue;
        }
        match std::fs::DirBuilder::new().mode(0o700).create(&asides) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.map_err(file("create", &asides))?,
        }
        move_aside(&from, &asides.join(name(older))).map_err(data("set aside", &from))?;
    }
    Ok(())
}

/// Deletes the oldest asides, so that with the older generations at most [`KEPT`] are left.
pub(crate) fn thin(layout: &Layout, present: Generation) -> Result<(), Error> {
    let all = list(layout)?;
    let surplus = (all.len() + to_keep(layout, present)?.len()).saturating_sub(KEPT);
    for oldest in all.into_iter().take(surplus) {
        std::fs::remove_dir_all(&oldest).map_err(file("delete", &oldest))?;
    }
    if surplus > 0 && layout.asides().exists() {
        durable::sync_directory(&layout.asides()).map_err(file("sync", &layout.asides()))?;
    }
    Ok(())
}

/// Puts a blank log out of the way: while there is a log, etcd does not start as at first. Only the last one is kept.
pub(crate) fn clear_blank(layout: &Layout, data_dir: &Path) -> Result<(), Error> {
    let (from, to) = (data_dir.join("member"), layout.blank());
    match std::fs::remove_dir_all(&to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file("delete", &to)(error)),
        _ => {}
    }
    std::fs::rename(&from, &to).map_err(file("set aside", &from))?;
    for directory in [layout.own(), data_dir.to_owned()] {
        durable::sync_directory(&directory).map_err(file("sync", &directory))?;
    }
    Ok(())
}

#[allow(
    clippy::disallowed_methods,
    reason = "names are told apart by it; what is older goes by the generation"
)]
fn name(generation: Generation) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{generation}-{}", now.as_millis())
}

/// Which generation, and when. Generations only grow, so they come before a clock that may not.
fn age_of(name: &str) -> Option<(u32, u128)> {
    let (generation, millis) = name.strip_prefix('g')?.split_once('-')?;
    Some((generation.parse().ok()?, millis.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(generations: &[u32], asides: &[&str]) -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        for generation in generations {
            std::fs::create_dir_all(layout.data(Generation(*generation)).join("member/wal")).unwrap();
        }
        for aside in asides {
            std::fs::create_dir_all(layout.asides().join(aside).join("member")).unwrap();
        }
        (dir, layout)
    }

    fn names(layout: &Layout) -> Vec<String> {
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        list(layout).unwrap().into_iter().map(name).collect()
    }

    #[test]
    fn the_oldest_go_first_and_nothing_that_is_not_an_aside() {
        let (_dir, layout) = volume(&[12], &["g9-50", "g10-1", "g2-900", "mine", "g11-7"]);
        assert_eq!(names(&layout), ["g2-900", "g9-50", "g10-1", "g11-7"]);
        thin(&layout, Generation(12)).unwrap();
        assert_eq!(names(&layout), ["g10-1", "g11-7"]);
        assert!(layout.asides().join("mine").exists());
        thin(&layout, Generation(12)).unwrap();
        let (sets, room) = count(&layout).unwrap();
        assert!(sets == 2 && room > 0, "{room} bytes");
    }

    #[test]
    fn older_generations_go_aside_and_the_present_one_and_newer_ones_stay() {
        let (_dir, layout) = volume(&[1, 2, 3, 4], &[]);
        std::fs::create_dir(layout.data(Generation(0))).unwrap();
        set_aside(&layout, Generation(3)).unwrap();
        assert_eq!(layout.generations().unwrap(), [Generation(3), Generation(4)]);
        let kept = names(&layout);
        assert!(
            kept[0].starts_with("g1-") && kept[1].starts_with("g2-"),
            "{kept:?}"
        );
        assert_eq!(kept.len(), 2, "an empty one is not kept");
    }

    #[test]
    fn no_room_is_a_refusal_that_deletes_nothing() {
        let (_dir, layout) = volume(&[4, 5], &["g0-1", "g1-1", "g2-1", "g3-1"]);
        has_room(&layout, Generation(4)).unwrap();
        let error = has_room(&layout, Generation(5)).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("delete those"), "{error}");
        assert_eq!(count(&layout).unwrap().0, 4);
        thin(&layout, Generation(5)).unwrap();
        assert_eq!(names(&layout), ["g3-1"], "one more is to come");
        has_room(&layout, Generation(5)).unwrap();
    }
}
