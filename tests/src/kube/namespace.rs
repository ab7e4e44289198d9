//! A test's own namespace, with a ResourceQuota as in places that many people share. Deleted with all that is in it when
//! dropped; claims' volumes go with it.

use std::process::Output;

use serde_json::Value;

use super::bed::Bed;
use super::cluster::KubeCluster;
use super::locks::Guard;
use super::said;

/// A namespace of the bed.
pub struct Namespace {
    pub name: String,
    bed: &'static Bed,
    // Let go of last.
    _share: Option<Guard>,
}

const QUOTA: &str = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota}
spec:
  hard: {pods: '24', persistentvolumeclaims: '12', requests.cpu: '4', requests.memory: 8Gi, limits.cpu: '24', limits.memory: 24Gi}
";

impl Namespace {
    /// A new namespace, used beside other tests.
    pub fn new(purpose: &str) -> Namespace {
        let bed = Bed::get();
        Namespace::make(bed, purpose, Some(bed.beside_others()))
    }

    /// A new namespace of a test that has the bed alone: see [`Bed::alone`].
    pub fn alone(purpose: &str) -> Namespace {
        Namespace::make(Bed::get(), purpose, None)
    }

    fn make(bed: &'static Bed, purpose: &str, share: Option<Guard>) -> Namespace {
        let name = format!("{purpose}-{:06x}", fastrand::u32(..1 << 24));
        bed.must(&["create", "namespace", &name]);
        let namespace = Namespace {
            name,
            bed,
            _share: share,
        };
        namespace.apply(QUOTA);
        namespace
    }

    /// The bed it is in.
    pub fn bed(&self) -> &'static Bed {
        self.bed
    }

    /// Runs kubectl in this namespace.
    pub fn kubectl(&self, args: &[&str]) -> Output {
        self.bed.kubectl(&[&["-n", &self.name], args].concat())
    }

    /// Runs kubectl in this namespace, which must succeed, and gives what it printed.
    pub fn must(&self, args: &[&str]) -> String {
        self.bed.must(&[&["-n", &self.name], args].concat())
    }

    /// An object or a list of this namespace as JSON; `None` if it is not there.
    pub fn json(&self, args: &[&str]) -> Option<Value> {
        self.bed.json(&[&["-n", &self.name], args].concat())
    }

    /// The items of a list of this namespace.
    pub fn items(&self, args: &[&str]) -> Vec<Value> {
        // kubectl prints nothing at all for a list of several kinds that is empty.
        let Some(list) = self.json(args) else {
            return Vec::new();
        };
        let items = list["items"].as_array().cloned();
        items.unwrap_or_else(|| panic!("{args:?} is no list: {list}"))
    }

    /// The names of the objects of a list of this namespace, sorted.
    pub fn names(&self, args: &[&str]) -> Vec<String> {
        let items = self.items(args);
        let names = items
            .iter()
            .filter_map(|i| i["metadata"]["name"].as_str().map(str::to_owned));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Hands objects to the API server, which may refuse them.
    pub fn try_apply(&self, yaml: &str, flags: &[&str]) -> Output {
        self.bed
            .kubectl_with(&[&["-n", &self.name, "apply", "-f", "-"], flags].concat(), yaml)
    }

    /// Hands objects to the API server.
    pub fn apply(&self, yaml: &str) {
        let output = self.try_apply(yaml, &[]);
        assert!(
            output.status.success(),
            "kubectl apply: {}\n{yaml}",
            said(&output)
        );
    }

    /// Hands over the manifest of a cluster of this namespace, and gives a handle to it.
    pub fn create(&self, name: &str, yaml: &str) -> KubeCluster<'_> {
        self.apply(yaml);
        KubeCluster::of(self, name)
    }

    /// Lets so many pods be made here, and no more; in force when this returns.
    pub fn allow_pods(&self, pods: u32) {
        let pods = pods.to_string();
        let quota = serde_json::json!({"spec": {"hard": {"pods": pods}}}).to_string();
        self.must(&["patch", "resourcequota", "quota", "--type=merge", "-p", &quota]);
        self.wait_for("the quota in force", || {
            let quota = self.json(&["resourcequota", "quota"])?;
            (quota["status"]["hard"]["pods"] == pods).then_some(())
        });
    }

    /// Asks for what must be refused in all of these words, and gives the refusal; see [`Namespace::answer`].
    pub fn refusal(&self, words: &[&str], ask: impl Fn() -> Output, undo: impl Fn()) -> String {
        self.answer(words, false, ask, undo)
    }

    /// Asks for what must be let in, or refused, in all of these words, and gives what is said. The API server passes over
    /// a webhook that does not answer in time, and counts that: such a question was not put, `undo` takes back what came
    /// of it, and it is asked again.
    pub fn answer(&self, words: &[&str], let_in: bool, ask: impl Fn() -> Output, undo: impl Fn()) -> String {
        let began = std::time::Instant::now();
        loop {
            let before = self.bed.webhook_passed_over();
            let output = ask();
            let reported = said(&output);
            let missing = words.iter().find(|word| !reported.contains(**word));
            if output.status.success() == let_in && missing.is_none() {
                return reported;
            }
            let asked = self.bed.webhook_passed_over() == before;
            assert!(
                !asked && began.elapsed() < super::PATIENCE,
                "let in: {}, without {missing:?}: {reported}\n(the webhook was asked: {asked})",
                output.status.success()
            );
            undo();
        }
    }

    /// Waits until `look` finds something, or fails with all there is to see here.
    pub fn wait_for<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        self.bed.wait_for(what, || self.picture(), look)
    }

    /// Waits until there is an event with this reason whose message contains `part`.
    pub fn await_event(&self, reason: &str, part: &str) -> Value {
        self.wait_for(&format!("an event {reason} with {part:?}"), || {
            self.events(reason)
                .into_iter()
                .find(|e| e["message"].as_str().is_some_and(|m| m.contains(part)))
        })
    }

    /// The events with this reason.
    pub fn events(&self, reason: &str) -> Vec<Value> {
        self.items(&["events", "--field-selector", &format!("reason={reason}")])
    }

    /// All there is to see, for the reader of a test that failed.
    pub fn picture(&self) -> String {
        let mut parts = vec![format!("--- the operator ---\n{}", self.bed.operator_log(60))];
        let mut show = |args: &[&str]| {
            parts.push(format!(
                "--- kubectl {} ---\n{}",
                args.join(" "),
                said(&self.kubectl(args))
            ));
        };
        show(&[
            "get",
            "etcdclusters,etcdpeers,pods,persistentvolumeclaims",
            "-o",
            "wide",
        ]);
        show(&["get", "etcdclusters", "-o", "yaml"]);
        show(&["get", "events", "--sort-by=.lastTimestamp"]);
        for pod in self.names(&["pods"]) {
            show(&["describe", "pod", &pod]);
            show(&["logs", &pod, "--all-containers", "--prefix", "--tail=25"]);
        }
        parts.join("\n")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.picture());
        }
        // Not awaited: it takes a while, and nobody needs its name again.
        let delete = [
            "delete",
            "namespace",
            &self.name,
            "--wait=false",
            "--ignore-not-found",
        ];
        let deleted = self.bed.kubectl(&delete);
        if !deleted.status.success() {
            let why = format!("namespace {} is left behind: {}", self.name, said(&deleted));
            assert!(std::thread::panicking(), "{why}");
            eprintln!("{why}");
        }
    }
}
