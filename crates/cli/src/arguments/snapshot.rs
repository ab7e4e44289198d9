//! `quorate snapshot …` as clap reads it. Flags mean what they mean to etcdctl and etcdutl, where those have them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::Form;
use super::member::NewMember;
use crate::duration;

#[derive(Debug, Args)]
#[command(after_help = "\
FILE is a snapshot, or the database of a stopped member; DIR is a stopped member's data directory.

Examples:
  quorate snapshot save etcd.db
  quorate snapshot verify etcd.db
  quorate snapshot get etcd.db /registry/configmaps/default/app --rev 811 --output-file app
  quorate snapshot restore etcd.db --data-dir /var/lib/etcd-new")]
pub struct Snapshot {
    #[command(subcommand)]
    pub command: SnapshotCommand,
}

/// The commands on snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Save the database of a live member, or of a stopped one, to a file
    Save(Save),
    /// Show a snapshot's hash, revision, number of keys, size and version
    Status(Status),
    /// Check every page, row and hash; say where the first fault is
    Verify(Verify),
    /// Print the hash that etcd's HashKV gives for the same revisions
    Hash(Hash),
    /// Print the value of a key, or of several
    Get(Get),
    /// List the keys of a snapshot
    Keys(Keys),
    /// Show what was added, changed and deleted between two snapshots, or two revisions of one
    Diff(Diff),
    /// Make a data directory that etcd starts from
    Restore(Restore),
    /// Rewrite a stopped member's database, or a snapshot, without its free space
    Defrag(Defrag),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without --endpoints it asks a healthy member of the cluster under --root, a follower if there is one.
A file that is there is replaced once the new one is whole and on the disk, and not before.

Examples:
  quorate snapshot save etcd.db
  quorate snapshot save etcd.db --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert c.crt --key c.key
  quorate snapshot save etcd.db --from-data-dir /var/lib/etcd")]
pub struct Save {
    /// Where to save it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The one member to ask
    #[arg(long, alias = "endpoint", value_name = "URL")]
    pub endpoints: Option<String>,
    /// The CAs that its certificate is verified against
    #[arg(long, value_name = "FILE", requires = "endpoints")]
    pub cacert: Option<PathBuf>,
    /// The certificate to ask with
    #[arg(long, value_name = "FILE", requires = "endpoints", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// The user to ask as; a password is better given in ETCDCTL_PASSWORD
    #[arg(long, value_name = "NAME[:PASSWORD]", requires = "endpoints")]
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
    /// How long to wait for the next piece
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub idle_timeout: Duration,
    /// Make it from a stopped member's data directory, with what is only in its log yet
    #[arg(long, value_name = "DIR", conflicts_with = "endpoints")]
    pub from_data_dir: Option<PathBuf>,
    /// Where that member's log is [default: in the data directory]
    #[arg(long, value_name = "DIR", requires = "from_data_dir")]
    pub wal_dir: Option<PathBuf>,
    /// The etcd that replays its log on a copy, where it takes one, instead of looking for one
    #[arg(long, value_name = "PATH", requires = "from_data_dir")]
    pub etcd: Option<PathBuf>,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate snapshot status etcd.db
  quorate snapshot status etcd.db -o json | jq .revision")]
pub struct Status {
    /// The snapshot, or a stopped member's data directory
    #[arg(value_name = "FILE|DIR")]
    pub path: PathBuf,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 intact, 1 damaged or not readable.

Examples:
  quorate snapshot verify etcd.db
  quorate snapshot verify /var/lib/etcd")]
pub struct Verify {
    /// The snapshot, or a stopped member's data directory
    #[arg(value_name = "FILE|DIR")]
    pub path: PathBuf,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Equal keys have equal hashes only where revision and compact revision are equal, too.

Examples:
  quorate snapshot hash etcd.db
  quorate snapshot hash etcd.db --rev 811 --compact-revision 500")]
pub struct Hash {
    /// The snapshot, or a stopped member's data directory
    #[arg(value_name = "FILE|DIR")]
    pub path: PathBuf,
    /// Hash keys as they were at this revision [default: the last]
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    pub rev: Option<i64>,
    /// Hash as a member does that is compacted to this revision [default: as the file is]
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    pub compact_revision: Option<i64>,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
pub struct Which {
    /// All keys that begin with KEY
    #[arg(long, conflicts_with = "from_key")]
    pub prefix: bool,
    /// All keys from KEY on, in the order of their bytes
    #[arg(long)]
    pub from_key: bool,
    /// KEY and END are written in hexadecimal digits
    #[arg(long)]
    pub hex: bool,
    /// As it was at this revision [default: the last]
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    pub rev: Option<i64>,
    /// At most so many [default: all]
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
One key's raw value is written byte for byte. Of several, each is written as etcdctl does: key, line break, value,
line break; -o json writes a line for each.

Examples:
  quorate snapshot get etcd.db /registry/configmaps/default/app --output-file app
  quorate snapshot get etcd.db app/ --prefix -o json
  quorate snapshot get etcd.db app/ app/m            from app/ up to app/m, without it")]
pub struct Get {
    /// The snapshot, or a stopped member's data directory
    #[arg(value_name = "FILE|DIR")]
    pub path: PathBuf,
    /// The key to look up
    #[arg(value_name = "KEY")]
    pub key: OsString,
    /// The end of a range, which is not in it
    #[arg(value_name = "END", conflicts_with_all = ["prefix", "from_key"])]
    pub end: Option<OsString>,
    #[command(flatten)]
    pub which: Which,
    /// How values are written
    #[arg(short, long, alias = "print", value_enum, default_value_t = Written::Raw)]
    pub output: Written,
    /// Write to this file instead, whole or not at all
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Written {
    Raw,
    Hex,
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate snapshot keys etcd.db
  quorate snapshot keys etcd.db /registry/pods/ --prefix --rev 811 -o json")]
pub struct Keys {
    /// The snapshot, or a stopped member's data directory
    #[arg(value_name = "FILE|DIR")]
    pub path: PathBuf,
    /// The key [default: all keys]
    #[arg(value_name = "KEY", required_if_eq_any = [("prefix", "true"), ("from_key", "true"), ("hex", "true")])]
    pub key: Option<OsString>,
    /// The end of a range, which is not in it
    #[arg(value_name = "END", conflicts_with_all = ["prefix", "from_key"])]
    pub end: Option<OsString>,
    #[command(flatten)]
    pub which: Which,
    /// For people (table), or for programs, a line of JSON for each key
    #[arg(short, long, value_enum, default_value_t = Lines::Table)]
    pub output: Lines,
}

/// Forms of output that may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lines {
    Table,
    Json,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("other").args(["b", "from"]).required(true).multiple(true))]
#[command(after_help = "\
A key is changed if its value or its lease is another. What is gone comes first, then what is new or changed, in the
order in which it was written.

Examples:
  quorate snapshot diff monday.db tuesday.db
  quorate snapshot diff etcd.db --from 811                 what happened since revision 811
  quorate snapshot diff etcd.db --from 811 --to 900 --prefix /registry/pods/ -o json")]
pub struct Diff {
    /// The snapshot, or a stopped member's data directory
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Another, that came after it [default: the same]
    #[arg(value_name = "B")]
    pub b: Option<PathBuf>,
    /// A's keys as they were at this revision [default: the last]
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    pub from: Option<i64>,
    /// B's keys as they were at this revision [default: the last]
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    pub to: Option<i64>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY")]
    pub prefix: Option<OsString>,
    /// For people (table), or for programs, a line of JSON for each key
    #[arg(short, long, value_enum, default_value_t = Lines::Table)]
    pub output: Lines,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate snapshot restore etcd.db --data-dir new
  quorate snapshot restore etcd.db --data-dir m1 --name m1 --initial-cluster-token again \\
      --initial-cluster m1=http://10.0.0.1:2380,m2=http://10.0.0.2:2380 \\
      --initial-advertise-peer-urls http://10.0.0.1:2380")]
pub struct Restore {
    /// The snapshot file to restore
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The data directory to make
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Whose it is to be.
    #[command(flatten)]
    pub member: NewMember,
    /// Go back to this revision, if it is not compacted
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    pub to_revision: Option<i64>,
    /// Do without the snapshot's digest, which a file copied from a data directory does not have
    #[arg(long)]
    pub skip_hash_check: bool,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate snapshot defrag /var/lib/etcd
  quorate snapshot defrag etcd.db")]
pub struct Defrag {
    /// A stopped member's data directory, or a snapshot
    #[arg(value_name = "DIR|FILE")]
    pub path: PathBuf,
    /// For people (table), or for programs
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

/// A revision of a store: the first one with a key in it is 2.
pub fn revision(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(number) if number >= 1 => Ok(number),
        _ => Err("expected a number from 1 on".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_positive() {
        assert_eq!(revision("1"), Ok(1));
        for bad in ["", "0", "-1", "x", "9223372036854775808"] {
            assert!(revision(bad).is_err(), "{bad}");
        }
    }
}
