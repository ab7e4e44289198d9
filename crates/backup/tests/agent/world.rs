//! A real etcd, a store in a directory, an agent between them; and what the archive must then hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use quorate_backup::agent::{self, Board, Cluster, Options, Reach, Status};
use quorate_backup::log::History;
use quorate_backup::{Archive, Error, Store, StoreOptions, StoreUrl, delta, object};
use quorate_client::{Endpoint, Timeouts};
use quorate_datadir::{RowKey, Source};
use quorate_testkit::{Server, Start};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub const PATIENCE: Duration = Duration::from_secs(60);
/// For calls that must succeed: no deadline that a busy machine could miss.
pub const PATIENT: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    request: Duration::from_secs(30),
    stream_idle: Duration::from_secs(30),
};
const PAUSE: Duration = Duration::from_millis(20);

/// Rows by main and sub revision: whether it is a deletion, and the value.
pub type Rows = BTreeMap<(i64, i64), (bool, Vec<u8>)>;

pub struct World {
    pub dir: tempfile::TempDir,
    pub server: Option<Server>,
    start: Start,
}

impl World {
    pub async fn new(version: &str) -> World {
        World::with(version, &[]).await
    }

    pub async fn with(version: &str, flags: &[&str]) -> World {
        let dir = tempfile::tempdir().unwrap();
        let mut start = Start::new(version, &dir.path().join("m0"));
        start.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let server = serve(&start).await;
        start.addresses = Some(server.addresses().clone());
        World {
            dir,
            server: Some(server),
            start,
        }
    }

    pub fn url(&self) -> String {
        self.server.as_ref().unwrap().addresses().client.clone()
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::connect_lazy(&self.url(), None, PATIENT).unwrap()
    }

    /// Ends etcd at once and starts it again on the same data.
    pub async fn restart(&mut self) {
        let server = self.server.take().unwrap();
        tokio::task::spawn_blocking(|| server.kill()).await.unwrap();
        self.server = Some(serve(&self.start).await);
    }

    /// Ends etcd and starts it with nothing, as the same member of the same cluster.
    pub async fn begin_anew(&mut self) {
        let server = self.server.take().unwrap();
        tokio::task::spawn_blocking(|| server.kill()).await.unwrap();
        std::fs::remove_dir_all(self.dir.path().join("m0")).unwrap();
        self.server = Some(serve(&self.start).await);
    }

    pub fn archive_dir(&self) -> PathBuf {
        self.dir.path().join("archive")
    }

    pub async fn store(&self) -> Store {
        store(&self.archive_dir()).await
    }

    pub async fn archive(&self) -> Archive {
        Archive::open(&self.store().await, None).await.unwrap()
    }

    pub fn cluster(&self) -> Cluster {
        Cluster::at(Reach {
            urls: vec![self.url()],
            ..Reach::default()
        })
    }

    pub async fn options(&self) -> Options {
        let mut options = Options::new(self.store().await, self.cluster());
        options.pace.period = Duration::from_secs(1);
        options.schedule = agent::Schedule::never();
        options
    }

    pub async fn agent(&self) -> Agent {
        Agent::start(self.options().await)
    }

    /// One that others are to tell from theirs.
    pub async fn agent_named(&self, name: &str) -> Agent {
        let mut options = self.options().await;
        options.writer = name.to_owned();
        Agent::start(options)
    }

    pub async fn history(&self) -> History {
        self.archive().await.history(1).await.unwrap()
    }

    /// All rows that etcd has now.
    pub async fn etcd_rows(&self) -> Rows {
        rows_of(&self.endpoint(), &self.dir.path().join("compared.db")).await
    }
}

/// All rows that a member has now.
pub async fn rows_of(endpoint: &Endpoint, path: &Path) -> Rows {
    let mut stream = endpoint.snapshot().await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next_chunk().await.unwrap() {
        bytes.extend_from_slice(&piece);
    }
    std::fs::write(path, bytes).unwrap();
    let source = Source::open(path).unwrap();
    let mut history = source.history().unwrap();
    let mut rows = Rows::new();
    while let Some((key, value)) = history.next().unwrap() {
        let key = RowKey::read(key).unwrap();
        let revision = (key.revision.main, key.revision.sub);
        rows.insert(revision, (key.tombstone, value.to_vec()));
    }
    rows
}

async fn serve(start: &Start) -> Server {
    let start = start.clone();
    tokio::task::spawn_blocking(move || start.serve()).await.unwrap()
}

pub async fn store(path: &Path) -> Store {
    let url = StoreUrl::parse(&format!("file://{}", path.display())).unwrap();
    Store::open(&url, &StoreOptions::default()).await.unwrap()
}

pub struct Agent {
    pub board: Board,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
}

impl Agent {
    pub fn start(options: Options) -> Agent {
        let (stop, stopped) = oneshot::channel::<()>();
        let board = options.board.clone();
        let task = tokio::spawn(agent::run(options, async move {
            let _ = stopped.await;
        }));
        Agent {
            board,
            stop: Some(stop),
            task,
        }
    }

    /// Waits until it is so.
    pub async fn until(&self, what: &str, so: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.board.status();
            if so(&status) {
                return status;
            }
            assert!(
                !self.task.is_finished() && Instant::now() < deadline,
                "{what}: {status:#?}"
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until everything up to this revision is in the archive.
    pub async fn until_archived(&self, revision: i64) -> Status {
        let what = format!("archived up to {revision}");
        self.until(&what, |status| status.archived >= Some(revision))
            .await
    }

    /// Tells it to stop, and waits for it.
    pub async fn stop(mut self) -> Result<(), Error> {
        let _ = self.stop.take().unwrap().send(());
        tokio::time::timeout(PATIENCE, &mut self.task)
            .await
            .expect("it stops")
            .expect("it does not panic")
    }

    /// Ends it as a crash does: nothing of it runs on, and nothing is said.
    pub async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// How it ended by itself.
    pub async fn ended(mut self) -> Result<(), Error> {
        tokio::time::timeout(PATIENCE, &mut self.task)
            .await
            .expect("it ends")
            .expect("it does not panic")
    }
}

/// All rows of all deltas of an archive; every number in the records must agree with them.
pub async fn archived_rows(archive: &Archive, history: &History) -> Rows {
    assert_eq!(history.faults, []);
    let mut all = Rows::new();
    for (_, record) in history.deltas() {
        let opened = object::open(archive.store(), &record.facts, archive.key())
            .await
            .unwrap();
        let (mut crc, mut rows, mut bytes) = (0, 0, 0);
        for number in 0..opened.frames() {
            let frame = opened.frame(number).await.unwrap();
            for row in delta::rows(&frame).unwrap() {
                let row = row.unwrap();
                crc = row.crc(crc);
                rows += 1;
                bytes += (row.key().1 + row.value.len()) as u64;
                let revision = (row.revision.main, row.revision.sub);
                assert!(
                    (record.from..=record.to).contains(&revision.0),
                    "{revision:?} {record:?}"
                );
                let before = all.insert(revision, (row.tombstone, row.value.to_vec()));
                assert_eq!(before, None, "{revision:?} twice");
            }
        }
        assert_eq!((crc, rows, bytes), (record.crc, record.rows, record.row_bytes));
    }
    all
}

/// The sequence of changes: each part begins behind the one before. Its ends.
pub fn sequence(history: &History) -> (i64, i64) {
    use quorate_backup::record::Entry;
    let mut parts = history
        .records
        .iter()
        .filter_map(|signed| match &signed.record.entry {
            Entry::Delta(delta) => Some((delta.from, delta.to)),
            Entry::Gap(gap) => Some((gap.from, gap.to)),
            _ => None,
        });
    let (first, mut end) = parts.next().expect("there are changes");
    for (from, to) in parts {
        assert_eq!(from, end + 1);
        assert!(to >= from);
        end = to;
    }
    (first, end)
}

/// What was recorded of the clock never runs backwards.
pub fn check_samples(history: &History) -> usize {
    let (mut before, mut revision, mut count) = (i64::MIN, 0, 0);
    for (_, delta) in history.deltas() {
        for sample in &delta.samples {
            assert!(
                sample.before >= before && sample.after >= sample.before,
                "{sample:?}"
            );
            assert!(
                sample.revision >= revision && sample.revision <= delta.to,
                "{sample:?}"
            );
            (before, revision) = (sample.before, sample.revision);
            count += 1;
        }
    }
    let mut at = Timestamp::UNIX_EPOCH;
    for signed in &history.records {
        assert!(signed.record.at >= at);
        at = signed.record.at;
    }
    count
}
