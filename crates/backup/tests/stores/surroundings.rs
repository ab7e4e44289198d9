//! Credentials that nobody gave: from the environment, from the files of other tools, from nowhere.
//!
//! A process has one environment, so each case is this test program again, with an environment of its own.

use std::process::{Command, Stdio};

use quorate_backup::Trouble;
use quorate_testkit::{StoreKind, StoreServer};

use crate::conformance::noise;
use crate::{hasty, open, open_with};

/// Where the program that was started again finds the store.
const URL: &str = "QUORATE_TEST_STORE";

/// Runs the test of this name again with only these variables.
fn again(test: &str, url: &str, variables: &[(&str, &str)]) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env_clear()
        .env(URL, url)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{variables:?}: {}", text.concat());
    assert!(text[0].contains("1 passed"), "{}", text.concat());
}

/// The server's address without the file that holds its credentials.
fn without_credentials(url: &str) -> &str {
    url.split("&credentials=").next().unwrap()
}

#[tokio::test]
async fn s3_credentials_that_lie_around() {
    if let Ok(url) = std::env::var(URL) {
        let store = open(&url).await;
        store.put("a", noise(10, 1)).await.unwrap();
        assert_eq!(store.get("a", 10).await.unwrap(), noise(10, 1));
        return;
    }
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("bucket");
    let test = "surroundings::s3_credentials_that_lie_around";
    let url = server.url("bucket", "x");
    let bare = without_credentials(&url);
    let file = server.credentials();
    let file = file.to_str().unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once('=').unwrap().1.trim().to_owned()
    };
    let (id, secret) = (value("aws_access_key_id"), value("aws_secret_access_key"));
    again(
        test,
        bare,
        &[("AWS_ACCESS_KEY_ID", &id), ("AWS_SECRET_ACCESS_KEY", &secret)],
    );
    again(test, bare, &[("AWS_SHARED_CREDENTIALS_FILE", file)]);
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let named = text.replace("[default]", "[backups]");
    std::fs::write(home.path().join(".aws/credentials"), named).unwrap();
    let home = home.path().to_str().unwrap();
    again(test, bare, &[("HOME", home), ("AWS_PROFILE", "backups")]);
    again(test, &format!("{bare}&profile=backups"), &[("HOME", home)]);
    // Nobody is trusted on this machine, as in an image that holds nothing but us.
    again(
        test,
        &url,
        &[("SSL_CERT_FILE", "/dev/null"), ("SSL_CERT_DIR", "/dev/null")],
    );
    // What the address says comes before what lies around.
    again(
        test,
        &url,
        &[("AWS_ACCESS_KEY_ID", "wrong"), ("AWS_SECRET_ACCESS_KEY", "wrong")],
    );
}

#[tokio::test]
async fn azure_credentials_in_the_environment() {
    if let Ok(url) = std::env::var(URL) {
        let store = open(&url).await;
        store.put("a", noise(10, 1)).await.unwrap();
        return;
    }
    let server = StoreServer::start(StoreKind::Azure);
    server.make_bucket("bucket");
    let url = server.url("bucket", "x");
    let text = std::fs::read_to_string(server.credentials()).unwrap();
    let key = text.lines().find_map(|line| line.strip_prefix("key=")).unwrap();
    let variables = [
        ("AZURE_STORAGE_ACCOUNT_NAME", "quorate"),
        ("AZURE_STORAGE_ACCOUNT_KEY", key),
    ];
    let test = "surroundings::azure_credentials_in_the_environment";
    again(test, without_credentials(&url), &variables);
}

/// No credentials anywhere, and nobody to ask for them.
#[tokio::test]
async fn nowhere() {
    if let Ok(url) = std::env::var(URL) {
        let error = open_with(&url, &hasty()).await.get("a", 1).await.unwrap_err();
        assert_eq!(error.trouble(), Some(Trouble::Denied), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("no credentials were given, and this machine has none"),
            "{text}"
        );
        assert!(text.contains("add credentials=FILE to the address"), "{text}");
        return;
    }
    let closed = format!("http://127.0.0.1:{}", quorate_testkit::free_port());
    let url = format!("s3://bucket/x?endpoint={closed}&allowHttp=true");
    again(
        "surroundings::nowhere",
        &url,
        &[("AWS_METADATA_ENDPOINT", &closed)],
    );
}
