//! The files of a member's volume, reached on the node's disk: behind the back of everyone, as an accident would.

use std::path::PathBuf;
use std::process::Command;

use super::cluster::{KubeCluster, text};

/// Where a hostpath volume is, as the node sees it; the bed keeps it in its own directory.
const NODE_PATH: &str = "/tmp/hostpath_pv/";

/// The directory of the volume that the claim `name` is bound to.
pub fn directory(cluster: &KubeCluster<'_>, name: &str) -> PathBuf {
    let claim = cluster.namespace.json(&["persistentvolumeclaim", name]);
    let claim = claim.unwrap_or_else(|| panic!("there is no claim {name}"));
    let bed = cluster.namespace.bed();
    let volume = bed.json(&["persistentvolume", &text(&claim["spec"]["volumeName"])]);
    let path = volume
        .map(|v| text(&v["spec"]["hostPath"]["path"]))
        .unwrap_or_default();
    let inside = path.strip_prefix(NODE_PATH);
    let inside =
        inside.unwrap_or_else(|| panic!("the volume of {name} is at {path:?}, not below {NODE_PATH}"));
    bed.dir().join("volumes").join(inside)
}

/// Deletes everything in the volume of the claim `name`; the claim itself stays as it is.
pub fn wipe(cluster: &KubeCluster<'_>, name: &str) {
    let directory = directory(cluster, name);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut wiped = 0;
    for entry in entries {
        let path = entry.expect("a directory can be read").path();
        let removed = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        removed.unwrap_or_else(|e| panic!("cannot delete {}: {e}", path.display()));
        wiped += 1;
    }
    assert!(wiped > 0, "there was nothing in {}", directory.display());
}

/// Puts a copy of what is in the volume of the claim `from` into that of the claim `to`, as a snapshot of it would be: a file
/// may go while it is copied.
pub fn copy_in_use(cluster: &KubeCluster<'_>, from: &str, to: &str) {
    let contents = directory(cluster, from).join(".");
    let to = directory(cluster, to);
    let copied = Command::new("cp").arg("-a").args([&contents, &to]).status();
    assert!(
        copied.is_ok() && to.join("g0").is_dir(),
        "{from} can be copied to {}",
        to.display()
    );
}

/// Has each of two claims find the other's volume, from the next pod on.
pub fn swap(cluster: &KubeCluster<'_>, one: &str, other: &str) {
    let (one, other) = (directory(cluster, one), directory(cluster, other));
    let aside = one.with_extension("aside");
    for (from, to) in [(&one, &aside), (&other, &one), (&aside, &other)] {
        std::fs::rename(from, to).unwrap_or_else(|e| panic!("{} to {}: {e}", from.display(), to.display()));
    }
}

/// Takes the volume of the claim `name` away and puts an empty one in its place, from the next pod on. An etcd that runs goes
/// on in the one that was taken, so that all it acknowledged is there.
pub fn take_away(cluster: &KubeCluster<'_>, name: &str) -> PathBuf {
    let directory = directory(cluster, name);
    let taken = directory.with_extension("taken");
    std::fs::rename(&directory, &taken)
        .and_then(|()| std::fs::create_dir(&directory))
        .unwrap_or_else(|e| panic!("take {} away: {e}", directory.display()));
    taken
}

/// A copy of the volume of the claim `name`, as a snapshot of the storage takes one while it is in use.
pub fn snapshot(cluster: &KubeCluster<'_>, name: &str) -> PathBuf {
    let directory = directory(cluster, name);
    let taken = directory.with_extension("snapshot");
    let copied = Command::new("cp").arg("-a").args([&directory, &taken]).status();
    // A file may go while it is copied.
    assert!(copied.is_ok() && taken.is_dir(), "{name} can be copied");
    taken
}

/// Has the claim `name` find `snapshot` in place of its volume, from the next pod on.
pub fn put_back(cluster: &KubeCluster<'_>, name: &str, snapshot: &std::path::Path) {
    let directory = directory(cluster, name);
    for (from, to) in [
        (directory.as_path(), directory.with_extension("newest").as_path()),
        (snapshot, directory.as_path()),
    ] {
        std::fs::rename(from, to).unwrap_or_else(|e| panic!("{} to {}: {e}", from.display(), to.display()));
    }
}
