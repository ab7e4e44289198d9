//! Who of several operators works: the holder of one Lease.
//!
//! In: a Lease in the operator's own namespace. Out: until when this one may act. The holder counts from before its
//! last successful renewal was sent, and counts the time for which its machine was suspended; the others from when they
//! saw it, so that clocks need not agree.
//! Never: an effect begun that could end after the Lease has.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::Api;
use kube::{Client, ResourceExt};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::requests::apply::{as_manager, is};

/// The name of the Lease.
pub const LEASE_NAME: &str = "quorate-operator";
/// How long a Lease holds without being renewed.
const DURATION: Duration = Duration::from_secs(15);
/// How often it is renewed, and looked at by the others.
const RENEW: Duration = Duration::from_secs(4);
const RETRY: Duration = Duration::from_secs(2);
/// Work that has not been heard of for this long hangs.
const HEARTBEAT_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether work has begun, or goes on again.
const HEARTBEAT_POLL: Duration = Duration::from_millis(250);
/// How long it takes at most to give it back: who stops the operator waits for it.
const GIVE_BACK: Duration = Duration::from_secs(3);

/// A time since the machine was started. It goes on while the machine is suspended, as the Lease does.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct SinceBoot(Duration);

impl SinceBoot {
    fn now() -> SinceBoot {
        let time = clock_gettime(ClockId::Boottime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        SinceBoot(Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0)))
    }
}

/// Until when this operator may act; shared with all passes.
#[derive(Clone, Debug, Default)]
pub struct Leadership(Arc<Mutex<Option<SinceBoot>>>);

impl Leadership {
    /// May something begin that takes up to `needs`?
    pub fn covers(&self, needs: Duration) -> bool {
        self.covers_at(SinceBoot::now(), needs)
    }

    fn covers_at(&self, now: SinceBoot, needs: Duration) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| now.0 + needs < until.0)
    }

    /// Does it hold the Lease?
    pub fn holds(&self) -> bool {
        self.covers(Duration::ZERO)
    }

    /// Of an operator that just got the Lease.
    #[cfg(test)]
    pub(crate) fn just_gained() -> Leadership {
        let tenure = Leadership::default();
        tenure.set(Some(SinceBoot(SinceBoot::now().0 + DURATION)));
        tenure
    }

    fn set(&self, until: Option<SinceBoot>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

/// Says that the work goes on. Who does not work neither asks for the Lease nor keeps it.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat(Arc<Mutex<Option<Instant>>>);

impl Heartbeat {
    pub fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_recent(&self, now: Instant) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| now.saturating_duration_since(last) < HEARTBEAT_MAX)
    }
}

/// One operator that wants the Lease.
pub struct Candidate {
    api: Api<Lease>,
    identity: String,
    tenure: Leadership,
    pulse: Heartbeat,
    /// Whether the log says that this one leads.
    leads: bool,
    /// The Lease of another as last seen, and since when it has looked like that.
    seen: Option<(String, Instant)>,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Candidate({})", self.identity)
    }
}

impl Candidate {
    /// A candidate for the Lease in `namespace`.
    pub fn new(client: Client, namespace: &str, identity: String, pulse: Heartbeat) -> Candidate {
        Candidate {
            api: Api::namespaced(client, namespace),
            identity,
            tenure: Leadership::default(),
            pulse,
            leads: false,
            seen: None,
        }
    }

    /// Until when it may act.
    pub fn tenure(&self) -> Leadership {
        self.tenure.clone()
    }

    /// Gets and keeps the Lease, for ever. Failures to reach the API server let it run out, and so does work that hangs.
    pub async fn run(mut self) {
        loop {
            if !self.pulse.is_recent(Instant::now()) {
                self.log("the work loop stalled, so the Lease is not renewed");
                tokio::time::sleep(HEARTBEAT_POLL).await;
                continue;
            }
            let asked = SinceBoot::now();
            let held = tokio::time::timeout(RETRY * 2, self.round()).await;
            let pause = match held {
                Ok(Ok(true)) => {
                    self.tenure.set(Some(SinceBoot(asked.0 + DURATION)));
                    self.log("it was free, or its holder did not renew it");
                    RENEW
                }
                Ok(Ok(false)) => {
                    self.tenure.set(None);
                    self.log("another operator has it");
                    RETRY
                }
                // Not heard is not lost: what was granted holds until it ends.
                Ok(Err(error)) => {
                    self.log(&format!("it cannot be renewed: {error}"));
                    RETRY
                }
                Err(_) => {
                    self.log("it cannot be renewed: the API server does not answer");
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Logs, once, that it leads now or does not any more.
    fn log(&mut self, why: &str) {
        let leads = self.tenure.holds();
        if leads != std::mem::replace(&mut self.leads, leads) {
            let identity = &self.identity;
            if leads {
                tracing::info!(identity, "leadership gained: {why}");
            } else {
                tracing::warn!(identity, "leadership lost: {why}");
            }
        }
    }

    /// Gives the Lease back, so that another need not wait for its end. Best effort: it ends by itself as well.
    pub async fn give_back(client: Client, namespace: &str, identity: &str) {
        let given = Self::hand_over(client, namespace, identity);
        if tokio::time::timeout(GIVE_BACK, given).await.is_err() {
            tracing::warn!("failed to release the Lease in time; it will expire");
        }
    }

    async fn hand_over(client: Client, namespace: &str, identity: &str) {
        let api: Api<Lease> = Api::namespaced(client, namespace);
        let Ok(Some(mut lease)) = api.get_opt(LEASE_NAME).await else {
            return;
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(identity) {
            spec.holder_identity = None;
            let _ = api.replace(LEASE_NAME, &as_manager(), &lease).await;
        }
    }

    /// One try. True if this candidate holds it now.
    async fn round(&mut self) -> Result<bool, kube::Error> {
        let Some(mut lease) = self.api.get_opt(LEASE_NAME).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(LEASE_NAME.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.claim(None)),
            };
            return won(self.api.create(&as_manager(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() && !self.has_ended(&lease) {
            return Ok(false);
        }
        lease.spec = Some(self.claim(Some(&spec)));
        // The resourceVersion goes along: of two that try, one gets it.
        won(self.api.replace(LEASE_NAME, &as_manager(), &lease).await)
    }

    /// Has the Lease of another looked the same for as long as it holds?
    fn has_ended(&mut self, lease: &Lease) -> bool {
        let version = lease.resource_version().unwrap_or_default();
        let seconds = lease.spec.as_ref().and_then(|s| s.lease_duration_seconds);
        let holds = seconds.map_or(DURATION, |s| Duration::from_secs(u64::try_from(s).unwrap_or(0)));
        match &self.seen {
            Some((seen, since)) if *seen == version => since.elapsed() > holds,
            _ => {
                self.seen = Some((version, Instant::now()));
                false
            }
        }
    }

    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(jiff::Timestamp::now());
        let same = before.filter(|b| b.holder_identity.as_deref() == Some(&self.identity));
        let changes = before.and_then(|b| b.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(DURATION.as_secs() as i32),
            acquire_time: same.and_then(|b| b.acquire_time.clone()).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if same.is_some() {
                changes
            } else {
                changes.saturating_add(1)
            }),
            ..LeaseSpec::default()
        }
    }
}

fn won(asked: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match asked {
        Ok(_) => Ok(true),
        Err(error) if is(&error, 409) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_which_the_machine_was_suspended_counts() {
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").expect("readable");
            let seconds = text.split(' ').next().and_then(|s| s.parse().ok());
            Duration::from_secs_f64(seconds.expect("a number"))
        };
        // What Linux calls uptime goes on in a suspended machine. It is reported in hundredths.
        let (before, now, after) = (uptime(), SinceBoot::now(), uptime());
        let hundredth = Duration::from_millis(10);
        assert!(before <= now.0 + hundredth && now.0 <= after + hundredth);
        let tenure = Leadership::default();
        assert!(!tenure.covers_at(now, Duration::ZERO), "it never had the Lease");
        tenure.set(Some(SinceBoot(now.0 + DURATION)));
        assert!(tenure.covers_at(now, DURATION - hundredth));
        assert!(!tenure.covers_at(SinceBoot(now.0 + DURATION), Duration::ZERO));
    }

    #[test]
    fn work_that_has_not_begun_or_hangs_has_no_pulse() {
        let pulse = Heartbeat::default();
        assert!(!pulse.is_recent(Instant::now()), "it has not begun");
        pulse.beat();
        assert!(pulse.is_recent(Instant::now()));
        assert!(!pulse.is_recent(Instant::now() + HEARTBEAT_MAX), "it hangs");
    }
}
