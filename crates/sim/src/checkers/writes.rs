//! No acknowledged write is ever lost.
//!
//! In: acknowledgements and elections. Out: the first value that an elected leader, or a member at the end, lacks.
//! Never: a demand for a write whose client got no answer.

use std::collections::BTreeSet;

use crate::etcd::{EtcdModel, Kind, Node, Place};

/// What clients were answered.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    acknowledged: Vec<u64>,
}

impl Writes {
    pub fn count(&self) -> usize {
        self.acknowledged.len()
    }

    /// A client was told that its value is safe: every leader of a newer term must have it already.
    pub fn acknowledge(&mut self, etcd: &EtcdModel, value: u64, term: u64) -> Option<String> {
        self.acknowledged.push(value);
        let newer = etcd
            .nodes
            .iter()
            .filter(|(_, n)| n.leads() && n.wal().is_some_and(|w| w.term > term));
        let mut lacking = newer.filter(|(_, n)| !values(n, usize::MAX).contains(&value));
        lacking.next().map(|(p, _)| {
            format!(
                "write {value}, just acknowledged, is not in the log of leader {}",
                p.0
            )
        })
    }

    /// A leader was elected: everything acknowledged so far must be in its log.
    pub fn elected(&self, etcd: &EtcdModel, place: Place) -> Option<String> {
        // One that ended in the same tick leads nobody.
        let node = etcd.nodes.get(&place).filter(|n| n.leads())?;
        self.lacking(node, usize::MAX).map(|v| {
            format!(
                "write {v} was acknowledged and is not in the log of the new leader {}",
                place.0
            )
        })
    }

    /// A linearizable read through `place` must see everything acknowledged.
    pub fn read(&self, etcd: &EtcdModel, place: Place) -> Option<String> {
        let node = etcd.nodes.get(&place)?;
        let applied = node.running.as_ref()?.applied;
        self.lacking(node, applied).map(|v| {
            format!(
                "write {v} was acknowledged and a read through {} lacks it",
                place.0
            )
        })
    }

    fn lacking(&self, node: &Node, upto: usize) -> Option<u64> {
        let have = values(node, upto);
        self.acknowledged.iter().find(|v| !have.contains(v)).copied()
    }
}

fn values(node: &Node, upto: usize) -> BTreeSet<u64> {
    let log = node.wal().map_or(&[][..], |w| &w.log);
    let value = |k: &Kind| if let Kind::Write(v) = k { Some(*v) } else { None };
    log.iter().take(upto).filter_map(|e| value(&e.kind)).collect()
}
