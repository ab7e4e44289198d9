//! `quorate backup …` as clap reads it. Flags mean what they mean to etcdctl and etcdutl, where those have them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::Form;
use super::member::NewMember;
use super::snapshot::revision;
use crate::duration;

#[derive(Debug, Args)]
#[command(after_help = "\
URL says where the archive is:
  file:///var/backups/etcd
  s3://bucket/prefix?region=eu-west-1  also endpoint=, pathStyle=, ca=, credentials=, profile=
  gs://bucket/prefix?credentials=FILE          az://container/prefix?account=A&credentials=FILE
Without credentials=FILE the usual environment variables are asked, then the machine.

Examples:
  quorate backup run file:///var/backups/etcd
  quorate backup restore file:///var/backups/etcd --data-dir new --to-time '10m ago'")]
pub struct Backup {
    #[command(subcommand)]
    pub command: BackupCommand,
}

/// The commands on archives.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Write a live cluster's history into an archive, until stopped
    Run(Box<Run>),
    /// Take a full copy now
    Now(Now),
    /// Show what an archive holds, and which points it leads back to
    List(List),
    /// Prove that an archive can be restored, and record that in it
    Verify(Verify),
    /// Make data directories that etcd starts from, at any revision or time
    Restore(Box<Restore>),
    /// Make a new full copy of an old one and the changes after it
    Compact(Compact),
    /// Delete expired backups from an archive
    Prune(Prune),
    /// Copy an archive into another store; what is there already is not copied again
    Copy(Copy),
    /// Put back on a live cluster what vanished or changed under a prefix between two points
    Undo(Box<Undo>),
}

/// Where an archive is.
#[derive(Debug, Args)]
pub struct Place {
    /// The URL of the archive
    #[arg(value_name = "URL")]
    pub url: String,
    /// The key that its objects are encrypted with: a file of 64 hexadecimal digits, kept elsewhere
    #[arg(
        long,
        value_name = "FILE",
        env = "QUORATE_BACKUP_KEY_FILE",
        hide_env_values = true
    )]
    pub key_file: Option<PathBuf>,
    /// How long to go on asking a store that does not answer
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse)]
    pub patience: Duration,
}

#[derive(Debug, Args)]
pub struct Members {
    /// Client URLs of some members [default: those of the cluster under --root]
    #[arg(long, alias = "endpoint", value_name = "URL,…", value_delimiter = ',')]
    pub endpoints: Vec<String>,
    #[command(flatten)]
    pub secrets: Secrets,
}

/// How members are spoken to.
#[derive(Debug, Args)]
pub struct Secrets {
    /// The CAs that their certificates are verified against
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// The certificate to ask with
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// The user to ask as; a password is better given in ETCDCTL_PASSWORD
    #[arg(long, value_name = "NAME[:PASSWORD]")]
    pub user: Option<String>,
    /// The password of that user
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "ETCDCTL_PASSWORD",
        hide_env_values = true,
        hide = true
    )]
    pub password: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without --endpoints it follows the cluster under --root. Stopped with Ctrl-C or SIGTERM it writes what it has and ends.

Examples:
  quorate backup run file:///var/backups/etcd --keep 7d,30d:1d
  quorate backup run 's3://bucket/etcd?region=eu-west-1' --endpoints https://10.0.0.1:2379,https://10.0.0.2:2379 \\
      --cacert ca.crt --cert c.crt --key c.key --metrics-listen 127.0.0.1:9379")]
pub struct Run {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub members: Members,
    /// When full copies are taken, as cron says it, in UTC
    #[arg(long, value_name = "CRON", default_value = quorate_backup::agent::SCHEDULE)]
    pub schedule: String,
    /// How long a change may wait until it is in the archive
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = quorate_api::parse_backup_period)]
    pub period: Duration,
    /// Write earlier once so many bytes of changes wait
    #[arg(long, value_name = "BYTES", default_value_t = quorate_backup::agent::SIZE, value_parser = clap::value_parser!(u64).range(1 << 16..=1 << 32))]
    pub max_bytes: u64,
    /// Prune each hour: every revision of 7d, then one full copy a day for 30d; may be given again
    #[arg(long, alias = "retention", value_name = "7d,30d:1d,…", value_delimiter = ',')]
    pub keep: Vec<String>,
    /// Serve /metrics for Prometheus here
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,
    /// Go on in an archive of another cluster, in a new timeline
    #[arg(long)]
    pub new_timeline: bool,
    /// Of whom etcd's hash is asked after a full copy: it keeps a large member from writing for seconds
    #[arg(long, value_enum, default_value_t = AskHash::Follower)]
    pub hash: AskHash,
    /// Write how it is to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub status_file: Option<PathBuf>,
    /// Take over at once from an agent that still runs, instead of standing by until it is silent for a minute
    #[arg(long)]
    pub take_over: bool,
    /// What this agent is called
    #[arg(long, value_name = "NAME", hide = true)]
    pub writer: Option<String>,
    /// End when the process that started this one does
    #[arg(long, hide = true)]
    pub supervised: bool,
}

/// Of whom a hash is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AskHash {
    Follower,
    Anyone,
    Nobody,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate backup now file:///var/backups/etcd
  quorate backup now file:///var/backups/etcd --endpoints http://127.0.0.1:2379 -o json")]
pub struct Now {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub members: Members,
    /// Go on in an archive of another cluster, in a new timeline
    #[arg(long)]
    pub new_timeline: bool,
    /// Of whom etcd's hash is asked
    #[arg(long, value_enum, default_value_t = AskHash::Follower)]
    pub hash: AskHash,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 shown, 1 not readable, or something in its log is damaged.

Examples:
  quorate backup list file:///var/backups/etcd
  quorate backup list file:///var/backups/etcd --deltas -o json | jq '.timelines[].gaps'")]
pub struct List {
    #[command(flatten)]
    pub place: Place,
    /// Show each delta, not only how many follow each full copy
    #[arg(long)]
    pub deltas: bool,
    /// Show only this timeline
    #[arg(long, value_name = "N")]
    pub timeline: Option<u32>,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

/// How far something is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Every object is what was written
    Read,
    /// A database is rebuilt, and its hash is right
    Rebuilt,
    /// A real etcd serves it
    Served,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 proven, 1 damaged or not readable.

Examples:
  quorate backup verify file:///var/backups/etcd
  quorate backup verify file:///var/backups/etcd --level served --etcd /usr/bin/etcd")]
pub struct Verify {
    #[command(flatten)]
    pub place: Place,
    /// How far the proof goes
    #[arg(long, value_enum, default_value_t = Level::Rebuilt)]
    pub level: Level,
    /// Which timeline [default: the newest]
    #[arg(long, value_name = "N")]
    pub timeline: Option<u32>,
    /// Hold every full copy against the one before it, not only the newest
    #[arg(long)]
    pub every_full: bool,
    /// Do not record in the archive what was proven
    #[arg(long)]
    pub no_record: bool,
    /// Where the database is rebuilt [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// The etcd that serves it, instead of looking for one
    #[arg(long, value_name = "PATH")]
    pub etcd: Option<PathBuf>,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("point").args(["to_revision", "to_time"]))]
#[command(after_help = "\
What will be used, and which point it leads to, is said before anything is written. Where no data directory of a member
is named, the flags mean what they mean to `etcdutl snapshot restore`.

Examples:
  quorate backup restore file:///var/backups/etcd --data-dir new
  quorate backup restore file:///var/backups/etcd --data-dir new --to-time '10m ago' --dry-run
  quorate backup restore file:///var/backups/etcd --data-dir members --every-member \\
      --initial-cluster m1=http://10.0.0.1:2380,m2=http://10.0.0.2:2380 --initial-cluster-token again")]
pub struct Restore {
    #[command(flatten)]
    pub place: Place,
    /// The data directory to make; with --every-member, the directory that they go into
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// To this revision [default: the last]
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    pub to_revision: Option<i64>,
    /// To the last revision known to be there by this time, such as 2026-05-02T10:00:00Z or '10m ago'
    #[arg(long, value_name = "TIME", value_parser = super::moment::parse)]
    pub to_time: Option<jiff::Timestamp>,
    /// Of this timeline [default: the newest]
    #[arg(long, value_name = "N")]
    pub timeline: Option<u32>,
    /// Whose it is to be.
    #[command(flatten)]
    pub member: NewMember,
    /// Make one for each of --initial-cluster: DIR/NAME
    #[arg(long, conflicts_with_all = ["name", "initial_advertise_peer_urls", "wal_dir"])]
    pub every_member: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Go on where one would be asked
    #[arg(short, long)]
    pub yes: bool,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate backup compact file:///var/backups/etcd")]
pub struct Compact {
    #[command(flatten)]
    pub place: Place,
    /// Up to this revision [default: the last]
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    pub to_revision: Option<i64>,
    /// Which timeline [default: the newest]
    #[arg(long, value_name = "N")]
    pub timeline: Option<u32>,
    /// Keep what the old one and the changes have of older values, too: any revision between stays within reach of it
    #[arg(long)]
    pub keep_history: bool,
    /// Where the database is put together [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(after_help = "\
7d: every revision of the last seven days. 30d:1d: for thirty days one full copy of each day. Whatever is asked for, the
newest chain that was proven and the newest full copy stay.
What is given up is recorded first and deleted by the first prune after the grace, so that whatever still reads it can
end. Objects that the store keeps locked are reported, and tried again next time.

Examples:
  quorate backup prune file:///var/backups/etcd --keep 7d,30d:1d --dry-run
  quorate backup prune file:///var/backups/etcd --keep 7d,30d:1d,1y:30d")]
pub struct Prune {
    #[command(flatten)]
    pub place: Place,
    /// What stays reachable; without it, only what was given up before is deleted
    #[arg(long, alias = "retention", value_name = "7d,30d:1d,…", value_delimiter = ',')]
    pub keep: Vec<String>,
    /// How long after it is recorded an object is deleted
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse)]
    pub grace: Duration,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Copied again, only what is new is copied. What is damaged is reported, and not copied.

Examples:
  quorate backup copy file:///var/backups/etcd 's3://bucket/etcd?region=eu-west-1'")]
pub struct Copy {
    #[command(flatten)]
    pub place: Place,
    /// The URL to copy to
    #[arg(value_name = "TO-URL")]
    pub to: String,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Keys under the prefix that were at --from and are gone or changed at --to are put back as they were. Whatever was changed
again since --to is left alone and listed. Keys that were new at --to stay, unless --delete-new is given. Nothing is
written without --apply.

Examples:
  quorate backup undo file:///var/backups/etcd --prefix /registry/secrets/ --from '20m ago' --to '10m ago' \\
      --into http://127.0.0.1:2379
  quorate backup undo file:///var/backups/etcd --prefix app/ --from 811 --to 900 --into http://127.0.0.1:2379 --apply")]
pub struct Undo {
    #[command(flatten)]
    pub place: Place,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY")]
    pub prefix: OsString,
    /// The point before: a revision, or a time such as 2026-05-02T10:00:00Z or '10m ago'
    #[arg(long, value_name = "POINT", value_parser = super::moment::point)]
    pub from: super::moment::Point,
    /// The point after the mistake
    #[arg(long, value_name = "POINT", value_parser = super::moment::point)]
    pub to: super::moment::Point,
    /// Client URLs of the live cluster
    #[arg(long, value_name = "URL,…", value_delimiter = ',', required = true)]
    pub into: Vec<String>,
    /// How it is spoken to.
    #[command(flatten)]
    pub secrets: Secrets,
    /// Of this timeline [default: the newest]
    #[arg(long, value_name = "N")]
    pub timeline: Option<u32>,
    /// Delete keys that were not there at --from, too
    #[arg(long)]
    pub delete_new: bool,
    /// Apply the changes instead of only showing them
    #[arg(long)]
    pub apply: bool,
    /// Go on where one would be asked
    #[arg(short, long)]
    pub yes: bool,
    /// Where the states are rebuilt [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}
