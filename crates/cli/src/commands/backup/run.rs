//! `quorate backup run URL`: the agent, until it is stopped.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use quorate_backup::agent::{self, Board, Options, Pace, Schedule, State, default_writer};
use quorate_backup::object::Key;
use quorate_backup::retention::Retention;
use quorate_backup::{Archive, Error, Store, prune};
use quorate_datadir::durable;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::prune::retention;
use super::{place, reach};
use crate::arguments::backup::{AskHash, Run};
use crate::failure::{Failure, chain};
use crate::signals::stop;
use crate::{log_lines, output_file};

/// How often what it says of itself is written, if it changes, and how often at least: who reads it sees that it lives.
const STATUS_PAUSE: Duration = Duration::from_secs(1);
const STATUS_REFRESH: Duration = Duration::from_secs(5);
/// How often it prunes, and how long after its start it does so first: a machine's clock may be set a while after that.
const PRUNE_PAUSE: Duration = Duration::from_secs(3600);
const PRUNE_FIRST: Duration = Duration::from_secs(900);
/// A clock that went on by so much more or less than time did was set: what is old is not judged by it just now.
const CLOCK_SET: Duration = Duration::from_secs(60);

pub async fn run(root: Option<PathBuf>, arguments: Run) -> Result<(), Failure> {
    if arguments.supervised {
        set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(|error| Failure::failed(format!("cannot end with the supervisor: {error}")))?;
    }
    log_lines::begin(log_lines::LogOptions::default());
    if let Some(file) = &arguments.status_file {
        output_file::check(file)?;
    }
    let keep = retention(&arguments.keep)?;
    let schedule = Schedule::parse(&arguments.schedule).map_err(|error| Failure::usage(chain(&error)))?;
    let key = place::key(&arguments.place)?;
    let store = place::store(&arguments.place.url, &arguments.place).await?;
    let cluster = reach::cluster(root, arguments.members)?;
    let board = Board::default();
    let options = Options {
        key: key.clone(),
        writer: arguments.writer.unwrap_or_else(default_writer),
        pace: Pace {
            period: arguments.period,
            size: arguments.max_bytes,
        },
        schedule,
        hash: hash(arguments.hash),
        adopt: arguments.new_timeline,
        take_over: arguments.take_over,
        listen: arguments.metrics_listen,
        board: board.clone(),
        ..Options::new(store.clone(), cluster)
    };
    let writer = options.writer.clone();
    let file = arguments.status_file.as_deref();
    let ended = tokio::select! {
        ended = agent::run(options, stop()) => ended,
        () = report(file, &board) => Ok(()),
        () = keep_pruned(keep, &store, key, &writer, &board) => Ok(()),
    };
    if let Some(file) = file {
        write(file, &board);
    }
    Ok(ended?)
}

/// Of whom a hash is asked.
pub fn hash(asked: AskHash) -> agent::AskHash {
    match asked {
        AskHash::Follower => agent::AskHash::Follower,
        AskHash::Anyone => agent::AskHash::Anyone,
        AskHash::Nobody => agent::AskHash::Nobody,
    }
}

/// Writes how it is, again and again. Never ends.
async fn report(file: Option<&Path>, board: &Board) {
    let Some(file) = file else {
        return std::future::pending().await;
    };
    let mut last = None;
    let mut ticks = tokio::time::interval(STATUS_PAUSE);
    loop {
        ticks.tick().await;
        let status = board.status();
        let fresh =
            |(written, at): &(agent::Status, Instant)| *written == status && at.elapsed() < STATUS_REFRESH;
        if !last.as_ref().is_some_and(fresh) {
            write(file, board);
            last = Some((status, Instant::now()));
        }
    }
}

fn write(file: &Path, board: &Board) {
    let mut report = serde_json::to_value(board.status()).unwrap_or_default();
    if let Some(fields) = report.as_object_mut() {
        fields.insert("writtenAt".to_owned(), Timestamp::now().to_string().into());
    }
    let text = serde_json::to_vec_pretty(&report).unwrap_or_default();
    if let Err(error) = durable::write_fast(file, &text) {
        tracing::debug!(error = chain(&error), "the status was not written");
    }
}

/// Prunes now and then while this agent writes. Never ends.
async fn keep_pruned(keep: Option<Retention>, store: &Store, key: Option<Key>, writer: &str, board: &Board) {
    if keep.is_none() {
        return std::future::pending().await;
    }
    let options = prune::Options {
        retention: keep,
        grace: prune::GRACE,
        writer: writer.to_owned(),
    };
    let mut clock = Watched::now();
    tokio::time::sleep(PRUNE_FIRST).await;
    loop {
        let before = std::mem::replace(&mut clock, Watched::now());
        if before.was_set(&clock) {
            tracing::warn!("the clock of this machine was set; pruning waits until the next time");
        } else if matches!(board.status().state, State::Writing) {
            match prune_once(store, key.clone(), &options).await {
                Ok(done) => tracing::info!(
                    given_up = done.given_up.objects,
                    deleted = done.deleted.objects + done.orphans.objects,
                    locked = done.locked.len(),
                    "pruned"
                ),
                Err(error) => tracing::warn!(error = chain(&error), "pruning failed; it will be tried again"),
            }
        }
        tokio::time::sleep(PRUNE_PAUSE).await;
    }
}

/// What the clock said at a moment.
#[derive(Debug, Clone, Copy)]
struct Watched {
    moment: Instant,
    clock: Timestamp,
}

impl Watched {
    fn now() -> Watched {
        Watched {
            moment: Instant::now(),
            clock: Timestamp::now(),
        }
    }

    /// Whether the clock was set between this and a later moment.
    fn was_set(&self, later: &Watched) -> bool {
        let passed = later.moment.saturating_duration_since(self.moment);
        let said = later.clock.duration_since(self.clock);
        let passed = jiff::SignedDuration::try_from(passed).unwrap_or(jiff::SignedDuration::MAX);
        said.saturating_sub(passed).unsigned_abs() > CLOCK_SET
    }
}

async fn prune_once(store: &Store, key: Option<Key>, options: &prune::Options) -> Result<prune::Done, Error> {
    let archive = Archive::open(store, key).await?;
    let now = Timestamp::now();
    let plan = prune::plan(&archive, options, now).await?;
    prune::run(&archive, options, &plan, now, |_| Ok(())).await
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use quorate_api::{BackupSettings, Ground};
    use serde_json::json;

    use super::*;
    use crate::arguments::backup::{Backup, BackupCommand};
    use crate::arguments::{Arguments, Command};

    #[test]
    fn a_clock_that_was_set_is_noticed() {
        let before = Watched::now();
        let later = |passed: u64, said: i64| Watched {
            moment: before.moment + Duration::from_secs(passed),
            clock: before.clock + jiff::SignedDuration::from_secs(said),
        };
        assert!(!before.was_set(&later(3600, 3600)));
        assert!(!before.was_set(&later(3600, 3630)));
        assert!(before.was_set(&later(3600, 3600 + 30 * 86_400)));
        assert!(before.was_set(&later(3600, -30 * 86_400)));
    }

    /// What the agent makes of these settings on its command line.
    fn taken(settings: &BackupSettings) -> Result<(), String> {
        let command = ["quorate", "backup", "run", "file:///a"].map(str::to_owned);
        let line = command.into_iter().chain(settings.flags());
        let arguments = Arguments::try_parse_from(line).map_err(|error| error.to_string())?;
        let Some(Command::Backup(Backup {
            command: BackupCommand::Run(run),
        })) = arguments.command
        else {
            return Err("another command".to_owned());
        };
        Schedule::parse(&run.schedule).map_err(|error| error.to_string())?;
        retention(&run.keep)
            .map(drop)
            .map_err(|error| format!("{error:?}"))
    }

    /// The agent would end at once, again and again, of settings that only the manifest takes.
    #[test]
    fn a_manifest_takes_the_settings_that_the_agent_takes_and_no_others() {
        type Steps<'a> = Vec<(&'a str, Option<&'a str>)>;
        let judge = |period: Option<&str>, schedule: Option<&str>, steps: Steps<'_>| {
            let retention: Vec<_> = steps
                .iter()
                .map(|(all, every)| match every {
                    None => json!({"for": all}),
                    Some(every) => json!({"for": all, "every": every}),
                })
                .collect();
            let storage = json!({"volumeClaimTemplate": {"resources": {"requests": {"storage": "8Gi"}}}});
            let manifest = json!({
                "apiVersion": quorate_api::API_VERSION, "kind": quorate_api::KIND, "metadata": {"name": "c"},
                "spec": {"replicas": 1, "version": "3.6.1", "storage": storage, "backup": {"deltas": {"period": period},
                    "schedule": schedule, "retention": retention}},
            })
            .to_string();
            let parsed = quorate_api::parse(&manifest, "m").unwrap();
            let judged = quorate_api::resolve(&parsed, Ground::Host, &manifest, "m");
            let keep = |(all, every): &(&str, Option<&str>)| match every {
                None => (*all).to_owned(),
                Some(every) => format!("{all}:{every}"),
            };
            let settings = BackupSettings {
                url: None,
                schedule: schedule.map(str::to_owned),
                period: period.map(str::to_owned),
                keep: steps.iter().map(keep).collect(),
            };
            if let Ok((cluster, _)) = &judged {
                assert_eq!(cluster.backup.as_ref(), Some(&settings));
            }
            assert_eq!(
                judged.as_ref().map(drop).map_err(ToString::to_string).is_ok(),
                taken(&settings).is_ok(),
                "{settings:?}: the manifest {judged:?}, the agent {:?}",
                taken(&settings)
            );
            judged.is_ok()
        };
        for (period, good) in [
            ("1s", true),
            ("1h", true),
            ("60m", true),
            ("1m30s", true),
            (" 20s ", true),
            ("0s", false),
            ("2h", false),
            ("3601s", false),
            ("1d", false),
            ("1w", false),
            ("+5s", false),
            ("5", false),
            ("", false),
        ] {
            assert_eq!(judge(Some(period), None, vec![]), good, "{period:?}");
        }
        for (schedule, good) in [
            ("0 */6 * * *", true),
            ("@daily", true),
            ("", false),
            ("@every 30m", false),
        ] {
            assert_eq!(judge(None, Some(schedule), vec![]), good, "{schedule:?}");
        }
        for (text, good) in [
            ("7d", true),
            ("4w", true),
            ("1y", true),
            ("1000y", true),
            (" 7d ", true),
            ("1001y", false),
            ("0d", false),
            ("+7d", false),
            ("1h30m", false),
            ("7", false),
            ("", false),
            ("99999999999999999999d", false),
        ] {
            assert_eq!(judge(None, None, vec![(text, None)]), good, "{text:?}");
            assert_eq!(judge(None, None, vec![("1000y", Some(text))]), good, "{text:?}");
        }
        let day = Some("1d");
        assert!(judge(
            None,
            None,
            vec![("7d", None), ("30d", day), ("30d", Some("30d"))]
        ));
        assert!(
            !judge(None, None, vec![("7d", None), ("8d", None)]),
            "two windows"
        );
        assert!(
            !judge(None, None, vec![("1d", Some("2d"))]),
            "every is longer than for"
        );
        assert!(judge(None, None, vec![("30d", day); 32]));
        assert!(!judge(None, None, vec![("30d", day); 33]));
    }
}
