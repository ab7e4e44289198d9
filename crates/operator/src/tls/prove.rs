//! Who is where a stage of a rotation takes it, found out by connecting.
//!
//! In: where members are, what to connect with. Out: those that answered. etcd reads what it shows for each connection, so
//! every look connects anew. Never: a proof from anything but an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use quorate_client::{Address, Tls};
use quorate_core::model::Ordinal;

use super::rotation::Stage;

/// Who has proven what: worth something only in the stage, and between the authorities, that it was asked for. Another
/// operator may have gone on meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    stage: Stage,
    trusted: String,
    members: BTreeSet<Ordinal>,
}

impl Proven {
    /// By these members, in this stage, while these authorities are trusted.
    pub fn new(stage: Stage, trusted: &str, members: BTreeSet<Ordinal>) -> Proven {
        Proven {
            stage,
            trusted: trusted.to_owned(),
            members,
        }
    }

    /// Who has proven what this stage is for; nobody, if it was asked for in another.
    pub fn now(&self, stage: Stage, trusted: &str) -> Option<&BTreeSet<Ordinal>> {
        Some(&self.members).filter(|_| self.stage == stage && self.trusted == trusted)
    }
}

/// How long one member may take, handshake included.
const LIMIT: Duration = Duration::from_millis(1500);

/// Those of `members` that answer over a new connection made with `tls`.
pub async fn prove(members: &BTreeMap<Ordinal, Address>, tls: &Tls) -> BTreeSet<Ordinal> {
    let asked = members.iter().map(|(ordinal, address)| async move {
        let endpoint = address.endpoint(Some(tls)).ok()?;
        endpoint.within(LIMIT).status().await.ok()?;
        Some(*ordinal)
    });
    join_all(asked).await.into_iter().flatten().collect()
}
