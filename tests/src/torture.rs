//! A disaster under continuous clients, and the verdict on what they recorded.

use std::time::Duration;

use quorate_client::Tls;
use quorate_testkit::{StallWitness, await_that};

use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::verdict::judge;

/// How many clients ask at once.
const CLIENTS: usize = 6;

/// How long writes may pause during a planned change, besides what the machine itself stood still. It takes hundredths
/// of a second; an election takes one or two.
const PLANNED_GAP: Duration = Duration::from_secs(5);

/// Clients on a running cluster, named for what is done to it meanwhile.
pub struct Torture {
    clients: Clients,
    runtime: tokio::runtime::Runtime,
    began: std::time::Instant,
}

impl Torture {
    /// Starts clients on `cluster`, which must be ready, and waits until they write.
    pub fn start(cluster: &Cluster) -> Torture {
        Torture::on(&cluster.client_urls(7), Some(&cluster.tls()))
    }

    /// Starts clients on these endpoints of a cluster that serves, and waits until they write.
    pub fn on(urls: &[String], tls: Option<&Tls>) -> Torture {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let clients = {
            let _inside = runtime.enter();
            Clients::start(CLIENTS, urls, tls)
        };
        let torture = Torture {
            clients,
            runtime,
            began: std::time::Instant::now(),
        };
        torture.await_writes(20);
        torture
    }

    /// From now on the clients ask these endpoints, and no others.
    pub fn point_at(&self, urls: &[String], tls: Option<&Tls>) {
        let _inside = self.runtime.enter();
        self.clients.point_at(urls, tls);
    }

    /// Waits until `more` further writes were acknowledged: the cluster serves.
    pub fn await_writes(&self, wanted: usize) {
        let before = self.clients.history.written();
        let what = format!("{wanted} more writes are acknowledged");
        await_that(&what, crate::cluster::PATIENCE, || {
            let more = self.clients.history.written() - before;
            (more >= wanted).then_some(()).ok_or(format!("{more} were"))
        });
    }

    /// Does something that nobody planned to the cluster and prints how long writes paused meanwhile.
    pub fn during<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        self.gap_during(what, act).0
    }

    /// Changes the cluster as its owner would: clients must hardly notice.
    pub fn planned<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        let (result, gap, witness) = self.gap_during(what, act);
        witness.judge(what, gap, PLANNED_GAP);
        result
    }

    /// Does it, and measures the longest gap between writes, beside a witness of the machine's stalls meanwhile.
    fn gap_during<T>(&self, what: &str, act: impl FnOnce() -> T) -> (T, Duration, StallWitness) {
        // Members keep their data on the same disk, in Kubernetes too.
        let witness = StallWitness::watch(&std::env::temp_dir());
        let from = self.clients.history.now();
        let result = act();
        self.await_writes(10);
        let to = self.clients.history.now();
        let gap = self.clients.history.longest_gap(from, to);
        println!(
            "{what}: {:.1} s, longest write gap {:.2} s",
            (to - from).as_secs_f64(),
            gap.as_secs_f64()
        );
        (result, gap, witness)
    }

    /// Stops the clients and gives the verdict: every acknowledged write is there, no read was stale.
    pub fn verdict(self) {
        let entries = self.runtime.block_on(self.clients.finish());
        let wrong = judge(&entries);
        let acknowledged = entries
            .iter()
            .filter(|e| matches!(e.answer, crate::history::Answer::Written(_)))
            .count();
        let unclear = entries
            .iter()
            .filter(|e| e.answer == crate::history::Answer::Unknown)
            .count();
        println!(
            "figures: answers={}; seconds={:.0}; acknowledged={acknowledged}; unclear={unclear}; wrong={}",
            entries.len(),
            self.began.elapsed().as_secs_f64(),
            wrong.len()
        );
        assert!(
            wrong.is_empty(),
            "{} faults, first: {:#?}",
            wrong.len(),
            &wrong[..wrong.len().min(10)]
        );
        assert!(
            acknowledged > 100,
            "only {acknowledged} writes: the clients hardly ran"
        );
    }
}
