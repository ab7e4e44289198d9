//! Every bit of a page of each kind, and many bits and lengths by chance, of files of real etcd: with a hash behind the
//! pages every change is seen. Without one, a change goes unseen only where nothing could tell: in values, in keys that
//! stay in order, in what is unused, and, seldom, in the number of a page that then is one from before. A log or a
//! snapshot file is never read as another one.

mod layout;
mod subject;

use std::collections::BTreeMap;
use std::path::Path;

use layout::{Layout, Part};
use quorate_datadir::wal::{End, Reader};
use quorate_datadir::{Error, Progress, Source, Verdict, snap_file, status, verify};
use subject::{Changing, Row, rows};

/// How many changes by chance: some here, many more in `make soak corruption`.
fn changes() -> usize {
    std::env::var("QUORATE_FLIPS")
        .ok()
        .map_or(1000, |n| n.parse().expect("QUORATE_FLIPS is a number"))
}

/// Of the bits of a page here every so many-th, in the soak all.
fn stride() -> usize {
    if changes() >= 100_000 { 1 } else { 67 }
}

fn judged(path: &Path) -> Result<Verdict, Error> {
    let source = Source::open(path)?;
    let verdict = verify(&source, &Progress::new());
    // Whatever is wrong, it has a place; and the other readers must bear it too.
    if let Err(error) = &verdict {
        assert!(!error.to_string().is_empty());
        let _ = (rows(path), status(&source, &Progress::new()));
    }
    verdict
}

/// What was seen of changes, by the part of the file that was changed.
#[derive(Default)]
struct Counts(BTreeMap<Part, (usize, usize)>);

impl Counts {
    fn take(&mut self, part: Part, seen: bool) {
        let (all, unseen) = self.0.entry(part).or_default();
        *all += 1;
        *unseen += usize::from(!seen);
    }

    fn print(&self, what: &str) {
        println!("{what}");
        for (part, (all, unseen)) in &self.0 {
            println!("  {part:<10} {all:>7} flipped, {unseen:>6} unseen");
        }
    }
}

#[test]
fn with_a_hash_every_change_is_seen() {
    for left in subject::all() {
        let file = Changing::new("snapshot", &left.snapshot);
        let (length, mut rng) = (left.snapshot.len(), fastrand::Rng::with_seed(1));
        let original = rows(&file.path).unwrap();
        assert!(judged(&file.path).unwrap().digest.is_some());
        for _ in 0..changes() / 2 {
            let bit = rng.usize(..length * 8);
            assert!(file.flipped(bit, judged).is_err(), "{}: bit {bit}", left.version);
        }
        let cuts = (1..64).map(|less| length - less);
        let by_chance = (0..changes() / 10).map(|_| rng.usize(..length));
        for cut in cuts.chain(by_chance.collect::<Vec<_>>()) {
            match file.cut(cut, judged) {
                Err(_) => {}
                // Without all of its hash it is a database that has none; and that is what is said of it.
                Ok(verdict) => {
                    assert_eq!(cut, length - 32, "{}: cut to {cut} of {length}", left.version);
                    assert_eq!(verdict.digest, None);
                    assert!(verdict.unknown().contains("no hash"));
                    assert_eq!(file.cut(cut, rows).unwrap(), original);
                }
            }
        }
        println!(
            "{}: {} bits, {} lengths, all seen",
            left.version,
            changes() / 2,
            63 + changes() / 10
        );
        println!(
            "figures: with_a_hash_{}={}; unseen=0",
            left.version,
            63 + changes() / 2 + changes() / 10
        );
    }
}

#[test]
fn without_a_hash_only_what_nothing_could_tell_goes_unseen() {
    for left in subject::all() {
        let mut campaign = Campaign::new(&left.database);
        let (bits, mut rng) = (left.database.len() * 8, fastrand::Rng::with_seed(2));
        for _ in 0..changes() {
            campaign.flip(rng.usize(..bits));
        }
        campaign
            .counts
            .print(&format!("{}: {} bits by chance", left.version, changes()));
        let mut cuts = 0;
        for _ in 0..changes() / 10 {
            let length = rng.usize(..left.database.len());
            match campaign.file.cut(length, judged) {
                Err(_) => cuts += 1,
                Ok(_) => {
                    assert_eq!(campaign.layout.part(length), Part::Tail, "cut to {length}");
                    assert_eq!(campaign.file.cut(length, rows).unwrap(), campaign.rows);
                }
            }
        }
        println!(
            "  {} lengths, {cuts} seen, the others behind the last page",
            changes() / 10
        );
    }
}

#[test]
fn every_bit_of_a_page_of_each_kind() {
    let kinds = [
        "first meta",
        "second meta",
        "branch",
        "leaf",
        "leaf with overflow",
        "leaf of the root",
        "free",
    ];
    for left in subject::all() {
        for kind in kinds {
            let mut campaign = Campaign::new(&left.database);
            campaign.page(kind, &left.version);
        }
        Campaign::new(&left.rewritten).page("freelist", &left.version);
    }
}

/// A database without a hash, and what was seen of its changes.
struct Campaign {
    file: Changing,
    layout: Layout,
    rows: Vec<Row>,
    hash: u32,
    counts: Counts,
}

impl Campaign {
    fn new(bytes: &[u8]) -> Campaign {
        let file = Changing::new("db", bytes);
        let verdict = judged(&file.path).unwrap();
        assert_eq!(verdict.digest, None);
        Campaign {
            layout: Layout::of(bytes),
            rows: rows(&file.path).unwrap(),
            hash: verdict.hash,
            counts: Counts::default(),
            file,
        }
    }

    fn page(&mut self, kind: &str, version: &str) {
        let bytes = self.layout.page(kind);
        let all = (bytes.start * 8..bytes.end * 8).step_by(stride());
        for bit in all {
            self.flip(bit);
        }
        self.counts.print(&format!(
            "{version}: {kind}, every bit of {} bytes, 1 in {}",
            bytes.len(),
            stride()
        ));
    }

    fn flip(&mut self, bit: usize) {
        let part = self.layout.part(bit / 8);
        let (verdict, rows) = self.file.flipped(bit, |path| {
            let verdict = judged(path);
            let rows = verdict
                .is_ok()
                .then(|| rows(path).expect("rows of what is intact"));
            (verdict, rows)
        });
        self.counts.take(part, verdict.is_err());
        let (Ok(verdict), Some(rows)) = (verdict, rows) else {
            return;
        };
        assert!(part.may_hide(), "bit {bit}, in a {part}, went unseen");
        if part == Part::Pointer {
            assert_eq!(
                verdict.hash == self.hash,
                rows == self.rows,
                "bit {bit}, in a {part}"
            );
            return;
        }
        assert_eq!(rows.len(), self.rows.len(), "bit {bit}, in a {part}");
        let changed = rows.iter().zip(&self.rows).filter(|(new, old)| new != old);
        let changed: Vec<_> = changed.collect();
        if part.is_unused() {
            assert_eq!(changed, [], "bit {bit}, in a {part}");
        }
        // One row, or one bucket's name with all its rows; and whoever has the hash of the rows can tell.
        let buckets: Vec<&Vec<u8>> = changed.iter().map(|(_, old)| &old.0).collect();
        assert!(
            changed.len() <= 1 || buckets.iter().all(|name| *name == buckets[0]),
            "bit {bit}, in a {part}: {changed:?}"
        );
        assert_eq!(
            verdict.hash == self.hash,
            changed.is_empty(),
            "bit {bit}, in a {part}"
        );
    }
}

/// What is read of a changed log are the records that were written, up to where it is said to be damaged or unfinished.
#[test]
fn no_changed_log_is_read_as_another() {
    for left in subject::all() {
        let file = Changing::new("wal/0000000000000000-0000000000000000.wal", &left.log);
        let (original, end) = records(&file.path).unwrap();
        assert_eq!(end, End::Clean, "{}", left.version);
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut damaged, mut torn, mut same) = (0, 0, 0);
        let mut judge = |what: &str, seen: Result<(Vec<String>, End), Error>| match seen {
            Err(_) => damaged += 1,
            Ok((records, end)) => {
                assert!(original.starts_with(&records), "{}: {what}", left.version);
                match end {
                    End::Clean => {
                        // Cut between two records it is a shorter log; nothing can tell.
                        assert!(
                            records == original || what.starts_with("cut"),
                            "{}: {what}",
                            left.version
                        );
                        same += 1;
                    }
                    End::Torn { .. } => torn += 1,
                    End::Damaged { .. } => damaged += 1,
                }
            }
        };
        for _ in 0..changes() / 3 {
            let bit = rng.usize(..left.log.len() * 8);
            judge(&format!("bit {bit}"), file.flipped(bit, records));
        }
        for _ in 0..changes() / 10 {
            let length = rng.usize(..left.log.len());
            judge(&format!("cut to {length}"), file.cut(length, records));
        }
        println!(
            "{}: log: {damaged} damaged, {torn} unfinished, {same} read as before",
            left.version
        );
    }
}

fn records(path: &Path) -> Result<(Vec<String>, End), Error> {
    let mut reader = Reader::open(path.parent().unwrap())?;
    let mut all = Vec::new();
    while let Some(found) = reader.read_next()? {
        all.push(format!("{found:?}"));
    }
    Ok((all, reader.end().unwrap().clone()))
}

#[test]
fn no_changed_snapshot_file_is_read_as_another() {
    for left in subject::all() {
        let file = Changing::new("0000000000000001-0000000000000001.snap", &left.snap);
        let original = snap_file::read(&file.path).unwrap().unwrap();
        let mut unseen = 0;
        let mut judge = |what: String, seen: Result<Result<snap_file::SnapFile, String>, Error>| {
            if let Ok(Ok(read)) = seen {
                assert_eq!(read, original, "{}: {what}", left.version);
                unseen += 1;
            }
        };
        for bit in (0..left.snap.len() * 8).step_by(stride()) {
            judge(format!("bit {bit}"), file.flipped(bit, snap_file::read));
        }
        for length in 0..left.snap.len() {
            judge(format!("cut to {length}"), file.cut(length, snap_file::read));
        }
        println!(
            "{}: snapshot file of {} bytes: {unseen} changes unseen, and without effect",
            left.version,
            left.snap.len()
        );
        assert_eq!(unseen, 0, "{}: all of it is under its checksum", left.version);
    }
}
