//! One pass over the certificate directory: look at each pair, keep it or recreate it.
//!
//! In: the directory, what is wanted, the policy, the time. Out: a [`Report`]; the directory is good.
//! Never: a new CA while there is one that can sign; a key written after its certificate (a crash between the two
//! then shows as a mismatch, which the next pass repairs); a former CA file deleted; a file removed that was not issued here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::Error;
use crate::ca::Ca;
use crate::cas::{self, Cas};
use crate::examine::{self, Pair, Timing};
use crate::files::{self, Dir, Kind};
use crate::inspect::CertInfo;
use crate::issue::{self, Leaf, LeafUsages};
use crate::layout::{Layout, PairPaths};
use crate::report::{Outcome, PairReport, Report, Role, Why};
use crate::wanted::{Policy, Wanted};

/// etcd takes a certificate's name for a user's: with authentication on, quorate must still be able to act.
const ROOT: &str = "root";

/// Makes `dir` hold what `wanted` asks for, touching only what is missing, broken, wrong or ends soon.
///
/// The directory is locked meanwhile; a second caller gets [`Error::Busy`].
pub fn ensure(dir: &Path, wanted: &Wanted, policy: &Policy, now: SystemTime) -> Result<Report, Error> {
    wanted.check()?;
    policy.check()?;
    let timing = Timing { now, policy };
    let pass = Pass::begin(Layout::new(dir), timing)?;
    cas::share_with_peers(&pass.dir)?;
    let ensured = pass.ca(Role::Ca, wanted)?;
    let peers = Pass::begin(pass.layout.peers(), timing)?.ca(Role::PeerCa, wanted)?;
    let mut pairs = vec![ensured.report, peers.report];
    for member in &wanted.members {
        let leaf = Leaf {
            common_name: &member.name,
            cluster_name: &wanted.cluster_name,
            sans: member.sans.clone(),
            usages: LeafUsages::ServerAndClient,
        };
        pairs.push(pass.leaf(Role::Server(member.name.clone()), &leaf, &ensured.ca)?);
        pairs.push(pass.leaf(Role::Peer(member.name.clone()), &leaf, &peers.ca)?);
    }
    for member in &wanted.departed {
        pass.remove(Role::Server(member.clone()), member, &ensured.ca)?;
        pass.remove(Role::Peer(member.clone()), member, &peers.ca)?;
    }
    // quorate's own first: the client's may have been its own, and root's, before there were two.
    for (role, name) in [(Role::Root, ROOT), (Role::Client, wanted.client_name.as_str())] {
        let leaf = Leaf {
            common_name: name,
            cluster_name: &wanted.cluster_name,
            sans: BTreeSet::new(),
            usages: LeafUsages::Client,
        };
        pairs.push(pass.leaf(role, &leaf, &ensured.ca)?);
    }
    let cas = &pairs[..2];
    Ok(Report {
        ca_changed: cas.iter().any(PairReport::made),
        ca_fingerprint: ensured.ca.info().fingerprint,
        moved_aside: [ensured.moved_aside, peers.moved_aside].concat(),
        clock_behind: cas
            .iter()
            .map(|ca| ca.not_before)
            .max()
            .filter(|begin| *begin > now),
        pairs,
    })
}

struct Pass<'a> {
    dir: Dir,
    layout: Layout,
    timing: Timing<'a>,
}

struct Ensured {
    ca: Ca,
    report: PairReport,
    moved_aside: Vec<PathBuf>,
}

impl Pass<'_> {
    fn begin(layout: Layout, timing: Timing<'_>) -> Result<Pass<'_>, Error> {
        Ok(Pass {
            dir: Dir::open(layout.dir())?,
            layout,
            timing,
        })
    }

    fn ca(&self, role: Role, wanted: &Wanted) -> Result<Ensured, Error> {
        let paths = self.layout.ca();
        let cas = Cas::read(self.layout.dir(), self.timing.now)?;
        let bundle = cas.bundle();
        let Some(ca) = cas.into_signer() else {
            return self.replace(role, wanted, paths);
        };
        cas::publish(&self.dir, &bundle)?;
        let report = self.kept(role, paths, ca.info())?;
        Ok(Ensured {
            ca,
            report,
            moved_aside: Vec::new(),
        })
    }

    /// Another CA in place of what is there, at once.
    fn replace(&self, role: Role, wanted: &Wanted, paths: PairPaths) -> Result<Ensured, Error> {
        let why = match examine::ca(&paths, self.timing)? {
            Err(why) => why,
            Ok(pair) => Why::Expired {
                until: pair.info.not_after,
            },
        };
        let made = issue::ca(
            &wanted.cluster_name,
            self.timing.policy.ca_lifetime,
            self.timing.now,
        )?;
        // The certificate goes first: a key without one is plainly unfinished.
        let mut moved_aside = Vec::new();
        moved_aside.extend(self.dir.move_aside(&paths.cert)?);
        moved_aside.extend(self.dir.move_aside(&paths.key)?);
        self.dir.remove(&self.layout.next_ca().cert)?;
        let report = self.put(role, paths, &made, why)?;
        cas::publish(&self.dir, &made.pem.cert)?;
        Ok(Ensured {
            ca: Ca::of(made)?,
            report,
            moved_aside,
        })
    }

    fn leaf(&self, role: Role, leaf: &Leaf<'_>, ca: &Ca) -> Result<PairReport, Error> {
        let paths = self.layout.of(&role);
        match examine::leaf(&paths, leaf, ca, self.timing)? {
            Ok(pair) => self.kept(role, paths, &pair.info),
            Err(why) => {
                let made = issue::leaf(leaf, ca, self.timing.policy.leaf_lifetime, self.timing.now)?;
                self.put(role, paths, &made, why)
            }
        }
    }

    /// Removes what `ca` issued to a member that left. The certificate goes last: by it a crash between the two is mended.
    fn remove(&self, role: Role, member: &str, ca: &Ca) -> Result<(), Error> {
        let paths = self.layout.of(&role);
        if examine::is_issued(&paths, member, ca)? {
            self.dir.remove(&paths.key)?;
            self.dir.remove(&paths.cert)?;
        }
        Ok(())
    }

    fn kept(&self, role: Role, paths: PairPaths, info: &CertInfo) -> Result<PairReport, Error> {
        let key_mode_fixed = files::protect(&paths.key)?;
        let (not_before, not_after) = (info.not_before, info.not_after);
        Ok(PairReport {
            role,
            paths,
            outcome: Outcome::Kept,
            key_mode_fixed,
            not_before,
            not_after,
        })
    }

    fn put(&self, role: Role, paths: PairPaths, made: &Pair, why: Why) -> Result<PairReport, Error> {
        self.dir.write(&paths.key, Kind::Key, &made.pem.key)?;
        self.dir.write(&paths.cert, Kind::Certificate, &made.pem.cert)?;
        let (not_before, not_after) = (made.info.not_before, made.info.not_after);
        Ok(PairReport {
            role,
            paths,
            outcome: Outcome::Made(why),
            key_mode_fixed: false,
            not_before,
            not_after,
        })
    }
}
