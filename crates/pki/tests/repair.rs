//! Each reason to remake a certificate, and what `ensure` does about it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use quorate_pki::{
    Error, Layout, MemberIdentity, Outcome, Policy, Report, Role, San, Usage, Wanted, Why, ensure, inspect,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Bench {
    tmp: tempfile::TempDir,
    wanted: Wanted,
    now: SystemTime,
}

impl Bench {
    /// A directory that was made for members `demo-0` and `demo-1`.
    fn new() -> Bench {
        let member = |name| MemberIdentity::local(name, [San::parse("10.0.0.7").unwrap()]).unwrap();
        let wanted = Wanted::new("demo", vec![member("demo-0"), member("demo-1")]);
        let now = SystemTime::UNIX_EPOCH + 20_000 * DAY + Duration::from_millis(1234);
        let bench = Bench {
            tmp: tempfile::tempdir().unwrap(),
            wanted,
            now,
        };
        assert!(bench.ensure().changed());
        bench
    }

    fn dir(&self) -> PathBuf {
        self.tmp.path().join("pki")
    }

    fn ensure(&self) -> Report {
        ensure(&self.dir(), &self.wanted, &Policy::default(), self.now).unwrap()
    }

    /// Runs `ensure`, expects exactly these reasons, and that a second run finds nothing to do.
    fn repaired(&self) -> Vec<(Role, Why)> {
        let report = self.ensure();
        let again = self.ensure();
        assert!(!again.changed(), "{again:?}");
        assert_eq!(report.ca_fingerprint, again.ca_fingerprint);
        made(&report)
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.dir())
    }
}

fn made(report: &Report) -> Vec<(Role, Why)> {
    let reason = |pair: &quorate_pki::PairReport| match &pair.outcome {
        Outcome::Kept => None,
        Outcome::Made(why) => Some((pair.role.clone(), why.clone())),
    };
    report.pairs.iter().filter_map(reason).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_fresh_directory() {
    let bench = Bench::new();
    assert_eq!(mode(&bench.dir()), 0o700);
    assert_eq!(mode(bench.layout().peers().dir()), 0o700);
    let mut names: Vec<String> = Vec::new();
    let entries = [bench.dir(), bench.dir().join("peers")].map(|dir| fs::read_dir(dir).unwrap());
    for entry in entries.into_iter().flatten().map(Result::unwrap) {
        if entry.path().is_dir() {
            continue;
        }
        let path = entry.path();
        let name = path
            .strip_prefix(bench.dir())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        assert_eq!(
            mode(&entry.path()),
            if name.ends_with(".key") { 0o600 } else { 0o644 },
            "{name}"
        );
        names.push(name);
    }
    names.sort();
    let expected = [
        "ca-trusted.crt",
        "ca.crt",
        "ca.key",
        "client.crt",
        "client.key",
        "peer-demo-0.crt",
        "peer-demo-0.key",
        "peer-demo-1.crt",
        "peer-demo-1.key",
        "peers/ca-trusted.crt",
        "peers/ca.crt",
        "peers/ca.key",
        "root.crt",
        "root.key",
        "server-demo-0.crt",
        "server-demo-0.key",
        "server-demo-1.crt",
        "server-demo-1.key",
    ];
    assert_eq!(names, expected);
    let report = bench.ensure();
    assert!(!report.changed() && !report.ca_changed && report.clock_behind.is_none());
    assert_eq!(report.pairs.len(), 8);
}

#[test]
fn what_certificates_say() {
    let bench = Bench::new();
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let ca = inspect(&bench.layout().ca().cert).unwrap();
    assert!(ca.is_ca);
    assert_eq!(ca.usages, [Usage::CertSign, Usage::CrlSign]);
    assert_eq!(ca.subject, "O=demo, CN=quorate CA");
    assert_eq!(ca.issuer, ca.subject);
    assert_eq!(seconds(ca.not_before), seconds(bench.now) - 300);
    assert_eq!(seconds(ca.not_after), seconds(bench.now + 3650 * DAY));
    assert_eq!(ca.fingerprint, bench.ensure().ca_fingerprint);
    assert_eq!(ca.fingerprint.to_string().len(), 64);
    for paths in [bench.layout().server("demo-1"), bench.layout().peer("demo-1")] {
        let leaf = inspect(&paths.cert).unwrap();
        assert!(!leaf.is_ca);
        assert_eq!(
            leaf.usages,
            [Usage::DigitalSignature, Usage::ServerAuth, Usage::ClientAuth]
        );
        assert_eq!(leaf.common_name, "demo-1");
        assert_eq!(leaf.issuer, ca.subject);
        assert_eq!(leaf.sans, bench.wanted.members[1].sans);
        assert_eq!(seconds(leaf.not_before), seconds(bench.now) - 300);
        assert_eq!(seconds(leaf.not_after), seconds(bench.now + 365 * DAY));
    }
    let client = inspect(&bench.layout().client().cert).unwrap();
    assert_eq!(client.usages, [Usage::DigitalSignature, Usage::ClientAuth]);
    let root = inspect(&bench.layout().root().cert).unwrap();
    assert_eq!((root.common_name.as_str(), root.sans.len()), ("root", 0));
    assert_eq!((client.common_name.as_str(), client.sans.len()), ("client", 0));
}

#[test]
fn missing() {
    let bench = Bench::new();
    for paths in [bench.layout().server("demo-0"), bench.layout().client()] {
        for path in [paths.cert, paths.key] {
            fs::remove_file(&path).unwrap();
            let done = bench.repaired();
            assert_eq!(done.len(), 1);
            assert_eq!(done[0].1, Why::Missing { path });
        }
    }
}

#[test]
fn garbage_and_cut_short() {
    let bench = Bench::new();
    let paths = bench.layout().peer("demo-0");
    for path in [&paths.cert, &paths.key] {
        let whole = fs::read(path).unwrap();
        let spoilt = [
            Vec::new(),
            b"not pem".to_vec(),
            vec![0xff; 100],
            whole[..whole.len() / 2].to_vec(),
            {
                let mut flipped = whole.clone();
                flipped[whole.len() / 2] ^= 1;
                flipped
            },
        ];
        for bytes in spoilt {
            fs::write(path, &bytes).unwrap();
            let done = bench.repaired();
            assert_eq!(done.len(), 1);
            assert_eq!(done[0].0, Role::Peer("demo-0".to_owned()));
            // A flipped bit may also break the signature, or make another key of it.
            let fits = match &done[0].1 {
                Why::Unreadable { path: at, .. } => at == path,
                Why::NotSignedByCa | Why::KeyMismatch => true,
                _ => false,
            };
            assert!(fits, "{:?}", done[0].1);
        }
    }
}

#[test]
fn key_of_another() {
    let bench = Bench::new();
    fs::copy(
        bench.layout().server("demo-0").key,
        bench.layout().server("demo-1").key,
    )
    .unwrap();
    assert_eq!(
        bench.repaired(),
        [(Role::Server("demo-1".to_owned()), Why::KeyMismatch)]
    );
}

#[test]
fn certificate_of_another_use_or_name() {
    let bench = Bench::new();
    let (server, client) = (bench.layout().server("demo-0"), bench.layout().client());
    fs::copy(&client.cert, &server.cert).unwrap();
    fs::copy(&client.key, &server.key).unwrap();
    let done = bench.repaired();
    let found = vec![Usage::DigitalSignature, Usage::ClientAuth];
    assert_eq!(
        done,
        [(Role::Server("demo-0".to_owned()), Why::WrongUsage { found })]
    );

    let (one, other) = (bench.layout().peer("demo-0"), bench.layout().peer("demo-1"));
    fs::copy(&other.cert, &one.cert).unwrap();
    fs::copy(&other.key, &one.key).unwrap();
    assert!(matches!(
        &bench.repaired()[..],
        [(Role::Peer(_), Why::WrongSans { .. })]
    ));
}

#[test]
fn a_leaf_in_the_place_of_the_ca() {
    let bench = Bench::new();
    let (ca, client) = (bench.layout().ca(), bench.layout().client());
    fs::copy(&client.cert, &ca.cert).unwrap();
    fs::copy(&client.key, &ca.key).unwrap();
    let done = bench.repaired();
    assert!(matches!(&done[0], (Role::Ca, Why::WrongUsage { .. })));
    assert_eq!(done.len(), 5, "members have another CA among themselves");
}

#[test]
fn another_client_name() {
    let mut bench = Bench::new();
    bench.wanted.client_name = "root".to_owned();
    let why = Why::WrongName {
        found: "client".to_owned(),
        wanted: "root".to_owned(),
    };
    assert_eq!(bench.repaired(), [(Role::Client, why)]);
}

#[test]
fn names_changed() {
    let mut bench = Bench::new();
    let found = bench.wanted.members[0].sans.clone();
    for change in [
        San::parse("10.0.0.8").unwrap(),
        San::parse("host.example").unwrap(),
    ] {
        bench.wanted.members[0].sans.insert(change);
    }
    let wanted = bench.wanted.members[0].sans.clone();
    let why = Why::WrongSans {
        found: found.clone(),
        wanted: wanted.clone(),
    };
    let roles = [Role::Server("demo-0".to_owned()), Role::Peer("demo-0".to_owned())];
    assert_eq!(bench.repaired(), roles.clone().map(|role| (role, why.clone())));
    // Exactly the names wanted: fewer count too.
    bench.wanted.members[0].sans = found.clone();
    let why = Why::WrongSans {
        found: wanted,
        wanted: found,
    };
    assert_eq!(bench.repaired(), roles.map(|role| (role, why.clone())));
}

#[test]
fn a_member_more_and_a_member_less() {
    let mut bench = Bench::new();
    bench
        .wanted
        .members
        .push(MemberIdentity::local("demo-2", []).unwrap());
    assert_eq!(bench.repaired().len(), 2);
    // Not wanted does not mean gone: what a member may still use stays.
    bench.wanted.members.retain(|member| member.name == "demo-0");
    assert_eq!(bench.repaired(), []);
    let layout = bench.layout();
    let files = |member: &str| {
        let pairs = [layout.server(member), layout.peer(member)];
        pairs.into_iter().flat_map(|pair| [pair.cert, pair.key])
    };
    let count = |member: &str| files(member).filter(|path| path.exists()).count();
    assert_eq!(["demo-0", "demo-1", "demo-2"].map(count), [4; 3]);
    bench.wanted.departed = ["demo-1", "demo-2", "demo-3"].map(str::to_owned).into();
    // A crash removed one key already.
    fs::remove_file(layout.server("demo-1").key).unwrap();
    let before = fs::read_dir(bench.dir()).unwrap().count();
    assert_eq!(bench.repaired(), []);
    assert_eq!(["demo-0", "demo-1", "demo-2"].map(count), [4, 0, 0]);
    assert_eq!(
        fs::read_dir(bench.dir()).unwrap().count(),
        before - 7,
        "nothing else is removed"
    );
}

/// Who put other files under these names needs them.
#[test]
fn what_was_not_issued_here_is_not_removed() {
    let mut bench = Bench::new();
    let other = Bench::new();
    bench.wanted.members.pop();
    bench.wanted.departed.push("demo-1".to_owned());
    let (ours, theirs) = (bench.layout(), other.layout());
    // Of another CA, for another name, with another key, and no certificate at all.
    let copy = |from: &Path, to: &Path| assert!(fs::copy(from, to).is_ok());
    let (server, peer) = (ours.server("demo-1"), ours.peer("demo-1"));
    copy(&theirs.server("demo-1").cert, &server.cert);
    copy(&theirs.server("demo-1").key, &server.key);
    copy(&ours.peer("demo-0").cert, &peer.cert);
    copy(&ours.peer("demo-0").key, &peer.key);
    assert_eq!(bench.repaired(), []);
    assert!(
        [&server.cert, &server.key, &peer.cert, &peer.key]
            .iter()
            .all(|path| path.exists())
    );
    copy(&ours.server("demo-0").cert, &server.cert);
    fs::write(&peer.cert, "not a certificate").unwrap();
    assert_eq!(bench.repaired(), []);
    assert!(
        [&server.cert, &server.key, &peer.cert, &peer.key]
            .iter()
            .all(|path| path.exists())
    );
}

#[test]
fn near_expiry_and_expired() {
    let mut bench = Bench::new();
    let ca_before = bench.ensure().ca_fingerprint;
    let until = inspect(&bench.layout().client().cert).unwrap().not_after;
    bench.now = until - 30 * DAY;
    assert_eq!(bench.repaired(), []);
    bench.now += Duration::from_secs(1);
    let done = bench.repaired();
    assert_eq!(done.len(), 6);
    assert!(
        done.iter().all(|(_, why)| *why == Why::NearExpiry { until }),
        "{done:?}"
    );

    let until = inspect(&bench.layout().client().cert).unwrap().not_after;
    bench.now = until;
    let done = bench.repaired();
    assert_eq!(done.len(), 6);
    assert!(
        done.iter().all(|(_, why)| *why == Why::Expired { until }),
        "{done:?}"
    );
    assert_eq!(bench.ensure().ca_fingerprint, ca_before);
}

#[test]
fn the_ca_near_its_end() {
    let mut bench = Bench::new();
    let until = inspect(&bench.layout().ca().cert).unwrap().not_after;
    // Within its last year leaves end with it.
    bench.now = until - 100 * DAY;
    bench.ensure();
    assert_eq!(inspect(&bench.layout().client().cert).unwrap().not_after, until);
    // A rotation has replaced it by then. If none could, it serves to its end.
    bench.now = until - Duration::from_secs(1);
    assert!(!bench.ensure().ca_changed);
    bench.now = until;
    let report = bench.ensure();
    assert!(report.ca_changed);
    assert_eq!(made(&report)[0], (Role::Ca, Why::Expired { until }));
    assert!(report.pairs.iter().all(|pair| pair.made()));
    assert_eq!(report.moved_aside.len(), 4);
    assert!(report.moved_aside.iter().all(|path| path.exists()));
    assert_eq!(mode(&report.moved_aside[1]), 0o600);
}

#[test]
fn half_a_ca_is_replaced_and_the_rest_kept_aside() {
    let bench = Bench::new();
    let ca = bench.layout().ca();
    for (gone, left) in [(&ca.key, &ca.cert), (&ca.cert, &ca.key)] {
        fs::remove_file(gone).unwrap();
        let kept = fs::read(left).unwrap();
        let report = bench.ensure();
        assert!(report.ca_changed);
        assert_eq!(report.moved_aside.len(), 1);
        assert_eq!(fs::read(&report.moved_aside[0]).unwrap(), kept);
        let done = made(&report);
        assert_eq!(done[0], (Role::Ca, Why::Missing { path: gone.clone() }));
        assert_eq!(done.len(), 5);
        assert!(
            done[1..].iter().all(|(_, why)| *why == Why::NotSignedByCa),
            "{done:?}"
        );
    }
    for _ in 0..5 {
        fs::write(&ca.key, b"garbage").unwrap();
        assert!(bench.ensure().ca_changed);
    }
    let asides = fs::read_dir(bench.dir()).unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with("ca.crt.aside-")
    });
    assert_eq!(asides.count(), 3);
}

#[test]
fn a_key_that_others_could_read_is_protected_not_remade() {
    let bench = Bench::new();
    let key = bench.layout().server("demo-0").key;
    let before = fs::read(&key).unwrap();
    for loose in [0o644, 0o640, 0o604, 0o666] {
        fs::set_permissions(&key, fs::Permissions::from_mode(loose)).unwrap();
        let report = bench.ensure();
        assert!(!report.changed());
        assert!(
            report
                .pair(&Role::Server("demo-0".to_owned()))
                .unwrap()
                .key_mode_fixed
        );
        assert_eq!(mode(&key), 0o600);
    }
    assert_eq!(fs::read(&key).unwrap(), before);
    fs::set_permissions(bench.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    bench.ensure();
    assert_eq!(mode(&bench.dir()), 0o700);
}

#[test]
fn a_clock_that_is_behind_changes_nothing() {
    let mut bench = Bench::new();
    let begin = inspect(&bench.layout().ca().cert).unwrap().not_before;
    for now in [
        bench.now - 3000 * DAY,
        SystemTime::UNIX_EPOCH,
        begin - Duration::from_secs(1),
    ] {
        bench.now = now;
        let report = bench.ensure();
        assert!(!report.changed(), "{report:?}");
        assert_eq!(report.clock_behind, Some(begin));
    }
    // Even then what is missing is made.
    bench.now = SystemTime::UNIX_EPOCH;
    fs::remove_file(bench.layout().client().key).unwrap();
    assert_eq!(bench.repaired().len(), 1);
}

#[test]
fn a_leaf_from_a_clock_that_was_ahead_is_remade() {
    let mut bench = Bench::new();
    let real = bench.now;
    bench.now += 1000 * DAY;
    assert_eq!(bench.repaired().len(), 6);
    bench.now = real;
    let done = bench.repaired();
    assert_eq!(done.len(), 6);
    assert!(done.iter().all(|(_, why)| matches!(why, Why::NotYetValid { .. })));
}

#[test]
fn an_unreadable_file_is_an_error_not_a_new_ca() {
    let bench = Bench::new();
    let key = bench.layout().ca().key;
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    let error = ensure(&bench.dir(), &bench.wanted, &Policy::default(), bench.now).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert!(bench.layout().ca().cert.exists());
}

#[test]
fn no_secret_is_ever_shown() {
    let bench = Bench::new();
    let layout = bench.layout();
    let key = fs::read_to_string(layout.client().key).unwrap();
    fs::write(layout.client().key, key.replace("PRIVATE", "PUBLIC")).unwrap();
    let report = bench.ensure();
    let texts = format!("{report:?} {}", made(&report)[0].1);
    for line in key.lines().filter(|line| !line.starts_with('-')) {
        assert!(!texts.contains(line));
    }
    let error = inspect(&layout.client().key).unwrap_err();
    assert!(!format!("{error:?}").contains(key.lines().nth(1).unwrap()));
}

#[test]
fn bad_questions_are_refused_before_anything_is_written() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("pki");
    let bad = Wanted::new(
        "c",
        vec![MemberIdentity {
            name: "../x".to_owned(),
            sans: BTreeSet::new(),
        }],
    );
    assert!(matches!(
        ensure(&dir, &bad, &Policy::default(), SystemTime::now()),
        Err(Error::MemberName { .. })
    ));
    let policy = Policy {
        renew_before: 1000 * DAY,
        ..Policy::default()
    };
    let good = Wanted::new("c", Vec::new());
    assert!(matches!(
        ensure(&dir, &good, &policy, SystemTime::now()),
        Err(Error::Policy { .. })
    ));
    assert!(!dir.exists());
}

#[test]
fn inspect_names_the_file() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("x.crt");
    assert!(matches!(inspect(&path), Err(Error::Read { .. })));
    fs::write(&path, b"nothing").unwrap();
    let error = inspect(&path).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{} is not a certificate in PEM form: it holds no certificate",
            path.display()
        )
    );
}
