//! Admission: the API server asks about every EtcdCluster and EtcdPeer that is created or changed, and is answered with all
//! that is wrong with it at once.
//!
//! In: `AdmissionReview`s over HTTPS ([`serving`]), judged by [`review`] alone. Out: verdicts; a Secret with a certificate
//! that the operator makes and renews itself ([`certificate`]), and whom to trust in the two configurations by which the
//! API server knows of it ([`configuration`], [`keep`]). Nothing is ever changed in an object: all defaults are in the
//! definitions. It asks twice: before it looks at the schema, so that faults of schema and rules are reported together, and
//! after all others have had their say, since they may have changed the object.
//!
//! Never: something held up because the operator is away (the definitions hold the same rules, and so does a pass).

mod body;
pub mod certificate;
pub mod configuration;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod keep;
pub mod review;
pub mod serving;

use crate::install::NAME;

/// The name of the Service by which the API server reaches the pods, and of the Secret with their certificate.
pub const SERVICE: &str = "quorate-operator-webhook";
/// The name of both configurations.
pub const CONFIGURATION: &str = NAME;
/// The port of the operator's pods.
pub const PORT: u16 = 9443;
/// Where reviews are sent to.
pub const PATH: &str = "/review";
