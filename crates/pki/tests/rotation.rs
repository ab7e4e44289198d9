//! A rotation in a directory, cut off after every write: who was trusted stays trusted until the end, and it goes on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use quorate_pki::{
    Ca, Cas, Layout, MemberIdentity, Policy, Wanted, ask_for_rotation, ensure, forget_rotation, restore_trust,
};

fn wanted() -> Wanted {
    Wanted::new("demo", vec![MemberIdentity::local("demo-0", []).unwrap()])
}

/// One pass of whoever looks after the directory; all that a stage waits for is there.
fn pass(dir: &Path, now: SystemTime) {
    restore_trust(dir, now).unwrap();
    let cas = Cas::read(dir, now).unwrap();
    match cas.signer() {
        Some(_) => drop(ensure(dir, &wanted(), &Policy::default(), now).unwrap()),
        None => cas.publish(dir).unwrap(),
    }
    let cas = Cas::read(dir, now).unwrap();
    if cas.next().is_some() {
        cas.switch(dir).unwrap();
    } else if cas.retires_former() {
        cas.drop_former(dir).unwrap();
    } else if cas.asked() || cas.signer().is_none() {
        cas.introduce(dir, "demo", Policy::default().ca_lifetime, now)
            .unwrap();
    }
}

type Files = BTreeMap<String, Vec<u8>>;

fn files(dir: &Path) -> Files {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

fn put(dir: &Path, files: &Files) {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir(dir).unwrap();
    for (name, content) in files {
        fs::write(dir.join(name), content).unwrap();
    }
}

/// The states between two: each file of the change written or not, in the order in which they are written.
fn between(before: &Files, after: &Files, order: &[&str]) -> Vec<Files> {
    let changed = |name: &&str| before.get(*name) != after.get(*name);
    let mut state = before.clone();
    let mut all = vec![state.clone()];
    for name in order.iter().filter(|name| changed(name)) {
        match after.get(*name) {
            Some(content) => state.insert((*name).to_owned(), content.clone()),
            None => state.remove(*name),
        };
        all.push(state.clone());
    }
    all
}

/// Goes on until nothing changes; how many CAs were trusted at last, and whether `former` was dropped only by the end.
fn finish(dir: &Path, former: &str, now: SystemTime) -> Vec<String> {
    for _ in 0..8 {
        let trusted = Cas::read(dir, now).unwrap().trusted();
        if trusted.len() == 1 && trusted[0] != former {
            break;
        }
        pass(dir, now);
    }
    let cas = Cas::read(dir, now).unwrap();
    assert!(cas.signer().is_some() && cas.next().is_none());
    cas.trusted()
}

#[test]
fn whatever_was_written_when_it_was_cut_off_it_is_finished() {
    let now = SystemTime::now();
    let tmp = tempfile::tempdir().unwrap();
    let (dir, cut) = (tmp.path().join("pki"), tmp.path().join("cut"));
    ensure(&dir, &wanted(), &Policy::default(), now).unwrap();
    let former = Cas::read(&dir, now).unwrap().trusted().remove(0);
    ask_for_rotation(&dir, now).unwrap();
    // In the order in which each move writes.
    let moves: [&[&str]; 3] = [
        &["ca-next.key", "ca-next.crt"],
        &[
            "ca.crt",
            "ca-trusted.crt",
            "ca.key.aside-1",
            "ca.key",
            "ca-next.key",
            "ca-next.crt",
        ],
        &[
            "ca.crt",
            "ca-trusted.crt",
            "server-demo-0.key",
            "server-demo-0.crt",
            "peer-demo-0.key",
            "peer-demo-0.crt",
            "root.key",
            "root.crt",
            "client.key",
            "client.crt",
            "rotate",
        ],
    ];
    for order in moves {
        let before = files(&dir);
        pass(&dir, now);
        let after = files(&dir);
        for state in between(&before, &after, order) {
            put(&cut, &state);
            let trusted = finish(&cut, &former, now);
            assert_eq!(trusted.len(), 1, "{:?}", state.keys());
            assert_ne!(trusted[0], former, "{:?}", state.keys());
            ensure(&cut, &wanted(), &Policy::default(), now).unwrap();
            assert!(
                !ensure(&cut, &wanted(), &Policy::default(), now)
                    .unwrap()
                    .changed()
            );
        }
    }
    assert!(!Layout::new(&dir).rotation_request().exists());
    assert_eq!(Cas::read(&dir, now).unwrap().trusted().len(), 1);
}

#[test]
fn a_request_is_for_the_ca_it_was_made_under() {
    let now = SystemTime::now();
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("pki");
    ensure(&dir, &wanted(), &Policy::default(), now).unwrap();
    ask_for_rotation(&dir, now).unwrap();
    let request = fs::read(Layout::new(&dir).rotation_request()).unwrap();
    for _ in 0..3 {
        assert!(Cas::read(&dir, now).unwrap().asked());
        pass(&dir, now);
    }
    fs::write(Layout::new(&dir).rotation_request(), request).unwrap();
    assert!(!Cas::read(&dir, now).unwrap().asked(), "it was carried out");
    forget_rotation(&dir).unwrap();
    assert!(!Layout::new(&dir).rotation_request().exists());
}

#[test]
fn a_ca_that_someone_deleted_or_replaced_stays_trusted() {
    let now = SystemTime::now();
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("pki");
    let ca = Layout::new(&dir).ca();
    ensure(&dir, &wanted(), &Policy::default(), now).unwrap();
    let first = Cas::read(&dir, now).unwrap().trusted();
    fs::remove_file(&ca.cert).unwrap();
    restore_trust(&dir, now).unwrap();
    let cas = Cas::read(&dir, now).unwrap();
    assert_eq!((cas.trusted(), cas.signer().is_some()), (first.clone(), true));
    let another = Ca::make("demo", Duration::from_secs(86_400), now).unwrap();
    fs::write(&ca.cert, &another.pem().cert).unwrap();
    fs::write(&ca.key, &another.pem().key).unwrap();
    restore_trust(&dir, now).unwrap();
    let cas = Cas::read(&dir, now).unwrap();
    let next = cas.next().unwrap().info().fingerprint;
    assert_eq!(next, another.info().fingerprint, "it is taken to it in stages");
    assert!(cas.signer().is_none() && cas.trusted().contains(&first[0]));
    assert_eq!(
        finish(&dir, &first[0], now),
        [another.info().fingerprint.to_string()]
    );
}
