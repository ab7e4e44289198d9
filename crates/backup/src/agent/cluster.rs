//! The cluster, from outside: how its members are reached, and which of them is asked for what.
//!
//! In: where some members are, certificates, a user. Out: endpoints. Members that come and go are followed by the
//! cluster's own list; what was given at first is always tried too, since a list may hold addresses that lead nowhere
//! from here.
//! Never: another cluster's member taken for one of this.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use quorate_client::{Credentials, Endpoint, Status, Timeouts, Tls};
use tokio::time::Instant;

use super::decide::Candidate;
use crate::Error;

/// How many members are looked at; no cluster has so many.
const MEMBERS_MAX: usize = 32;
/// How long a member may take to say how it is.
const STATUS_WITHIN: Duration = Duration::from_secs(2);
/// How long it may take over the list of members, and how many are asked for it.
const LIST_WITHIN: Duration = Duration::from_secs(1);
const LISTS_ASKED: usize = 2;

/// How a cluster is reached.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Client URLs of some members.
    pub urls: Vec<String>,
    pub tls: Option<Tls>,
    /// Whom to ask as.
    pub credentials: Option<Credentials>,
}

/// Tells how the cluster is reached, each time a connection is made: addresses and certificates may change.
pub type Find = Arc<dyn Fn() -> Result<Reach, String> + Send + Sync>;

#[derive(Clone)]
pub struct Cluster {
    find: Find,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The id all members must have.
    id: Option<u64>,
    /// Client URLs by the cluster's own list.
    listed: Vec<String>,
    /// Since when only members of another cluster answer.
    foreign: Option<Instant>,
}

/// A member that answered.
#[derive(Debug, Clone)]
pub struct Answering {
    /// A connection to it.
    pub endpoint: Endpoint,
    pub status: Status,
}

impl Answering {
    /// As far as choosing goes.
    pub fn candidate(&self) -> Candidate {
        Candidate {
            leader: self.status.leader == Some(self.status.member_id),
            learner: self.status.is_learner,
            led: self.status.leader.is_some(),
            applied: self.status.raft_applied_index,
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// The cluster that is found so.
    pub fn new(find: Find) -> Cluster {
        Cluster {
            find,
            shared: Arc::default(),
        }
    }

    /// The cluster whose members are at these URLs.
    pub fn at(reach: Reach) -> Cluster {
        Cluster::new(Arc::new(move || Ok(reach.clone())))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Shared) -> T) -> T {
        look(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on only members of this cluster count.
    pub fn expect(&self, id: u64) {
        self.with(|shared| (shared.id, shared.foreign) = (Some(id), None));
    }

    /// For how long only members of another cluster have answered: it was made anew.
    pub fn foreign_for(&self) -> Duration {
        self.with(|shared| shared.foreign.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// The id and the revision of whatever cluster is there now.
    pub async fn identify(&self) -> Result<(u64, i64), Error> {
        self.with(|shared| *shared = Shared::default());
        let members = self.survey().await?;
        let mut problem = None;
        for one in members.iter().filter(|one| !one.status.is_learner) {
            match one.endpoint.linearizable_read().await {
                Ok(receipt) => {
                    let revision = receipt.revision.ok_or_else(|| {
                        Error::refused(
                            format!("{} does not let this user read", one.endpoint.url()),
                            "the agent needs a user with the role root",
                        )
                    })?;
                    return Ok((one.status.cluster_id, revision));
                }
                Err(error) => problem = Some(Error::Etcd(error)),
            }
        }
        Err(problem
            .unwrap_or_else(|| Error::refused("no voting member answers", "the cluster needs a quorum")))
    }

    /// New connections to all members that are known of.
    fn endpoints(&self) -> Result<Vec<Endpoint>, Error> {
        let reach = (self.find)().map_err(|why| {
            Error::refused(
                format!("it is not known how the cluster is reached: {why}"),
                "check its addresses and certificates",
            )
        })?;
        let mut urls = reach.urls;
        for url in self.with(|shared| shared.listed.clone()) {
            let url = url.trim_end_matches('/').to_owned();
            // A member that speaks another way than the ones given is not one to be asked.
            if url.starts_with("https://") == reach.tls.is_some() && !urls.contains(&url) {
                urls.push(url);
            }
        }
        urls.truncate(MEMBERS_MAX);
        let mut endpoints = Vec::new();
        let mut refused = None;
        for url in urls {
            match Endpoint::connect_lazy(&url, reach.tls.as_ref(), Timeouts::default()) {
                Ok(endpoint) => endpoints.push(match &reach.credentials {
                    None => endpoint,
                    Some(user) => endpoint.with_credentials(user.clone()),
                }),
                Err(invalid) => refused = Some(invalid.to_string()),
            }
        }
        match (endpoints.is_empty(), refused) {
            (false, _) => Ok(endpoints),
            (true, why) => Err(Error::refused(
                format!(
                    "no member can be asked: {}",
                    why.unwrap_or_else(|| "no address is known".to_owned())
                ),
                "give the client URL of a member, such as http://127.0.0.1:2379",
            )),
        }
    }

    /// All members that answer, and the list of members brought up to date. An error if none does.
    pub async fn survey(&self) -> Result<Vec<Answering>, Error> {
        let asked = self.endpoints()?.into_iter().map(|endpoint| async move {
            let status = endpoint.within(STATUS_WITHIN).status().await;
            (endpoint, status)
        });
        let mut asked = futures::stream::iter(asked).buffer_unordered(MEMBERS_MAX);
        let expected = self.with(|shared| shared.id);
        let (mut found, mut problem): (Vec<Answering>, Option<Error>) = (Vec::new(), None);
        let mut strangers = false;
        while let Some((endpoint, status)) = asked.next().await {
            match status {
                Ok(status) if expected.is_some_and(|id| id != status.cluster_id) => {
                    strangers = true;
                    problem = Some(foreign(&endpoint, status.cluster_id));
                }
                // The same member under two addresses counts once.
                Ok(status) if found.iter().any(|one| one.status.member_id == status.member_id) => {}
                Ok(status) => found.push(Answering { endpoint, status }),
                Err(error) => {
                    problem.get_or_insert(Error::Etcd(error));
                }
            }
        }
        self.with(|shared| match found.is_empty() && strangers {
            true => drop(shared.foreign.get_or_insert_with(Instant::now)),
            false if !found.is_empty() => shared.foreign = None,
            false => {}
        });
        if let Some(first) = found.first().map(|one| one.status.cluster_id)
            && found.iter().any(|one| one.status.cluster_id != first)
        {
            return Err(Error::refused(
                "the addresses lead to members of different clusters",
                "give addresses of one cluster",
            ));
        }
        if found.is_empty() {
            return Err(problem.unwrap_or_else(|| Error::refused("no member answers", "check the addresses")));
        }
        found.sort_by_key(|one| one.status.member_id);
        for one in found
            .iter()
            .filter(|one| !one.status.is_learner)
            .take(LISTS_ASKED)
        {
            if self.learn(&one.endpoint).await {
                break;
            }
        }
        Ok(found)
    }

    /// Learns the members' addresses from this one, if it has a quorum.
    pub async fn learn(&self, from: &Endpoint) -> bool {
        let Ok(list) = from.within(LIST_WITHIN).member_list_linearizable().await else {
            return false;
        };
        let urls = list.members.into_iter().flat_map(|member| member.client_urls);
        let urls = urls.take(MEMBERS_MAX).collect();
        self.with(|shared| shared.listed = urls);
        true
    }
}

/// The error of an address that leads to another cluster.
pub(super) fn foreign(endpoint: &Endpoint, id: u64) -> Error {
    Error::refused(
        format!("{} is a member of another cluster, {id:x}", endpoint.url()),
        "give addresses of the cluster whose archive this is",
    )
}
