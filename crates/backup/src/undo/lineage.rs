//! Whether a live cluster went through the points that are to be undone: revisions of two histories are numbers that mean
//! nothing to each other.
//!
//! In: the archive's timelines, what a cluster was restored from. Out: up to which revision a timeline is its history.

use crate::agent::Cluster;
use crate::agent::decide::{self, Timeline};
use crate::archive::{Origin, Point};
use crate::{Archive, Error};

/// A live cluster, and where its history stands in the archive.
pub(super) struct Live {
    id: u64,
    /// What it has come to.
    revision: i64,
    /// Up to where it went in its newest timeline.
    at: Point,
    /// That timeline is not its own: it was restored from there, and nothing is recorded of it since.
    unrecorded: bool,
    origins: Vec<Origin>,
}

/// Finds a cluster's place in the archive; refused if it has none.
pub(super) async fn of(archive: &Archive, cluster: &Cluster) -> Result<Live, Error> {
    let (id, revision) = cluster.identify().await?;
    let mark = archive.restored(id).await?;
    let (at, unrecorded) = match decide::timeline(archive.timelines(), id, mark.as_ref(), false) {
        Timeline::Continue(timeline) => (
            Point {
                timeline,
                revision: i64::MAX,
            },
            false,
        ),
        Timeline::Begin {
            parent: Some(parent), ..
        } => (parent, true),
        Timeline::Begin { parent: None, .. } | Timeline::Foreign { .. } => {
            return Err(Error::refused(
                format!(
                    "the cluster there is {id:x}, and the archive in {} is of another",
                    archive.store().describe()
                ),
                "name the cluster that this archive is of; `quorate backup list` shows its id",
            ));
        }
    };
    cluster.expect(id);
    Ok(Live {
        id,
        revision,
        at,
        unrecorded,
        origins: archive.timelines().to_vec(),
    })
}

impl Live {
    /// Up to which revision this timeline is its history; `None` if it does not come from there.
    fn shares(&self, timeline: u32) -> Option<i64> {
        let mut at = self.at;
        while at.timeline != timeline {
            let origin = self
                .origins
                .iter()
                .find(|origin| origin.timeline == at.timeline)?;
            let parent = origin.parent.filter(|parent| parent.timeline < at.timeline)?;
            at = Point {
                revision: parent.revision.min(at.revision),
                ..parent
            };
        }
        Some(at.revision)
    }

    /// Refused if it does not come from this timeline at all.
    pub(super) fn comes_from(&self, timeline: u32) -> Result<(), Error> {
        let Live { id, at, .. } = self;
        if self.shares(timeline).is_some() {
            return Ok(());
        }
        let begun = self.origins.iter().find(|origin| origin.timeline == at.timeline);
        let why = begun.map_or(String::new(), |origin| {
            format!(" (begun because: {})", origin.why)
        });
        Err(Error::refused(
            format!(
                "cluster {id:x} stands in timeline {}{why}, which does not come from timeline {timeline}: revisions of \
                 that are of another history",
                at.timeline
            ),
            format!("name points of its own history: --timeline {}", at.timeline),
        ))
    }

    /// Refused if this revision of a timeline is not of its history.
    pub(super) fn went_through(&self, timeline: u32, revision: i64) -> Result<(), Error> {
        self.comes_from(timeline)?;
        let id = self.id;
        match self.shares(timeline) {
            Some(shared) if revision > shared => Err(Error::refused(
                format!(
                    "cluster {id:x} was restored, and timeline {timeline} is its history only up to revision {shared}: \
                     revision {revision} is of another"
                ),
                match self.unrecorded {
                    true => format!(
                        "name points up to revision {shared}; what it did since can be undone once \
                         `quorate backup run` records it"
                    ),
                    false => format!(
                        "name points up to revision {shared}, or later ones of its own timeline: --timeline {}",
                        self.at.timeline
                    ),
                },
            )),
            _ if revision > self.revision => Err(Error::refused(
                format!(
                    "cluster {id:x} is at revision {}, and the second point is revision {revision}: its history was cut",
                    self.revision
                ),
                "name points that it went through; `quorate backup restore` leads to those that it lost",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn origin(timeline: u32, parent: Option<(u32, i64)>) -> Origin {
        Origin {
            timeline,
            cluster_id: "7".to_owned(),
            created: Timestamp::UNIX_EPOCH,
            parent: parent.map(|(timeline, revision)| Point { timeline, revision }),
            why: "a test".to_owned(),
        }
    }

    fn live(timeline: u32, revision: i64) -> Live {
        let origins = [
            origin(1, None),
            origin(2, Some((1, 500))),
            origin(3, Some((2, 700))),
            // It went back, and nobody knows to where.
            origin(4, None),
            origin(5, Some((2, 400))),
            origin(6, Some((6, 9))),
        ];
        Live {
            id: 7,
            revision: 1000,
            at: Point { timeline, revision },
            unrecorded: revision != i64::MAX,
            origins: origins.to_vec(),
        }
    }

    #[test]
    fn a_timeline_is_shared_up_to_where_it_was_left() {
        let shares = |timeline, revision, of| live(timeline, revision).shares(of);
        assert_eq!(shares(1, i64::MAX, 1), Some(i64::MAX));
        assert_eq!(shares(1, i64::MAX, 2), None);
        assert_eq!(shares(1, 300, 1), Some(300));
        assert_eq!(shares(2, i64::MAX, 1), Some(500));
        assert_eq!(shares(3, i64::MAX, 2), Some(700));
        assert_eq!(shares(3, i64::MAX, 1), Some(500));
        assert_eq!(shares(3, i64::MAX, 4), None);
        assert_eq!(shares(4, i64::MAX, 1), None);
        assert_eq!(shares(4, i64::MAX, 4), Some(i64::MAX));
        assert_eq!(shares(5, i64::MAX, 1), Some(400));
        assert_eq!(shares(6, i64::MAX, 1), None);
        assert_eq!(shares(9, i64::MAX, 1), None);
    }

    #[test]
    fn what_a_cluster_did_not_go_through_is_refused() {
        let refused = |live: Live, timeline, revision| match live.went_through(timeline, revision) {
            Err(error @ Error::Refused { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        };
        live(2, i64::MAX).went_through(2, 1000).unwrap();
        live(2, i64::MAX).went_through(1, 500).unwrap();
        assert!(refused(live(2, i64::MAX), 1, 501).contains("only up to revision 500"));
        assert!(refused(live(1, 500), 1, 860).contains("only up to revision 500"));
        assert!(refused(live(4, i64::MAX), 1, 2).contains("does not come from timeline 1"));
        assert!(refused(live(1, i64::MAX), 1, 1001).contains("was cut"));
    }
}
