//! The one error of this crate: which operation, on what, and what to do about it.
//!
//! The cause is kept as the source and never repeated in the message. Waiting is not an error: a member that is
//! down, a port that is taken later, a binary that is missing for an upgrade are shown in the status instead.

use std::io;
use std::path::PathBuf;

use crate::etcd::find::Searched;

/// Something the host ground could not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read, written, moved.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was being done, e.g. `read`.
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The root directory cannot be used.
    #[error(
        "cannot use {} as the root of a cluster: it must be a directory that this user can write; \
         name another with --root or QUORATE_ROOT", path.display()
    )]
    Root {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// No place for a root could be made up.
    #[error("no root directory: neither QUORATE_ROOT, XDG_STATE_HOME nor HOME is set; name one with --root")]
    NoRoot,
    /// Another supervisor runs this root.
    #[error(
        "{} is run by another quorate{}; see it with `quorate status --root {}`, \
         stop it with `quorate down --root {}`", root.display(), holder, root.display(), root.display()
    )]
    Held {
        root: PathBuf,
        /// ` (pid 123, since …)`, or nothing where it is not known.
        holder: String,
    },
    /// There is no manifest.
    #[error("no manifest at {}; give one with `quorate up -f cluster.yaml`", path.display())]
    ManifestMissing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The manifest is refused.
    #[error("the manifest is refused:\n{faults}")]
    ManifestInvalid {
        /// Every fault, one a line.
        faults: String,
    },
    /// The manifest names another cluster than the one that lives in the root.
    #[error(
        "{} holds cluster {present:?}, and the manifest is of {wanted:?}; give each cluster a root of its own \
         (--root), or give the manifest its old name back", root.display()
    )]
    OtherCluster {
        root: PathBuf,
        present: String,
        /// What the manifest says.
        wanted: String,
    },
    /// The journal is gone and the data is not.
    #[error(
        "{} is missing, but there is data of members ({}). Starting would risk a second cluster over it. Put the \
         journal back, or move that data elsewhere to start over", journal.display(), list(data)
    )]
    JournalMissing {
        /// Where it should be.
        journal: PathBuf,
        data: Vec<PathBuf>,
    },
    /// The journal cannot be understood.
    #[error(
        "{} cannot be used: {why}. Nothing is started on a guess: put a good copy back, or use the quorate that \
         wrote it", journal.display()
    )]
    JournalUnusable { journal: PathBuf, why: String },
    /// No suitable etcd was found.
    #[error("{0}")]
    NoEtcd(Box<Searched>),
    /// The etcd named by the user cannot be used.
    #[error("{} cannot be used as etcd: {why}; name an etcd binary with --etcd, or leave --etcd out", path.display())]
    BadEtcd { path: PathBuf, why: String },
    /// Certificates could not be made.
    #[error("cannot prepare the certificates in {}", dir.display())]
    Certificates {
        dir: PathBuf,
        #[source]
        source: quorate_pki::Error,
    },
    /// The certificates could not be loaded for the client.
    #[error("cannot use the client certificate in {}: {why}", dir.display())]
    ClientTls { dir: PathBuf, why: String },
    /// No ports for the first members.
    #[error(
        "no free ports for {members} members were found; set spec.host.clientPort and spec.host.peerPort"
    )]
    NoPorts {
        /// How many members need them.
        members: u32,
    },
    /// A port that the manifest asks for belongs to someone else.
    #[error(
        "{member} cannot be started: {why}, or give the cluster other ports (spec.host.clientPort, peerPort)"
    )]
    PortTaken {
        member: String,
        /// The port and who has it.
        why: String,
    },
    /// The launcher got a text it cannot read.
    #[error("cannot read the launch specification")]
    LaunchSpec {
        #[source]
        source: serde_json::Error,
    },
    /// A member was not launched because it would not have been safe.
    #[error("{member} is not launched: {why}")]
    LaunchRefused { member: String, why: String },
    /// A member is to be started with settings of which only the digest is known.
    #[error(
        "the manifest of the settings {config} is not known any more; change the manifest, and members are started with that"
    )]
    SettingsUnknown { config: String },
    /// Data cannot be moved because a process has it.
    #[error("{} is not moved: the process of {member} still has it", volume.display())]
    DataInUse { member: String, volume: PathBuf },
    /// The launcher could not be run.
    #[error("cannot run {} to launch {member}", program.display())]
    Spawn {
        member: String,
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    /// etcd could not be executed.
    #[error("cannot execute {} for {member}", program.display())]
    Exec {
        member: String,
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A process could not be watched or signalled.
    #[error("cannot {doing} process {pid}")]
    Process {
        /// What was being done, e.g. `signal`.
        doing: &'static str,
        pid: u32,
        #[source]
        source: io::Error,
    },
    /// A data directory, or a file made of one, could not be read or written.
    #[error(transparent)]
    DataDir(#[from] quorate_datadir::Error),
    /// An etcd that was to replay a log did not.
    #[error("{} did not replay the log: {why}", etcd.display())]
    Replay {
        etcd: PathBuf,
        /// What happened, and the last it said.
        why: String,
    },
    /// An etcd that was to serve data did not.
    #[error("{} did not serve the data: {why}", etcd.display())]
    Serve {
        etcd: PathBuf,
        /// What happened, and the last it said.
        why: String,
    },
    /// Something did not end in time.
    #[error("{what} did not end within {} s", limit.as_secs())]
    StillRunning {
        what: String,
        /// How long it was given.
        limit: std::time::Duration,
    },
}

impl Error {
    /// What the command line exits with: 2 bad input, 3 refused for safety, 1 anything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::NoRoot
            | Error::Root { .. }
            | Error::NoEtcd(_)
            | Error::ManifestMissing { .. }
            | Error::ManifestInvalid { .. }
            | Error::BadEtcd { .. }
            | Error::LaunchSpec { .. } => 2,
            Error::Held { .. }
            | Error::PortTaken { .. }
            | Error::OtherCluster { .. }
            | Error::JournalMissing { .. }
            | Error::JournalUnusable { .. }
            | Error::DataInUse { .. }
            | Error::LaunchRefused { .. }
            | Error::DataDir(quorate_datadir::Error::Refused { .. } | quorate_datadir::Error::InUse { .. }) => {
                3
            }
            _ => 1,
        }
    }

    pub(crate) fn file(doing: &'static str, path: &std::path::Path, source: impl Into<io::Error>) -> Self {
        Error::File {
            doing,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    /// The message and its causes on one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut link = std::error::Error::source(self);
        while let Some(cause) = link {
            text = format!("{text}: {cause}");
            link = cause.source();
        }
        text
    }
}

impl From<quorate_datadir::durable::Error> for Error {
    fn from(error: quorate_datadir::durable::Error) -> Error {
        Error::File {
            doing: error.doing,
            path: error.path,
            source: error.source,
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    let texts: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    texts.join(", ")
}
