//! The agent: one cluster's every change into its archive, as it happens.
//!
//! In: a cluster, a store. Out: an archive that is never more than a period behind while the store takes writes, and
//! that says honestly what it lacks. Nothing of it is ever in etcd's way: what cannot be stored yet stays in etcd's own
//! history.
//!
//! [`run`] opens the archive, becomes its writer or stands by, and works: a watch of the whole keyspace goes into deltas
//! (changes), these into the store and its log (writer), full copies beside them (full), the clock and the terms of
//! leases with them (ask). What it decides is apart from what it does (decide).
//! Never: two agents at one timeline; a revision left out without a record of it.

mod ask;
pub(crate) mod changes;
mod cluster;
pub(crate) mod decide;
mod full;
mod heartbeat;
mod instance;
mod note;
mod open;
mod serve;
mod status;
mod work;
mod writer;

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use quorate_client::Refusal;
use tokio::sync::watch;

use crate::format::object::Key;
use crate::{Error, Store, Trouble};

pub use cluster::{Answering, Cluster, Find, Reach};
pub use decide::{Pace, SILENT};
pub use full::schedule::Schedule;
pub use full::{AskHash, AtLeast, TakeFull, take_full};
pub use instance::Instance;
pub use open::{Opening, Place, open};
pub use status::{Board, Mark, State, Status};

use decide::Claimant;
use open::Claimed;
use status::describe;
use work::End;

/// How often changes are flushed, if nothing else is said.
pub const PERIOD: Duration = Duration::from_secs(20);
pub const PERIOD_MIN: Duration = Duration::from_secs(1);
/// How large a delta may grow before it is flushed, if nothing else is said.
pub const SIZE: u64 = 4 << 20;
/// When full copies are taken, if nothing else is said: every day at midnight, UTC.
pub const SCHEDULE: &str = "0 0 * * *";

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What an agent needs.
#[derive(Clone)]
pub struct Options {
    pub store: Store,
    /// The key that its objects are sealed with.
    pub key: Option<Key>,
    pub cluster: Cluster,
    /// Who writes, for people.
    pub writer: String,
    /// How often, and how much at a time.
    pub pace: Pace,
    /// When full copies are due.
    pub schedule: Schedule,
    /// Of whom a hash is asked with each full copy.
    pub hash: AskHash,
    /// Go on in another cluster's archive, in a new timeline.
    pub adopt: bool,
    /// Take over at once also from an agent whose heartbeat is fresh.
    pub take_over: bool,
    pub listen: Option<SocketAddr>,
    /// Where it says how it is.
    pub board: Board,
}

impl Options {
    /// For this cluster and store, with nothing else said.
    pub fn new(store: Store, cluster: Cluster) -> Options {
        Options {
            store,
            key: None,
            cluster,
            writer: default_writer(),
            pace: Pace {
                period: PERIOD,
                size: SIZE,
            },
            schedule: Schedule::parse(SCHEDULE).unwrap_or_default(),
            hash: AskHash::default(),
            adopt: false,
            take_over: false,
            listen: None,
            board: Board::default(),
        }
    }
}

pub fn default_writer() -> String {
    let name = rustix::system::uname();
    format!("{}/agent", name.nodename().to_string_lossy())
}

/// Runs the agent until `shutdown`; then it flushes what it has and ends.
///
/// What cannot become right by itself is an error, as long as nothing was written: a foreign archive, a store that does
/// not know us, settings that cannot be. Later only the caller ends it: whatever fails is tried again and shown.
pub async fn run(options: Options, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    if options.pace.period < PERIOD_MIN {
        return Err(Error::refused(
            format!("a period of {:?} is too short", options.pace.period),
            "choose one second or more",
        ));
    }
    options
        .board
        .update(|status| status.store = options.store.describe().to_owned());
    let server = match options.listen {
        None => None,
        Some(address) => {
            let listener = serve::bind(address).await?;
            Some(tokio::spawn(serve::serve(listener, options.board.clone())))
        }
    };
    let (stopping, stop) = watch::channel(false);
    let ended = {
        let mut running = std::pin::pin!(keep_working(&options, stop));
        tokio::select! {
            ended = &mut running => ended,
            () = shutdown => {
                let _ = stopping.send(true);
                running.await
            }
        }
    };
    options.board.update(|status| status.state = State::Stopped);
    if let Some(server) = server {
        server.abort();
    }
    ended
}

async fn keep_working(options: &Options, mut stop: watch::Receiver<bool>) -> Result<(), Error> {
    let mut once = Once {
        instance: Instance::begin(),
        relieved: false,
        worked: false,
        other: None,
    };
    let mut tries = 0;
    loop {
        match work_once(options, &mut once, &mut stop).await {
            Ok(End::Stopped) => return Ok(()),
            Ok(End::Relieved) => (once.relieved, tries) = (true, 0),
            Ok(End::Reopen | End::Another) => tries = 0,
            Err(error) if !once.worked && is_final(&error) => return Err(error),
            Err(error) => {
                tries += 1;
                options
                    .board
                    .failed("opening the archive", &error, Timestamp::now());
            }
        }
        options.board.update(|status| status.state = State::Starting);
        let pause = decide::pause(tries.max(1), FIRST_PAUSE, LONGEST_PAUSE);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        }
    }
}

/// What is known from one time to the next.
struct Once {
    instance: Instance,
    /// Another agent took over before.
    relieved: bool,
    worked: bool,
    /// A timeline that is of another history than the cluster's.
    other: Option<u32>,
}

async fn work_once(
    options: &Options,
    once: &mut Once,
    stop: &mut watch::Receiver<bool>,
) -> Result<End, Error> {
    let opening = Opening {
        store: &options.store,
        key: options.key.as_ref(),
        cluster: &options.cluster,
        writer: &options.writer,
        adopt: options.adopt,
        other: once.other,
    };
    let mut place = tokio::select! {
        place = open(opening) => place?,
        _ = stop.wait_for(|stop| *stop) => return Ok(End::Stopped),
    };
    if !place.fenced {
        tracing::warn!(
            store = options.store.describe(),
            "this store creates one name twice: it cannot keep two agents apart, so run only one"
        );
    }
    let claimant = Claimant {
        instance: &once.instance,
        relieved: once.relieved,
        take_over: options.take_over,
    };
    let claimed = open::claim(&mut place, opening, claimant, &options.board, stop).await?;
    let epoch = match claimed {
        Claimed::Epoch(epoch) => epoch,
        Claimed::Stopped => return Ok(End::Stopped),
        Claimed::Elsewhere => return Ok(End::Reopen),
    };
    once.worked = true;
    let timeline = place.origin.timeline;
    let end = work::work(options, &options.cluster, place, epoch, stop).await?;
    if end == End::Another {
        once.other = Some(timeline);
    }
    Ok(end)
}

/// Trying again would not help.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Address { .. } | Error::Refused { .. } | Error::Damaged { .. } | Error::Data(_) => true,
        Error::Store { trouble, .. } => matches!(trouble, Trouble::Denied | Trouble::NoBucket),
        Error::Etcd(error) => matches!(
            error.refusal(),
            Refusal::AuthFailed | Refusal::PermissionDenied | Refusal::UserEmpty
        ),
        _ => false,
    }
}
