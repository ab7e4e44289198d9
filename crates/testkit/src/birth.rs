//! Members that die between making their log and writing their first entry, every time: no moment has to be hit.
//!
//! In: the root of a cluster and a real etcd. Out: data directories as such a death leaves them. Never: a member that a
//! supervisor could have seen serving, or a log that it could have seen more in.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What etcd writes when it makes a log: its checksum's seed, whose it is, and the snapshot it begins behind.
const RECORDS_AT_BIRTH: usize = 3;

/// An etcd in a root's `bin` that makes its log and is killed, as long as a file beside it is there; after that, the real
/// one. Until the cluster is killed its process stays, and serves nobody: its clients' socket is one that nobody knows, and
/// its data directory lies elsewhere until [`put_in_place`](KilledAtBirth::put_in_place).
pub struct KilledAtBirth {
    hold: PathBuf,
}

impl KilledAtBirth {
    pub fn install(root: &Path, real: &Path) -> KilledAtBirth {
        let bin = root.join("bin");
        std::fs::create_dir_all(&bin).expect("the root can be written");
        let hold = bin.join("hold");
        std::fs::write(&hold, "").expect("the root can be written");
        let script = format!(
            r#"#!/bin/sh
if [ "$1" = --version ] || ! [ -e '{hold}' ]; then exec '{real}' "$@"; fi
for argument; do
  shift
  case $argument in
    --data-dir=*) data=${{argument#--data-dir=}} argument=--data-dir=$data.elsewhere ;;
    --listen-client-urls=*) argument=--listen-client-urls=unix://nobody ;;
  esac
  set -- "$@" "$argument"
done
cd "$data/.."
'{real}' "$@" &
until [ -d "$data.elsewhere/member/wal" ]; do :; done
kill -KILL $!
wait $!
: >"$data.dead"
exec tail -f "$data.dead"
"#,
            hold = hold.display(),
            real = real.display()
        );
        let path = bin.join("etcd");
        std::fs::write(&path, script).expect("the root can be written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("our own file");
        KilledAtBirth { hold }
    }

    /// Whether the member of this data directory has made its log and is dead.
    pub fn is_dead(data_dir: &Path) -> bool {
        data_dir.with_extension("dead").exists()
    }

    /// Gives a dead member's data directory, when nobody looks at it any more, the log that it made.
    pub fn put_in_place(data_dir: &Path) {
        let elsewhere = data_dir.with_extension("elsewhere");
        cut_to_birth(&elsewhere);
        std::fs::rename(elsewhere.join("member"), data_dir.join("member")).expect("our own directories");
    }

    /// From now on etcd is the real one.
    pub fn end(self) {
        std::fs::remove_file(self.hold).expect("our own file");
    }
}

/// Takes what was written after birth, if the kill came later, out of the log again.
pub fn cut_to_birth(data_dir: &Path) {
    let wal = data_dir.join("member/wal");
    let entries = std::fs::read_dir(&wal).expect("a log was made");
    let mut segments: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    let [segment] = &segments[..] else {
        panic!("a log at birth has one segment: {segments:?}");
    };
    let mut bytes = std::fs::read(segment).expect("the segment can be read");
    let mut at = 0;
    for _ in 0..RECORDS_AT_BIRTH {
        let field = bytes[at..at + 8].try_into().expect("eight bytes");
        let field = u64::from_le_bytes(field);
        // The length, and in the highest byte, if its first bit is set, how many bytes of padding follow.
        let padding = if field >> 63 == 1 { field >> 56 & 0x7 } else { 0 };
        at += 8 + usize::try_from((field & 0x00ff_ffff_ffff_ffff) + padding).expect("a length");
    }
    bytes[at..].fill(0);
    std::fs::write(segment, bytes).expect("the segment can be written");
}
