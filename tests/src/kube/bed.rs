//! The one Kubernetes of this machine, with the operator of this checkout running in it under its own rights.
//!
//! In: what `make tools-kube` and `make image` left. Out: kubectl, and for the holder of a [`Guard`] an operator that is
//! installed and ready. Never: a bed taken down here, for other test programs follow on it; nor one that is changed for
//! a test while another has it alone.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::lax;
use super::locks::{Guard, Locks};
use super::look::{look, write};
use super::{PATIENCE, said, until};
use crate::cluster::binary;
use crate::etcd;

/// Where the operator is installed.
pub const OPERATOR_NAMESPACE: &str = "quorate-system";
const OPERATOR: &str = "quorate-operator";
const OPERATOR_PODS: &str = "app.kubernetes.io/name=quorate-operator";
/// No kubectl may take longer; those that wait say so themselves, and say less.
const KUBECTL_SECONDS: &str = "240";
/// Nor may anything done to the bed itself.
const SCRIPT_SECONDS: &str = "600";
/// An API server that does not answer for so long is none.
const ANSWERS: Duration = Duration::from_secs(60);
/// On the operator's pods: the id of the image they run, since its name is always the same.
const BUILD_ANNOTATION: &str = "quorate.test/build";
/// On the operator's Deployment: the arguments it was installed with, which some tests change for a while.
const ARGS_ANNOTATION: &str = "quorate.test/args";

/// A Kubernetes with the operator in it.
pub struct Bed {
    kubectl: PathBuf,
    dir: PathBuf,
    locks: Locks,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The value of a line `NAME=value` in `tools/versions`.
fn pinned(name: &str) -> String {
    let text = std::fs::read_to_string(root().join("tools/versions")).expect("tools/versions");
    let value = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
    value
        .unwrap_or_else(|| panic!("{name} in tools/versions"))
        .to_owned()
}

/// The id of the image in a tar that `scripts/image` wrote: its first entry is the image's configuration, named for its
/// SHA-256, and names that of the one layer.
fn image_id(tar: &Path) -> String {
    let mut name = [0; 100];
    let read = std::fs::File::open(tar).and_then(|mut file| file.read_exact(&mut name));
    read.unwrap_or_else(|e| panic!("{}: {e}", tar.display()));
    let name = String::from_utf8_lossy(&name);
    let id = name.split_once(".json").map(|(id, _)| id.to_owned());
    let id = id.filter(|id| id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    id.unwrap_or_else(|| panic!("{} does not begin with an image's configuration", tar.display()))
}

/// The arguments of the operator, of its Deployment.
fn args(deployment: &Value) -> String {
    let args = deployment.pointer("/spec/template/spec/containers/0/args");
    args.unwrap_or(&Value::Null).to_string()
}

/// Whether a Deployment runs this build as it was installed, with no pod more or less.
fn is_installed(deployment: &Value, build: &str) -> bool {
    let built = format!(
        "/spec/template/metadata/annotations/{}",
        BUILD_ANNOTATION.replace('/', "~1")
    );
    let status = &deployment["status"];
    let one = |field: &str| status[field] == 1;
    deployment.pointer(&built).is_some_and(|b| b == build)
        && deployment["metadata"]["annotations"][ARGS_ANNOTATION] == args(deployment)
        && deployment["spec"]["replicas"] == 1
        && status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "readyReplicas"]
            .into_iter()
            .all(one)
}

impl Bed {
    /// A handle to the bed. It is there, with the operator in it, for the holder of a guard.
    pub fn get() -> &'static Bed {
        static BED: OnceLock<Bed> = OnceLock::new();
        BED.get_or_init(|| {
            let dir =
                std::env::var_os("QUORATE_KUBE_DIR").map_or("/var/lib/quorate-kube".into(), PathBuf::from);
            Bed {
                kubectl: etcd::cache().join("kube").join(pinned("KUBE")).join("kubectl"),
                locks: Locks::of(&dir),
                dir,
            }
        })
    }

    /// A share of the bed, beside other tests.
    pub fn beside_others(&self) -> Guard {
        let guard = self.locks.share();
        self.ensure();
        guard
    }

    /// The bed for this test alone: it takes away what others rely on.
    pub fn alone(&self) -> Guard {
        let guard = self.locks.alone();
        self.ensure();
        guard
    }

    /// Starts the bed unless it runs, and installs this checkout's operator unless that runs and is asked. Only with a
    /// guard: the operator is away while another test has the bed alone.
    fn ensure(&self) {
        let _setup = self.locks.setup();
        let tar = self.image();
        let build = image_id(&tar);
        if self.dir.join("ready").exists() && self.is_as_installed(&build) {
            return;
        }
        self.script(&["up"]);
        self.install(&tar, &build);
    }

    /// One look at all that a test which was killed may have left otherwise.
    fn is_as_installed(&self, build: &str) -> bool {
        let deployment = format!("deployment/{OPERATOR}");
        let definition = lax::DEFINITION.join("/");
        let Ok(Some(list)) = self.try_json(&["-n", OPERATOR_NAMESPACE, &deployment, &definition]) else {
            return false;
        };
        let of_kind = |kind: &str| {
            let items = list["items"].as_array().into_iter().flatten();
            items.into_iter().find(|item| item["kind"] == kind)
        };
        if let Some(definition) = of_kind("CustomResourceDefinition") {
            assert!(
                lax::has_rules(definition),
                "a test that was killed left EtcdClusters without rules: run `scripts/kube down`"
            );
        }
        of_kind("Deployment").is_some_and(|d| is_installed(d, build)) && self.is_judged()
    }

    /// Where the bed keeps its state.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kubectl of the bed's own version.
    pub fn kubectl_program(&self) -> &Path {
        &self.kubectl
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// Runs `scripts/kube`, which must succeed.
    pub fn script(&self, args: &[&str]) -> String {
        let output = Command::new("timeout")
            .arg(SCRIPT_SECONDS)
            .arg(root().join("scripts/kube"))
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("scripts/kube can be run");
        assert!(
            output.status.success(),
            "scripts/kube {args:?}: {}",
            said(&output)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// kubectl, yet to be run.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("timeout");
        command.arg(KUBECTL_SECONDS).arg(&self.kubectl);
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(args);
        command
    }

    pub fn kubectl(&self, args: &[&str]) -> Output {
        self.command(args)
            .stdin(Stdio::null())
            .output()
            .expect("kubectl can be run; `make tools-kube` puts it in the cache")
    }

    /// Runs kubectl with `input` on its standard input.
    pub fn kubectl_with(&self, args: &[&str], input: &str) -> Output {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl can be run; `make tools-kube` puts it in the cache");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that refuses its flags ends before it reads; what it says is in its output.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("our own child can be awaited")
    }

    /// Runs kubectl, which must succeed, and gives what it printed.
    pub fn must(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(output.status.success(), "kubectl {args:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// An object or a list as JSON; `None` if it is not there. An API server that fails to say is asked again, for a
    /// while: what could not be seen is never taken for gone.
    pub fn json(&self, args: &[&str]) -> Option<Value> {
        let mut last = String::new();
        let answer = until(ANSWERS, || self.try_json(args).map_err(|why| last = why).ok());
        answer.unwrap_or_else(|| panic!("kubectl get {args:?}: {last}"))
    }

    /// The same, asked once.
    pub fn try_json(&self, args: &[&str]) -> Result<Option<Value>, String> {
        if let Some(answer) = look(&self.dir.join("api.sock"), args) {
            return answer;
        }
        let output = self.kubectl(&[&["get", "-o", "json", "--ignore-not-found"], args].concat());
        if !output.status.success() {
            return Err(said(&output));
        }
        if output.stdout.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let value = serde_json::from_slice(&output.stdout);
        value.map(Some).map_err(|e| e.to_string())
    }

    /// Creates an object below this path of the API server.
    pub fn create(&self, path: &str, object: &Value) {
        let created = write(
            &self.dir.join("api.sock"),
            ("POST", "application/json"),
            path,
            object,
        );
        created.unwrap_or_else(|why| panic!("{why}"));
    }

    /// Changes the object at this path of the API server by a merge patch.
    pub fn merge(&self, path: &str, patch: &Value) {
        let how = ("PATCH", "application/merge-patch+json");
        write(&self.dir.join("api.sock"), how, path, patch).unwrap_or_else(|why| panic!("{why}"));
    }

    fn image(&self) -> PathBuf {
        let binary = binary();
        let target = binary
            .parent()
            .and_then(Path::parent)
            .expect("target/<profile>/quorate");
        let tar = target.join("image/quorate.tar");
        let modified = |path: &Path| path.metadata().and_then(|m| m.modified());
        let of = std::fs::read_to_string(target.join("image/quorate.tar.of"));
        let of = of.unwrap_or_else(|e| panic!("{}: {e}: run `make image` first", tar.display()));
        let of = Path::new(of.trim());
        let stale = modified(of).ok() > modified(&tar).ok();
        assert!(
            !stale,
            "{} is newer than the image of it: run `make image` first",
            of.display()
        );
        tar
    }

    /// Puts this checkout's operator in place, and waits until it is ready.
    fn install(&self, tar: &Path, build: &str) {
        let deployment = ["-n", OPERATOR_NAMESPACE, "deployment", OPERATOR];
        let running = self.json(&deployment).and_then(|d| {
            let annotations = d.pointer("/spec/template/metadata/annotations")?;
            annotations.get(BUILD_ANNOTATION)?.as_str().map(str::to_owned)
        });
        if running.as_deref() != Some(build) {
            self.script(&["image", tar.to_str().expect("a path in UTF-8")]);
        }
        let installed = self.kubectl_with(&["apply", "-f", "-"], &install_stream());
        assert!(installed.status.success(), "kubectl apply: {}", said(&installed));
        let args = self.json(&deployment).map(|d| args(&d));
        let patch = json!({
            "metadata": {"annotations": {ARGS_ANNOTATION: args}},
            "spec": {"template": {"metadata": {"annotations": {BUILD_ANNOTATION: build}}}},
        });
        let patch = patch.to_string();
        self.must(&[&["patch", "-p", &patch], &deployment[..]].concat());
        self.await_operator();
        self.await_webhook();
    }

    /// Does the API server ask the operator, and believe it? Then a fault of the schema and one of the rules are reported
    /// together, which it never does by itself.
    pub fn is_judged(&self) -> bool {
        self.unjudged().is_none()
    }

    /// What is said instead, if it does not.
    pub fn unjudged(&self) -> Option<String> {
        let probe = "apiVersion: etcd.improbable.io/v1alpha1\nkind: EtcdCluster\nmetadata: {name: probe}\n\
                     spec: {replicas: 0, version: 4.0.0}\n";
        let create = ["create", "--dry-run=server", "-n", "default", "-f", "-"];
        let said = said(&self.kubectl_with(&create, probe));
        let judged = said.contains("spec.replicas") && said.contains("only Etcd version 3");
        (!judged).then_some(said)
    }

    /// How often the API server let something pass because a webhook did not answer in time, by its own count.
    pub fn webhook_passed_over(&self) -> u64 {
        let metrics = self.must(&["get", "--raw", "/metrics"]);
        let counts = metrics.lines().filter_map(|line| {
            let counted = line.strip_prefix("apiserver_admission_webhook_fail_open_count{")?;
            Some(counted.rsplit_once(' ')?.1.parse::<f64>().ok()? as u64)
        });
        counts.sum()
    }

    /// Waits until it does.
    pub fn await_webhook(&self) {
        let judged = until(Duration::from_secs(60), || self.is_judged().then_some(()));
        let both = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
        assert!(
            judged.is_some(),
            "the webhook is not asked, or not believed\n{}\n{}",
            self.must(&["get", both, "-o", "yaml"]),
            self.operator_log(40)
        );
    }

    /// Waits until the operator is ready.
    pub fn await_operator(&self) {
        let wait = ["rollout", "status", "deployment", OPERATOR, "--timeout=120s"];
        let output = self.kubectl(&[&["-n", OPERATOR_NAMESPACE], &wait[..]].concat());
        assert!(
            output.status.success(),
            "the operator does not get ready: {}\n{}\n{}",
            said(&output),
            said(&self.kubectl(&["-n", OPERATOR_NAMESPACE, "describe", "pods"])),
            self.operator_log(40)
        );
    }

    /// Sends the operator away, or has it come back.
    pub fn scale_operator(&self, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        self.must(&[
            "-n",
            OPERATOR_NAMESPACE,
            "scale",
            "deployment",
            OPERATOR,
            &replicas,
        ]);
        if replicas == "--replicas=0" {
            let gone = until(Duration::from_secs(60), || {
                self.operator_pods().is_empty().then_some(())
            });
            assert!(gone.is_some(), "the operator does not go away");
        } else {
            self.await_operator();
        }
    }

    fn operator_pods(&self) -> Vec<String> {
        let pods = self.must(&[
            "-n",
            OPERATOR_NAMESPACE,
            "get",
            "pods",
            "-l",
            OPERATOR_PODS,
            "-o",
            "name",
        ]);
        pods.lines().map(str::to_owned).collect()
    }

    /// The operator's last lines.
    pub fn operator_log(&self, lines: usize) -> String {
        let tail = format!("--tail={lines}");
        said(&self.kubectl(&[
            "-n",
            OPERATOR_NAMESPACE,
            "logs",
            "-l",
            OPERATOR_PODS,
            "--prefix",
            &tail,
        ]))
    }

    /// Waits until `look` finds something, or fails with `what` and `picture`.
    pub fn wait_for<T>(
        &self,
        what: &str,
        picture: impl Fn() -> String,
        look: impl FnMut() -> Option<T>,
    ) -> T {
        until(PATIENCE, look).unwrap_or_else(|| panic!("not {what} after {PATIENCE:?}\n{}", picture()))
    }
}

/// What `quorate install` prints for the image that `make image` builds, with the webhook.
pub fn install_stream() -> String {
    install_stream_with(&["--webhook"])
}

/// The same with these flags.
pub fn install_stream_with(flags: &[&str]) -> String {
    let output = Command::new(binary())
        .args(["install", "--image", "quorate:dev"])
        .args(flags)
        .output()
        .expect("the binary can be run");
    assert!(output.status.success(), "quorate install: {}", said(&output));
    String::from_utf8(output.stdout).expect("YAML is text")
}
