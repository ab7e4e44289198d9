//! A real archive, damaged in every way by chance: `verify` finds it, and a restore is right or refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_tests::backup::agent::{Agent, backup, json, must};
use quorate_tests::backup::reference::Point;
use quorate_tests::etcd;

/// How often something is damaged; a soak does it more often.
fn times() -> usize {
    let named = std::env::var("QUORATE_DAMAGES")
        .ok()
        .and_then(|text| text.parse().ok());
    named.unwrap_or(40)
}

/// A way to damage.
#[derive(Debug)]
enum Damage {
    Flip(PathBuf, usize),
    Cut(PathBuf, usize),
    Gone(PathBuf),
    Swapped(PathBuf, PathBuf),
}

impl Damage {
    /// The next one of a seed: it draws as many numbers whatever the archive holds. How many deltas that is depends on
    /// when the agent happened to flush, so a number chooses a kind of object first, and another one of that kind.
    fn by_chance(files: &[PathBuf], chance: &mut fastrand::Rng) -> Damage {
        let mut kinds: BTreeMap<String, Vec<&PathBuf>> = BTreeMap::new();
        for file in files {
            kinds.entry(kind(file)).or_default().push(file);
        }
        let [one, other] = [(); 2].map(|()| {
            let (kind, number) = (chance.usize(..), chance.usize(..));
            let of_kind = kinds.values().nth(kind % kinds.len()).unwrap();
            of_kind[number % of_kind.len()].clone()
        });
        let (way, place) = (chance.u32(..10), chance.usize(..));
        let length = std::fs::metadata(&one).unwrap().len() as usize;
        match way {
            0..5 if length > 0 => Damage::Flip(one, place % (length * 8)),
            5..6 if length > 0 => Damage::Cut(one, place % length),
            9 => Damage::Swapped(one, other),
            _ => Damage::Gone(one),
        }
    }

    /// Does it. False if nothing is different then.
    fn inflict(&self) -> bool {
        match self {
            Damage::Flip(path, bit) => {
                let mut bytes = std::fs::read(path).unwrap();
                bytes[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(path, bytes).unwrap();
            }
            Damage::Cut(path, length) => {
                let bytes = std::fs::read(path).unwrap();
                std::fs::write(path, &bytes[..*length]).unwrap();
            }
            Damage::Gone(path) => std::fs::remove_file(path).unwrap(),
            Damage::Swapped(one, other) => {
                let (first, second) = (std::fs::read(one).unwrap(), std::fs::read(other).unwrap());
                std::fs::write(one, &second).unwrap();
                std::fs::write(other, &first).unwrap();
                return first != second;
            }
        }
        true
    }
}

/// What an object of an archive is: deltas and fulls differ in their endings, other objects in their names.
fn kind(file: &Path) -> String {
    let name = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    match name(file.extension()) {
        ending if ending == "json" => name(file.file_name()),
        ending => ending,
    }
}

fn files(below: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![below.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            // The store's own: drafts, and what it is known by.
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            match entry.path().is_dir() {
                true => directories.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let place = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::copy(file, place).unwrap();
    }
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// An archive that a real agent wrote: three full copies and deltas between them; and points of it.
fn archive(directory: &Path) -> Vec<Point> {
    let server = etcd::Start::new(&etcd::newest("3.6"), &directory.join("etcd")).serve();
    let client = server.client();
    let place = url(&directory.join("archive"));
    let agent = Agent::start(
        &place,
        &server.addresses().client,
        &["--period", "1s"],
        &directory.join("log"),
    );
    let mut points = Vec::new();
    for round in 0..3_u8 {
        for number in 0..300_u32 {
            client.put(
                format!("/{:03}", (number * 7 + u32::from(round)) % 200).as_bytes(),
                &[round; 100],
            );
            if number % 60 == 0 {
                points.extend(Point::ask(&client, true));
                await_reach(&place, client.put(b"/beat", b""), &agent);
            }
        }
        client.delete(b"/00", b"/01");
        must(&["now", &place, "--endpoints", &server.addresses().client]);
    }
    points.extend(Point::ask(&client, true));
    await_reach(&place, client.put(b"/beat", b""), &agent);
    agent.stop();
    points
}

fn await_reach(url: &str, revision: i64, agent: &Agent) {
    let began = Instant::now();
    loop {
        let output = backup(&["list", url, "-o", "json"]);
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let reached = list["timelines"][0]["reachable"]
            .as_array()
            .and_then(|all| all.last()?["to"].as_i64());
        if reached.is_some_and(|reached| reached >= revision) {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "revision {revision} is not archived: {list}\n{}",
            agent.said()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn damage_is_found_and_never_restored() {
    let seed = std::env::var("QUORATE_BACKUP_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or(7);
    println!("seed {seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let points = archive(directory.path());
    let whole = directory.path().join("archive");
    let scratch = directory.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let scratch = scratch.to_str().unwrap();
    must(&["verify", &url(&whole), "--level", "rebuilt", "--scratch", scratch]);
    let (mut right, mut refused) = (0, 0);
    for number in 0..times() {
        let damaged = directory.path().join("damaged");
        copy(&whole, &damaged);
        let damage = Damage::by_chance(&files(&damaged), &mut chance);
        println!("{number}: {damage:?}");
        if damage.inflict() {
            let output = backup(&["verify", &url(&damaged), "--level", "read"]);
            let reported = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(!output.status.success(), "{damage:?} was not found:\n{reported}");
        }
        for _ in 0..3 {
            let point = &points[chance.usize(..points.len())];
            let into = directory.path().join("into");
            let (revision, to) = (point.revision.to_string(), into.to_str().unwrap());
            let place = url(&damaged);
            let output = backup(&[
                "restore",
                &place,
                "--to-revision",
                &revision,
                "--data-dir",
                to,
                "--yes",
            ]);
            if output.status.success() {
                point.compare(&into);
                std::fs::remove_dir_all(&into).unwrap();
                right += 1;
            } else {
                assert!(!into.exists(), "{damage:?}: refused, and something is there");
                refused += 1;
            }
        }
        std::fs::remove_dir_all(&damaged).unwrap();
    }
    println!(
        "figures: damages_found={}; restores_right={right}; restores_refused={refused}",
        times()
    );
    assert!(right > 0);
    // What was damaged were copies.
    assert_eq!(
        json(&["list", &url(&whole)])["timelines"][0]["faults"],
        serde_json::json!([])
    );
}
