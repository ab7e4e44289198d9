//! What must be known of a store before the tail of its log can be applied to it.
//!
//! In: the commands of the tail, in a first pass. Out: for any key whether its present state matters, and whether its
//! value does. A store may hold millions of keys and a tail touch a few: only those are kept in memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use quorate_wire::etcdserverpb::compare::CompareTarget;
use quorate_wire::etcdserverpb::request_op::Request;
use quorate_wire::etcdserverpb::{Compare, PutRequest, RequestOp, TxnRequest};

use super::command::Command;

/// Which keys of the store matter to a tail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Single keys; `true` where the value matters.
    keys: BTreeMap<Vec<u8>, bool>,
    /// Spans of keys, disjoint once settled.
    spans: Spans,
    /// Spans of keys whose values matter.
    value_spans: Spans,
    /// Leases that end: the keys attached to them are deleted.
    leases: HashSet<i64>,
    bytes: usize,
}

/// Half-open spans of keys; an end of `None` is the end of all keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Spans {
    spans: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Spans {
    fn add(&mut self, mut start: Vec<u8>, mut end: Option<Vec<u8>>) {
        if end.as_ref().is_some_and(|end| *end <= start) {
            return;
        }
        let reaches = |end: &Option<Vec<u8>>, key: &Vec<u8>| end.as_ref().is_none_or(|end| end >= key);
        let touching: BTreeSet<Vec<u8>> = self
            .spans
            .range::<Vec<u8>, _>(..=&start)
            .next_back()
            .filter(|(_, there)| reaches(there, &start))
            .into_iter()
            .chain(
                self.spans
                    .range(start.clone()..)
                    .take_while(|(there, _)| reaches(&end, there)),
            )
            .map(|(there, _)| there.clone())
            .collect();
        for there in touching {
            let Some(its_end) = self.spans.remove(&there) else {
                continue;
            };
            start = start.min(there);
            end = match (end, its_end) {
                (Some(one), Some(other)) => Some(one.max(other)),
                _ => None,
            };
        }
        self.spans.insert(start, end);
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.spans
            .range::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Included(key)))
            .next_back()
            .is_some_and(|(_, end)| end.as_ref().is_none_or(|end| key < end.as_slice()))
    }
}

impl Interest {
    /// Adds what `command` needs to know.
    pub(crate) fn add(&mut self, command: &Command) {
        match command {
            Command::Put(put) => self.put(put),
            Command::DeleteRange(delete) => self.range(&delete.key, &delete.range_end, false),
            Command::Txn(txn) => self.txn(txn),
            Command::LeaseRevoke(id) => {
                self.leases.insert(*id);
            }
            Command::Nothing(_)
            | Command::Compaction(_)
            | Command::LeaseGrant(_)
            | Command::ClusterVersion(_)
            | Command::Attributes(_)
            | Command::Member(_)
            | Command::Other(_) => {}
        }
    }

    fn put(&mut self, put: &PutRequest) {
        self.key(&put.key, put.ignore_value);
    }

    fn key(&mut self, key: &[u8], value: bool) {
        match self.keys.get_mut(key) {
            Some(there) => *there |= value,
            None => {
                self.bytes = self.bytes.saturating_add(key.len() + size_of::<Vec<u8>>());
                self.keys.insert(key.to_owned(), value);
            }
        }
    }

    fn range(&mut self, key: &[u8], range_end: &[u8], value: bool) {
        let end = match range_end {
            [] => return self.key(key, value),
            [0] => None,
            end => Some(end.to_owned()),
        };
        self.bytes = self.bytes.saturating_add(key.len() + range_end.len());
        self.spans.add(key.to_owned(), end.clone());
        if value {
            self.value_spans.add(key.to_owned(), end);
        }
    }

    fn txn(&mut self, txn: &TxnRequest) {
        for Compare {
            target,
            key,
            range_end,
            ..
        } in &txn.compare
        {
            self.range(key, range_end, *target == CompareTarget::Value as i32);
        }
        for RequestOp { request } in txn.success.iter().chain(&txn.failure) {
            match request {
                Some(Request::RequestPut(put)) => self.put(put),
                Some(Request::RequestDeleteRange(delete)) => {
                    self.range(&delete.key, &delete.range_end, false)
                }
                Some(Request::RequestTxn(inner)) => self.txn(inner),
                // A read's answer is not part of the store.
                Some(Request::RequestRange(_)) | None => {}
            }
        }
    }

    /// Whether nothing of the keys matters.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.spans.spans.is_empty() && self.leases.is_empty()
    }

    /// Whether the state of `key` matters, now attached to `lease`.
    pub(crate) fn in_key(&self, key: &[u8], lease: i64) -> bool {
        self.leases.contains(&lease) || self.keys.contains_key(key) || self.spans.holds(key)
    }

    /// Whether the value of `key` matters.
    pub(crate) fn in_value(&self, key: &[u8]) -> bool {
        self.keys.get(key) == Some(&true) || self.value_spans.holds(key)
    }

    /// About how much memory this takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quorate_wire::etcdserverpb::DeleteRangeRequest;

    use super::*;

    fn delete(key: &[u8], end: &[u8]) -> Command {
        Command::DeleteRange(DeleteRangeRequest {
            key: key.into(),
            range_end: end.into(),
            prev_kv: false,
        })
    }

    #[test]
    fn only_what_is_touched_matters() {
        let mut interest = Interest::default();
        assert!(interest.is_empty());
        interest.add(&delete(b"a", b""));
        interest.add(&delete(b"c", b"e"));
        interest.add(&delete(b"x", &[0]));
        interest.add(&Command::LeaseRevoke(5));
        interest.add(&Command::Put(PutRequest {
            key: b"v".into(),
            ignore_value: true,
            ..Default::default()
        }));
        interest.add(&Command::Put(PutRequest {
            key: b"v".into(),
            ..Default::default()
        }));
        for key in ["a", "c", "d", "x", "xyz", "v"] {
            assert!(interest.in_key(key.as_bytes(), 0), "{key}");
        }
        for key in ["", "aa", "b", "e", "w"] {
            assert!(!interest.in_key(key.as_bytes(), 0), "{key}");
            assert!(interest.in_key(key.as_bytes(), 5), "{key}");
        }
        assert!(interest.in_value(b"v"));
        assert!(!interest.in_value(b"a"));
        assert!(interest.bytes() > 0);
    }

    #[test]
    fn transactions_ask_in_all_their_branches() {
        let put = |key: &[u8]| RequestOp {
            request: Some(Request::RequestPut(PutRequest {
                key: key.into(),
                ..Default::default()
            })),
        };
        let inner = TxnRequest {
            compare: vec![Compare {
                target: CompareTarget::Value as i32,
                key: b"m".into(),
                range_end: b"p".into(),
                ..Default::default()
            }],
            success: vec![put(b"1")],
            failure: vec![put(b"2")],
        };
        let txn = TxnRequest {
            compare: vec![Compare {
                key: b"k".into(),
                ..Default::default()
            }],
            success: vec![put(b"3")],
            failure: vec![RequestOp {
                request: Some(Request::RequestTxn(inner)),
            }],
        };
        let mut interest = Interest::default();
        interest.add(&Command::Txn(txn));
        for key in ["1", "2", "3", "k", "m", "o"] {
            assert!(interest.in_key(key.as_bytes(), 0), "{key}");
        }
        assert!(!interest.in_key(b"p", 0));
        assert!(interest.in_value(b"n"));
        assert!(!interest.in_value(b"k"));
    }

    proptest! {
        #[test]
        fn spans_hold_what_was_added(
            added in proptest::collection::vec((0u8..20, proptest::option::of(0u8..20)), 0..12),
            key in 0u8..22,
        ) {
            let mut spans = Spans::default();
            for (start, end) in &added {
                spans.add(vec![*start], end.map(|end| vec![end]));
            }
            let expected = added.iter().any(|(start, end)| *start <= key && end.is_none_or(|end| key < end));
            prop_assert_eq!(spans.holds(&[key]), expected);
            let starts: Vec<_> = spans.spans.iter().collect();
            for pair in starts.windows(2) {
                prop_assert!(pair[0].1.as_ref().is_some_and(|end| end < pair[1].0), "disjoint: {:?}", pair);
            }
        }
    }
}
