//! Real object storage on this machine: an S3 gateway, Azure's own emulator, a Google one.
//!
//! In: which one. Out: a server on a loopback port with a directory of its own, buckets in it, and addresses (as
//! `quorate-backup` reads them) that need nothing else: credentials are in a file that the address names.
//! In front of any of them a [`Proxy`] can be put, which breaks what a test wants broken.

mod fault;
mod proxy;

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::await_that;
use crate::log_tail::{WithLog, log_tail};
use crate::plain_http::request;
use crate::ports::free_port;
use crate::versions::cache;

pub use fault::Fault;
pub use proxy::Proxy;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The S3 server's own user.
const S3_KEY: (&str, &str) = ("quorate-tests", "protects-nothing-at-all");
/// Azure's account and its key.
const AZURE_ACCOUNT: &str = "quorate";
const AZURE_KEY: &str =
    "YSBrZXkgZm9yIHRlc3RzIHRoYXQgcHJvdGVjdHMgbm90aGluZyBhdCBhbGwsIDY0IGJ5dGVzIGluIGxlbmd0aA==";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// S3: versitygw on a directory.
    S3,
    Azure,
    /// Google: fake-gcs-server behind a translation of our own, because it does not speak the API that clients write with.
    /// It takes anybody.
    Google,
    /// The same, but every write overwrites, whatever its condition.
    Forgetful,
}

/// One running object storage server. Ended when dropped.
#[derive(Debug)]
pub struct StoreServer {
    kind: Kind,
    home: TempDir,
    address: SocketAddr,
    tls: bool,
    child: Child,
}

/// A certificate and its key, for a server that is to speak TLS.
#[derive(Debug, Clone)]
pub struct ServerCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl StoreServer {
    /// Starts one and waits until it answers.
    pub fn start(kind: Kind) -> StoreServer {
        StoreServer::start_with(kind, None)
    }

    /// An S3 server that speaks TLS with this certificate.
    pub fn start_tls(certificate: &ServerCertificate) -> StoreServer {
        StoreServer::start_with(Kind::S3, Some(certificate))
    }

    fn start_with(kind: Kind, certificate: Option<&ServerCertificate>) -> StoreServer {
        let home = tempfile::tempdir().expect("a temporary directory");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = spawn(kind, home.path(), address, certificate);
        let mut server = StoreServer {
            kind,
            home,
            address,
            tls: certificate.is_some(),
            child,
        };
        server.write_credentials();
        server.await_answer();
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The address of a store in it, as `quorate-backup` reads it.
    pub fn url(&self, bucket: &str, prefix: &str) -> String {
        self.url_at(self.address, bucket, prefix)
    }

    /// The same store, reached elsewhere: through a [`Proxy`].
    pub fn url_at(&self, address: SocketAddr, bucket: &str, prefix: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let credentials = self.credentials();
        let credentials = credentials.display();
        match self.kind {
            Kind::S3 => format!(
                "s3://{bucket}/{prefix}?endpoint={scheme}://{address}&region=us-east-1&allowHttp=true&credentials={credentials}"
            ),
            Kind::Azure => format!(
                "az://{bucket}/{prefix}?endpoint=http://{address}/{AZURE_ACCOUNT}&allowHttp=true&credentials={credentials}"
            ),
            Kind::Google | Kind::Forgetful => {
                format!(
                    "gs://{bucket}/{prefix}?endpoint=http://{address}&allowHttp=true&credentials={credentials}"
                )
            }
        }
    }

    /// The file with its credentials. A test may overwrite it.
    pub fn credentials(&self) -> PathBuf {
        self.home.path().join("credentials")
    }

    fn write_credentials(&self) {
        let text = match self.kind {
            Kind::S3 => {
                let (id, secret) = S3_KEY;
                format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n")
            }
            Kind::Azure => format!("account={AZURE_ACCOUNT}\nkey={AZURE_KEY}\n"),
            Kind::Google | Kind::Forgetful => {
                r#"{"client_email":"","private_key":"","private_key_id":"","disable_oauth":true}"#.to_owned()
            }
        };
        std::fs::write(self.credentials(), text).expect("a credentials file");
    }

    pub fn make_bucket(&self, name: &str) {
        match self.kind {
            // A directory is a bucket, and the server's own user may use any.
            Kind::S3 => std::fs::create_dir(self.data().join(name)).expect("a bucket"),
            Kind::Azure => {
                // Signed once for all time with the key above: any request to any container of this account.
                let signed = "sv=2018-11-09&ss=b&srt=sco&sp=rwdlac&se=2099-01-01T00:00:00Z\
                              &sig=0Rr%2BV6zsgCRgqjmc4ODRwz3SChlnc8xpU1VnR5zhCrI%3D";
                self.ask(
                    "PUT",
                    &format!("/{AZURE_ACCOUNT}/{name}?restype=container&{signed}"),
                    "",
                    201,
                );
            }
            Kind::Google | Kind::Forgetful => {
                self.ask(
                    "POST",
                    "/storage/v1/b?project=p",
                    &format!(r#"{{"name":"{name}"}}"#),
                    200,
                );
            }
        }
    }

    /// Where it keeps its objects.
    pub fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// One plain request, and the status it must have.
    fn ask(&self, method: &str, target: &str, body: &str, wanted: u16) {
        let answer = request(self.address, method, target, body).expect("an answer");
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert_eq!(status, wanted.to_string(), "{method} {target}: {answer}");
    }

    /// Waits until it answers anything.
    fn await_answer(&mut self) {
        let log = self.home.path().join("log");
        await_that(&format!("{:?} answers", self.kind), PATIENCE, || {
            let answered = match self.tls {
                true => TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).map(drop),
                false => request(self.address, "GET", "/", "").map(drop),
            };
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                panic!(
                    "{:?} ended before it served: {status}\n{}",
                    self.kind,
                    log_tail(&log)
                );
            }
            answered.map_err(|seen| WithLog {
                seen,
                log: log.clone(),
            })
        });
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(kind: Kind, home: &Path, address: SocketAddr, certificate: Option<&ServerCertificate>) -> Child {
    let data = home.join("data");
    std::fs::create_dir(&data).expect("a directory");
    let mut command = match kind {
        Kind::S3 => {
            let mut command = Command::new(program("versitygw", "versitygw"));
            let (id, secret) = S3_KEY;
            command
                .env_clear()
                .args(["--access", id, "--secret", secret, "--keep-alive", "--quiet"]);
            command.arg("--port").arg(address.to_string());
            if let Some(ServerCertificate { certificate, key }) = certificate {
                command.arg("--cert").arg(certificate).arg("--key").arg(key);
            }
            // Beside the objects, because not every file system keeps attributes with its files.
            let sidecar = home.join("sidecar");
            std::fs::create_dir(&sidecar).expect("a directory");
            command.arg("posix").arg("--sidecar").arg(sidecar).arg(&data);
            command
        }
        Kind::Azure => {
            let mut command = Command::new("node");
            command.arg(program("azurite", "node_modules/azurite/dist/src/blob/main.js"));
            command.env("AZURITE_ACCOUNTS", format!("{AZURE_ACCOUNT}:{AZURE_KEY}"));
            command.args([
                "--blobHost",
                "127.0.0.1",
                "--blobPort",
                &address.port().to_string(),
            ]);
            command.args([
                "--skipApiVersionCheck",
                "--disableTelemetry",
                "--silent",
                "--location",
            ]);
            command.arg(&data);
            command
        }
        Kind::Google | Kind::Forgetful => {
            let mut command = Command::new(program("fake-gcs-server", "fake-gcs-server"));
            command.env_clear().arg("-listen").arg(address.to_string());
            if kind == Kind::Forgetful {
                command.arg("-forget-conditions");
            }
            command
        }
    };
    let log = File::create(home.join("log")).expect("a log");
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{kind:?} cannot be started: {error}; run `make tools-stores`"))
}

/// A program of a server in the cache, the one made last.
fn program(server: &str, path: &str) -> PathBuf {
    let prefix = format!("{server}-");
    let found = std::fs::read_dir(cache().join("stores"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .filter_map(|home| Some((home.join("VERIFIED").metadata().ok()?.modified().ok()?, home)))
        .max();
    let (_, home) =
        found.unwrap_or_else(|| panic!("no {server} in {}: run `make tools-stores`", cache().display()));
    home.join(path)
}
