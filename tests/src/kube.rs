//! A real Kubernetes with the operator in it, installed the way users install it and driven with the real kubectl.
//!
//! [`bed::Bed`] is the one Kubernetes of this machine with the operator of this checkout; [`namespace::Namespace`] is a
//! test's own place in it; [`cluster::KubeCluster`] is one EtcdCluster there; [`assertions`] checks what is made for it,
//! [`tls`] its certificates; [`traffic::Traffic`] are clients that write down every answer meanwhile; [`changes`] are the
//! owner's, under them; [`locks`] says which tests may run beside each other; [`lax`] takes rules away for a while;
//! [`volume`] reaches the files of a member behind its back, [`process`] what runs in its pod; [`operator`] is the operator
//! as something that dies, and [`kills`] when.

pub mod assertions;
pub mod bed;
pub mod changes;
pub mod cluster;
pub mod guided;
pub mod kills;
pub mod lax;
pub mod locks;
mod look;
pub mod manifests;
pub mod namespace;
pub mod operator;
pub mod process;
pub mod tls;
pub mod traffic;
pub mod volume;

use std::process::Output;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it: five members change, one after another, on two cores.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(400);
/// How long something that must not happen is looked for.
const STAYS: Duration = Duration::from_secs(5);

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

/// Looks for five seconds, and fails as soon as `what` does not hold: for what must not happen, and would come soon.
pub fn stays(what: &str, mut look: impl FnMut() -> bool) {
    let began = Instant::now();
    while began.elapsed() < STAYS {
        assert!(look(), "not {what} after {:?}", began.elapsed());
        std::thread::sleep(PAUSE);
    }
}

/// Fails a test that could not put back what it took away, unless it fails already: tests after it rely on it.
pub fn must_be_back(what: &str, output: &Output) {
    if output.status.success() {
        return;
    }
    let why = format!("{what} could not be put back: {}", said(output));
    assert!(std::thread::panicking(), "{why}");
    eprintln!("{why}");
}

/// What a command printed, both ways, and whether it was killed.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    // What `timeout` ends with after it has killed a command.
    let killed =
        (output.status.code() == Some(124)).then_some("(exit 124: it was killed, for it took too long)");
    [
        text(&output.stdout),
        text(&output.stderr),
        killed.unwrap_or_default().to_owned(),
    ]
    .join("\n")
    .trim()
    .to_owned()
}
