//! What all members say, asked at once.
//!
//! In: labelled endpoints and a deadline. Out: [`QuorumView`], plain data: per member its status and whether
//! it reaches a quorum, and one linearizable member list. A member that is down is a fact in the view, never
//! an error of it, and must never delay the others' answers past the deadline.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::Instant;

use crate::cluster::MemberList;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::kv::ReadReceipt;
use crate::maintenance::Status;
use crate::refusal::{Outcome, Refusal};

/// A member to ask, under the name the caller knows it by.
#[derive(Debug, Clone)]
pub struct Target {
    /// The caller's name for it.
    pub label: String,
    pub endpoint: Endpoint,
}

/// A failed question, as plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub refusal: Refusal,
    /// Whether it may have taken effect all the same.
    pub outcome: Outcome,
    /// The whole story on one line.
    pub text: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure {
            refusal: error.refusal(),
            outcome: error.outcome(),
            text: error.chain(),
        }
    }
}

/// What one member said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    /// The caller's name for it.
    pub label: String,
    /// The URL it was asked at.
    pub url: String,
    pub status: Result<Status, Failure>,
    /// Whether it served a linearizable read.
    pub linearizable_read: Result<ReadReceipt, Failure>,
}

/// A member list and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedBy {
    /// The label of the member that gave it.
    pub label: String,
    pub list: MemberList,
}

/// What all members said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumView {
    /// One entry per target, in the order given.
    pub members: Vec<MemberView>,
    /// The linearizable member list, of the first that could give it; `None` means that none could.
    pub member_list: Option<ListedBy>,
}

enum Said {
    Status(usize, Result<Status, Error>),
    Read(usize, Result<ReadReceipt, Error>),
    List(usize, Result<MemberList, Error>),
}

impl QuorumView {
    /// Asks all targets at once, for no longer than `within` in all. Each is asked for its status before it is asked for a
    /// read: if the read succeeds, the entries up to the index in the status are on its disk. etcd applies entries while it
    /// writes them, but asks the leader for a read index only when all it took in before is written.
    #[allow(
        clippy::indexing_slicing,
        reason = "an index is a target's, and there is a place for each target"
    )]
    pub async fn ask(targets: &[Target], within: Duration) -> QuorumView {
        let deadline = Instant::now() + within;
        let mut statuses = targets.iter().map(|_| None).collect::<Vec<_>>();
        let mut reads = targets.iter().map(|_| None).collect::<Vec<_>>();
        let mut listed = None;
        // Members that served a read, not yet asked for the list; one at a time is asked.
        let mut listers = Vec::new();
        let mut listing = false;

        let asked = FuturesUnordered::<BoxFuture<'_, Said>>::new();
        for (index, target) in targets.iter().enumerate() {
            let endpoint = target.endpoint.within(within);
            asked.push(Box::pin(
                async move { Said::Status(index, endpoint.status().await) },
            ));
        }
        let mut asked = asked;
        while let Some(said) = asked.next().await {
            match said {
                Said::Status(index, status) => {
                    statuses[index] = Some(status);
                    let left = deadline.saturating_duration_since(Instant::now());
                    let reader = targets[index].endpoint.within(left);
                    asked.push(Box::pin(async move {
                        Said::Read(index, reader.linearizable_read().await)
                    }));
                }
                Said::Read(index, read) => {
                    if let Ok(receipt) = &read {
                        listers.push((index, *receipt));
                    }
                    reads[index] = Some(read);
                }
                Said::List(index, list) => {
                    listing = false;
                    listed = list.ok().map(|list| ListedBy {
                        label: targets[index].label.clone(),
                        list,
                    });
                }
            }
            if listed.is_none() && !listing && !listers.is_empty() {
                let (index, receipt) = listers.remove(0);
                let left = deadline.saturating_duration_since(Instant::now());
                let endpoint = targets[index].endpoint.within(left);
                listing = true;
                asked.push(Box::pin(async move {
                    Said::List(index, endpoint.member_list_after(&receipt).await)
                }));
            }
        }

        let members = targets
            .iter()
            .zip(statuses)
            .zip(reads)
            .map(|((target, status), read)| MemberView {
                label: target.label.clone(),
                url: target.endpoint.url().to_owned(),
                status: plain(status),
                linearizable_read: plain(read),
            });
        QuorumView {
            members: members.collect(),
            member_list: listed,
        }
    }

    /// How many members served a linearizable read.
    pub fn readers(&self) -> usize {
        self.members
            .iter()
            .filter(|member| member.linearizable_read.is_ok())
            .count()
    }
}

fn plain<T>(said: Option<Result<T, Error>>) -> Result<T, Failure> {
    said.expect("every question pushed is answered before the loop ends")
        .map_err(Failure::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Timeouts;

    #[tokio::test]
    async fn no_targets_is_an_empty_view() {
        let view = QuorumView::ask(&[], Duration::from_secs(1)).await;
        assert_eq!(
            view,
            QuorumView {
                members: vec![],
                member_list: None
            }
        );
    }

    #[tokio::test]
    async fn dead_members_are_facts() {
        // A leased port: nothing listens there.
        let port = quorate_testkit::free_port();
        let url = format!("http://127.0.0.1:{port}");
        let endpoint = Endpoint::connect_lazy(&url, None, Timeouts::default()).unwrap();
        let view = QuorumView::ask(
            &[Target {
                label: "a".into(),
                endpoint,
            }],
            Duration::from_secs(5),
        )
        .await;
        let member = &view.members[0];
        let failure = member.status.as_ref().unwrap_err();
        assert_eq!(failure.refusal, Refusal::Unreachable, "{}", failure.text);
        assert_eq!(failure.outcome, Outcome::NotDone);
        assert!(failure.text.contains("refused"), "{}", failure.text);
        assert_eq!(view.readers(), 0);
        assert_eq!(view.member_list, None);
    }
}
