//! Whether what a watch tells is still the history that was told before.
//!
//! In: the events of watches, and what the archive says of its last revision. Out: an imprint of the last revision that
//! was told whole. Each watch begins by telling that one again: a cluster that was restored, or cut off behind it, tells
//! something else, even if its id is the same and its revision is further on.
//! Never: an alarm because etcd was compacted: that takes deletions away, and nothing else of the newest revision.

use quorate_client::{Event, EventKind};

use crate::format::record::Imprint;

#[derive(Debug, Clone, Default)]
pub struct Recall {
    /// The last revision that was told whole.
    known: Option<(i64, Imprint)>,
    /// The revision that the present watch is at.
    telling: Option<(i64, Imprint)>,
    /// What is known is from the archive, and was not compared yet.
    untold: bool,
}

impl Recall {
    /// The archive ends with this.
    pub fn of_archive(end: Option<(i64, Imprint)>) -> Recall {
        Recall {
            known: end,
            telling: None,
            untold: end.is_some_and(|(_, imprint)| imprint.puts > 0),
        }
    }

    pub fn opened(&mut self) {
        self.telling = None;
    }

    /// Whether it still has to turn out that the cluster's history is the archive's.
    pub fn is_untold(&self) -> bool {
        self.untold
    }

    /// It will not turn out any more: the watch is past it.
    pub fn pass(&mut self) {
        self.untold = false;
    }

    /// The next event is of this revision, so the one before is whole. False if that one is not what it was.
    #[must_use]
    pub fn comes(&mut self, revision: i64) -> bool {
        match self.telling {
            Some((telling, _)) if telling != revision => self.whole(),
            _ => true,
        }
    }

    pub fn take(&mut self, event: &Event<'_>) {
        let (_, imprint) = self
            .telling
            .get_or_insert((event.mod_revision, Imprint::default()));
        match event.kind {
            EventKind::Put => imprint.put(event.key_value),
            EventKind::Delete => imprint.delete(event.key),
        }
    }

    /// The revision that was being told is whole. False if it is not what it was.
    #[must_use]
    pub fn whole(&mut self) -> bool {
        let Some((revision, told)) = self.telling.take() else {
            return true;
        };
        match &self.known {
            Some((known, imprint)) if *known == revision => {
                self.untold = false;
                told.is_of(imprint)
            }
            Some((known, _)) if *known > revision => true,
            _ => {
                self.untold = false;
                self.known = Some((revision, told));
                true
            }
        }
    }

    /// The imprint of this revision, if it was the last that was told whole.
    pub fn imprint(&self, revision: i64) -> Option<Imprint> {
        self.known
            .filter(|(known, _)| *known == revision)
            .map(|(_, imprint)| imprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: i64, key: &'static str, value: Option<&'static [u8]>) -> Event<'static> {
        Event {
            kind: value.map_or(EventKind::Delete, |_| EventKind::Put),
            key: key.as_bytes(),
            key_value: value.unwrap_or_default(),
            value: value.unwrap_or_default(),
            create_revision: revision,
            version: 1,
            mod_revision: revision,
            lease: 0,
        }
    }

    /// Whether all that is told agrees.
    fn tell(recall: &mut Recall, events: &[Event<'_>]) -> bool {
        recall.opened();
        let mut agrees = true;
        for event in events {
            agrees &= recall.comes(event.mod_revision);
            recall.take(event);
        }
        agrees & recall.whole()
    }

    #[test]
    fn another_history_is_told_from_the_same() {
        let told = [
            event(5, "a", Some(b"1")),
            event(6, "a", Some(b"2")),
            event(6, "b", Some(b"3")),
            event(6, "c", None),
            event(6, "d", None),
        ];
        let mut first = Recall::default();
        assert!(tell(&mut first, &told));
        let imprint = first.imprint(6).unwrap();
        assert_eq!(first.imprint(5), None);
        let next = event(7, "x", Some(b"9"));
        let again = |events: &[Event<'static>]| {
            let restarted = Recall::of_archive(Some((6, imprint)));
            assert!(restarted.is_untold());
            let answers = [first.clone(), restarted].map(|mut recall| {
                let answer = tell(&mut recall, events);
                assert!(!recall.is_untold());
                answer
            });
            assert_eq!(answers[0], answers[1]);
            answers[0]
        };
        let with = |place: usize, other: Event<'static>| {
            let mut events = told[1..].to_vec();
            events[place] = other;
            events.push(next);
            events
        };
        assert!(again(&told[1..]));
        // Further back, and on behind it.
        assert!(again(&[&told[..], &[next]].concat()));
        // Compacted: deletions may be gone.
        assert!(again(&[told[1], told[2], next]));
        assert!(again(&[told[1], told[2], told[4]]));
        assert!(again(&[next]));
        // Another value, another key deleted, a put too few, one too many, a deletion too many.
        assert!(!again(&with(1, event(6, "b", Some(b"4")))));
        assert!(!again(&with(2, event(6, "e", None))));
        assert!(!again(&[told[1], next]));
        assert!(!again(&[&told[1..], &[event(6, "e", Some(b"5"))]].concat()));
        assert!(!again(&[&told[1..], &[event(6, "e", None)]].concat()));
    }

    /// A watch that broke within a revision tells it from its beginning.
    #[test]
    fn half_a_revision_is_forgotten() {
        let mut recall = Recall::default();
        assert!(tell(&mut recall, &[event(5, "a", Some(b"1"))]));
        assert!(recall.comes(6));
        recall.take(&event(6, "a", Some(b"2")));
        let all = [
            event(5, "a", Some(b"1")),
            event(6, "a", Some(b"2")),
            event(6, "b", Some(b"3")),
        ];
        assert!(tell(&mut recall, &all));
        let mut other = Recall::default();
        assert!(tell(&mut other, &all));
        assert_eq!(recall.imprint(6), other.imprint(6));
        assert!(recall.imprint(6).is_some());
    }
}
