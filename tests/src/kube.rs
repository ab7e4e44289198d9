//! A real Kubernetes with the operator in it, installed the way users install it and driven with the real kubectl.
//!
//! [`bed::Bed`] is the one Kubernetes of this machine with the operator of this checkout; [`namespace::Namespace`] is a
//! test's own place in it; [`cluster::KubeCluster`] is one EtcdCluster there; [`traffic::Traffic`] are clients that
//! write down every answer meanwhile; [`lax`] takes rules away for a while; [`volume`] reaches the files of a member
//! behind its back, [`process`] what runs in its pod; [`operator`] is the operator as something that dies, and [`kills`]
//! when.

pub mod bed;
pub mod cluster;
pub mod kills;
pub mod lax;
pub mod namespace;
pub mod operator;
pub mod process;
pub mod traffic;
pub mod volume;

use std::process::Output;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it: five members change, one after another, on two cores.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(400);

/// Looks until `look` finds something; `None` once patience is at an end.
pub fn until<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if began.elapsed() > patience {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

/// What a command printed, both ways.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    [text(&output.stdout), text(&output.stderr)]
        .join("\n")
        .trim()
        .to_owned()
}
