//! `quorate up`: supervises a cluster until it is asked to stop.
//!
//! In: a manifest, or none. Out: progress, a summary once the cluster serves, then a line for each event. The first
//! Ctrl-C (or SIGTERM, or the terminal closing) stops the members; the second leaves them running and gives up, unless it
//! comes at once: a signal to a group of processes reaches each of them, and a parent passes it on.

mod event_printer;
mod startup_blockers;
mod stop;

use std::path::{Path, PathBuf};

use quorate_host::etcd::find::{self, Places};
use quorate_host::{Event, Options, Root, control, supervise};
use tokio::sync::Notify;

use self::event_printer::{EventPrinter, timed};
use self::stop::Stop;
use super::scale::{MANY, ask_about_many};
use crate::arguments;
use crate::failure::Failure;
use crate::log_lines::{self, LogFormat};
use crate::manifest::{self, Manifest};
use crate::{roots, say};

/// The name of a cluster nobody named.
const NAME: &str = "etcd";
/// How many members it gets.
const REPLICAS: u32 = 3;

pub async fn run(root: &Root, arguments: arguments::Up) -> Result<(), Failure> {
    let arguments::Up {
        file,
        etcd,
        yes,
        runner,
        log,
    } = arguments;
    if log.log_format == LogFormat::Json {
        // For programs: the supervisor's own events, and not a line for people among them.
        log_lines::begin(log);
    }
    let say = |text: &str| match log.log_format {
        LogFormat::Text => say::line(&timed(text)),
        LogFormat::Json => tracing::info!("{text}"),
    };
    match runner {
        arguments::Runner::Auto | arguments::Runner::Child => {}
    }
    let manifest = choose_manifest(root, (file, yes), etcd.as_deref(), &say)?;
    // A status that a power cut damaged is no reason not to start: the supervisor writes a new one.
    let last = control::read_status(root.path()).ok().flatten();
    let begun = last.is_some_and(|status| status.cluster_id.is_some());
    let mut stop = Stop::listen()?;
    let options = Options {
        root: root.path().to_owned(),
        manifest: Some(manifest),
        etcd,
        cache: None,
        registry: None,
        launcher: PathBuf::from("/proc/self/exe"),
    };
    let (served, stopping) = (Notify::new(), Notify::new());
    let mut hindered = None;
    let mut event_printer = EventPrinter::new(root, begun);
    let print = |news: Event| {
        if matches!(news, Event::Ready(_)) {
            served.notify_one();
        }
        if log.log_format == LogFormat::Text {
            event_printer.print(news);
        }
    };
    let shutdown = async {
        tokio::select! {
            _ = stop.asked() => say("stopping the members; once more to leave them running"),
            found = startup_blockers::found(root, &served) => hindered = Some(found),
        }
        stopping.notify_one();
    };
    let supervision = supervise::run(options, print, shutdown);
    tokio::select! {
        ended = supervision => ended?,
        () = async { stopping.notified().await; Stop::again().await } => return Err(left_running(root)),
    }
    if let Some(failure) = hindered {
        return Err(failure);
    }
    say(&format!("stopped; the data stays in {}", root.path().display()));
    Ok(())
}

/// Is this the file that the cluster in this root was last run by?
fn is_last(root: &Root, path: &Path) -> bool {
    let last = control::manifest_path(root.path()).ok();
    last.is_some() && last == std::path::absolute(path).ok()
}

/// The manifest to run: the one named, the root's, the one the root was last run by, or a new one. It may be broken or
/// missing where the cluster goes on without it.
fn choose_manifest(
    root: &Root,
    (file, yes): (Option<PathBuf>, bool),
    etcd: Option<&Path>,
    say: &dyn Fn(&str),
) -> Result<PathBuf, Failure> {
    let own = root.manifest();
    if let Some(path) = file.or_else(|| own.exists().then(|| own.clone())) {
        // The supervisor judges it again; here nothing has been made yet that a refusal would leave behind.
        let manifest = match Manifest::read(&path) {
            Ok(manifest) => manifest,
            // The supervisor shows the fault, keeps the members up meanwhile, and waits for the file to be mended. A file
            // that is not there may be a slip of the pen, unless it is the one that the cluster was last run by.
            Err(_)
                if control::manifest_is_remembered(root.path())
                    && (path.exists() || is_last(root, &path)) =>
            {
                return Ok(path);
            }
            Err(failure) => return Err(failure),
        };
        ask_about_many(manifest.cluster().replicas, yes || has_many(root))?;
        if !root.journal().exists() {
            let version = manifest.cluster().version.to_string().parse().ok();
            find::find_etcd(version, &Places::of(Some(root.path()), etcd, None))?;
        }
        return Ok(path);
    }
    if root.journal().exists() {
        let remembered = control::manifest_is_remembered(root.path());
        let last = control::manifest_path(root.path()).ok();
        let last = last.or_else(|| remembered.then_some(own));
        return last.filter(|path| remembered || path.is_file()).ok_or_else(|| {
            Failure::usage(format!(
                "{} holds a cluster, but its manifest is gone",
                root.path().display()
            ))
            .and("Give it with `quorate up -f cluster.yaml`; a new one is not made up over data.")
        });
    }
    let found = find::find_etcd(None, &Places::of(Some(root.path()), etcd, None))?;
    let version = semver::Version::new(
        found.version.major.into(),
        found.version.minor.into(),
        found.version.patch.into(),
    );
    let text = quorate_api::default_manifest(NAME, REPLICAS, &version);
    let made = make_private(root.path()).and_then(|()| manifest::create(&own, &text));
    made.map_err(|source| {
        Failure::from(quorate_host::Error::Root {
            path: root.path().to_owned(),
            source,
        })
    })?;
    say(&format!(
        "wrote {}: {REPLICAS} members, etcd {version}, TLS",
        own.display()
    ));
    Ok(own)
}

/// Did the cluster in `root` have many members before? A user who agreed to that is not asked at every start; and where that
/// is not known, a cluster that exists is not kept from starting.
fn has_many(root: &Root) -> bool {
    match control::read_status(root.path()) {
        Ok(Some(status)) => status.spec.replicas > MANY,
        Ok(None) | Err(_) => root.journal().exists(),
    }
}

fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

fn left_running(root: &Root) -> Failure {
    let option = roots::option(root);
    Failure::failed(
        "asked a second time before all members had stopped: those that still run are left running",
    )
    .and(&format!(
        "`quorate up{option}` takes them over, `quorate down{option}` stops them."
    ))
}
