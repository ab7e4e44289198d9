//! The command line as clap reads it. What is not offered here does not exist yet.

pub mod backup;
pub mod member;
pub mod moment;
pub mod snapshot;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use quorate_core::model::Version;
use quorate_pod::contract;

use crate::log_lines::LogOptions;
use crate::{duration, say};

const EXAMPLES: &str = "\
Examples:
  quorate up                  three members on this machine, with TLS; Ctrl-C stops them
  quorate status --watch      what they do, and why
  quorate scale 5             in another terminal, while `up` runs
  quorate explain NoQuorum    what a reason means, and what to do

Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 refused for safety.";

/// Runs etcd clusters and keeps them quorate.
#[derive(Debug, Parser)]
#[command(name = "quorate", version, after_help = EXAMPLES, styles = say::help_styles())]
#[command(max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Where the cluster lives [default: /var/lib/quorate for root, else ~/.local/state/quorate]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "QUORATE_ROOT",
        hide_env_values = true
    )]
    pub root: Option<PathBuf>,
}

impl Arguments {
    /// What `--help` prints, for who asked for nothing.
    pub fn help() -> String {
        Arguments::command().render_help().ansi().to_string()
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a cluster here until Ctrl-C; without a manifest, three members on loopback with TLS
    Up(Up),
    /// Show the members, what is being done, what is waited for, and why
    Status(Status),
    /// Say in one line whether the cluster serves, and exit with 1 if it does not
    Healthcheck,
    /// Show a member's log
    Logs(Logs),
    /// Change the number of members
    Scale(Scale),
    /// Change the etcd version, one member at a time
    Upgrade(Upgrade),
    /// Restart all members, one at a time
    Redeploy(Redeploy),
    /// Replace the CA of the certificates, without an outage
    Certs(Certs),
    /// Stop the cluster cleanly; its data stays
    Down,
    /// Explain a reason that `status` shows; without one, list them all
    Explain(Explain),
    /// Save, check, read, compare, restore or shrink a snapshot of etcd, or a stopped member's data
    Snapshot(snapshot::Snapshot),
    /// Write a cluster's whole history into an archive, and make any point of it a data directory again
    Backup(backup::Backup),
    /// Print what installs the operator on Kubernetes, as YAML for kubectl
    Install(Install),
    /// Print the version of quorate and of the etcd it can run
    Version,
    /// Run the Kubernetes operator, in a pod of its own
    Operator(Operator),
    /// Look at a member's volume in its pod, or wait there until etcd may start; for init containers
    Prepare(Prepare),
    /// Become a member's etcd process; for quorate itself
    #[command(hide = true)]
    LaunchMember(LaunchMember),
    /// Become a member's etcd process in its pod; for quorate itself
    #[command(hide = true)]
    LaunchInPod(LaunchInPod),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate up                          run DIR/cluster.yaml; if there is none, write one and run it
  quorate up -f cluster.yaml          run this manifest, and follow its changes
  quorate up --root /tmp/try --etcd ~/bin/etcd")]
pub struct Up {
    /// The manifest of the cluster (kind EtcdCluster) [default: cluster.yaml in the root]
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The etcd to run, instead of looking for one
    #[arg(long, value_name = "PATH")]
    pub etcd: Option<PathBuf>,
    /// More than 9 members: each write waits for more of them, and nothing gets safer
    #[arg(short, long)]
    pub yes: bool,
    /// How members are run
    #[arg(long, value_enum, default_value_t = Runner::Auto)]
    pub runner: Runner,
    #[command(flatten)]
    pub log: LogOptions,
}

/// How members are run. (Comments on the values would make `--help` twice as long.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Runner {
    // What suits this machine.
    Auto,
    // Processes that outlive a crash of quorate, and are found again.
    Child,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate status --watch
  quorate status -o json | jq '.members[] | select(.leader).name'")]
pub struct Status {
    /// Follow it: redrawn each second on a terminal, otherwise printed when it changes
    #[arg(short, long)]
    pub watch: bool,
    /// For people (table), or for programs; with --watch, one line of JSON or one document of YAML each
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
    /// Exit with 1 unless the cluster is healthy and as wanted, for scripts
    #[arg(long, conflicts_with = "watch")]
    pub exit_code: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    Table,
    Json,
    Yaml,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate logs etcd-0
  quorate logs etcd-0 -f --lines 0")]
pub struct Logs {
    /// The member, as `quorate status` names it
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Go on as it grows
    #[arg(short, long)]
    pub follow: bool,
    /// How many of its last lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 40)]
    pub lines: usize,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate scale 5
  quorate scale 1 --wait --timeout 2m")]
pub struct Scale {
    /// How many members; odd numbers survive most
    #[arg(value_name = "N", value_parser = members, allow_negative_numbers = true)]
    pub replicas: u32,
    /// More than 9 members: each write waits for more of them, and nothing gets safer
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub wait: Wait,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate upgrade 3.6.16
  quorate upgrade 3.7.3 --wait")]
pub struct Upgrade {
    /// The etcd version, as three numbers
    #[arg(value_name = "VERSION")]
    pub version: String,
    #[command(flatten)]
    pub wait: Wait,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate redeploy --reason 'new kernel, 2 May'")]
pub struct Redeploy {
    /// Why; members are restarted when this differs from the last time
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    #[command(flatten)]
    pub wait: Wait,
}

#[derive(Debug, Args)]
pub struct Certs {
    #[command(subcommand)]
    pub command: CertsCommand,
}

#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Make a new CA, trust it beside the present one, have it sign everything, then drop the present one
    Rotate(RotateCa),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate certs rotate --wait")]
pub struct RotateCa {
    #[command(flatten)]
    pub wait: Wait,
}

/// Waiting for a change.
#[derive(Clone, Copy, Debug, Args)]
pub struct Wait {
    /// Wait until it is done
    #[arg(long)]
    pub wait: bool,
    /// How long to wait at most
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration::parse, requires = "wait")]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate explain
  quorate explain LearnerCatchingUp
  quorate explain QuorumLost --on kubernetes")]
pub struct Explain {
    /// The reason, whatever the case of its letters
    #[arg(value_name = "REASON")]
    pub reason: Option<String>,
    /// Where it was seen [default: here, if a cluster is under --root or this is a pod; else both are printed]
    #[arg(long, value_name = "WHERE")]
    pub on: Option<SeenOn>,
}

/// Where a reason was seen.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SeenOn {
    Host,
    Kubernetes,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate install | kubectl apply -f -
  quorate install --webhook | kubectl apply -f -
  quorate install --namespace etcd-operator --image example/quorate:0.1.0 --replicas 2")]
pub struct Install {
    /// The operator's own namespace; clusters may live in any [default: quorate-system]
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    pub namespace: Option<String>,
    /// The image with quorate in it [default: quorate:VERSION]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub image: Option<String>,
    /// How many pods: one works, the others stand by [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9))]
    pub replicas: Option<u32>,
    /// With an admission webhook, which reports all faults of a manifest at once
    #[arg(long)]
    pub webhook: bool,
    /// Look after clusters in this namespace only, with rights there and nowhere else
    #[arg(long, value_name = "NAME", value_parser = namespace)]
    pub watch_namespace: Option<String>,
    /// With NetworkPolicies: for the operator, and with --watch-namespace for the members there
    #[arg(long)]
    pub network_policy: bool,
    /// Where the images of etcd come from; the tag is the version [default: quay.io/coreos/etcd]
    #[arg(long, value_name = "REPOSITORY", value_parser = image)]
    pub etcd_repository: Option<String>,
    /// A Secret to pull the operator's image with; may be given again
    #[arg(long, value_name = "NAME")]
    pub image_pull_secret: Vec<String>,
}

#[derive(Debug, Args)]
pub struct LaunchMember {
    /// What to launch, as JSON
    #[arg(long, value_name = "JSON")]
    pub spec: String,
}

/// `quorate prepare`.
/// Where the operator works, and how.
#[derive(Args, Debug)]
pub struct Operator {
    /// The operator's own namespace, where its Lease is
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "POD_NAMESPACE",
        default_value = "quorate-system"
    )]
    pub namespace: String,
    /// What this one is called among several operators
    #[arg(long, value_name = "NAME", env = "POD_NAME", default_value_t = whoami())]
    pub identity: String,
    /// Look after this namespace only
    #[arg(long, value_name = "NAMESPACE")]
    pub watch: Option<String>,
    /// The image of quorate, for the pods of members
    #[arg(long, value_name = "IMAGE", env = "QUORATE_IMAGE", default_value_t = quorate_operator::cluster::build::Images::default().quorate)]
    pub image: String,
    /// Where the images of etcd come from; the tag is the version
    #[arg(long, value_name = "REPOSITORY", default_value_t = quorate_operator::cluster::build::Images::default().etcd)]
    pub etcd_repository: String,
    /// Where /metrics and /readyz are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub listen: std::net::SocketAddr,
    /// Where admission reviews are served, as `install --webhook` sets it up; nowhere, if absent
    #[arg(long, value_name = "ADDRESS")]
    pub webhook: Option<std::net::SocketAddr>,
    /// How long certificates live, for tests: they are renewed when a third of it is left
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, hide = true)]
    pub leaf_lifetime: Option<std::time::Duration>,
    #[command(flatten)]
    pub log: LogOptions,
}

/// The host and the process: in a container every operator is process 1.
pub fn whoami() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    identity(host.trim(), std::process::id())
}

fn identity(host: &str, process: u32) -> String {
    let host = if host.is_empty() { "quorate" } else { host };
    format!("{host}-{process}")
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate prepare --look --generation 0 --report /dev/termination-log
  quorate prepare --generation 0 --version 3.6.16 --config 5f2c --pod-uid $POD_UID")]
pub struct Prepare {
    /// Only look, and report what lies on the volume
    #[arg(long)]
    pub look: bool,
    /// Where the volume is mounted
    #[arg(long, value_name = "DIR", default_value = contract::VOLUME_PATH)]
    pub volume: PathBuf,
    /// Which generation of the member's data is meant
    #[arg(long, value_name = "N")]
    pub generation: u32,
    /// With --look: say which minor could replay the log
    #[arg(long, requires = "look")]
    pub foretell: bool,
    /// How long to wait: with --look for an older pod to end [default: 35s], else for the go-ahead [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub patience: Option<Duration>,
    /// Where the report goes, or the reason of a failure
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The etcd version that the pod has, as three numbers
    #[arg(long, value_name = "VERSION", required_unless_present = "look")]
    pub version: Option<Version>,
    /// The digest of its configuration
    #[arg(long, value_name = "DIGEST", required_unless_present = "look")]
    pub config: Option<String>,
    /// The uid of the pod
    #[arg(long, value_name = "UID", required_unless_present = "look")]
    pub pod_uid: Option<String>,
    /// Whose pod it is, as NAMESPACE/CLUSTER/NAME; a volume of another member does not pass
    #[arg(long, value_name = "MEMBER")]
    pub member: Option<contract::MemberRef>,
    /// Where the operator's go-ahead appears
    #[arg(long, value_name = "FILE", default_value = contract::GO_PATH)]
    pub go: PathBuf,
    /// Where it appears what is known to be on the volume; one that has less was rolled back, and does not pass
    #[arg(long, value_name = "FILE")]
    pub reached: Option<PathBuf>,
    /// The directory that the containers of the pod share
    #[arg(long, value_name = "DIR", default_value = contract::SHARED_PATH)]
    pub shared: PathBuf,
    /// Whom the data is to belong to, where this runs as the superuser
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    pub owner: Option<(u32, u32)>,
}

#[derive(Debug, Args)]
pub struct LaunchInPod {
    /// The directory that the containers of the pod share
    #[arg(long, value_name = "DIR", default_value = contract::SHARED_PATH)]
    pub shared: PathBuf,
    /// How long to wait for another pod to leave the volume
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    pub patience: Duration,
    /// Where the reason of a refusal goes, if that is there
    #[arg(long, value_name = "FILE", default_value = contract::TERMINATION_LOG)]
    pub report: PathBuf,
    /// etcd and its arguments
    #[arg(last = true, required = true, value_name = "ETCD")]
    pub etcd: Vec<OsString>,
}

fn owner(text: &str) -> Result<(u32, u32), String> {
    let ids = text
        .split_once(':')
        .and_then(|(user, group)| Some((user.parse().ok()?, group.parse().ok()?)));
    ids.ok_or_else(|| "expected two numbers, such as 1000:1000".to_owned())
}

fn members(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(count) if count < 1 => {
            Err("a cluster has at least 1 member; `quorate down` stops all and keeps their data".to_owned())
        }
        Ok(count) => u32::try_from(count).map_err(|_| "that many members cannot exist".to_owned()),
        Err(_) => Err("expected a number of members, such as 3".to_owned()),
    }
}

fn namespace(text: &str) -> Result<String, String> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = !text.starts_with('-') && !text.ends_with('-');
    if (1..=63).contains(&text.len()) && text.bytes().all(inner) && ends {
        Ok(text.to_owned())
    } else {
        Err(
            "expected at most 63 lower-case letters, digits and '-', with a letter or digit at both ends"
                .to_owned(),
        )
    }
}

fn image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Err("expected the name of an image, such as example/quorate:0.1.0".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn operators_in_two_containers_are_told_apart() {
        assert_ne!(identity("a", 1), identity("b", 1));
        assert_eq!(identity("", 7), "quorate-7");
        assert_ne!(whoami(), identity("", std::process::id()), "the host has a name");
    }
}
