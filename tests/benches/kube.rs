//! The Kubernetes ground in figures: `make bench-kube`. Printed; never a verdict.

use std::time::{Duration, Instant};

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{KubeCluster, manifest, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::operator::Then;
use quorate_tests::kube::until;
use rustix::process::Pid;
use serde_json::{Value, json};

const ROUNDS: usize = 3;
/// More clusters than any one of which this machine could run the members.
const IDLE_CLUSTERS: [usize; 2] = [100, 1000];
/// How many are made at a time.
const BATCH: usize = 100;
/// How long making a batch and bringing it to rest may take, for the first and for the last hundred.
const BATCH_LIMIT: Duration = Duration::from_secs(120);
/// How long an operator may take to observe all of them.
const OBSERVED_LIMIT: Duration = Duration::from_secs(300);
/// How long the operator is watched doing nothing.
const IDLE: Duration = Duration::from_secs(60);

/// What the operator writes on a claim of the volume in it.
const VOLUME_ANNOTATION: &str = "etcd.improbable.io/volume";
/// No node has this label, and no class this name: a model member takes up no more of this machine than its objects.
const NOWHERE: &str = "quorate-bench-nowhere";

fn main() {
    let version = etcd::newest("3.6");
    println!("etcd {version}, Kubernetes on one node of this machine\n");
    time_to_three(&version);
    idle(&version);
}

fn time_to_three(version: &str) {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let namespace = Namespace::new("bench");
        let began = Instant::now();
        let cluster = namespace.create("c", &manifest("c", 3, version));
        cluster.await_ready(3, version);
        times.push(began.elapsed());
    }
    times.sort();
    let median = times[times.len() / 2].as_secs_f64();
    println!("manifest to three members Ready, images present: {median:.1} s (target: at most 30)");
    println!("figures: three_ready_s={median:.1}");
}

/// Many clusters at rest, each with a model of its one member. The operator makes, watches and asks them as any other.
fn idle(version: &str) {
    let namespace = Namespace::new("bench");
    // That of a namespace for tests counts pods and claims.
    namespace.must(&["delete", "resourcequota", "quota"]);
    let model = Model::start(&namespace, version);
    println!(
        "\nmodel members: the operator, the API server and the controllers made the EtcdPeer, claim, ReplicaSet, pod and \
         Services of each cluster. Its pod is on no node; its status was written by hand, and says that etcd runs at the \
         address of the one real etcd here, which answers for all. Each claim says that its volume is that etcd's."
    );
    let mut made = 0;
    for clusters in IDLE_CLUSTERS {
        let began = Instant::now();
        while made < clusters {
            let upto = clusters.min(made + BATCH);
            model.make(made..upto);
            made = upto;
        }
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "\n{clusters} clusters, each with one model member, all Ready {seconds:.0} s after the first was asked for"
        );
        at_rest(clusters);
        restarted(clusters);
    }
}

/// One real etcd, and clusters that have it for their only member.
struct Model<'a> {
    namespace: &'a Namespace,
    version: String,
    /// Where it is asked: its pod's address.
    address: String,
    /// What its claim says of its volume.
    record: String,
}

impl<'a> Model<'a> {
    fn start(namespace: &'a Namespace, version: &str) -> Model<'a> {
        let shared: KubeCluster<'a> = namespace.create("shared", &manifest("shared", 1, version));
        shared.await_ready(1, version);
        let record = namespace.wait_for("the record of the shared etcd's volume", || {
            let claim = namespace.json(&["persistentvolumeclaim", "shared-0"])?;
            let record = text(&claim["metadata"]["annotations"][VOLUME_ANNOTATION]);
            let says: Value = serde_json::from_str(&record).ok()?;
            let known = says["member"].is_u64() && says["cluster"].is_u64() && says["served"] == version;
            known.then_some(record)
        });
        let pod = shared.pod("shared-0").expect("it is ready");
        Model {
            namespace,
            version: version.to_owned(),
            address: text(&pod["status"]["podIP"]),
            record,
        }
    }

    /// Makes these clusters, and waits until each is Ready.
    fn make(&self, clusters: std::ops::Range<usize>) {
        let bed = Bed::get();
        let (core, etcd) = ("/api/v1", "/apis/etcd.improbable.io/v1alpha1");
        let at = |group: &str, plural: &str| format!("{group}/namespaces/{}/{plural}", self.namespace.name);
        // First of all, so that the operator finds them when it meets the clusters.
        for n in clusters.clone() {
            bed.create(&at(core, "persistentvolumeclaims"), &self.claim(&format!("c{n}")));
        }
        for n in clusters.clone() {
            bed.create(&at(etcd, "etcdclusters"), &self.cluster(&format!("c{n}")));
        }
        let wanted = clusters.end + 1; // The shared one is one as well.
        let (mut ready, mut patched) = (0, 0);
        let all = until(BATCH_LIMIT, || {
            for pod in self
                .namespace
                .items(&["pods", "--field-selector", "status.phase=Pending"])
            {
                let path = at(core, "pods") + "/" + &text(&pod["metadata"]["name"]) + "/status";
                bed.merge(&path, &json!({"status": self.running()}));
                patched += 1;
            }
            let (pod, _) = bed.acting_operator();
            let known = bed.try_figures(&pod, "quorate_cluster_ready").ok()?;
            ready = known.iter().filter(|(_, ready)| *ready == 1.0).count();
            (ready >= wanted).then_some(())
        });
        assert!(
            all.is_some(),
            "clusters {clusters:?} are not all Ready after {BATCH_LIMIT:?}: {ready} of {wanted} are, and {patched} pods of \
             these were there to be modelled; the last of them:\n{}\n{}",
            self.namespace.must(&[
                "get",
                "etcdclusters",
                &format!("c{}", clusters.end - 1),
                "-o",
                "yaml"
            ]),
            bed.operator_log(40)
        );
    }

    fn cluster(&self, name: &str) -> Value {
        json!({
            "apiVersion": "etcd.improbable.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": name},
            "spec": {
                "replicas": 1,
                "version": self.version,
                "storage": {"volumeClaimTemplate": self.claim(name)["spec"]},
                "podTemplate": {
                    "nodeSelector": {NOWHERE: "yes"},
                    "resources": {
                        "requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "512Mi"},
                    },
                },
            },
        })
    }

    /// The claim of its only member, as a former EtcdCluster of that name would have left it.
    fn claim(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": format!("{name}-0"),
                "labels": {
                    "app.kubernetes.io/name": "etcd",
                    "etcd.improbable.io/cluster-name": name,
                    "etcd.improbable.io/peer-name": format!("{name}-0"),
                },
                "annotations": {VOLUME_ANNOTATION: self.record},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": NOWHERE,
                "resources": {"requests": {"storage": "50Mi"}},
            },
        })
    }

    /// The status of a pod in which etcd runs.
    fn running(&self) -> Value {
        let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).expect("a time");
        let now = now.to_string();
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
        json!({
            "phase": "Running",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": now,
            "conditions": conditions,
            "containerStatuses": [{
                "name": "etcd", "ready": true, "started": true, "restartCount": 0, "image": "model", "imageID": "model",
                "state": {"running": {"startedAt": now}},
            }],
        })
    }
}

/// Waits until an operator has observed all clusters, and their members have answered it; which one it is.
fn observed(clusters: usize) -> (String, Vec<Pid>) {
    let bed = Bed::get();
    let mut known = 0;
    let seen = until(OBSERVED_LIMIT, || {
        let (pod, pids) = bed.acting_operator();
        let answers = bed.try_figures(&pod, "quorate_cluster_quorate").ok()?;
        known = answers.iter().filter(|(_, quorate)| *quorate == 1.0).count();
        (known > clusters).then_some((pod, pids))
    });
    seen.unwrap_or_else(|| {
        panic!(
            "after {OBSERVED_LIMIT:?} the operator has heard the members of {known} clusters, and not of all {clusters} and \
             the shared one\n{}",
            bed.operator_log(40)
        )
    })
}

fn at_rest(clusters: usize) {
    let bed = Bed::get();
    let (pod, pids) = observed(clusters);
    // Idle means having been so for a while.
    std::thread::sleep(Duration::from_secs(20));
    let before = bed.figures(&pod, "quorate_api_requests_total");
    let busy_before = cpu_seconds(pids[0]);
    std::thread::sleep(IDLE);
    let after = bed.figures(&pod, "quorate_api_requests_total");
    let busy = cpu_seconds(pids[0]) - busy_before;
    let rss = rss_mib(pids[0]);
    println!(
        "operator: {rss:.1} MiB RSS; {busy:.1} s of CPU in {} s",
        IDLE.as_secs()
    );
    println!("its requests to the API server in {} s:", IDLE.as_secs());
    let mut all = 0.0;
    for (labels, count) in &after {
        let earlier = before.iter().find(|(l, _)| l == labels).map_or(0.0, |(_, c)| *c);
        if *count > earlier {
            println!("  {labels} {}", count - earlier);
            all += count - earlier;
        }
    }
    println!("figures: idle_clusters={clusters}; operator_rss_mib={rss:.1}; requests_a_minute={all}");
}

/// From the death of the operator's process to the moment at which the next one has heard the member of every cluster.
fn restarted(clusters: usize) {
    let bed = Bed::get();
    let began = Instant::now();
    bed.kill_operator_then(Then::Restart);
    let (_, pids) = observed(clusters);
    let seconds = began.elapsed().as_secs_f64();
    let rss = rss_mib(pids[0]);
    println!("killed and started again, all observed after {seconds:.1} s, with {rss:.1} MiB RSS");
    println!("figures: idle_clusters={clusters}; observed_s={seconds:.1}; restarted_rss_mib={rss:.1}");
}

/// The resident memory of a process.
fn rss_mib(pid: Pid) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("it runs");
    let line = status
        .lines()
        .find(|l| l.starts_with("VmRSS:"))
        .expect("the kernel says");
    let kb = line
        .split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse::<f64>().ok());
    kb.expect("a number") / 1024.0
}

/// How long a process has had a processor.
fn cpu_seconds(pid: Pid) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).expect("it runs");
    let (_, rest) = stat.rsplit_once(") ").expect("the kernel says");
    let fields: Vec<&str> = rest.split(' ').collect();
    // After the name: the state is the third field of all, and these are the fourteenth and the fifteenth.
    let ticks: f64 = [11, 12]
        .iter()
        .map(|n| fields[*n].parse::<f64>().expect("a number"))
        .sum();
    ticks / 100.0
}
