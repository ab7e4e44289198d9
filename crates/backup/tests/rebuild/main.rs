//! From an archive of a real etcd's history back to data directories: any point, also when objects are damaged.

mod archived;
mod proving;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use archived::{Archived, STEP, Told, alone, archived, open, time_of, timestamp};
use quorate_backup::plan::{Plan, To, Wanted, plan};
use quorate_backup::restore::{Outcome, judge, restore};
use quorate_backup::{Error, names};
use quorate_datadir::{Progress, Source, hash_kv, verify_member};
use quorate_testkit::newest;

fn to(to: To) -> Wanted {
    Wanted { timeline: None, to }
}

async fn restored(archive: &quorate_backup::Archive, wanted: Wanted, dir: &Path) -> Result<Outcome, Error> {
    let plan = plan(archive, wanted).await?;
    let progress = Arc::new(Progress::new());
    restore(plan, &alone(dir), &progress, timestamp(0), &mut |_: &Plan| {}).await
}

fn objects(dir: &Path, below: &str) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> = fs::read_dir(dir.join(below))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = at % bytes.len();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_dir(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

#[test]
fn any_point_comes_back() {
    let told = Told::by(&newest("3.6"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let made = archived(&told, &told.root.path().join("archive")).await;
        every_point(&told, &made).await;
        by_time(&told, &made).await;
        refusals(&told, &made).await;
        damaged_objects(&told, &made).await;
        proving::whole_archives(&told, &made).await;
        proving::every_file(&told, &made).await;
        proving::compaction(&told, &made).await;
    });
}

async fn every_point(told: &Told, made: &Archived) {
    let (oldest, between, end) = (told.revision_of(1), told.revision_of(1), told.said.revision);
    let compacted = Source::open(&told.snapshots[1])
        .unwrap()
        .compact_revision()
        .unwrap();
    let step = usize::try_from((end - compacted) / 13).unwrap();
    let points = (compacted..=end).step_by(step).chain([between, between + 1, end]);
    for revision in points {
        let dir = told.root.path().join("restored");
        let outcome = restored(&made.archive, to(To::Revision(revision)), &dir)
            .await
            .unwrap();
        assert_eq!(outcome.members[0].revision, revision);
        assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
        verify_member(&dir, &Progress::new()).unwrap();
        let found = hash_kv(
            &Source::open(&dir).unwrap(),
            0,
            Some(told.compacted()),
            &Progress::new(),
        );
        if revision >= told.compacted() {
            assert_eq!(
                found.unwrap(),
                told.hash(revision, Some(told.compacted())),
                "at {revision}"
            );
        }
        if revision > oldest && revision < end {
            let leases = Source::open(&dir).unwrap().leases().unwrap();
            let ttl = |id| leases.iter().find(|lease| lease.id == id).map(|lease| lease.ttl);
            assert_eq!((ttl(4242), ttl(9999)), (Some(600), Some(3600)));
        }
        fs::remove_dir_all(&dir).unwrap();
    }
    let plan = plan(&made.archive, to(To::End)).await.unwrap();
    assert_eq!(
        (plan.revision, plan.deltas.len(), plan.consents().len()),
        (end, 0, 0)
    );
    assert!(plan.auth_is_sure);
}

async fn by_time(told: &Told, made: &Archived) {
    let between = told.revision_of(1);
    for revision in [between + 7, between + 300] {
        let at = timestamp(time_of(revision) + STEP / 2);
        let plan = plan(&made.archive, to(To::Time(at))).await.unwrap();
        let bracket = plan.bracket.unwrap();
        assert_eq!(plan.revision, bracket.revision);
        assert!((revision - 5..=revision).contains(&plan.revision), "{bracket:?}");
        assert!(bracket.width_ms() <= 5 * STEP, "{bracket:?}");
        assert!(plan.unknown_leases().any(|id| id == 9999));
        let text = format!("{:?}", plan.facts());
        assert!(text.contains("270f") && text.contains("full copy"), "{text}");
    }
    let late = plan(
        &made.archive,
        to(To::Time(timestamp(time_of(told.said.revision) + 60_000))),
    )
    .await
    .unwrap();
    assert_eq!(late.revision, told.said.revision);
    assert_eq!(late.consents().len(), 1, "{:?}", late.consents());
}

async fn refusals(told: &Told, made: &Archived) {
    let refused = |told: Result<Plan, Error>| match told {
        Err(Error::Refused { what, advice }) => format!("{what}; {advice}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was planned"),
    };
    let archive = &made.archive;
    let early = plan(archive, to(To::Time(timestamp(1000)))).await;
    assert!(refused(early).contains("the first time that is known"));
    let beyond = refused(plan(archive, to(To::Revision(told.said.revision + 1))).await);
    assert!(
        beyond.contains("can not be reached") && beyond.contains(&told.said.revision.to_string()),
        "{beyond}"
    );
    assert!(refused(plan(archive, to(To::Revision(1))).await).contains("can not be reached"));
    let other = Wanted {
        timeline: Some(7),
        to: To::End,
    };
    assert!(refused(plan(archive, other).await).contains("timeline 7"));
    // Not wanted any more: nothing is there, and no mark that something is read.
    let (progress, out) = (Arc::new(Progress::new()), told.root.path().join("never"));
    progress.cancel();
    let planned = plan(archive, to(To::Revision(told.revision_of(1) + 30)))
        .await
        .unwrap();
    let stopped = restore(planned, &alone(&out), &progress, timestamp(0), &mut |_: &Plan| {}).await;
    assert!(matches!(stopped, Err(Error::Cancelled)));
    assert!(!out.exists() && fs::read_dir(made.dir.join("hold")).map_or(0, Iterator::count) == 0);
    let full = told.root.path().join("full");
    fs::create_dir_all(full.join("something")).unwrap();
    let plan = plan(archive, to(To::End)).await.unwrap();
    let taken = judge(&plan, &alone(&full)).unwrap_err().to_string();
    assert!(taken.contains("there is something in it"), "{taken}");
}

/// Whatever is damaged or gone: another way to the same point, or a refusal before anything is there.
async fn damaged_objects(told: &Told, made: &Archived) {
    let end = told.said.revision;
    let dir = told.root.path().join("damaged");
    let out = told.root.path().join("out");
    // The newest full copy: by the older one and the deltas. In its index, inside a frame, cut off, gone.
    for kind in 0..4 {
        copy_dir(&made.dir, &dir);
        let newest = objects(&dir, "t/00000001/full").pop().unwrap();
        let length = fs::metadata(&newest).unwrap().len() as usize;
        match kind {
            0 => flip(&newest, length - 100),
            1 => flip(&newest, length / 3),
            2 => fs::write(&newest, &fs::read(&newest).unwrap()[..length / 2]).unwrap(),
            _ => fs::remove_file(&newest).unwrap(),
        }
        let archive = open(&dir).await;
        let outcome = restored(&archive, to(To::End), &out).await.unwrap();
        assert_eq!(outcome.members[0].revision, end, "kind {kind}");
        assert_eq!(outcome.plan.passed_over().count(), 1, "kind {kind}");
        assert!(!outcome.plan.deltas.is_empty());
        let found = hash_kv(
            &Source::open(&out).unwrap(),
            0,
            Some(told.compacted()),
            &Progress::new(),
        )
        .unwrap();
        assert_eq!(found, told.hash(end, Some(told.compacted())));
        fs::remove_dir_all(&out).unwrap();
        // And a delta too: nothing leads there any more.
        let delta = objects(&dir, "t/00000001/delta")[3].clone();
        flip(&delta, 60);
        let plan = plan(&archive, to(To::End)).await.unwrap();
        let refused = match plan.revision == end {
            // Only the frame tells.
            true => restored(&archive, to(To::End), &out)
                .await
                .err()
                .unwrap()
                .to_string(),
            false => plan.consents().join("; "),
        };
        assert!(refused.contains("can"), "{refused}");
        assert!(!out.exists());
        let reached = restored(&archive, to(To::Revision(told.revision_of(1) + 200)), &out)
            .await
            .unwrap();
        assert_eq!(reached.members[0].revision, told.revision_of(1) + 200);
        fs::remove_dir_all(&out).unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
    // A record that cannot be read, behind the last delta that can: it may have told of another one.
    copy_dir(&made.dir, &dir);
    let archive = open(&dir).await;
    let history = archive.history(1).await.unwrap();
    let number = history.deltas().last().unwrap().0.number;
    assert!(history.records.last().unwrap().record.number > number);
    fs::write(dir.join(names::record(1, number)), b"nonsense").unwrap();
    let plan = plan(&archive, to(To::End)).await.unwrap();
    assert!(
        plan.consents().iter().any(|it| it.contains("may be missing")),
        "{:?}",
        plan.consents()
    );
    fs::remove_dir_all(&dir).unwrap();
}
