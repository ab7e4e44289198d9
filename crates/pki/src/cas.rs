//! The CAs of a certificate directory: who signs, who is trusted, who comes next; and the moves of a rotation. Those that
//! members know each other by are in a directory of their own below it, with files of the same names.
//!
//! In: the files below, the time. Out: [`Cas`]. Which files there are says how far a rotation has got, so that a crash
//! between any two writes leaves a state that the next pass goes on from:
//!
//! ```text
//! ca.crt           every CA that is trusted; members read it when they start
//! ca.key           the key of the one of them that signs; none if it is lost
//! ca-next.crt .key the one that is trusted beside it and signs nothing yet
//! ca-trusted.crt   a copy of ca.crt: what members trust if someone deletes or replaces that
//! rotate           someone asks for another CA in place of those whose fingerprints are in it
//! ```
//!
//! Never: a CA that members may trust dropped from `ca.crt` by anything but [`Cas::drop_former`]; a key deleted.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::Error;
use crate::ca::Ca;
use crate::examine::PairPem;
use crate::files::{self, Dir, Kind};
use crate::inspect::{self, CertInfo};
use crate::layout::Layout;

const PEM_END: &[u8] = b"-----END CERTIFICATE-----";

/// One CA that is trusted.
#[derive(Debug, Clone)]
struct Trusted {
    pem: Vec<u8>,
    info: CertInfo,
}

/// The CAs of a directory that have not expired.
#[derive(Debug)]
pub struct Cas {
    /// Who signs; `None` if its key is lost.
    signer: Option<Ca>,
    /// Who is trusted already and will sign.
    next: Option<Ca>,
    /// The signer first, the next last.
    trusted: Vec<Trusted>,
    asked: bool,
    since: Option<SystemTime>,
}

impl Cas {
    /// Reads those of `dir`; changes nothing.
    pub fn read(dir: &Path, now: SystemTime) -> Result<Cas, Error> {
        let layout = Layout::new(dir);
        let mut trusted = read_all(&layout.ca().cert, now)?;
        let signer = match files::read(&layout.ca().key)? {
            Some(key) => signer(&trusted, &key),
            None => None,
        };
        let is = |one: &Ca, ca: &Trusted| one.info().fingerprint == ca.info.fingerprint;
        if let Some(signer) = &signer {
            trusted.sort_by_key(|ca| !is(signer, ca));
        }
        let next = pair(&layout.next_ca().cert, &layout.next_ca().key)?;
        let next = next.filter(|next| {
            let signs = |signer: &Ca| signer.info().fingerprint == next.info().fingerprint;
            next.info().not_after > now && !signer.as_ref().is_some_and(signs)
        });
        if let Some(next) = &next {
            trusted.retain(|ca| !is(next, ca));
            trusted.push(Trusted {
                pem: next.pem().cert.clone(),
                info: next.info().clone(),
            });
        }
        let mut cas = Cas {
            signer,
            next,
            trusted,
            asked: false,
            since: modified(&layout.ca().cert),
        };
        let request = files::read(&layout.rotation_request())?.unwrap_or_default();
        let request = String::from_utf8_lossy(&request);
        let asked = |ca: &Trusted| {
            request
                .lines()
                .any(|line| line == ca.info.fingerprint.to_string())
        };
        cas.asked = cas.trusted.iter().any(asked);
        Ok(cas)
    }

    /// Who signs; `None` if its key is lost.
    pub fn signer(&self) -> Option<&Ca> {
        self.signer.as_ref()
    }

    /// Who is trusted already and will sign, while a rotation introduces it.
    pub fn next(&self) -> Option<&Ca> {
        self.next.as_ref()
    }

    pub(crate) fn into_signer(self) -> Option<Ca> {
        self.signer
    }

    /// The certificates of all that are trusted.
    pub fn bundle(&self) -> Vec<u8> {
        self.trusted.iter().flat_map(|ca| ca.pem.clone()).collect()
    }

    /// The fingerprints of all that are trusted, in the order of the alphabet.
    pub fn trusted(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .trusted
            .iter()
            .map(|ca| ca.info.fingerprint.to_string())
            .collect();
        all.sort();
        all
    }

    /// Others are still trusted besides the one that signs, and none of them is the next.
    pub fn retires_former(&self) -> bool {
        self.next.is_none() && self.signer.is_some() && self.trusted.len() > 1
    }

    /// Someone asked for another CA in place of the present one.
    pub fn asked(&self) -> bool {
        self.asked
    }

    /// When `ca.crt` was last written.
    pub fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// The one that signs, or all that are trusted if its key is lost, ends within `left`.
    pub fn expires_within(&self, left: Duration, now: SystemTime) -> bool {
        let until = now.checked_add(left);
        let ends = match &self.signer {
            Some(signer) => Some(signer.info().not_after),
            None => self.present().map(|ca| ca.info.not_after).max(),
        };
        ends.zip(until).is_none_or(|(ends, until)| ends <= until)
    }

    fn present(&self) -> impl Iterator<Item = &Trusted> {
        let coming = self.next.as_ref().map(|next| next.info().fingerprint);
        let signing = self.signer.as_ref().map(|signer| signer.info().fingerprint);
        self.trusted.iter().filter(move |ca| match signing {
            Some(signing) => ca.info.fingerprint == signing,
            None => Some(ca.info.fingerprint) != coming,
        })
    }

    /// Puts the certificates of all that are trusted where members and clients read them.
    pub fn publish(&self, dir: &Path) -> Result<(), Error> {
        publish(&Dir::open(dir)?, &self.bundle())
    }

    /// Makes the next CA.
    pub fn introduce(
        &self,
        dir: &Path,
        cluster_name: &str,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<(), Error> {
        let made = Ca::make(cluster_name, lifetime, now)?;
        Dir::open(dir)?.write_next(made.pem())
    }

    /// The next CA signs from now on. The former key is kept aside.
    pub fn switch(&self, dir: &Path) -> Result<(), Error> {
        let (layout, files) = (Layout::new(dir), Dir::open(dir)?);
        files.move_aside(&layout.ca().key)?;
        // Who has the key signs: this is the moment.
        files.rename(&layout.next_ca().key, &layout.ca().key)?;
        files.remove(&layout.next_ca().cert)
    }

    /// Nobody but the one that signs is trusted any more.
    pub fn drop_former(&self, dir: &Path) -> Result<(), Error> {
        let Some(signer) = &self.signer else {
            return Ok(());
        };
        let files = Dir::open(dir)?;
        publish(&files, &signer.pem().cert)?;
        files.remove(&Layout::new(dir).rotation_request())
    }
}

/// Forgets that someone asked for another CA.
pub fn clear_rotation_request(dir: &Path) -> Result<(), Error> {
    Dir::open(dir)?.remove(&Layout::new(dir).rotation_request())
}

/// Asks for other CAs in place of the present ones, for clients and between members; the process that looks after `dir` does it.
pub fn request_rotation(dir: &Path, now: SystemTime) -> Result<(), Error> {
    let peers = Layout::new(dir).peers();
    if peers.dir().exists() {
        ask(peers.dir(), now)?;
    }
    ask(dir, now)
}

fn ask(dir: &Path, now: SystemTime) -> Result<(), Error> {
    let cas = Cas::read(dir, now)?;
    let lines: Vec<String> = cas
        .present()
        .map(|ca| format!("{}\n", ca.info.fingerprint))
        .collect();
    let path = Layout::new(dir).rotation_request();
    Dir::unlocked(dir)?.write(&path, Kind::Certificate, lines.concat().as_bytes())
}

/// Members that were made when one CA signed for all know each other by it, until they have been taken to another: then
/// the directory for peers is a copy. Copied whole or not at all.
pub(crate) fn share_with_peers(dir: &Dir) -> Result<(), Error> {
    if !shares(dir.path())? {
        return Ok(());
    }
    let layout = Layout::new(dir.path());
    let copy = Dir::open(&layout.peers().dir().with_extension("new"))?;
    let to = Layout::new(copy.path());
    let keys = [
        (layout.ca().key, to.ca().key),
        (layout.next_ca().key, to.next_ca().key),
    ];
    let certificates = [
        (layout.ca().cert, to.ca().cert),
        (layout.next_ca().cert, to.next_ca().cert),
        (layout.trusted_copy(), to.trusted_copy()),
        (layout.rotation_request(), to.rotation_request()),
    ];
    let keys = keys.into_iter().map(|pair| (Kind::Key, pair));
    let certificates = certificates.into_iter().map(|pair| (Kind::Certificate, pair));
    for (kind, (from, to)) in keys.chain(certificates) {
        match files::read(&from)? {
            Some(bytes) => copy.write(&to, kind, &bytes)?,
            None => copy.remove(&to)?,
        }
    }
    dir.rename(copy.path(), layout.peers().dir())
}

/// Is it from when one CA signed for all? Then members have certificates and there is nothing that signed them.
fn shares(dir: &Path) -> Result<bool, Error> {
    let layout = Layout::new(dir);
    if layout.peers().dir().exists() || files::read(&layout.ca().cert)?.is_none() {
        return Ok(false);
    }
    let failed = |source| Error::Read {
        path: dir.to_owned(),
        source,
    };
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("peer-") && name.ends_with(".crt"))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Puts back what members trust, if someone deleted or replaced it. A CA that was put in its place, with its key, becomes
/// the next.
pub fn restore_trust(dir: &Path, now: SystemTime) -> Result<(), Error> {
    if shares(dir)? {
        share_with_peers(&Dir::open(dir)?)?;
    }
    let peers = Layout::new(dir).peers();
    if peers.dir().exists() {
        restore(peers.dir(), now)?;
    }
    restore(dir, now)
}

fn restore(dir: &Path, now: SystemTime) -> Result<(), Error> {
    let layout = Layout::new(dir);
    let (present, known) = (
        read_all(&layout.ca().cert, now)?,
        read_all(&layout.trusted_copy(), now)?,
    );
    let kept = |ca: &Trusted| {
        present
            .iter()
            .any(|other| other.info.fingerprint == ca.info.fingerprint)
    };
    if known.is_empty() || known.iter().any(kept) {
        return Ok(());
    }
    let files = Dir::open(dir)?;
    if let Some(key) = files::read(&layout.ca().key)?
        && let Some(another) = signer(&present, &key)
    {
        files.write_next(another.pem())?;
        files.move_aside(&layout.ca().key)?;
    }
    let bundle: Vec<u8> = known.into_iter().flat_map(|ca| ca.pem).collect();
    files.write(&layout.ca().cert, Kind::Certificate, &bundle)
}

impl Dir {
    fn write_next(&self, pem: &PairPem) -> Result<(), Error> {
        let next = Layout::new(self.path()).next_ca();
        self.write(&next.key, Kind::Key, &pem.key)?;
        self.write(&next.cert, Kind::Certificate, &pem.cert)
    }
}

pub(crate) fn publish(dir: &Dir, bundle: &[u8]) -> Result<(), Error> {
    let layout = Layout::new(dir.path());
    for path in [layout.ca().cert, layout.trusted_copy()] {
        if files::read(&path)?.as_deref() != Some(bundle) {
            dir.write(&path, Kind::Certificate, bundle)?;
        }
    }
    Ok(())
}

/// The CAs in a file that have not expired; none if it is not there, or holds something else.
fn read_all(path: &Path, now: SystemTime) -> Result<Vec<Trusted>, Error> {
    let Some(text) = files::read(path)? else {
        return Ok(Vec::new());
    };
    let mut all: Vec<Trusted> = Vec::new();
    let mut rest = text.as_slice();
    while let Some(at) = rest.windows(PEM_END.len()).position(|part| part == PEM_END) {
        let (block, after) = rest.split_at(at + PEM_END.len());
        rest = after;
        let Ok(der) = CertificateDer::from_pem_slice(block) else {
            continue;
        };
        let Ok(info) = inspect::parse(&der).map(|cert| inspect::describe(&der, &cert)) else {
            continue;
        };
        let known = all.iter().any(|ca| ca.info.fingerprint == info.fingerprint);
        if info.is_ca && info.not_after > now && !known {
            let pem = [block.trim_ascii_start(), b"\n"].concat();
            all.push(Trusted { pem, info });
        }
    }
    Ok(all)
}

/// The one of `trusted` that `key` is of.
fn signer(trusted: &[Trusted], key: &[u8]) -> Option<Ca> {
    trusted.iter().find_map(|ca| {
        let pem = PairPem {
            cert: ca.pem.clone(),
            key: key.to_vec(),
        };
        Ca::read(&pem).ok()
    })
}

fn pair(cert: &Path, key: &Path) -> Result<Option<Ca>, Error> {
    let (Some(cert), Some(key)) = (files::read(cert)?, files::read(key)?) else {
        return Ok(None);
    };
    Ok(Ca::read(&PairPem { cert, key }).ok())
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}
