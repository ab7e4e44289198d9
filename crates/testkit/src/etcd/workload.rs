use std::fmt;

/// What is asked of a fresh etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    Empty,
    /// Some thousand puts, overwrites and deletions, one a revision.
    Puts,
    /// Keys bound to leases; leases without keys; leases revoked.
    Leases,
    /// Many keys a revision, in nested transactions, with either outcome.
    Txns,
    /// Compacted twice, the last time at the revision of a deletion; and writes after that.
    Compacted,
    /// Users, roles and permissions, and authentication on.
    Auth,
    /// Values of more than a MiB, and keys of some KiB.
    Large,
    /// So many small keys, a hundred a revision.
    Small(u32),
    /// One deletion of many keys.
    RangeDelete,
}

impl Workload {
    /// Every workload, in the sizes of CI.
    pub const ALL: [Workload; 9] = [
        Workload::Empty,
        Workload::Puts,
        Workload::Leases,
        Workload::Txns,
        Workload::Compacted,
        Workload::Auth,
        Workload::Large,
        Workload::Small(200_000),
        Workload::RangeDelete,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Workload::Empty => "empty",
            Workload::Puts => "puts",
            Workload::Leases => "leases",
            Workload::Txns => "txns",
            Workload::Compacted => "compacted",
            Workload::Auth => "auth",
            Workload::Large => "large",
            Workload::Small(_) => "small",
            Workload::RangeDelete => "range-delete",
        }
    }

    /// The workload of this name, in the size of CI.
    pub fn named(name: &str) -> Option<Workload> {
        Workload::ALL.into_iter().find(|workload| workload.name() == name)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
