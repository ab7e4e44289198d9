//! The supervisor's loop: observe, plan, check, store, execute, report, wait.
//!
//! In: options, and a future that ends when it is to stop. Out: a running cluster; events for the terminal; the
//! status on the disk. Whatever a member, the disk or the manifest does, the loop goes on and shows it: it fails only
//! before it has begun.
//!
//! Never: two supervisors of one root; an effect before its journal is stored; a plan carried out that the check
//! refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use quorate_client::Port;
use quorate_core::model::{Ordinal, Outcome, StepKind, StepResult, Time};
use quorate_core::rotation::Proven;
use quorate_core::transitions::Transitions;
use quorate_core::{Decision, Observed, Plan, Spec, Step, decide};
use quorate_datadir::durable;
use tokio::time::Instant;

use crate::control::{self, Supervisor};
use crate::etcd::find::Places;
use crate::ground::Ground;
use crate::ground::manifest::{self, Manifest};
use crate::ground::{certs, ports};
use crate::root::asides::{self, Aside};
use crate::root::journal::Journal;
use crate::root::log;
use crate::root::registry::Registry;
use crate::status::{self, Pass, Status, SupervisorStatus};
use crate::supervise::backup_agent::BackupAgent;
use crate::supervise::certify::CertFaults;
use crate::supervise::problems::{Problems, problem};
use crate::{Error, Root};

pub(crate) mod backup_agent;
mod certify;
mod edited;
pub(crate) mod event_log;
pub(crate) mod problems;

/// The longest time between two looks.
const IDLE: Duration = Duration::from_secs(2);
/// How often the manifest is looked at.
const MANIFEST_LOOK: Duration = Duration::from_secs(1);
/// The longest time between two writes of the status.
const STATUS_REFRESH: Duration = Duration::from_secs(5);
/// How often certificates and logs are looked after.
const UPKEEP: Duration = Duration::from_secs(60);

/// What a supervisor needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    pub root: PathBuf,
    /// The manifest; `cluster.yaml` in the root where none is named.
    pub manifest: Option<PathBuf>,
    /// The etcd binary to use, where it fits.
    pub etcd: Option<PathBuf>,
    /// The cache of etcd binaries; the usual one where none is named.
    pub cache: Option<PathBuf>,
    /// Where the roots of this machine are recorded; the usual directory where none is named.
    pub registry: Option<PathBuf>,
    /// The program that launches members with `launch-member --spec JSON`: `/proc/self/exe`.
    pub launcher: PathBuf,
}

/// News for the terminal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    Line(String),
    /// All members are healthy and nothing is left to do: for the first time, or again after a change.
    Ready(Box<Status>),
}

/// Milliseconds since 1970, by the wall clock.
pub(crate) fn now() -> Time {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Runs the cluster until `shutdown` ends, then stops its members. If it is dropped instead, the members live on and
/// the next supervisor of the root adopts them.
pub async fn run(
    options: Options,
    events: impl FnMut(Event),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut supervision = Supervision::begin(options, events).await?;
    let mut shutdown = pin!(shutdown);
    tokio::select! {
        never = supervision.go_on() => match never {},
        () = &mut shutdown => {}
    }
    supervision.end().await
}

struct Supervision<E> {
    ground: Ground,
    manifest: Manifest,
    spec: Spec,
    own: SupervisorStatus,
    events: E,
    /// How the last step ended that the planner wants to know of.
    last: Option<Outcome>,
    /// What is wrong besides what a plan says: by subject, so that it can be taken back.
    problems: Problems,
    /// What the journal on the disk says.
    stored: Option<Journal>,
    written: Option<(Status, Instant)>,
    upkeep_due: Instant,
    /// The CA is being replaced.
    rotating: bool,
    proven: BTreeMap<Port, Proven>,
    was_ready: bool,
    shown: BTreeSet<String>,
    /// What stands in the way, as far as it was logged.
    standing: Transitions,
    asides: Vec<Aside>,
    /// The certificates when they were last looked at.
    certificates: certs::CertsStamp,
    cert_faults: CertFaults,
    backup: BackupAgent,
    _lock: File,
}

impl<E: FnMut(Event)> Supervision<E> {
    /// Everything that may fail, up to and including the takeover of members that run already.
    async fn begin(options: Options, events: E) -> Result<Supervision<E>, Error> {
        let root = Root::at(&options.root)?;
        let path = options.manifest.clone().unwrap_or_else(|| root.manifest());
        if !root.journal().exists() {
            let manifest = Manifest::open(&path, None)?;
            ports::preflight(&root, &manifest.cluster, Registry::at(options.registry.clone()))?;
        }
        root.prepare()?;
        let lock = control::lock(&root).await?;
        let stored = Journal::load(&root)?;
        let remembered = stored.as_ref().and_then(Journal::manifest);
        let mut manifest = Manifest::open(&path, remembered)?;
        // An edit, and not the manifest of another cluster that this root was given by mistake.
        let former = control::supervisor(root.path()).ok().flatten();
        let former = former.map(|supervisor| supervisor.manifest);
        if let Some(text) = remembered.filter(|_| former.as_deref() == Some(manifest.path())) {
            manifest.keep_name(text);
        }
        let cluster = manifest.cluster.clone();
        let journal = match &stored {
            Some(journal) => journal.with(journal.memory.clone().taken_up()),
            None => Journal::new(&cluster.name, cluster.tls),
        };
        if journal.cluster != cluster.name {
            let (present, wanted) = (journal.cluster, cluster.name);
            return Err(Error::OtherCluster {
                root: root.path().to_owned(),
                present,
                wanted,
            });
        }
        let places = Places::of(
            Some(root.path()),
            options.etcd.as_deref(),
            options.cache.as_deref(),
        );
        let own = own(&root, manifest.path())?;
        let launcher = launcher(&options.launcher)?;
        let backup = BackupAgent::new(launcher.clone(), root.clone());
        let mut ground = Ground::new(root, journal, cluster, launcher, places);
        ground.registry = Registry::at(options.registry.clone());
        let unregistered = ground
            .registry
            .as_ref()
            .map(|registry| registry.enter(&ground.root));
        if ground.journal.memory.bootstrap.is_none() {
            // A cluster that has yet to begin: say at once what is missing for it.
            ground
                .etcd(manifest::spec(&ground.cluster, "", "").version)
                .await?;
        }
        let spec = manifest::spec(&ground.cluster, &manifest.text, "");
        let mut supervision = Supervision {
            ground,
            manifest,
            spec,
            own,
            events,
            last: None,
            problems: Problems::default(),
            stored,
            written: None,
            upkeep_due: Instant::now() + UPKEEP,
            rotating: false,
            proven: BTreeMap::new(),
            was_ready: false,
            shown: BTreeSet::new(),
            standing: Transitions::default(),
            asides: Vec::new(),
            certificates: certs::CertsStamp::new(),
            cert_faults: CertFaults::default(),
            backup,
            _lock: lock,
        };
        asides::delete_dropped(&supervision.ground.root);
        supervision.asides = asides::list(&supervision.ground.root);
        if let Some(Err(error)) = unregistered {
            supervision.line(format!(
                "the ports are not reserved for this root, another cluster may take them while it is stopped: {}",
                error.chain()
            ));
        }
        supervision.judge_manifest();
        supervision.take_over()?;
        if let Err(error) = supervision.certify().await {
            supervision.begin_without(error)?;
        }
        Ok(supervision)
    }

    fn take_over(&mut self) -> Result<(), Error> {
        for ordinal in self.ground.adopt()? {
            let pid = self
                .ground
                .runner
                .member(ordinal)
                .map_or(0, |member| member.record.identity.pid);
            self.line(format!(
                "{} runs already (pid {pid}); taken over",
                self.ground.name(ordinal)
            ));
        }
        Ok(())
    }

    async fn go_on(&mut self) -> std::convert::Infallible {
        loop {
            let requeue_after = self.pass().await;
            self.wait(requeue_after.min(IDLE)).await;
        }
    }

    /// One pass. Returns when to look again.
    async fn pass(&mut self) -> Duration {
        for ended in self.ground.runner.ended() {
            self.log_exit(ended.ordinal, &ended.exit);
        }
        let choosing = self.choose_ports().await;
        let adopted = self.take_over();
        let uncertain = self.rotating || self.cert_faults.failed.is_some();
        if uncertain || certs::rotation_asked(&self.ground.root) {
            self.look_at_certificates().await;
        }
        let last = self.last.take();
        let began = Instant::now();
        let seen = self.ground.observe(&self.spec, last).await;
        self.problems.seen = seen.problems;
        self.problems.seen.extend(problem(adopted));
        let observed = seen.observed;
        // A clock that is set back during a look does not make the look younger. `Instant` stands still while the machine
        // sleeps, so the clock counts too.
        let now = now().max(observed.at + began.elapsed());
        self.spec.fallback = self.ground.fallback(self.spec.manifest.as_deref()).map(|f| f.1);
        self.spec.frozen = self.cert_faults.frozen(self.manifest.frozen());
        let Decision { mut plan, memory } = decide(&self.spec, &observed, &self.ground.journal.memory, now);
        let named = |ordinal| self.ground.name(ordinal);
        event_log::standing(&self.spec.name, named, &plan, &mut self.standing);
        let remembered = self.arm(&plan) && self.remember(memory);
        drop(choosing);
        if remembered {
            self.show(&observed, &plan);
            self.carry_out(&observed, &plan).await;
        } else {
            plan.steps.clear();
        }
        self.show(&observed, &plan);
        self.tend_backup();
        plan.requeue_after
    }

    /// Chooses ports for members that have none. What is returned is held until they are in the journal, where other
    /// roots see them.
    async fn choose_ports(&mut self) -> Option<File> {
        let missing = self.ground.lacks_ports();
        let choosing = match &self.ground.registry {
            Some(registry) if missing => registry.lock().await,
            _ => None,
        };
        self.problems.ports = problem(self.ground.assign_ports());
        choosing
    }

    fn tend_backup(&mut self) {
        let serves = |(status, _): &(Status, Instant)| status.members.iter().any(|member| member.healthy);
        let serves = self.written.as_ref().is_some_and(serves);
        let wanted = self.ground.cluster.backup.clone();
        if let Some(news) = self.backup.tend(wanted.as_ref(), serves) {
            self.line(news);
        }
    }

    /// Arms the first starts of a plan before it is remembered that they are intended: one that is intended and not armed
    /// may have run. False: then nothing may be done.
    fn arm(&mut self, plan: &Plan) -> bool {
        let armed = self.ground.arm(plan);
        let mended = |error: Error| format!("{}; no step runs until this is fixed", error.chain());
        self.problems.journal = armed.err().map(mended).into_iter().collect();
        self.problems.journal.is_empty()
    }

    /// Stores the memory, if it or anything else in the journal has changed. False: then nothing may be done.
    fn remember(&mut self, mut memory: quorate_core::Memory) -> bool {
        memory.manifest = self.spec.manifest.clone();
        let next = self.ground.journal.with(memory);
        // Someone may have deleted it: without it the next supervisor would refuse to go near the data.
        let is_there = self.ground.root.journal().exists();
        if self.stored.as_ref() != Some(&next) || !is_there {
            if let Err(error) = next.store(&self.ground.root) {
                self.problems.journal = vec![format!("{}; no step runs until this is fixed", error.chain())];
                return false;
            }
            self.stored = Some(next.clone());
        }
        self.problems.journal.clear();
        self.ground.journal = next;
        true
    }

    async fn carry_out(&mut self, observed: &Observed, plan: &Plan) {
        let settled = plan.waits.is_empty() && plan.blocks.is_empty();
        if settled || !plan.steps.is_empty() {
            self.problems.steps.clear();
        }
        let mut stuck = false;
        for step in &plan.steps {
            // After a step that failed only starts go on: they need nothing of each other, nor of the rest.
            if stuck && step.kind() != StepKind::Start {
                continue;
            }
            let described = step.described(&self.spec, &self.ground.journal.memory);
            self.print(described.clone());
            let config = self.spec.config.clone();
            let result = self.ground.execute(step, observed, &config).await;
            let memory = &self.ground.journal.memory;
            event_log::step(&self.spec, memory, (step, &result), &mut self.standing);
            let failed = match &result {
                StepResult::Done => None,
                StepResult::Refused(why) => Some(format!("{described}: not yet: {why}")),
                StepResult::Unclear(why) => {
                    Some(format!("{described}: it is not clear whether it was done: {why}"))
                }
            };
            if let Some(text) = &failed {
                self.print(text.clone());
                self.problems.steps.push(text.clone());
            }
            if reported(step) && !(stuck && step.kind() == StepKind::Start) {
                self.last = Some(Outcome {
                    step: step.kind(),
                    result,
                    at: now(),
                });
            }
            // A member that cannot be written to has been: it is full, or asks for a password.
            stuck |= failed.is_some() && !matches!(step.kind(), StepKind::Start | StepKind::Write);
        }
    }

    /// Writes the status if it has changed or is old, and reports what is new.
    fn show(&mut self, observed: &Observed, plan: &Plan) {
        let mut problems = self.problems.all();
        problems.extend(self.manifest.warnings.iter().cloned());
        let pass = Pass {
            ground: &self.ground,
            spec: &self.spec,
            observed,
            plan,
            problems,
            manifest: self.manifest.path().to_owned(),
            supervisor: self.own.clone(),
        };
        let mut status = Status {
            asides: self.asides.clone(),
            backup: self.backup.status(),
            ..pass.status()
        };
        self.cert_faults.show(&mut status);
        status.check_disk();
        self.report_changes(&status);
        let fresh = |(shown, at): &(Status, Instant)| *shown == status && at.elapsed() < STATUS_REFRESH;
        if self.written.as_ref().is_some_and(fresh) {
            return;
        }
        let path = self.ground.root.status();
        let stamped = Status {
            updated_at: status::rfc3339(now()),
            ..status.clone()
        };
        let written = serde_json::to_vec(&stamped).map_err(std::io::Error::other);
        let written = written
            .map_err(|e| Error::file("encode", &path, e))
            .and_then(|c| Ok(durable::write_fast(&path, &c)?));
        // A status that cannot be written grows old, which its reader sees.
        if written.is_ok() {
            self.written = Some((status, Instant::now()));
        }
    }

    fn report_changes(&mut self, status: &Status) {
        let blocks = status
            .blocks
            .iter()
            .map(|block| format!("{}: {}", block.reason, block.detail));
        let now_shown: BTreeSet<String> = blocks.chain(status.problems.iter().cloned()).collect();
        let news: Vec<String> = now_shown.difference(&self.shown).cloned().collect();
        for text in news {
            if status.problems.contains(&text) {
                tracing::warn!(cluster = self.ground.cluster.name, "{text}");
            }
            self.print(text);
        }
        self.shown = now_shown;
        if status.ready && !self.was_ready {
            let members = status.members.len();
            tracing::info!(
                cluster = self.ground.cluster.name,
                members,
                "all members are healthy"
            );
            (self.events)(Event::Ready(Box::new(status.clone())));
        }
        self.was_ready = status.ready;
    }

    /// Waits for the next look, a member's end or a change of the manifest, whichever comes first.
    async fn wait(&mut self, requeue_after: Duration) {
        let deadline = Instant::now() + requeue_after;
        loop {
            let manifest_due = Instant::now() + MANIFEST_LOOK;
            tokio::select! {
                ended = self.ground.runner.next_end() => {
                    self.log_exit(ended.ordinal, &ended.exit);
                    return;
                }
                () = tokio::time::sleep_until(deadline.min(manifest_due)) => {}
            }
            if self.manifest.look() {
                self.take_manifest().await;
                return;
            }
            if Instant::now() >= self.upkeep_due {
                self.upkeep().await;
            } else if self.ground.journal.tls && self.certificates != certs::stamp(&self.ground.root) {
                self.look_at_certificates().await;
                return;
            }
            self.tend_backup();
            if Instant::now() >= deadline {
                return;
            }
        }
    }

    async fn upkeep(&mut self) {
        self.upkeep_due = Instant::now() + UPKEEP;
        self.asides = asides::list(&self.ground.root);
        self.look_at_certificates().await;
        self.problems.upkeep.clear();
        for ordinal in self.ground.ordinals() {
            let path = self.ground.root.log(&self.ground.name(ordinal));
            if let Err(error) = log::bound(&path) {
                self.problems.upkeep.push(error.chain());
            }
        }
        if let Err(error) = self.backup.bound_log() {
            self.problems.upkeep.push(error.chain());
        }
    }

    /// How far the logs are on the disks is remembered along with other things; at the end there is nothing else.
    fn remember_indexes(&mut self) {
        let mut memory = self.ground.journal.memory.clone();
        for (ordinal, durable) in self.ground.clients.durable() {
            memory.note_durable(*ordinal, *durable);
        }
        self.remember(memory);
    }

    /// Stops all members, and says so in the status.
    async fn end(mut self) -> Result<(), Error> {
        // First, so that it can still read what it has not flushed.
        self.backup.stop().await;
        let running = self.ground.runner.running();
        if running > 0 {
            self.line(format!("stopping {running} members"));
        }
        let leader = self.leader();
        self.remember_indexes();
        let stopped = self.ground.runner.stop_all(leader).await;
        if let Some((status, _)) = self.written.take() {
            let mut status = Status {
                updated_at: status::rfc3339(now()),
                ready: false,
                ..status
            };
            status.plan.clear();
            status.waits.clear();
            for member in &mut status.members {
                if self.ground.runner.member(Ordinal(member.ordinal)).is_none() {
                    member.pid = None;
                    member.process = "stopped".to_owned();
                    (member.healthy, member.leader) = (false, false);
                }
            }
            status.endpoints.clear();
            // Best effort: the lock shows readers more surely that nothing runs.
            let _ = serde_json::to_vec(&status)
                .map(|content| durable::write_fast(&self.ground.root.status(), &content));
        }
        stopped
    }

    /// Who led when it was last looked.
    fn leader(&self) -> Option<Ordinal> {
        let (status, _) = self.written.as_ref()?;
        status
            .members
            .iter()
            .find(|member| member.leader)
            .map(|member| Ordinal(member.ordinal))
    }

    fn log_exit(&mut self, ordinal: Ordinal, exit: &quorate_core::model::Exit) {
        let what = if exit.asked { "stopped" } else { "ended" };
        let member = self.ground.name(ordinal);
        event_log::ended(&self.spec.name, member.as_str(), exit);
        self.print(format!("{member} {what}: {}", exit.how));
    }

    fn line(&mut self, text: String) {
        tracing::info!(cluster = self.ground.cluster.name, "{text}");
        self.print(text);
    }

    /// For the terminal alone: the log has it with its fields.
    fn print(&mut self, text: String) {
        (self.events)(Event::Line(text));
    }
}

fn own(root: &Root, manifest: &Path) -> Result<SupervisorStatus, Error> {
    let pid = std::process::id();
    let since = status::rfc3339(now());
    let unknown = |source| Error::Process {
        doing: "identify",
        pid,
        source,
    };
    Supervisor::own(manifest, since.clone())
        .map_err(unknown)?
        .write(root)?;
    Ok(SupervisorStatus {
        pid,
        since,
        running: true,
    })
}

/// The launcher by absolute path: members are launched from another directory.
fn launcher(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|source| Error::file("find", path, source))
}

/// The planner wants to know how these ended.
fn reported(step: &Step) -> bool {
    step.changes_membership() || matches!(step, Step::MoveLeader { .. } | Step::Start { .. })
}
