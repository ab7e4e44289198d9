//! Raft snapshot files: `TERM-INDEX.snap`, both sixteen hex digits.
//!
//! ```text
//! {1: crc, 2: data}    crc is CRC-32C of data
//! data: {1: members and cluster version, as JSON of the version 2 store, 2: {1: who votes, 2: index, 3: term}}
//! ```
//!
//! In: such a file, of any size; or the members of a restored cluster. Out: what it says of the snapshot, if its
//! checksum holds; or a durable file, with the bytes that etcd's own tool of the same minor writes. From 3.6 on that
//! tool numbers several members in an order that differs from run to run; here it is that of their ids. Never: memory
//! for the JSON of a file that is only looked at; a length believed before it is held against what is there.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use prost::Message as _;
use quorate_wire::raftpb::{Snapshot, SnapshotMetadata};
use quorate_wire::snappb;

use crate::files::durable::Draft;
use crate::restore::roster::{Roster, quoted};
use crate::wal::{self, RESTORED_TERM};
use crate::{Error, Target};

/// Who votes is said in some bytes for each member.
const METADATA_BYTES_MAX: u64 = 1 << 20;
/// Events that the version 2 store keeps room for.
const EVENTS: usize = 1000;

/// What a snapshot file says of its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapFile {
    /// The last entry in it.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// Who votes, by id.
    pub voters: Vec<u64>,
    /// Who learns, by id.
    pub learners: Vec<u64>,
}

/// The term and index in the name of a snapshot file; none if it is not named like one.
pub fn named(name: &str) -> Option<(u64, u64)> {
    let (term, index) = name.strip_suffix(".snap")?.split_once('-')?;
    let number = |text: &str| {
        let fits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| u64::from_str_radix(text, 16).ok())?
    };
    Some((number(term)?, number(index)?))
}

/// The path of a snapshot file in `snap_dir`.
fn path_of(snap_dir: &Path, term: u64, index: u64) -> PathBuf {
    snap_dir.join(format!("{term:016x}-{index:016x}.snap"))
}

/// Reads the snapshot file `path`; `Err` within says why etcd would not take it.
pub fn read(path: &Path) -> Result<Result<SnapFile, String>, Error> {
    match judge(path) {
        Ok(metadata) => Ok(Ok(metadata)),
        Err(Fault::Content(why)) => Ok(Err(why.to_owned())),
        // The file is shorter than what it says, which is all that is read of it.
        Err(Fault::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Ok(Err("it is cut off".to_owned()))
        }
        Err(Fault::Io(source)) => Err(Error::read(path)(source)),
    }
}

enum Fault {
    Content(&'static str),
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}

fn judge(path: &Path) -> Result<SnapFile, Fault> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut shell = Counted::over(BufReader::with_capacity(64 << 10, file), size);
    let (mut crc, mut seen) = (0, None);
    while shell.left > 0 {
        match shell.varint()? {
            0x08 => {
                let value = shell.varint()?;
                crc = u32::try_from(value).map_err(|_| Fault::Content("its checksum field is damaged"))?;
            }
            0x12 => {
                let length = shell.length()?;
                let mut data = Counted::over(&mut shell.source, length);
                let metadata = inner(&mut data)?;
                if length == 0 {
                    return Err(Fault::Content("there is nothing in it"));
                }
                seen = Some((metadata, data.crc));
                shell.left -= length;
            }
            _ => return Err(Fault::Content("it holds a field that snapshot files do not have")),
        }
    }
    let Some((metadata, found)) = seen else {
        return Err(Fault::Content("there is nothing in it"));
    };
    if crc == 0 || crc != found {
        return Err(Fault::Content("its checksum does not hold"));
    }
    let metadata = metadata.ok_or(Fault::Content("it does not say of which entry it is"))?;
    let metadata = SnapshotMetadata::decode(&metadata[..])
        .map_err(|_| Fault::Content("what it says of its entry cannot be read"))?;
    let members = metadata.conf_state.unwrap_or_default();
    Ok(SnapFile {
        index: metadata.index.unwrap_or(0),
        term: metadata.term.unwrap_or(0),
        voters: members.voters,
        learners: members.learners,
    })
}

/// Reads the data to its end; keeps the metadata only.
fn inner<R: BufRead>(data: &mut Counted<R>) -> Result<Option<Vec<u8>>, Fault> {
    let mut metadata = None;
    while data.left > 0 {
        match data.varint()? {
            0x0a => {
                let length = data.length()?;
                data.skip(length)?;
            }
            0x12 => {
                let length = data.length()?;
                if length > METADATA_BYTES_MAX {
                    return Err(Fault::Content("what it says of its entry is impossibly long"));
                }
                let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                data.fill(&mut bytes)?;
                metadata = Some(bytes);
            }
            _ => return Err(Fault::Content("it holds a field that snapshots do not have")),
        }
    }
    Ok(metadata)
}

/// Some bytes of a source: how many are left, and the checksum of those that were read.
struct Counted<R> {
    source: R,
    left: u64,
    crc: u32,
}

impl<R: BufRead> Counted<R> {
    fn over(source: R, left: u64) -> Counted<R> {
        Counted { source, left, crc: 0 }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        let length = bytes.len() as u64;
        let left = self.left.checked_sub(length);
        self.left = left.ok_or(Fault::Content("a field is longer than what is left"))?;
        self.source.read_exact(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        Ok(())
    }

    fn skip(&mut self, mut length: u64) -> Result<(), Fault> {
        let mut buffer = [0; 8192];
        while length > 0 {
            let some = usize::try_from(length).unwrap_or(usize::MAX).min(buffer.len());
            self.fill(buffer.get_mut(..some).unwrap_or_default())?;
            length -= some as u64;
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for position in 0..10 {
            let mut byte = [0];
            self.fill(&mut byte)?;
            let bits = u64::from(byte[0] & 0x7f);
            if position == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * position);
            if byte[0] & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Fault::Content("a number in it is damaged"))
    }

    /// A length that what is left has room for.
    fn length(&mut self) -> Result<u64, Fault> {
        let length = self.varint()?;
        if length > self.left {
            return Err(Fault::Content("a field is longer than what is left"));
        }
        Ok(length)
    }
}

/// Writes the snapshot file of a restored cluster into `snap_dir`, which is made if need be.
pub fn write_restored(snap_dir: &Path, roster: &Roster, target: Target) -> Result<(), Error> {
    let path = path_of(snap_dir, RESTORED_TERM, roster.members.len() as u64);
    if path.exists() {
        return Err(Error::TargetExists { target: path });
    }
    wal::make_directory(snap_dir).map_err(Error::write(snap_dir))?;
    let put = || -> io::Result<()> {
        let draft = Draft::of(&path)?;
        io::Write::write_all(&mut draft.file(), &restored(roster, target))?;
        draft.publish()
    };
    put().map_err(Error::write(&path))
}

fn restored(roster: &Roster, target: Target) -> Vec<u8> {
    let snapshot = Snapshot {
        data: Some(version_2_store(roster, target).into_bytes()),
        metadata: Some(SnapshotMetadata {
            conf_state: Some(wal::conf_state(roster, target)),
            index: Some(roster.members.len() as u64),
            term: Some(RESTORED_TERM),
        }),
    };
    let data = snapshot.encode_to_vec();
    let shell = snappb::Snapshot {
        crc: Some(crc32c::crc32c(&data)),
        data: Some(data),
    };
    shell.encode_to_vec()
}

/// The members as the version 2 store has them after each was created in it, by id.
fn version_2_store(roster: &Roster, target: Target) -> String {
    let count = roster.members.len();
    let (mut children, mut events) = (Vec::new(), Vec::new());
    for (index, member) in (1..).zip(&roster.members) {
        let id = member.hex_id();
        let path = format!("/0/members/{id}");
        let value = quoted(&format!("{{\"peerURLs\":{}}}", member.urls_json()));
        let (key, name) = (quoted(&format!("{path}/raftAttributes")), "raftAttributes");
        events.push(format!(
            "{{\"action\":\"create\",\"node\":{{\"key\":{key},\"value\":{value},\"modifiedIndex\":{index},\"createdIndex\":{index}}}}}"
        ));
        let attributes = node(&format!("{path}/{name}"), index, &value, "null");
        children.push((id, directory(&path, index, &format!("\"{name}\":{attributes}"))));
    }
    children.sort_unstable();
    let children: Vec<String> = children
        .into_iter()
        .map(|(id, child)| format!("\"{id}\":{child}"))
        .collect();
    events.resize(EVENTS.max(count), "null".to_owned());
    let members = directory("/0/members", 1, &children.join(","));
    let cluster = directory("/0", 0, &format!("\"members\":{members}"));
    let keys = directory("/1", 0, "");
    let root = directory("/", 0, &format!("\"0\":{cluster},\"1\":{keys}"));
    let history = events.join(",");
    // From 3.6 on it is looked up first, and not found.
    let missed = u8::from(target >= Target::V3_6);
    format!(
        "{{\"Root\":{root},\"WatcherHub\":{{\"EventHistory\":{{\"Queue\":{{\"Events\":[{history}],\
         \"Size\":{count},\"Front\":0,\"Back\":{count},\"Capacity\":{EVENTS}}},\
         \"StartIndex\":1,\"LastIndex\":{count}}}}},\"CurrentIndex\":{count},\
         \"Stats\":{{\"getsSuccess\":0,\"getsFail\":{missed},\"setsSuccess\":0,\"setsFail\":0,\
         \"deleteSuccess\":0,\"deleteFail\":0,\"updateSuccess\":0,\"updateFail\":0,\
         \"createSuccess\":{count},\"createFail\":0,\"compareAndSwapSuccess\":0,\"compareAndSwapFail\":0,\
         \"compareAndDeleteSuccess\":0,\"compareAndDeleteFail\":0,\"expireCount\":0,\"watchers\":0}},\
         \"CurrentVersion\":2}}"
    )
}

fn directory(path: &str, index: u64, children: &str) -> String {
    node(path, index, "\"\"", &format!("{{{children}}}"))
}

fn node(path: &str, index: u64, value: &str, children: &str) -> String {
    format!(
        "{{\"Path\":\"{path}\",\"CreatedIndex\":{index},\"ModifiedIndex\":{index},\
         \"ExpireTime\":\"0001-01-01T00:00:00Z\",\"Value\":{value},\"Children\":{children}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn judged(bytes: &[u8]) -> Result<SnapFile, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.snap");
        fs::write(&path, bytes).unwrap();
        read(&path).unwrap()
    }

    fn three() -> Roster {
        Roster::parse("a=http://a:1,b=http://b:1,c=http://c:1", "t").unwrap()
    }

    #[test]
    fn what_was_written_is_read() {
        let roster = three();
        for target in [Target::V3_4, Target::V3_5, Target::V3_6, Target::V3_7] {
            let dir = tempfile::tempdir().unwrap();
            let snap = dir.path().join("member/snap");
            write_restored(&snap, &roster, target).unwrap();
            let path = snap.join("0000000000000001-0000000000000003.snap");
            let voters = roster.members.iter().map(|member| member.id).collect();
            let expected = SnapFile {
                index: 3,
                term: 1,
                voters,
                learners: vec![],
            };
            assert_eq!(read(&path).unwrap(), Ok(expected));
            let error = write_restored(&snap, &roster, target).unwrap_err();
            assert!(matches!(error, Error::TargetExists { .. }));
        }
        assert!(read(Path::new("/nowhere/at/all")).is_err());
    }

    #[test]
    fn names() {
        assert_eq!(named("0000000000000001-00000000000000ff.snap"), Some((1, 255)));
        for bad in [
            "db",
            "00000000000000ff.snap.db",
            "1-2.snap",
            "0000000000000001-00000000000000ff.snap.broken",
        ] {
            assert_eq!(named(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_found() {
        // A small one: the history of the store is of no interest here.
        let data = Snapshot {
            data: Some(vec![7; 20]),
            metadata: Some(SnapshotMetadata {
                conf_state: Some(wal::conf_state(&three(), Target::V3_6)),
                index: Some(3),
                term: Some(1),
            }),
        }
        .encode_to_vec();
        let crc = Some(crc32c::crc32c(&data));
        let bytes = snappb::Snapshot {
            crc,
            data: Some(data),
        }
        .encode_to_vec();
        assert_eq!(judged(&bytes).unwrap().index, 3);
        for length in 0..bytes.len() {
            assert!(judged(&bytes[..length]).is_err(), "{length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(judged(&flipped).is_err(), "bit {bit}");
        }
        assert!(judged(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_length_is_not_believed_before_memory_is_taken() {
        let mut long = vec![0x08, 1, 0x12];
        long.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(judged(&long).unwrap_err(), "a field is longer than what is left");
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_a_panic(bytes: Vec<u8>) {
            prop_assert!(judged(&bytes).is_err());
        }
    }
}
