//! Encryption: whose certificates members show, whom they trust, and what the operator itself dials with.
//!
//! In: a cluster's Secrets, its own ([`secrets`]) or the user's ([`own`]). Out: [`Material`], and the effects that bring the
//! Secrets to what they should be. Never: a key in an error, an event or a status; a moment in which two members do
//! not trust each other ([`quorate_core::rotation`]).

pub mod cas;
pub mod follow;
pub mod own;
pub mod sans;
pub mod secrets;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod secure;

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_client::{Port, Tls};
use quorate_core::rotation::Stage;
use quorate_pki::Policy;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a pass over an encrypted cluster needs.
#[derive(Clone, Debug)]
pub struct Material {
    /// For the operator's own connections.
    pub tls: Tls,
    /// What members are restarted for: whom they trust, and from where they have it.
    pub trusted: String,
    /// What members have to prove, while the CA is being replaced.
    pub proof: Option<Proof>,
    /// Members that run with another configuration trust a CA that nobody has any more: the planner restarts them.
    pub lost_ca: bool,
    /// What people should know, and do.
    pub advice: Option<String>,
}

/// Connections that succeed only with members that are where a stage takes them.
#[derive(Clone, Debug)]
pub struct Proof {
    pub stage: Stage,
    /// What to connect with, at each port whose CA is being replaced.
    pub proofs: BTreeMap<Port, Tls>,
}

/// How long certificates and CAs live, and when what follows them is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Lifetimes, and when leaves are renewed.
    pub policy: Policy,
    /// A CA with less than this left is replaced: more than its leaves live, so that none is cut short.
    pub ca_renewal: Duration,
    /// How long a stage of a replacement lasts at least, so that clients can take up what changed.
    pub overlap: Duration,
}

impl Default for Lifetimes {
    /// Ten years for a CA, replaced two years before its end; one year for the others, renewed after eight months.
    fn default() -> Lifetimes {
        Lifetimes {
            policy: Policy {
                ca_lifetime: 3650 * DAY,
                leaf_lifetime: 365 * DAY,
                renew_before: 120 * DAY,
            },
            ca_renewal: 730 * DAY,
            overlap: DAY,
        }
    }
}

impl Lifetimes {
    /// The same, with leaves that live for this long only.
    pub fn with_leaves_of(self, lifetime: Duration) -> Lifetimes {
        Lifetimes {
            policy: Policy {
                leaf_lifetime: lifetime,
                renew_before: lifetime / 3,
                ..self.policy
            },
            ..self
        }
    }
}
