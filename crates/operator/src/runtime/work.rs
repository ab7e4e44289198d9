//! What is worked on: one object of a kind that has passes of its own.

use std::fmt;

use crate::names::Names;

/// The kinds that have passes. A further one is a variant here, a pass in [`super::run`], and watches that wake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    Cluster,
}

/// One object that is worked on: never by two passes at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkKey {
    pub kind: WorkKind,
    pub namespace: String,
    pub name: String,
}

impl WorkKey {
    pub fn cluster(namespace: &str, name: &str) -> WorkKey {
        WorkKey {
            kind: WorkKind::Cluster,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The cluster whose objects are called so.
    pub fn of(names: &Names) -> WorkKey {
        WorkKey::cluster(&names.namespace, &names.cluster)
    }

    /// What the objects of a cluster of that name are called.
    pub fn names(&self) -> Names {
        Names::of(&self.namespace, &self.name)
    }
}

impl fmt::Display for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkKey {
            kind,
            namespace,
            name,
        } = self;
        write!(f, "{kind:?} {namespace}/{name}")
    }
}
