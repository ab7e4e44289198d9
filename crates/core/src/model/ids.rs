//! Names and numbers that must not be mixed up, each in a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

/// etcd's id of a member: unique for ever, a wiped member that rejoins gets another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(pub u64);

/// etcd's id of a cluster; two clusters never share one because every bootstrap uses a fresh token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub u64);

macro_rules! hex_id {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0)
            }
        }
    )*};
}
hex_id!(MemberId, ClusterId);

/// The place of a member in its cluster: 0, 1, 2 … compared as a number, so 10 comes after 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ordinal(pub u32);

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which volume of a slot: a slot whose volume was lost or set aside goes on with the next generation, so that
/// a mark made for one volume can never be read as a mark of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u32);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

impl Generation {
    /// The volume after this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

macro_rules! text {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    )*};
}
text! {
    /// A member's name, `<cluster>-<ordinal>`.
    MemberName,
    /// The URL under which the other members reach this one; with the id, the only thing members are matched by.
    PeerUrl,
    /// The bootstrap token: fresh for each bootstrap, so that leftovers of another can never join.
    Token,
}

impl MemberName {
    /// The name of the member of `cluster` at `ordinal`.
    pub fn of(cluster: &str, ordinal: Ordinal) -> Self {
        Self(format!("{cluster}-{ordinal}"))
    }
}
