//! Tests of the quick look on directories made by hand; `tests/real_etcd.rs` has etcd's own.

use super::*;
use crate::wal::test_head;

const MEMBER: u64 = 0x5485_ed9a_2f08_260c;
const CLUSTER: u64 = 0x192a_008d_c1e3_4ac3;

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Bench {
        Bench(tempfile::tempdir().unwrap())
    }

    fn put(&self, path: &str, bytes: &[u8]) -> &Bench {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    fn segment(&self, sequence: u64, bytes: &[u8]) -> &Bench {
        let name = SegmentName {
            sequence,
            first_index: sequence * 100,
        };
        self.put(&format!("member/wal/{name}"), bytes)
    }

    fn look(&self) -> Look {
        look(self.0.path()).unwrap()
    }

    fn damage(&self) -> (String, String) {
        let Look::Damaged { path, why } = self.look() else {
            panic!("{:?}", self.look())
        };
        (
            path.strip_prefix(self.0.path()).unwrap().display().to_string(),
            why,
        )
    }
}

#[test]
fn empty() {
    let bench = Bench::new();
    assert_eq!(bench.look(), Look::Empty);
    assert_eq!(look(&bench.0.path().join("nowhere")).unwrap(), Look::Empty);
    bench.put("lost+found/x", b"");
    assert_eq!(bench.look(), Look::Empty);
}

#[test]
fn no_wal() {
    let bench = Bench::new();
    fs::create_dir_all(bench.0.path().join("member/snap")).unwrap();
    assert_eq!(
        bench.look(),
        Look::NoWal {
            what_is_there: Vec::new()
        }
    );
    bench
        .put("member/snap/db", b"x")
        .put("member/wal/0.tmp", b"")
        .put("member/wal.tmp/0.wal", b"");
    let what_is_there = ["member/snap/db", "member/wal/0.tmp", "member/wal.tmp/0.wal"]
        .map(PathBuf::from)
        .to_vec();
    assert_eq!(bench.look(), Look::NoWal { what_is_there });
    for number in 0..200 {
        bench.put(&format!("member/snap/{number}"), b"");
    }
    assert!(matches!(bench.look(), Look::NoWal { what_is_there } if what_is_there.len() == MAX_NAMED));
}

#[test]
fn data_without_a_database() {
    let bench = Bench::new();
    bench
        .segment(0, &test_head(MEMBER, CLUSTER, 0))
        .segment(1, &test_head(MEMBER, CLUSTER, 77));
    let Look::Data(identity) = bench.look() else {
        panic!("{:?}", bench.look())
    };
    assert_eq!((identity.member_id, identity.cluster_id), (MEMBER, CLUSTER));
    assert_eq!((identity.wal_segments, identity.last_segment.sequence), (2, 1));
    assert_eq!(identity.db, Db::Missing);
    bench.put("member/snap/db", b"");
    assert!(matches!(bench.look(), Look::Data(Identity { db: Db::Blank, .. })));
}

#[test]
fn purged_first_segments() {
    let bench = Bench::new();
    bench.segment(7, &test_head(MEMBER, CLUSTER, 3));
    assert!(matches!(
        bench.look(),
        Look::Data(Identity { wal_segments: 1, .. })
    ));
}

#[test]
fn damage() {
    let first = "member/wal/0000000000000000-0000000000000000.wal";
    let second = "member/wal/0000000000000001-0000000000000064.wal";
    let good = test_head(MEMBER, CLUSTER, 0);

    let bench = Bench::new();
    bench.put("member", b"");
    assert_eq!(
        bench.damage(),
        ("member".to_owned(), "it is not a directory".to_owned())
    );

    let bench = Bench::new();
    bench.put("member/wal", b"");
    assert_eq!(
        bench.damage(),
        ("member/wal".to_owned(), "it is not a directory".to_owned())
    );

    let bench = Bench::new();
    bench.segment(0, b"");
    assert_eq!(
        bench.damage(),
        (first.to_owned(), "it ends where a record should begin".to_owned())
    );

    let bench = Bench::new();
    bench.segment(0, &good).segment(1, &[0; 64]);
    assert_eq!(
        bench.damage(),
        (
            second.to_owned(),
            "it ends where a record should begin".to_owned()
        )
    );

    let bench = Bench::new();
    bench.segment(0, &good).segment(2, &good);
    let why = format!(
        "it does not follow {}: a segment between is missing",
        SegmentName {
            sequence: 0,
            first_index: 0
        }
    );
    assert_eq!(
        bench.damage(),
        ("member/wal/0000000000000002-00000000000000c8.wal".to_owned(), why)
    );

    let bench = Bench::new();
    bench
        .segment(0, &good)
        .segment(1, &test_head(MEMBER + 1, CLUSTER, 0));
    assert_eq!(bench.damage().0, second);

    let bench = Bench::new();
    bench.segment(0, &test_head(MEMBER, CLUSTER, 5));
    assert_eq!(bench.damage().0, first);

    let bench = Bench::new();
    bench.segment(0, &good).put("member/snap/db", &[7; 20_000]);
    assert_eq!(
        bench.damage(),
        (
            "member/snap/db".to_owned(),
            "neither of its two meta pages is valid".to_owned()
        )
    );

    let bench = Bench::new();
    bench.segment(0, &good);
    fs::create_dir_all(bench.0.path().join("member/snap/db")).unwrap();
    assert_eq!(
        bench.damage(),
        ("member/snap/db".to_owned(), "it is not a file".to_owned())
    );
}
