//! The manifest in the supervisor's loop: taken when it was edited.
//!
//! In: the manifest in force, the journal. Out: the wanted cluster, and what of it cannot be.
//! Never: what was decided for good (TLS, ports) changed by an edit.

use quorate_core::model::Ordinal;

use super::{Event, Supervision};

impl<E: FnMut(Event)> Supervision<E> {
    /// What was edited is in force from now on, or its fault is shown.
    pub(super) async fn take_manifest(&mut self) {
        self.line(format!("{} was re-read", self.manifest.path().display()));
        self.ground.cluster = self.manifest.cluster.clone();
        self.judge_manifest();
        self.look_at_certificates().await;
    }

    /// What the manifest says that cannot be: it asks to change what was decided for good.
    pub(super) fn judge_manifest(&mut self) {
        self.problems.manifest.clear();
        if self.ground.cluster.tls != self.ground.journal.tls {
            let text = "spec.tls cannot be changed on a cluster that exists; it stays as it was".to_owned();
            self.problems.manifest.push(text);
        }
        let host = &self.ground.cluster.host;
        if host.memory_limit_bytes.is_some() || host.cpu_thousandths.is_some() {
            let text = "spec.host.memoryLimitMB and cpu are not enforced: members run as plain processes";
            self.problems.manifest.push(text.to_owned());
        }
        let first = self.ground.journal.ports.get(&Ordinal(0));
        let differs = |asked: Option<u16>, has: u16| asked.is_some_and(|asked| asked != has);
        let moved = first
            .is_some_and(|has| differs(host.client_port, has.client) || differs(host.peer_port, has.peer));
        if moved && self.ground.journal.memory.bootstrap.is_some() {
            let text = "spec.host: ports cannot be changed on a cluster that exists; they stay as they were";
            self.problems.manifest.push(text.to_owned());
        }
    }
}
