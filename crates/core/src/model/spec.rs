//! What the user wants, validated. Nothing after validation reads the manifest again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{MemberName, Ordinal, Version};
use crate::reason::BlockReason;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The cluster's name; members are `<name>-<ordinal>`.
    pub name: String,
    /// How many members; at least 1.
    pub replicas: u32,
    /// The etcd version every member should run.
    pub version: Version,
    /// A digest of everything else a running member was started with (options, certificates' root, the user's
    /// redeployment reason). A member that runs with another one is restarted in its turn.
    pub config: String,
    /// The same, whole, for those members that have settings of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_configs: BTreeMap<Ordinal, String>,
    /// How many bytes each member's storage is to hold, where storage can grow.
    pub storage: Option<u64>,
    pub paused: bool,
    /// The user agrees that the only member goes on from a volume that was rolled back: the text that names it
    /// ([`VolumeMarks::consent`](super::VolumeMarks::consent)).
    pub accept_rolled_back: Option<String>,
    /// What the user asks for now cannot be done. The rest says what was last asked for that could: it is kept up, and nothing
    /// is changed.
    pub frozen: Option<Frozen>,
    /// What it was read from, so that the ground can build the same again later. None: it could not.
    pub manifest: Option<String>,
    /// The digest, as `config`, of what the cluster last served with ([`Memory::good`](crate::memory::Memory::good)), as the
    /// ground would build it now: members may trust another CA by now than they did then. None: nothing else is
    /// remembered, or it cannot be built.
    #[serde(default)]
    pub fallback: Option<String>,
    /// The same for those members that had settings of their own then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_fallbacks: BTreeMap<Ordinal, String>,
}

/// What a member is started as: a version of etcd, and the digest of everything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub version: Version,
    pub config: String,
}

/// Why nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    pub reason: BlockReason,
    pub detail: String,
}

impl Frozen {
    /// The same, with what else is not as it should be.
    #[must_use]
    pub fn besides(mut self, other: Option<Frozen>) -> Frozen {
        if let Some(other) = other {
            self.detail = format!("{}; {}", self.detail, other.detail);
        }
        self
    }
}

impl Spec {
    /// The name of the member at `ordinal`.
    pub fn member_name(&self, ordinal: Ordinal) -> MemberName {
        MemberName::of(&self.name, ordinal)
    }

    /// What the member at `ordinal` should run as.
    pub fn setup_of(&self, ordinal: Ordinal) -> Setup {
        Setup {
            version: self.version,
            config: self.config_of(ordinal).to_owned(),
        }
    }

    /// The digest of the settings that the member at `ordinal` should run with.
    pub fn config_of(&self, ordinal: Ordinal) -> &str {
        self.own_configs.get(&ordinal).unwrap_or(&self.config)
    }

    /// The digest of the settings that the member at `ordinal` goes back to. Those of its own it must have `served` with:
    /// nobody else can prove them.
    pub fn fallback_of(&self, ordinal: Ordinal, served: Option<&Setup>) -> Option<&str> {
        let fallback = self.fallback.as_ref()?;
        match self.own_fallbacks.get(&ordinal) {
            Some(own) => Some(own.as_str()).filter(|own| served.is_some_and(|s| s.config == *own)),
            None => Some(fallback),
        }
    }

    /// Is there to be a member at `ordinal`?
    pub fn wants(&self, ordinal: Ordinal) -> bool {
        ordinal.0 < self.replicas
    }
}
