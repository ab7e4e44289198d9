//! The signals by which a person or the system asks a command to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Until a person or the system asks to stop. It is heard from the call on, not only once this is awaited; from then on
/// neither signal ends the process by itself.
pub fn stop() -> impl Future<Output = ()> {
    let asked = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    async move {
        let [Ok(mut terminate), Ok(mut interrupt)] = asked else {
            // Without a way to hear it nobody can ask.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
