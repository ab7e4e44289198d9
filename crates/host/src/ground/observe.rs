//! One look at everything: volumes, processes, ports, and what the members themselves say.
//!
//! In: the ground and the planner's memory. Out: [`Observed`], and texts for what could not be seen. Never: an error
//! because a member is down; a lock that is held on (each is tried and let go); emptiness where something could not
//! be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quorate_client::Credentials;
use quorate_core::memory::Mark;
use quorate_core::model::{
    ClusterId, FirstStart, Generation, MemberId, MemberName, Observed, Ordinal, Outcome, Place, Process,
    Resize, SlotView, Spec, Token, Version, Volume, VolumeMarks,
};
use quorate_datadir::{Attempt, DbLock, Look};

use crate::ground::Ground;
use crate::ground::certs;
use crate::ground::ports::Ports;
use crate::root::disk;
use crate::run::evidence::Evidence;
use crate::run::holder::{self, Holder};
use crate::run::launch;
use crate::run::volume_record::VolumeRecord;
use crate::supervise;

/// A look, and what could not be seen in it.
pub(crate) struct Seen {
    pub(crate) observed: Observed,
    pub(crate) problems: Vec<String>,
}

/// Larger than any password.
const PASSWORD_MAX: u64 = 4096;

impl Ground {
    pub(crate) async fn observe(&mut self, spec: &Spec, last: Option<Outcome>) -> Seen {
        let at = supervise::now();
        let mut problems = Vec::new();
        let missing = self.missing_versions(spec).await;
        let mut slots = BTreeMap::new();
        for ordinal in self.ordinals() {
            let Some(view) = self.slot(spec, ordinal, &missing, &mut problems) else {
                continue;
            };
            slots.insert(ordinal, view);
        }
        let mut running = BTreeMap::new();
        for ordinal in slots
            .keys()
            .filter(|ordinal| self.runner.member(**ordinal).is_some())
        {
            running.extend(self.client_url(*ordinal).map(|url| (*ordinal, url.into())));
        }
        self.clients.keep_only(|ordinal| running.contains_key(&ordinal));
        let credentials = self.credentials(&mut problems);
        self.clients.log_in(credentials);
        let answers = self.clients.look(&running).await;
        for (ordinal, status) in answers.statuses {
            if let Some(slot) = slots.get_mut(&ordinal) {
                slot.status = Some(status);
            }
        }
        for (ordinal, durable) in answers.durable {
            if let Some(slot) = slots.get_mut(&ordinal) {
                slot.durable = Some(durable);
            }
        }
        let fresh_token = fresh_token(&spec.name);
        Seen {
            observed: Observed {
                at,
                fresh_token,
                slots,
                quorum: answers.quorum,
                login_refused: answers.login_refused,
                unasked: false,
                last,
                lost_ca: self.trust_lost_ca(),
            },
            problems,
        }
    }

    /// Who to log in as, where etcd asks for a user.
    fn credentials(&self, problems: &mut Vec<String>) -> Option<Credentials> {
        let path = self.cluster.password_file.as_ref()?;
        let read = quorate_datadir::durable::read(path, PASSWORD_MAX).map_err(|error| error.to_string());
        let password = read.and_then(|content| {
            let text =
                String::from_utf8(content.ok_or("there is no such file")?).map_err(|e| e.to_string())?;
            let password = text.trim_end_matches(['\r', '\n']).to_owned();
            (!password.is_empty())
                .then_some(password)
                .ok_or("it is empty".to_owned())
        });
        match password {
            Ok(password) => Some(Credentials {
                user: "root".to_owned(),
                password,
            }),
            Err(why) => {
                problems.push(format!("spec.auth.passwordFile {}: {why}", path.display()));
                None
            }
        }
    }

    /// Members whose processes trust none of the CAs that are there now.
    fn trust_lost_ca(&self) -> BTreeSet<Ordinal> {
        let trusts = |ordinal: &Ordinal| self.runner.member(*ordinal)?.record.trusted.as_deref();
        let lost = |ordinal: &Ordinal| trusts(ordinal).is_some_and(|cas| certs::disjoint(cas, &self.trusted));
        let running = self.ordinals().into_iter();
        running
            .filter(|ordinal| self.journal.tls && lost(ordinal))
            .collect()
    }

    /// Versions that would be needed and are not here, with the reason.
    async fn missing_versions(&mut self, spec: &Spec) -> BTreeMap<Version, String> {
        let memory = &self.journal.memory;
        let remembered = memory.slots.values().filter_map(|slot| slot.version);
        let started = memory
            .slots
            .values()
            .filter_map(|slot| Some(slot.started.as_ref()?.version));
        let mut versions: Vec<Version> = remembered.chain(started).chain([spec.version]).collect();
        versions.sort();
        versions.dedup();
        let mut missing = BTreeMap::new();
        for version in versions {
            if let Err(error) = self.etcd(version).await {
                missing.insert(version, error.to_string());
            }
        }
        missing
    }

    fn slot(
        &mut self,
        spec: &Spec,
        ordinal: Ordinal,
        missing: &BTreeMap<Version, String>,
        problems: &mut Vec<String>,
    ) -> Option<SlotView> {
        let (ports, peer_url) = (*self.journal.ports.get(&ordinal)?, self.peer_url(ordinal)?);
        let name = self.name(ordinal);
        let remembered = self.journal.memory.slot(ordinal);
        let volume_dir = self.root.volume(&name, remembered.generation);
        let process = self.runner.process(ordinal);
        let stopped = matches!(process, Process::Stopped { .. });
        let held = if stopped { self.held(&name) } else { None };
        let alive = !stopped || held.is_some();
        let first_start = match Evidence::read(&self.root.first_start(&name, remembered.generation)) {
            Ok(evidence) => evidence.first_start(alive),
            Err(error) => {
                problems.push(error.chain());
                FirstStart::Unknown
            }
        };
        let began = remembered.mark == Mark::Started;
        let look = quorate_datadir::look(&volume_dir);
        // A log without a word in it says more than any record of the start: nothing was promised from it.
        let first_start = match &look {
            Ok(Look::Unborn { .. }) if !alive => FirstStart::RanWithoutData,
            _ => first_start,
        };
        let volume = match look {
            Ok(look) => volume(
                look,
                Circumstances {
                    alive,
                    began,
                    first_start,
                },
            ),
            Err(error) => {
                problems.push(format!("{name}: {}", with_causes(&error)));
                Volume::Unknown
            }
        };
        let (volume, marks) = self.whose(ordinal, &volume_dir, volume, !alive, problems);
        let cannot_start = if stopped {
            let started = remembered.started.as_ref().map(|started| started.version);
            let version = started.or(remembered.version).unwrap_or(spec.version);
            let uncertified = || certs::lacking(&self.root, &name).filter(|_| self.journal.tls);
            held.or_else(|| in_use(&volume_dir))
                .or_else(|| taken(ports))
                .or_else(|| disk::full(self.root.path()))
                .or_else(uncertified)
                .or_else(|| missing.get(&version).cloned())
        } else {
            // It runs on; but it must not be stopped for a version that is not here.
            missing
                .get(&spec.version)
                .filter(|_| self.runs_another(ordinal, spec.version))
                .cloned()
        };
        let leftovers = match self.root.generations(&name) {
            Ok(all) => all
                .into_iter()
                .filter(|generation| *generation < remembered.generation)
                .collect(),
            Err(error) => {
                problems.push(format!("cannot list the volumes of {name}: {error}"));
                Vec::new()
            }
        };
        let asides = match self.asides(&name) {
            Ok(all) => u32::try_from(all.len()).unwrap_or(u32::MAX),
            Err(error) => {
                problems.push(format!("cannot list {}: {error}", self.root.asides().display()));
                u32::MAX
            }
        };
        let replay_limit = self.replays.limit(&volume_dir, &volume, &remembered, spec);
        Some(SlotView {
            peer_url,
            volume,
            marks,
            durable: None,
            first_start,
            leftovers,
            asides,
            place: Place::Ready,
            made_for: None,
            storage: None,
            resize: Resize::No,
            no_room_aside: None,
            process,
            status: None,
            deletion_pending: false,
            in_service: true,
            cannot_start,
            ran: None,
            replay_limit,
            located: None,
        })
    }

    /// Whose data lies in a slot by what is written beside it, and how far it has come.
    fn whose(
        &mut self,
        ordinal: Ordinal,
        dir: &Path,
        volume: Volume,
        at_rest: bool,
        problems: &mut Vec<String>,
    ) -> (Volume, Option<VolumeMarks>) {
        if !matches!(volume, Volume::Data { .. }) {
            return (volume, None);
        }
        let record = match VolumeRecord::read(dir) {
            Ok(record) => record,
            Err(error) => {
                problems.push(error.chain());
                return (Volume::Unknown, None);
            }
        };
        let cluster = &self.journal.cluster;
        let other = record.as_ref().filter(|record| {
            (record.cluster.as_str(), record.member.as_str()) != (cluster, self.name(ordinal).as_str())
        });
        if let Some(other) = other.filter(|_| at_rest) {
            let mut slots = self.ordinals().into_iter();
            let slot = slots.find(|o| other.cluster == *cluster && self.name(*o).as_str() == other.member);
            let belongs_to = format!("{} of cluster {}", other.member, other.cluster);
            let volume = Volume::Foreign {
                belongs_to,
                slot,
                // It may be in any other root.
                owner_exists: None,
            };
            return (volume, None);
        }
        let marks = VolumeRecord::marks(record.as_ref(), self.last_index(ordinal, dir, at_rest));
        (volume, Some(marks))
    }

    /// The last index in the log of a member that does not run, where something is known to compare it with.
    pub(crate) fn last_index(&mut self, ordinal: Ordinal, dir: &Path, at_rest: bool) -> Option<u64> {
        if at_rest && self.journal.memory.slot(ordinal).reached.index > 0 {
            self.last_indexes.of(dir)
        } else {
            self.last_indexes.forget(dir);
            None
        }
    }

    fn runs_another(&self, ordinal: Ordinal, version: Version) -> bool {
        self.runner
            .member(ordinal)
            .is_some_and(|member| member.record.version != version)
    }

    /// Who holds a member's lock although the runner has no process of it.
    fn held(&self, name: &MemberName) -> Option<String> {
        let path = self.root.alive(name);
        match launch::lock(&path) {
            Ok(Some(_)) => None,
            Ok(None) => {
                let who = holder::of_lock(&path).map_or("a process".to_owned(), |holder| holder.to_string());
                Some(format!(
                    "{who} still runs as {name}; stop it, or wait for its end"
                ))
            }
            Err(error) => Some(error.chain()),
        }
    }

    /// The asides of a member, oldest first.
    pub(crate) fn asides(&self, name: &MemberName) -> std::io::Result<Vec<std::path::PathBuf>> {
        let mut found = Vec::new();
        for entry in self.root.asides().read_dir()? {
            let entry = entry?;
            let key = entry.file_name().to_str().and_then(|text| aside_of(text, name));
            found.extend(key.map(|key| (key, entry.path())));
        }
        found.sort();
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }
}

/// The name of an aside.
pub(crate) fn aside_name(member: &MemberName, generation: Generation, millis: u64) -> String {
    format!("{member}-{generation}-{millis}")
}

/// When, and of which volume, if `file` is the name of an aside of `member`.
fn aside_of(file: &str, member: &MemberName) -> Option<(u64, u32)> {
    let (generation, millis) = file
        .strip_prefix(member.as_str())?
        .strip_prefix("-g")?
        .split_once('-')?;
    Some((millis.parse().ok()?, generation.parse().ok()?))
}

/// What else is known when a volume is judged.
#[derive(Clone, Copy, Debug)]
struct Circumstances {
    alive: bool,
    began: bool,
    first_start: FirstStart,
}

fn volume(
    look: Look,
    Circumstances {
        alive,
        began,
        first_start,
    }: Circumstances,
) -> Volume {
    // A first start that is under way has no log yet: nothing can be said until it has one or has ended.
    let under_way = alive && !began;
    match look {
        Look::Data(identity) => Volume::Data {
            member: MemberId(identity.member_id),
            cluster: ClusterId(identity.cluster_id),
        },
        Look::Empty | Look::NoWal { .. } | Look::Unborn { .. } if under_way => Volume::Unknown,
        Look::Empty => Volume::Empty,
        Look::Unborn { .. } if began => Volume::Damaged {
            why: "its write-ahead log holds nothing any more".to_owned(),
        },
        // The start sets it aside: etcd would not recover from it.
        Look::Unborn { .. } => Volume::Empty,
        // What a first start leaves behind that provably got no further.
        Look::NoWal { .. } if matches!(first_start, FirstStart::NotRun | FirstStart::RanWithoutData) => {
            Volume::Empty
        }
        Look::NoWal { what_is_there } => {
            let files: Vec<String> = what_is_there
                .iter()
                .take(4)
                .map(|path| path.display().to_string())
                .collect();
            Volume::Damaged {
                why: format!("there is no write-ahead log, only {}", files.join(", ")),
            }
        }
        Look::Damaged { path, why } => Volume::Damaged {
            why: format!("{}: {why}", path.display()),
        },
    }
}

/// Who else has the database open.
fn in_use(volume: &Path) -> Option<String> {
    match DbLock::try_hold(volume) {
        Ok(Attempt::Held(_) | Attempt::NoDb) => None,
        Ok(Attempt::Busy { holder }) => {
            let who = holder.map_or("another process".to_owned(), |pid| {
                Holder::of_pid(pid).to_string()
            });
            Some(format!(
                "{who} has the database in {} open; stop it first",
                volume.display()
            ))
        }
        Err(error) => Some(with_causes(&error)),
    }
}

/// Who else listens where this member would.
pub(crate) fn taken(ports: Ports) -> Option<String> {
    [("client", ports.client), ("peer", ports.peer)]
        .into_iter()
        .find_map(|(kind, port)| {
            let error = holder::port_is_free(port).err()?;
            Some(match holder::of_port(port) {
                Some(who) => format!("its {kind} port {port} is taken by {who}; stop that process"),
                None => format!("its {kind} port {port} cannot be used: {error}"),
            })
        })
}

/// Sixteen random digits, and the cluster's name for people.
fn fresh_token(cluster: &str) -> Token {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    if read.is_err() {
        // Not secret, only never used before on this machine: time and process do.
        let unique = supervise::now().0 ^ (u64::from(std::process::id()) << 40);
        bytes = unique.to_be_bytes();
    }
    Token(format!("{cluster}-{:016x}", u64::from_be_bytes(bytes)))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut link = error.source();
    while let Some(cause) = link {
        text = format!("{text}: {cause}");
        link = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asides_are_distinguished_by_whole_names() {
        let member = MemberName("c-1".to_owned());
        assert_eq!(
            aside_of(&aside_name(&member, Generation(3), 77), &member),
            Some((77, 3))
        );
        for other in [
            "c-10-g3-77",
            "c-1",
            "c-1-g3",
            "c-1-gx-77",
            "c-1-g3-x",
            "d-1-g3-77",
        ] {
            assert_eq!(aside_of(other, &member), None, "{other}");
        }
    }

    #[test]
    fn a_first_start_under_way_proves_nothing() {
        let no_wal = || Look::NoWal {
            what_is_there: vec!["member/snap/db".into()],
        };
        let seen = |alive, began, first_start| Circumstances {
            alive,
            began,
            first_start,
        };
        assert_eq!(
            volume(Look::Empty, seen(true, false, FirstStart::Unknown)),
            Volume::Unknown
        );
        assert_eq!(
            volume(no_wal(), seen(true, false, FirstStart::Unknown)),
            Volume::Unknown
        );
        assert_eq!(
            volume(Look::Empty, seen(false, false, FirstStart::NotRun)),
            Volume::Empty
        );
        assert_eq!(
            volume(Look::Empty, seen(true, true, FirstStart::Unknown)),
            Volume::Empty
        );
        assert_eq!(
            volume(no_wal(), seen(false, false, FirstStart::RanWithoutData)),
            Volume::Empty
        );
        assert!(matches!(
            volume(no_wal(), seen(false, false, FirstStart::Unknown)),
            Volume::Damaged { .. }
        ));
        assert!(matches!(
            volume(no_wal(), seen(false, true, FirstStart::Unknown)),
            Volume::Damaged { .. }
        ));
    }

    #[test]
    fn tokens_are_fresh() {
        assert_ne!(fresh_token("c"), fresh_token("c"));
        assert_eq!(fresh_token("c").as_str().len(), 2 + 16);
    }
}
