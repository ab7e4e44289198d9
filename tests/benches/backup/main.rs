//! Backups in figures: `make bench-backup`. Ratios against etcdbrctl in one run, printed; never a verdict.
//!
//! A real etcd is written to; quorate and etcdbrctl copy it whole and then write down the same changes, each into its own
//! archive in a directory, both as they are by default. Every command is timed until its data is on the disk, in turns
//! with its peer; the best of the rounds counts for both. `QUORATE_BENCH_MB` (a list, e.g. `100,400`) takes other sizes,
//! `QUORATE_BENCH_PUTS` (e.g. `64`) other numbers of puts a revision, `QUORATE_BENCH_ROUNDS` another number of rounds.
//! The agent under load comes first, for `QUORATE_BENCH_SECONDS` each; a list of sizes that is `0` leaves out the rest.

mod history;
mod load;
mod tools;

use history::{History, Shape, bytes_below};
use quorate_testkit::{etcdbrctl, newest};
use quorate_tests::measure::{Best, Watched, limited, settle, timed};
use tools::{Agent, Ours, Theirs, copied, fresh};

/// Changes written after the base, at most: single puts are slow to make.
const CHANGED_MB: u64 = 400;
const CHANGED_SINGLY_MB: u64 = 100;

fn main() {
    let rounds = list("QUORATE_BENCH_ROUNDS", "2").first().copied().unwrap_or(2);
    let version = newest("3.5");
    let peer = etcdbrctl();
    let peer = peer
        .parent()
        .and_then(|home| home.file_name())
        .unwrap_or_default();
    println!(
        "etcd {version}; etcdbrctl {}; best of {rounds}, data on the disk",
        peer.display()
    );
    load::all(&version);
    for base_mb in list("QUORATE_BENCH_MB", "100,400,2000") {
        if base_mb == 0 {
            continue;
        }
        for puts in list("QUORATE_BENCH_PUTS", "64,1") {
            let changed_mb = base_mb.min(if puts == 1 { CHANGED_SINGLY_MB } else { CHANGED_MB });
            let shape = Shape {
                base_mb,
                changed_mb,
                puts,
            };
            run(shape, &version, rounds);
        }
    }
}

fn list(name: &str, or: &str) -> Vec<u64> {
    let text = std::env::var(name).unwrap_or_else(|_| or.to_owned());
    let number = |part: &str| {
        part.trim()
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a list of numbers"))
    };
    text.split(',').map(number).collect()
}

fn run(shape: Shape, version: &str, rounds: u64) {
    let mut history = History::begin(shape, version);
    println!(
        "\n{} MB, then {} MB of changes, {} puts a revision",
        shape.base_mb, shape.changed_mb, shape.puts
    );
    let case = format!("{}mb_{}puts", shape.base_mb, shape.puts);
    let (theirs, ours) = fulls(&history, rounds, &case);
    let mut writer = theirs.write(&history.server);
    writer.await_said("Successfully saved full snapshot");
    let agent = Agent::start(&ours, &history.server);
    let (agent_memory, writer_memory) = (Watched::start(agent.pid()), Watched::start(writer.pid()));
    let (last, changed) = history.change();
    agent.stop_at(last);
    writer.stop_at(last);
    let most = (agent_memory.most(), writer_memory.most());
    // All but full copies: deltas, and what tells of them.
    let of_theirs = bytes_below(&theirs.root(), &|name| name.starts_with("Incr"));
    let of_ours = bytes_below(&ours.root(), &|name| !name.ends_with(".full"));
    println!(
        "  archive   {:.2} bytes for each byte changed, etcdbrctl {:.2}; agent RssAnon {:.1} MiB, etcdbrctl {:.0} MiB",
        of_ours as f64 / changed as f64,
        of_theirs as f64 / changed as f64,
        mib(most.0),
        mib(most.1),
    );
    // What is measured from here on is not to be disturbed.
    let history = history.stop();
    restores(&history, &theirs, &ours, rounds, shape.puts, &case);
    compacts(&history, &theirs, &ours, rounds, &case);
    verifies(&history, &ours, rounds);
}

/// Full copies, each into an empty store. Out: the archives that changes go into.
fn fulls(history: &History, rounds: u64, case: &str) -> (Theirs, Ours) {
    let (mut of_theirs, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let theirs = Theirs::below(&fresh(&history.path("theirs")));
        settle(history.root());
        let began = std::time::Instant::now();
        let mut writer = theirs.write(&history.server);
        let anonymous = writer.await_said("Successfully saved full snapshot");
        settle(history.root());
        of_theirs.push(Best {
            seconds: began.elapsed().as_secs_f64(),
            anonymous,
        });
        drop(writer);
        let ours = Ours::at(&fresh(&history.path("ours")));
        of_ours.push(timed(&mut ours.now(&history.server), history.root()));
    }
    let small = limited(Ours::at(&fresh(&history.path("ours-small"))).now(&history.server));
    let _ = std::fs::remove_dir_all(history.path("ours-small"));
    report("full", 1.5, &of_ours, &of_theirs, &small, case);
    let theirs = Theirs::below(&fresh(&history.path("theirs")));
    (theirs, Ours::at(&history.path("ours")))
}

fn restores(history: &history::Stopped, theirs: &Theirs, ours: &Ours, rounds: u64, puts: u64, case: &str) {
    let (mut of_theirs, mut of_ours, mut from_theirs) = (Vec::new(), Vec::new(), Vec::new());
    let to = |name: &str| {
        let path = history.path(name);
        let _ = std::fs::remove_dir_all(&path);
        path
    };
    for _ in 0..rounds {
        of_theirs.push(timed(&mut theirs.restore(&to("theirs.etcd")), history.root()));
        to("theirs.etcd");
        of_ours.push(timed(&mut ours.restore(&to("ours.etcd")), history.root()));
        let foreign = Ours::at(&theirs.root());
        from_theirs.push(timed(&mut foreign.restore(&to("ours.etcd")), history.root()));
    }
    let small = limited(ours.restore(&to("ours.etcd")));
    report(
        "restore",
        if puts == 1 { 25.0 } else { 10.0 },
        &of_ours,
        &of_theirs,
        &small,
        case,
    );
    let small = limited(Ours::at(&theirs.root()).restore(&to("ours.etcd")));
    report("of theirs", 3.0, &from_theirs, &of_theirs, &small, case);
    to("ours.etcd");
}

fn compacts(history: &history::Stopped, theirs: &Theirs, ours: &Ours, rounds: u64, case: &str) {
    let (mut of_theirs, mut of_ours) = (Vec::new(), Vec::new());
    let scratch = fresh(&history.path("scratch"));
    for _ in 0..rounds {
        // Each begins with what was there before the other one.
        let again = Theirs::below(&copied(theirs.home(), &history.path("theirs-again")));
        of_theirs.push(timed(&mut again.compact(), history.root()));
        let _ = std::fs::remove_dir_all(again.home());
        let again = Ours::at(&copied(&ours.root(), &history.path("ours-again")));
        of_ours.push(timed(&mut again.compact(&scratch), history.root()));
    }
    let again = Ours::at(&copied(&ours.root(), &history.path("ours-again")));
    let small = limited(again.compact(&scratch));
    report("compact", 15.0, &of_ours, &of_theirs, &small, case);
}

/// etcdbrctl has nothing like it: read to the last byte, rebuilt, hashed.
fn verifies(history: &history::Stopped, ours: &Ours, rounds: u64) {
    let scratch = fresh(&history.path("scratch"));
    let taken: Vec<Best> = (0..rounds)
        .map(|_| timed(&mut ours.verify(&scratch), history.root()))
        .collect();
    let best = Best::of(&taken);
    let bytes = bytes_below(&ours.root(), &|_| true);
    println!(
        "  verify    {:.2} s, {:.0} MB/s of the archive; RssAnon {:.1} MiB; in a cgroup of 128 MiB: {}",
        best.seconds,
        bytes as f64 / 1e6 / best.seconds,
        mib(best.anonymous),
        limited(ours.verify(&scratch)),
    );
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn report(what: &str, target: f64, ours: &[Best], theirs: &[Best], small: &str, case: &str) {
    let (ours, theirs) = (Best::of(ours), Best::of(theirs));
    println!(
        "  {what:<9} {:.2} s, etcdbrctl {:.2} s: {:.1} times as fast (target {target}); RssAnon {:.1} MiB, etcdbrctl \
         {:.0} MiB; in a cgroup of 128 MiB: {small}",
        ours.seconds,
        theirs.seconds,
        theirs.seconds / ours.seconds,
        mib(ours.anonymous),
        mib(theirs.anonymous),
    );
    println!(
        "figures: {0}_{case}_s={1:.2}; {0}_{case}_times={2:.1}; {0}_{case}_rss_mib={3:.1}",
        what.replace(' ', "_"),
        ours.seconds,
        theirs.seconds / ours.seconds,
        mib(ours.anonymous),
    );
}
