//! `launch.json`: what the gate hands to the launcher, in the directory that the containers of one pod share.
//!
//! In and out: one small file. It holds for the life of the pod, over every restart of the etcd container.

use std::io;
use std::path::{Path, PathBuf};

use quorate_core::model::{ClusterId, Generation, MemberId, MemberName, PeerUrl};
use quorate_datadir::durable;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::admit::Admission;
use crate::contract::{FORMAT, How, Started, hex};
use crate::error::file;
use crate::gate::Gate;
use crate::volume::layout::Layout;
use crate::volume::record::Record;

/// This program, for the etcd container.
pub const PROGRAM: &str = "quorate";
/// What is to be launched.
pub(crate) const LAUNCH: &str = "launch.json";
/// There once etcd was executed in this pod.
pub(crate) const EXECUTED: &str = "executed";
/// Larger than any of them: the member list is in it.
const SIZE_MAX: u64 = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    format: u32,
    pub volume: PathBuf,
    pub volume_id: String,
    pub generation: Generation,
    pub data_dir: PathBuf,
    pub pod: String,
    /// What was let through.
    pub started: Started,
    /// It is for a volume that never ran.
    pub first: bool,
    /// etcd's arguments for a first start.
    #[serde(default)]
    pub first_arguments: Vec<String>,
    /// etcd's arguments when it goes on from data.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Whose data must be there, once there is data.
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberId>,
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// The number of the last start that was on the volume when this was let through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
}

impl Launch {
    /// What a start that was let through comes to.
    pub fn of(gate: &Gate<'_>, layout: &Layout, record: &Record, admission: &Admission) -> Launch {
        let (first_arguments, mut arguments) = (first_arguments(&admission.how), Vec::new());
        // With data etcd has its own list there, and makes up the rest from its name and URL.
        arguments.push("--initial-cluster-state=existing".to_owned());
        if admission.how == How::Settle {
            // After the user's own, so that it holds: the replay at the start is more than one entry.
            arguments.push("--snapshot-count=1".to_owned());
        }
        Launch {
            format: FORMAT,
            volume: layout.root().to_owned(),
            volume_id: record.id.clone(),
            generation: gate.generation,
            data_dir: layout.data(gate.generation),
            pod: gate.pod.to_owned(),
            started: Started {
                version: gate.version,
                config: gate.config.to_owned(),
            },
            first: admission.how.is_first(),
            first_arguments,
            arguments,
            member: admission.identity.map(|identity| identity.member),
            cluster: admission.identity.map(|identity| identity.cluster),
            run: record.entry(gate.generation).run,
        }
    }

    /// Writes it for the launcher.
    pub(crate) fn write(&self, shared: &Path) -> Result<(), Error> {
        let path = shared.join(LAUNCH);
        let content =
            serde_json::to_vec(self).map_err(|error| file("encode", &path)(io::Error::other(error)))?;
        Ok(durable::write_with_mode(&path, &content, 0o644)?)
    }

    /// Reads what the gate has left.
    pub(crate) fn read(shared: &Path) -> Result<Launch, Error> {
        let path = shared.join(LAUNCH);
        let Some(content) = durable::read(&path, SIZE_MAX)? else {
            let missing =
                io::Error::other("there is none: the init container `prepare` has let nothing through");
            return Err(file("read", &path)(missing));
        };
        let unusable = |why: String| file("understand", &path)(io::Error::other(why));
        let launch: Launch = serde_json::from_slice(&content).map_err(|error| unusable(error.to_string()))?;
        if launch.format != FORMAT {
            let (found, known) = (launch.format, FORMAT);
            return Err(unusable(format!(
                "it has format {found}, and this quorate knows {known}"
            )));
        }
        Ok(launch)
    }
}

fn first_arguments(how: &How) -> Vec<String> {
    let joined = |initial: &[(MemberName, PeerUrl)]| {
        let pairs: Vec<String> = initial
            .iter()
            .map(|(name, url)| format!("{name}={url}"))
            .collect();
        format!("--initial-cluster={}", pairs.join(","))
    };
    match how {
        How::New { token, initial } => vec![
            "--initial-cluster-state=new".to_owned(),
            joined(initial),
            format!("--initial-cluster-token={token}"),
        ],
        How::Join { initial } => vec!["--initial-cluster-state=existing".to_owned(), joined(initial)],
        How::Resume | How::Settle => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(LAUNCH), &bytes).unwrap();
            prop_assert!(Launch::read(dir.path()).is_err());
        }
    }

    #[test]
    fn only_a_first_member_starts_new_and_only_it_has_a_token() {
        let initial = vec![(MemberName("c-0".to_owned()), PeerUrl("http://a:2380".to_owned()))];
        let new = first_arguments(&How::New {
            token: quorate_core::model::Token("t".to_owned()),
            initial: initial.clone(),
        });
        assert_eq!(
            new,
            [
                "--initial-cluster-state=new",
                "--initial-cluster=c-0=http://a:2380",
                "--initial-cluster-token=t"
            ]
        );
        let join = first_arguments(&How::Join { initial });
        assert_eq!(
            join,
            [
                "--initial-cluster-state=existing",
                "--initial-cluster=c-0=http://a:2380"
            ]
        );
        assert!(first_arguments(&How::Settle).is_empty());
    }
}
