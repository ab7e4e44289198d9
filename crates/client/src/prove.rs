//! Which members accept a connection made with certain TLS material: how a CA rotation learns that a member is where a
//! stage takes it.
//!
//! In: where members are, what to connect with. Out: those that answered. etcd reads what it shows for each connection, so
//! every look connects anew. Never: a proof from anything but an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use quorate_core::model::Ordinal;

use crate::{Address, Tls};

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
