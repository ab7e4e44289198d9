//! `quorate up`: supervises a cluster until it is told to stop.
//!
//! In: a manifest, or none. Out: progress, a summary once the cluster serves, then a line for each event. The first
//! Ctrl-C (or SIGTERM, or the terminal closing) stops the members; the second leaves them running and gives up.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_host::find::{self, Places};
use quorate_host::{Event, Options, Root, Status, control, supervise};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::arguments;
use crate::failure::{Failure, chain};
use crate::render::{event, style, summary};
use crate::{manifest, roots, say};

/// The name of a cluster nobody named.
const NAME: &str = "etcd";
/// How many members it gets.
const REPLICAS: u32 = 3;
/// How often a cluster that has yet to begin is looked at for what is in its way.
const LOOK: Duration = Duration::from_millis(250);

/// The same line is not told twice within this time.
const ECHO: Duration = Duration::from_secs(10);
/// Lines remembered for that.
const ECHOES_MAX: usize = 64;

/// Runs the cluster.
pub async fn run(root: &Root, arguments: arguments::Up) -> Result<(), Failure> {
    let arguments::Up { file, etcd, runner } = arguments;
    match runner {
        arguments::Runner::Auto | arguments::Runner::Child => {}
    }
    let manifest = choose_manifest(root, file, etcd.as_deref())?;
    let mut stop = Stop::listen()?;
    let options = Options {
        root: root.path().to_owned(),
        manifest: Some(manifest),
        etcd,
        cache: None,
        launcher: PathBuf::from("/proc/self/exe"),
    };
    let (served, stopping) = (Notify::new(), Notify::new());
    let mut hindered = None;
    let mut teller = Teller { root: root.clone(), began: Instant::now(), served: false, told: VecDeque::new() };
    let tell = |news: Event| {
        if matches!(news, Event::Ready(_)) {
            served.notify_one();
        }
        teller.tell(news);
    };
    let shutdown = async {
        tokio::select! {
            () = stop.asked() => say::line(&timed("stopping the members; once more to leave them running")),
            found = hindrance(root, &served) => hindered = Some(found),
        }
        stopping.notify_one();
    };
    let supervision = supervise::run(options, tell, shutdown);
    tokio::select! {
        ended = supervision => ended?,
        () = async { stopping.notified().await; Stop::again().await } => return Err(left_running(root)),
    }
    if let Some(failure) = hindered {
        return Err(failure);
    }
    say::line(&timed(&format!("stopped; the data stays in {}", root.path().display())));
    Ok(())
}

/// The manifest to run: the one named, the root's, the one the root was last run by, or a new one.
fn choose_manifest(root: &Root, file: Option<PathBuf>, etcd: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(file) = file {
        return readable(file);
    }
    let own = root.manifest();
    if own.exists() {
        return Ok(own);
    }
    if root.journal().exists() {
        let last = control::manifest_path(root.path()).ok().filter(|path| path.is_file());
        return last.ok_or_else(|| {
            Failure::usage(format!("{} holds a cluster, but its manifest is gone", root.path().display()))
                .and("Give it with `quorate up -f cluster.yaml`; a new one is not made up over data.")
        });
    }
    let found = find::find_etcd(None, &Places::of(Some(root.path()), etcd, None))?;
    let version = semver::Version::new(found.version.major.into(), found.version.minor.into(), found.version.patch.into());
    let text = quorate_api::default_manifest(NAME, REPLICAS, &version);
    let made = make_private(root.path()).and_then(|()| manifest::create(&own, &text));
    made.map_err(|source| {
        Failure::from(quorate_host::Error::Root { path: root.path().to_owned(), source })
    })?;
    say::line(&timed(&format!("wrote {}: {REPLICAS} members, etcd {version}, TLS", own.display())));
    Ok(own)
}

/// A manifest that cannot be read is the user's to mend, before anything is made.
fn readable(file: PathBuf) -> Result<PathBuf, Failure> {
    match std::fs::File::open(&file).and_then(|file| file.metadata()) {
        Ok(metadata) if metadata.is_file() => Ok(file),
        Ok(_) => Err(Failure::usage(format!("cannot read the manifest {}: it is not a file", file.display()))
            .and("Name an EtcdCluster manifest with -f.")),
        Err(error) => Err(Failure::usage(format!("cannot read the manifest {}: {error}", file.display()))
            .and("Name a readable EtcdCluster manifest with -f, or leave -f out for three members to try.")),
    }
}

fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Waits until something keeps a cluster that has never run from beginning (a port that is taken, data that is not
/// its own). A cluster that exists waits for such a thing to pass; one that does not yet had better not begin.
async fn hindrance(root: &Root, served: &Notify) -> Failure {
    let began = jiff::Timestamp::now();
    let look = async {
        loop {
            tokio::time::sleep(LOOK).await;
            let status = control::read_status(root.path()).ok().flatten();
            let fresh = |status: &Status| status.updated_at.parse::<jiff::Timestamp>().is_ok_and(|at| at >= began);
            if let Some(failure) = status.filter(fresh).as_ref().and_then(in_the_way) {
                return failure;
            }
        }
    };
    tokio::select! {
        failure = look => failure,
        () = served.notified() => std::future::pending().await,
    }
}

fn in_the_way(status: &Status) -> Option<Failure> {
    let begun = status.cluster_id.is_some() || status.members.iter().any(|member| member.pid.is_some());
    if begun || status.blocks.is_empty() {
        return None;
    }
    let why: Vec<&str> = status.blocks.iter().map(|block| block.detail.as_str()).collect();
    let reason = &status.blocks[0].reason;
    Some(Failure::failed(format!("the cluster {} cannot begin: {}", status.cluster, why.join("; "))).and(&format!(
        "Nothing was started. Mend that, or change the manifest {} (`quorate explain {reason}` says more).",
        status.manifest.display()
    )))
}

fn left_running(root: &Root) -> Failure {
    let option = roots::option(root);
    Failure::failed("asked a second time before all members had stopped: those that still run are left running").and(
        &format!("`quorate up{option}` takes them over, `quorate down{option}` stops them."),
    )
}

/// Being asked to stop, by whoever.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Stop {
    fn listen() -> Result<Stop, Failure> {
        let on = |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {}", chain(&error))));
        // Under nohup a closed terminal is meant to change nothing.
        let hang_up = if ignores_hang_up() { None } else { Some(on(SignalKind::hangup())?) };
        Ok(Stop { interrupt: on(SignalKind::interrupt())?, terminate: on(SignalKind::terminate())?, hang_up })
    }

    async fn asked(&mut self) {
        let hung_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hung_up => {}
        }
    }

    /// The next request after the first.
    async fn again() {
        match Stop::listen() {
            Ok(mut stop) => stop.asked().await,
            Err(_) => std::future::pending().await,
        }
    }
}

fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Signal 1 is the lowest bit.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Says what happens.
struct Teller {
    root: Root,
    began: Instant,
    served: bool,
    /// What was told lately, and when.
    told: VecDeque<(Instant, String)>,
}

impl Teller {
    fn tell(&mut self, news: Event) {
        match news {
            Event::Line(text) if self.is_echo(&text) => {}
            Event::Line(text) => say::line(&timed(&text)),
            Event::Ready(status) if self.served => {
                let count = status.members.len();
                say::line(&timed(&style::paint(style::GOOD, &format!("{count} of {count} members healthy, nothing left to do"))));
            }
            Event::Ready(status) => {
                self.served = true;
                let seconds = self.began.elapsed().as_secs_f64();
                say::line(&timed(&format!("all members healthy after {seconds:.1} s")));
                say::print(&summary::page(&status, etcdctl(&status).as_deref(), &roots::option(&self.root)));
            }
            _ => {}
        }
    }
}

impl Teller {
    /// A step that etcd refuses for now is tried twice a second: once told is enough for a while.
    fn is_echo(&mut self, text: &str) -> bool {
        self.told.retain(|(at, _)| at.elapsed() < ECHO);
        let echo = self.told.iter().any(|(_, told)| told == text);
        if !echo {
            self.told.push_front((Instant::now(), text.to_owned()));
            self.told.truncate(ECHOES_MAX);
        }
        echo
    }
}

/// The etcdctl beside the etcd that runs, or else the first on the PATH; by its bare name where a shell finds it so.
fn etcdctl(status: &Status) -> Option<PathBuf> {
    let pid = status.members.iter().find_map(|member| member.pid)?;
    let beside = std::fs::read_link(format!("/proc/{pid}/exe")).ok().map(|etcd| etcd.with_file_name("etcdctl"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|dir| dir.join("etcdctl")).find(|path| path.is_file());
    match (beside.filter(|path| path.is_file()), on_path) {
        (Some(beside), Some(on_path)) if beside == on_path => Some(PathBuf::from("etcdctl")),
        (Some(beside), _) => Some(beside),
        (None, on_path) => on_path.map(|_| PathBuf::from("etcdctl")),
    }
}

/// The line for `text`, now.
fn timed(text: &str) -> String {
    event::line(&jiff::Zoned::now().strftime("%H:%M:%S").to_string(), text)
}

#[cfg(test)]
mod tests {
    use quorate_host::{Block, Member};

    use super::*;

    #[test]
    fn only_a_cluster_that_has_not_begun_is_given_up() {
        let block = Block { reason: "CannotStart".to_owned(), member: None, detail: "port 1 is taken".to_owned() };
        let blocked = Status { cluster: "c".to_owned(), blocks: vec![block], ..Status::default() };
        let text = in_the_way(&blocked).unwrap().to_string();
        assert!(text.starts_with("the cluster c cannot begin: port 1 is taken. Nothing was started."), "{text}");
        assert!(in_the_way(&Status { cluster_id: Some("1".to_owned()), ..blocked.clone() }).is_none());
        let member = Member { pid: Some(1), ..Member::default() };
        assert!(in_the_way(&Status { members: vec![member], ..blocked }).is_none());
        assert!(in_the_way(&Status::default()).is_none());
    }
}
