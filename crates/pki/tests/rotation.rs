//! A rotation in a directory, cut off after every write: who was trusted stays trusted until the end, and it goes on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use quorate_pki::{
    Ca, Cas, Layout, Leaf, LeafUsages, MemberIdentity, PairPem, Policy, Wanted, clear_rotation_request,
    ensure, request_rotation, restore_trust,
};

fn wanted() -> Wanted {
    Wanted::new("demo", vec![MemberIdentity::local("demo-0", []).unwrap()])
}

/// The directory, and that of the CAs between members.
fn both(dir: &Path) -> [PathBuf; 2] {
    [dir.to_owned(), Layout::new(dir).peers().dir().to_owned()]
}

/// One pass of whoever looks after the directory; all that a stage waits for is there.
fn pass(dir: &Path, now: SystemTime) {
    restore_trust(dir, now).unwrap();
    let all = both(dir).map(|dir| (Cas::read(&dir, now).unwrap(), dir));
    if all.iter().all(|(cas, _)| cas.signer().is_some()) {
        ensure(dir, &wanted(), &Policy::default(), now).unwrap();
    } else {
        all.iter().for_each(|(cas, dir)| cas.publish(dir).unwrap());
    }
    let [clients, _] = both(dir).map(|dir| Cas::read(&dir, now).unwrap().trusted());
    for dir in both(dir) {
        let cas = Cas::read(&dir, now).unwrap();
        let shared = dir.ends_with("peers") && cas.trusted() == clients;
        if cas.next().is_some() {
            cas.switch(&dir).unwrap();
        } else if cas.retires_former() {
            cas.drop_former(&dir).unwrap();
        } else if cas.asked() || cas.signer().is_none() || shared {
            cas.introduce(&dir, "demo", Policy::default().ca_lifetime, now)
                .unwrap();
        }
    }
}

type Files = BTreeMap<String, Vec<u8>>;

fn files(dir: &Path) -> Files {
    let dirs = both(dir).into_iter().filter(|dir| dir.exists());
    let entries = dirs
        .flat_map(|dir| fs::read_dir(dir).unwrap())
        .map(Result::unwrap);
    let file = |entry: fs::DirEntry| {
        let path = entry.path();
        let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        (name, fs::read(path).unwrap())
    };
    entries.filter(|entry| entry.path().is_file()).map(file).collect()
}

fn put(dir: &Path, files: &Files) {
    let _ = fs::remove_dir_all(dir);
    for (name, content) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
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

/// Goes on until nothing changes; whom members trust then.
fn finish(dir: &Path, former: &[String], now: SystemTime) -> Vec<String> {
    let trusted = || both(dir).map(|dir| Cas::read(&dir, now).unwrap().trusted());
    for _ in 0..8 {
        if trusted()
            .iter()
            .all(|all| all.len() == 1 && !former.contains(&all[0]))
        {
            break;
        }
        pass(dir, now);
    }
    for dir in both(dir) {
        let cas = Cas::read(&dir, now).unwrap();
        assert!(cas.signer().is_some() && cas.next().is_none());
    }
    trusted().concat()
}

#[test]
fn whatever_was_written_when_it_was_cut_off_it_is_finished() {
    let now = SystemTime::now();
    let tmp = tempfile::tempdir().unwrap();
    let (dir, cut) = (tmp.path().join("pki"), tmp.path().join("cut"));
    ensure(&dir, &wanted(), &Policy::default(), now).unwrap();
    let former = both(&dir)
        .map(|dir| Cas::read(&dir, now).unwrap().trusted())
        .concat();
    request_rotation(&dir, now).unwrap();
    // In the order in which each move writes.
    let published = ["ca.crt", "ca-trusted.crt", "peers/ca.crt", "peers/ca-trusted.crt"];
    let introduced = [
        "ca-next.key",
        "ca-next.crt",
        "peers/ca-next.key",
        "peers/ca-next.crt",
    ];
    let switched = ["ca.key.aside-1", "ca.key", "ca-next.key", "ca-next.crt"];
    let peers_switched = [
        "peers/ca.key.aside-1",
        "peers/ca.key",
        "peers/ca-next.key",
        "peers/ca-next.crt",
    ];
    let leaves = [
        "server-demo-0.key",
        "server-demo-0.crt",
        "peer-demo-0.key",
        "peer-demo-0.crt",
        "root.key",
        "root.crt",
        "client.key",
        "client.crt",
        "rotate",
        "peers/rotate",
    ];
    let moves = [
        introduced.to_vec(),
        [published, switched, peers_switched].concat(),
        [published.as_slice(), &leaves].concat(),
    ];
    for order in moves {
        let before = files(&dir);
        pass(&dir, now);
        let after = files(&dir);
        for state in between(&before, &after, &order) {
            put(&cut, &state);
            let trusted = finish(&cut, &former, now);
            assert_eq!(trusted.len(), 2, "{:?}", state.keys());
            assert!(
                trusted.iter().all(|ca| !former.contains(ca)),
                "{:?}",
                state.keys()
            );
            ensure(&cut, &wanted(), &Policy::default(), now).unwrap();
            assert!(
                !ensure(&cut, &wanted(), &Policy::default(), now)
                    .unwrap()
                    .changed()
            );
        }
    }
    assert!(!Layout::new(&dir).rotation_request().exists());
    assert_eq!(finish(&dir, &former, now).len(), 2);
}

/// As an earlier quorate left it.
#[test]
fn a_directory_in_which_one_ca_signed_for_all_goes_on_with_it_until_members_have_their_own() {
    let now = SystemTime::now();
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("pki");
    ensure(&dir, &wanted(), &Policy::default(), now).unwrap();
    let ca = Layout::new(&dir).ca();
    let pem = PairPem {
        cert: fs::read(&ca.cert).unwrap(),
        key: fs::read(&ca.key).unwrap(),
    };
    let member = wanted().members.remove(0);
    let leaf = Leaf {
        common_name: &member.name,
        cluster_name: "demo",
        sans: member.sans.clone(),
        usages: LeafUsages::ServerAndClient,
    };
    let signer = Ca::read(&pem).unwrap();
    let shown = signer.issue(&leaf, Policy::default().leaf_lifetime, now).unwrap();
    let peer = Layout::new(&dir).peer("demo-0");
    fs::write(&peer.cert, &shown.cert).unwrap();
    fs::write(&peer.key, &shown.key).unwrap();
    fs::remove_dir_all(dir.join("peers")).unwrap();
    // A copy that was cut off is begun again.
    fs::create_dir(dir.join("peers.new")).unwrap();
    fs::write(dir.join("peers.new/ca.key"), b"half").unwrap();
    let common = signer.info().fingerprint.to_string();
    let report = ensure(&dir, &wanted(), &Policy::default(), now).unwrap();
    assert!(!report.changed(), "{report:?}");
    assert!(!dir.join("peers.new").exists());
    pass(&dir, now);
    let trusted = || both(&dir).map(|dir| Cas::read(&dir, now).unwrap().trusted());
    assert_eq!(trusted()[0], [common.as_str()], "clients notice nothing");
    assert!(trusted()[1].len() == 2 && trusted()[1].contains(&common));
    pass(&dir, now);
    pass(&dir, now);
    pass(&dir, now);
    let [clients, peers] = trusted();
    assert_eq!(clients, [common.as_str()]);
    assert!(peers.len() == 1 && peers[0] != common);
    assert!(
        !ensure(&dir, &wanted(), &Policy::default(), now)
            .unwrap()
            .changed()
    );
}

#[test]
fn a_request_is_for_the_ca_it_was_made_under() {
    let now = SystemTime::now();
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("pki");
    ensure(&dir, &wanted(), &Policy::default(), now).unwrap();
    request_rotation(&dir, now).unwrap();
    let request = fs::read(Layout::new(&dir).rotation_request()).unwrap();
    for _ in 0..3 {
        assert!(Cas::read(&dir, now).unwrap().asked());
        pass(&dir, now);
    }
    fs::write(Layout::new(&dir).rotation_request(), request).unwrap();
    assert!(!Cas::read(&dir, now).unwrap().asked(), "it was carried out");
    clear_rotation_request(&dir).unwrap();
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
        finish(&dir, &first, now)[0],
        another.info().fingerprint.to_string()
    );
}
