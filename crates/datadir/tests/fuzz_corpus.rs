//! The whole corpus, and thousands of files that were one of it, through every target. `make fuzz` goes on from there.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use targets::{TARGETS, Target};

// What the fuzzer calls.
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

/// How many for each target; the same ones every time.
fn mutations() -> u64 {
    std::env::var("QUORATE_MUTATIONS")
        .ok()
        .map_or(1000, |n| n.parse().expect("QUORATE_MUTATIONS is a number"))
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 2, "{} has too little in it", directory.display());
    files
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// What real etcd wrote is read whole; what once broke a reader, kept as `broken-…`, is read without breaking one.
#[test]
fn the_corpus_is_read() {
    for (name, target) in TARGETS {
        for (path, bytes) in corpus(name) {
            let is_broken = path.file_name().unwrap().to_string_lossy().starts_with("broken-");
            assert!(target(&bytes) || is_broken, "{}", path.display());
        }
    }
}

#[test]
fn changed_databases_break_no_reader() {
    mutate(0);
}

#[test]
fn changed_logs_break_no_reader() {
    mutate(1);
}

#[test]
fn changed_snapshot_files_break_no_reader() {
    mutate(2);
}

fn mutate(index: usize) {
    let (name, target): (&str, Target) = TARGETS[index];
    let corpus: Vec<Vec<u8>> = corpus(name).into_iter().map(|(_, bytes)| bytes).collect();
    let mut whole = 0;
    for seed in 0..mutations() {
        let bytes = mutated(&corpus, seed);
        whole += u64::from(run(name, target, seed, &bytes));
    }
    println!(
        "{name}: {} changed files, {whole} of them still whole",
        mutations()
    );
    assert!(whole < mutations(), "no change was seen");
}

/// Runs a target; what breaks it is kept for another look.
fn run(name: &str, target: Target, seed: u64, bytes: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| target(bytes))).unwrap_or_else(|panic| {
        let path = std::env::temp_dir().join(format!("broken-{name}-{seed}"));
        fs::write(&path, bytes).unwrap();
        eprintln!(
            "the bytes are in {}: put them into fuzz/corpus/{name}",
            path.display()
        );
        std::panic::resume_unwind(panic)
    })
}

fn mutated(corpus: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut bytes = corpus[rng.usize(..corpus.len())].clone();
    for _ in 0..rng.usize(1..4) {
        if bytes.len() < 16 {
            return bytes;
        }
        let at = rng.usize(..bytes.len() - 8);
        // Most bytes of a file are zeros that nobody reads; most fields lie at the start of a page.
        let at = if rng.bool() {
            at
        } else {
            at / 1024 * 1024 + rng.usize(..128).min(bytes.len() - at - 8)
        };
        let at = at.min(bytes.len() - 8);
        match rng.u8(..8) {
            0 | 1 => bytes[at] ^= 1 << rng.u8(..8),
            2 => bytes[at] = rng.u8(..),
            3 => {
                let number = [0, 1, 2, 0xff, 0xffff, 0x7fff_ffff, u64::MAX, 1 << 63][rng.usize(..8)];
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            4 => bytes.truncate(at),
            5 => {
                let length = rng.usize(..512).min(bytes.len() - at);
                bytes[at..at + length].fill(if rng.bool() { 0 } else { 0xff });
            }
            6 => {
                let other = &corpus[rng.usize(..corpus.len())];
                let from = rng.usize(..other.len());
                let length = rng.usize(..1024).min(bytes.len() - at).min(other.len() - from);
                bytes[at..at + length].copy_from_slice(&other[from..from + length]);
            }
            _ => {
                let length = rng.usize(..64).min(bytes.len() - at);
                bytes.drain(at..at + length);
            }
        }
    }
    bytes
}
