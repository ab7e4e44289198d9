//! Which file is where in the certificate directory.
//!
//! In: the directory and a member's name. Out: paths. Nothing is read or written here.

use std::path::{Path, PathBuf};

use crate::report::Role;

/// The two files of one certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairPaths {
    /// The certificate, PEM, 0644.
    pub cert: PathBuf,
    /// Its private key, PEM, 0600.
    pub key: PathBuf,
}

/// The paths in a certificate directory, as [`crate::ensure`] keeps them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    pub fn new(dir: &Path) -> Layout {
        Layout { dir: dir.to_owned() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All CAs that are trusted, and the key of the one that signs; clients and members need the certificates only.
    pub fn ca(&self) -> PairPaths {
        self.pair("ca")
    }

    /// The CA that is trusted beside the present one, and will sign.
    pub fn next_ca(&self) -> PairPaths {
        self.pair("ca-next")
    }

    /// A copy of the CA's certificate file.
    pub fn trusted_copy(&self) -> PathBuf {
        self.dir.join("ca-trusted.crt")
    }

    /// Someone asks for another CA.
    pub fn rotation_request(&self) -> PathBuf {
        self.dir.join("rotate")
    }

    /// The directory of the CAs that members know each other by, apart from those for clients: a client's certificate
    /// opens no connection between members.
    pub fn peers(&self) -> Layout {
        Layout::new(&self.dir.join("peers"))
    }

    /// What `member` shows to clients.
    pub fn server(&self, member: &str) -> PairPaths {
        self.pair(&format!("server-{member}"))
    }

    /// What `member` uses between members.
    pub fn peer(&self, member: &str) -> PairPaths {
        self.pair(&format!("peer-{member}"))
    }

    /// What quorate dials with: it stands for etcd's root user.
    pub fn root(&self) -> PairPaths {
        self.pair("root")
    }

    /// What applications dial with.
    pub fn client(&self) -> PairPaths {
        self.pair("client")
    }

    pub(crate) fn of(&self, role: &Role) -> PairPaths {
        match role {
            Role::Ca => self.ca(),
            Role::PeerCa => self.peers().ca(),
            Role::Server(member) => self.server(member),
            Role::Peer(member) => self.peer(member),
            Role::Root => self.root(),
            Role::Client => self.client(),
        }
    }

    fn pair(&self, stem: &str) -> PairPaths {
        PairPaths {
            cert: self.dir.join(format!("{stem}.crt")),
            key: self.dir.join(format!("{stem}.key")),
        }
    }
}
