//! Clients of a cluster in Kubernetes that write down every answer, whatever becomes of its pods.
//!
//! They ask the client Service and every pod by its address. A pod that is recreated has another address, so a thread
//! looks for pods all the while; and for the client's Secret, as a pod does that has it mounted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use quorate_client::Tls;
use serde_json::Value;

use super::bed::Bed;
use super::cluster::{KubeCluster, client_tls, text};
use crate::torture::Torture;

/// How often pods are looked for.
const LOOK: Duration = Duration::from_millis(700);

pub struct Traffic {
    torture: Option<Arc<Torture>>,
    stop: Arc<AtomicBool>,
    finder: Option<JoinHandle<()>>,
}

impl Traffic {
    /// Starts clients on `cluster`, which must serve, and waits until they write.
    pub fn start(cluster: &KubeCluster<'_>) -> Traffic {
        Traffic::start_with(cluster, cluster.client_tls())
    }

    /// The same, with certificates that are not quorate's.
    pub fn start_with(cluster: &KubeCluster<'_>, first: Option<Tls>) -> Traffic {
        let service = cluster
            .namespace
            .json(&["service", &format!("{}-client", cluster.name)]);
        let service = service.expect("a cluster that serves has a Service for clients");
        let service = text(&service["spec"]["clusterIP"]);
        let torture = Torture::on(
            &targets(&service, &cluster.pods(), first.is_some()),
            first.as_ref(),
        );
        let torture = Arc::new(torture);
        let stop = Arc::new(AtomicBool::new(false));
        let (namespace, name, selector) = (
            cluster.namespace.name.clone(),
            cluster.name.clone(),
            cluster.selector(),
        );
        let finder = std::thread::spawn({
            let (torture, stop) = (torture.clone(), stop.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    // An API server that is away just now changes nothing about where clients ask.
                    let found = Bed::get().try_json(&["-n", &namespace, "pods", "-l", &selector]);
                    let found = found.ok().flatten();
                    let tls = first
                        .as_ref()
                        .and_then(|first| client_tls(&namespace, &name).or(Some(first.clone())));
                    if let Some(pods) = found.as_ref().and_then(|l| l["items"].as_array()) {
                        torture.point_at(&targets(&service, pods, tls.is_some()), tls.as_ref());
                    }
                    std::thread::sleep(LOOK);
                }
            }
        });
        Traffic {
            torture: Some(torture),
            stop,
            finder: Some(finder),
        }
    }

    /// Does something that nobody planned to the cluster and prints how long writes paused meanwhile.
    pub fn during<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        self.torture.as_ref().expect("clients that run").during(what, act)
    }

    /// Changes the cluster as its owner would: clients must hardly notice.
    pub fn planned<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        self.torture
            .as_ref()
            .expect("clients that run")
            .planned(what, act)
    }

    /// Stops the clients and gives the verdict: every acknowledged write is there, no read was stale.
    pub fn verdict(mut self) {
        self.end();
        let torture = self.torture.take().expect("clients that run");
        let torture = Arc::into_inner(torture).expect("the finder has ended");
        torture.verdict();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(finder) = self.finder.take() {
            // What it panicked with was printed already.
            let _ = finder.join();
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.end();
    }
}

fn targets(service: &str, pods: &[Value], tls: bool) -> Vec<String> {
    let scheme = if tls { "https" } else { "http" };
    let url = |address: &str| format!("{scheme}://{address}:2379");
    let addresses = pods.iter().filter_map(|p| p["status"]["podIP"].as_str());
    std::iter::once(service).chain(addresses).map(url).collect()
}
