//! S3, as a gateway that nobody here wrote implements it.

use std::path::{Path, PathBuf};

use quorate_backup::{CreateOnly, Created, Credentials, StoreOptions, Trouble};
use quorate_testkit::{Fault, Proxy, ServerCertificate, StoreKind, StoreServer};

use crate::conformance::{self, Lacks, names, noise, trouble};
use crate::{faults, hasty, open, open_with};

#[tokio::test]
async fn it_does_what_every_store_does() {
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("bucket");
    let store = open(&server.url("bucket", "some/prefix")).await;
    assert_eq!(store.describe(), "s3://bucket/some/prefix");
    assert_eq!(store.probe().await.unwrap(), CreateOnly::Kept);
    conformance::everything(&store, Lacks::default()).await;
    // Without a prefix the bucket is the store, and others' objects are seen.
    store.put("a", noise(1, 1)).await.unwrap();
    let whole = open(&server.url("bucket", "")).await;
    assert_eq!(names(&whole.list("", None).await.unwrap()), ["some/prefix/a"]);
    assert_eq!(names(&whole.list("some", None).await.unwrap()), ["some/prefix/a"]);
}

#[tokio::test]
async fn it_survives_what_every_store_survives() {
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("bucket");
    faults::everything(&server).await;
}

#[tokio::test]
async fn objects_go_from_store_to_store() {
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("bucket");
    let far = open(&server.url("bucket", "x")).await;
    let home = tempfile::tempdir().unwrap();
    let near = open(&format!("file://{}", home.path().display())).await;
    for size in [0, 10, 20 << 20] {
        let (name, content) = (format!("a/{size}"), noise(size, 12));
        far.put(&name, content.clone()).await.unwrap();
        assert_eq!(near.copy_from(&far, &name).await.unwrap(), size as u64);
        far.delete(&name).await.unwrap();
        assert_eq!(far.copy_from(&near, &name).await.unwrap(), size as u64);
        assert!(far.get(&name, 20 << 20).await.unwrap() == content, "{size}");
    }
    let missing = near.copy_from(&far, "b").await;
    assert_eq!(trouble(missing), Trouble::Missing);
    assert_eq!(trouble(near.head("b").await), Trouble::Missing);
}

/// More than one page, broken between two.
#[tokio::test]
async fn long_lists_come_whole() {
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("bucket");
    let proxy = Proxy::start(server.address());
    let store = open(&server.url_at(proxy.address(), "bucket", "x")).await;
    let wanted: Vec<String> = (0..1500).map(|n| format!("log/{n:012}.rec")).collect();
    for names in wanted.chunks(50) {
        let mut tasks = tokio::task::JoinSet::new();
        for name in names {
            let (store, name) = (store.clone(), name.clone());
            tasks.spawn(async move { store.create(&name, noise(1, 1)).await.unwrap() });
        }
        assert!(
            tasks
                .join_all()
                .await
                .iter()
                .all(|created| *created == Created::New)
        );
    }
    assert_eq!(names(&store.list("log", None).await.unwrap()), wanted);
    let after = store.list("log", Some(&wanted[1200])).await.unwrap();
    assert_eq!(names(&after), wanted[1201..]);
    // A page of a thousand has more bytes than this, the one after it fewer.
    let before = proxy.struck();
    proxy.set_times(Fault::CutAnswer { after: 150_000 }, 3);
    assert_eq!(names(&store.list("", None).await.unwrap()), wanted);
    assert!(proxy.struck() > before);
}

#[tokio::test]
async fn wrong_credentials_and_wrong_buckets_are_told_apart() {
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("bucket");
    let url = server.url("bucket", "x");
    let secret = "a-secret-nobody-should-see";
    let with = |key_id: &str| StoreOptions {
        credentials: Some(Credentials::S3 {
            key_id: key_id.into(),
            secret: secret.into(),
            token: None,
        }),
        ..StoreOptions::default()
    };
    for key_id in ["quorate-tests", "stranger"] {
        let options = with(key_id);
        assert!(!format!("{options:?}").contains(secret));
        let store = open_with(&url, &options).await;
        for error in [
            store.get("a", 1).await.unwrap_err(),
            store.create("a", noise(1, 1)).await.unwrap_err(),
            store.list("", None).await.unwrap_err(),
            store.probe().await.unwrap_err(),
        ] {
            assert_eq!(error.trouble(), Some(Trouble::Denied), "{error}");
            let text = format!("{error} {error:?}");
            assert!(
                text.contains(&format!("check the credentials (access key {key_id})")),
                "{text}"
            );
            assert!(!text.contains(secret), "{text}");
        }
        assert_eq!(trouble(store.head("a").await), Trouble::Denied);
    }

    let store = open(&server.url("no-such-bucket", "x")).await;
    for error in [
        store.get("a", 1).await.unwrap_err(),
        store.head("a").await.unwrap_err(),
        store.create("a", noise(1, 1)).await.unwrap_err(),
        store.list("", None).await.unwrap_err(),
    ] {
        assert_eq!(error.trouble(), Some(Trouble::NoBucket), "{error}");
        assert!(
            error.to_string().contains("has no bucket no-such-bucket"),
            "{error}"
        );
    }

    // A file of credentials without what is needed is refused before anything is asked.
    std::fs::write(server.credentials(), "[other]\n").unwrap();
    let url = quorate_backup::StoreUrl::parse(&url).unwrap();
    let error = quorate_backup::Store::open(&url, &hasty()).await.unwrap_err();
    assert!(error.to_string().contains("no profile [default]"), "{error}");
}

/// A server that knows no conditions is used as well as it can be, and the probe says so.
#[tokio::test]
async fn a_server_without_conditional_writes() {
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("bucket");
    let proxy = Proxy::start(server.address());
    proxy.set(Fault::NoConditions);
    let store = open(&server.url_at(proxy.address(), "bucket", "x")).await;
    assert_eq!(store.create("a", noise(10, 1)).await.unwrap(), Created::New);
    assert_eq!(store.create("a", noise(10, 2)).await.unwrap(), Created::Exists);
    assert_eq!(store.get("a", 10).await.unwrap(), noise(10, 1));
    assert_eq!(store.probe().await.unwrap(), CreateOnly::Ignored);
}

/// What was sent of an upload that was given up is taken back.
#[tokio::test]
async fn no_parts_are_left_behind() {
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("bucket");
    let store = open(&server.url("bucket", "x")).await;
    let parts = || {
        let mut found = Vec::new();
        let mut open = vec![server.data().join("bucket")];
        while let Some(directory) = open.pop() {
            for entry in directory.read_dir().unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => open.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found.retain(|path| path.metadata().is_ok_and(|metadata| metadata.len() > 1 << 20));
        found
    };
    let mut upload = store.upload("a").await.unwrap();
    for _ in 0..4 {
        upload.write(noise(8 << 20, 1)).await.unwrap();
    }
    assert_ne!(parts(), [] as [PathBuf; 0], "parts are sent as they fill");
    upload.abort().await.unwrap();
    assert_eq!(parts(), [] as [PathBuf; 0]);

    // Dropped: in the background, so it takes a moment.
    let mut upload = store.upload("b").await.unwrap();
    for _ in 0..4 {
        upload.write(noise(8 << 20, 1)).await.unwrap();
    }
    drop(upload);
    let gone = async {
        while !parts().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), gone)
        .await
        .expect("nothing is left");
}

#[tokio::test]
async fn an_endpoint_where_nothing_is() {
    let closed = quorate_testkit::free_port();
    let url = format!("s3://bucket/x?endpoint=http://127.0.0.1:{closed}&allowHttp=true");
    let options = StoreOptions {
        credentials: Some(Credentials::Anonymous),
        ..hasty()
    };
    let error = open_with(&url, &options).await.get("a", 1).await.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::Unreachable), "{error}");
    let text = error.to_string();
    assert!(text.contains("cannot be reached: Connection refused"), "{text}");
    assert!(
        text.contains("check the endpoint and the network (tried 3 times)"),
        "{text}"
    );
}

/// A CA and a certificate of it for this machine.
fn certificate(home: &Path, name: &str) -> (PathBuf, ServerCertificate) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(params, key);
    let own_key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let own = own.signed_by(&own_key, &issuer).unwrap();
    let write = |suffix: &str, text: String| {
        let path = home.join(format!("{name}{suffix}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = ServerCertificate {
        certificate: write(".crt", own.pem()),
        key: write(".key", own_key.serialize_pem()),
    };
    (write("-ca.crt", ca.pem()), files)
}

#[tokio::test]
async fn tls_with_a_ca_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let (ca, files) = certificate(home.path(), "right");
    let (other, _) = certificate(home.path(), "other");
    let server = StoreServer::start_tls(&files);
    server.make_bucket("bucket");
    let url = |ca: &Path| format!("{}&ca={}", server.url("bucket", "x"), ca.display());
    let store = open(&url(&ca)).await;
    assert_eq!(store.create("a", noise(10, 1)).await.unwrap(), Created::New);
    assert_eq!(store.get("a", 10).await.unwrap(), noise(10, 1));
    for url in [url(&other), server.url("bucket", "x")] {
        let error = open(&url).await.get("a", 10).await.unwrap_err();
        assert_eq!(error.trouble(), Some(Trouble::Other), "{error}");
        assert!(error.to_string().contains("is not trusted"), "{error}");
        assert!(error.to_string().contains("ca=FILE"), "{error}");
    }
    let missing = quorate_backup::StoreUrl::parse(&url(&home.path().join("none"))).unwrap();
    let error = quorate_backup::Store::open(&missing, &hasty()).await.unwrap_err();
    assert!(error.to_string().contains("cannot read the CA in"), "{error}");
}
