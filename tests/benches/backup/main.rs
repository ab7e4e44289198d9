//! Backups in figures: `make bench-backup`. Ratios against etcdbrctl in one run, printed; never a verdict.
//!
//! A real etcd is written to; quorate and etcdbrctl copy it whole and then write down the same changes, each into its own
//! archive in a directory. Every command is timed until its data is on the disk, in turns with its peer; the best of the
//! rounds counts for both. `QUORATE_BENCH_MB` (a list, e.g. `100,400`) takes other sizes, `QUORATE_BENCH_ROUNDS` another
//! number of rounds, `QUORATE_BENCH_PUTS` (e.g. `64`) other numbers of puts a revision.

mod history;

use history::{History, Shape, bytes_below};
use quorate_tests::measure::{Best, settle, timed};
use quorate_workloads::{EtcdbrArchive, newest};

fn main() {
    let list = |name: &str, or: &str| -> Vec<u64> {
        let text = std::env::var(name).unwrap_or_else(|_| or.to_owned());
        let number = |part: &str| {
            part.trim()
                .parse()
                .unwrap_or_else(|_| panic!("{name} is a list of numbers"))
        };
        text.split(',').map(number).collect()
    };
    let rounds = list("QUORATE_BENCH_ROUNDS", "2")[0];
    let version = newest("3.5");
    println!("etcd {version}; best of {rounds}, data on the disk\n");
    for base_mb in list("QUORATE_BENCH_MB", "100,400,2000") {
        for puts in list("QUORATE_BENCH_PUTS", "64,1") {
            let changed_mb = base_mb.min(if puts == 1 { 100 } else { 400 });
            let shape = Shape {
                base_mb,
                changed_mb,
                puts,
            };
            run(shape, &version, rounds);
        }
    }
}

fn run(shape: Shape, version: &str, rounds: u64) {
    let mut history = History::begin(shape, version);
    let theirs = history.etcdbr("theirs");
    settle(history.root());
    let began = std::time::Instant::now();
    let mut writer = theirs.write(&history.server, &["--delta-snapshot-period=20s"]);
    writer.await_said("Successfully saved full snapshot");
    settle(history.root());
    println!("etcdbr full {:.2} s", began.elapsed().as_secs_f64());
    let (last, bytes) = history.change();
    writer.stop_at(last);
    println!(
        "{shape:?} {bytes} bytes changed, archive {}",
        bytes_below(&theirs.root())
    );
    if let Ok(keep) = std::env::var("QUORATE_BENCH_KEEP") {
        let _ = std::process::Command::new("cp")
            .arg("-r")
            .arg(theirs.root())
            .arg(keep)
            .status();
    }
    for _ in 0..rounds {
        let to = history.path("theirs.etcd");
        let _ = std::fs::remove_dir_all(&to);
        let best = timed(&mut restore(&theirs, &to), history.root());
        println!("etcdbr restore {best:?}");
    }
}

fn restore(archive: &EtcdbrArchive, to: &std::path::Path) -> std::process::Command {
    let mut command = archive.command("restore");
    command.arg(format!("--data-dir={}", to.display()));
    command.arg(format!(
        "--restoration-temp-snapshots-dir={}",
        archive.root().with_file_name("restoring").display()
    ));
    command
}
