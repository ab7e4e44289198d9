//! Why nothing happens yet, or will not happen: every reason a plan can give, with the page that
//! `quorate explain` prints for it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{Ordinal, Time};

/// Something the plan waits for; it passes by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub reason: WaitReason,
    /// The member concerned, if it is one.
    pub member: Option<Ordinal>,
    /// For people: what exactly.
    pub detail: String,
    /// When it will be looked at again for certain, if that is known.
    pub until: Option<Time>,
}

/// Something that stops the plan until a person (or the world) changes something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub reason: BlockReason,
    /// The member concerned, if it is one.
    pub member: Option<Ordinal>,
    /// For people: what exactly, and what to do.
    pub detail: String,
}

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($variant:ident: $page:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $(#[doc = concat!("See `quorate explain ", stringify!($variant), "`.")] $variant,)*
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The name used in conditions, events, metrics and `quorate explain`.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant),)* }
            }

            /// The page that explains it.
            pub fn page(self) -> &'static str {
                match self { $($name::$variant => include_str!(concat!("reason/", $page)),)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

reasons! {
    /// Why a plan waits.
    WaitReason {
        Paused: "Paused.md",
        OldView: "OldView.md",
        Forming: "Forming.md",
        NoQuorum: "NoQuorum.md",
        CaLost: "CaLost.md",
        Preparing: "Preparing.md",
        MemberStarting: "MemberStarting.md",
        MemberUnresponsive: "MemberUnresponsive.md",
        MemberStopping: "MemberStopping.md",
        BackingOff: "BackingOff.md",
        LearnerCatchingUp: "LearnerCatchingUp.md",
        LearnerFails: "LearnerFails.md",
        MembersUnhealthy: "MembersUnhealthy.md",
        ChangeInFlight: "ChangeInFlight.md",
        EtcdRefused: "EtcdRefused.md",
        LeaderMoving: "LeaderMoving.md",
        StorageGrowing: "StorageGrowing.md",
        ResourcesChanging: "ResourcesChanging.md",
    }
}

reasons! {
    /// Why a plan is blocked.
    BlockReason {
        QuorumLost: "QuorumLost.md",
        Corrupt: "Corrupt.md",
        NoSpace: "NoSpace.md",
        VolumeDeletionPending: "VolumeDeletionPending.md",
        ForeignData: "ForeignData.md",
        RolledBack: "RolledBack.md",
        OlderEpoch: "OlderEpoch.md",
        NewerEpoch: "NewerEpoch.md",
        UnknownMember: "UnknownMember.md",
        VersionPath: "VersionPath.md",
        NewVersionFails: "NewVersionFails.md",
        NewSettingsFail: "NewSettingsFail.md",
        CannotStart: "CannotStart.md",
        NoRoomAside: "NoRoomAside.md",
        DiskFull: "DiskFull.md",
        CheckRefused: "CheckRefused.md",
        Invalid: "Invalid.md",
        Certificates: "Certificates.md",
        LoginRefused: "LoginRefused.md",
    }
}

reasons! {
    /// What a condition says besides what is waited for and what blocks.
    StatusReason {
        AsWanted: "status/AsWanted.md",
        Working: "status/Working.md",
        AtRest: "status/AtRest.md",
        Serving: "status/Serving.md",
        NotServing: "status/NotServing.md",
        NotBlocked: "status/NotBlocked.md",
        Manifest: "status/Manifest.md",
        UnreadableMemory: "status/UnreadableMemory.md",
        RequestRefused: "status/RequestRefused.md",
        NoAnswer: "status/NoAnswer.md",
        NoCluster: "status/NoCluster.md",
        PassPanicked: "status/PassPanicked.md",
        PassTimedOut: "status/PassTimedOut.md",
        DiskNearlyFull: "status/DiskNearlyFull.md",
        BackupSilent: "status/BackupSilent.md",
    }
}

reasons! {
    /// What a Warning event says besides what is waited for, what blocks, and what a condition says.
    EventReason {
        MemberRemoved: "event/MemberRemoved.md",
        PodLeftBehind: "event/PodLeftBehind.md",
    }
}

impl WaitReason {
    /// Must people hear of it although it may pass by itself? While it lasts clients are not served, or one more member that
    /// fails is one too many.
    pub const fn warns(self) -> bool {
        matches!(
            self,
            WaitReason::NoQuorum | WaitReason::CaLost | WaitReason::MemberUnresponsive
        )
    }
}

/// Where a reason was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenOn {
    Host,
    Kubernetes,
}

impl SeenOn {
    const ALL: [SeenOn; 2] = [SeenOn::Host, SeenOn::Kubernetes];

    /// The heading of what is true only there.
    const fn heading(self) -> &'static str {
        match self {
            SeenOn::Host => "## On a host",
            SeenOn::Kubernetes => "## On Kubernetes",
        }
    }
}

/// A page without what is true only elsewhere.
pub fn page_on(page: &str, seen: SeenOn) -> String {
    let elsewhere = |line: &str| {
        let mut others = SeenOn::ALL.into_iter().filter(|other| *other != seen);
        others.any(|other| line == other.heading())
    };
    let mut kept = String::new();
    let mut skipping = false;
    for line in page.lines() {
        if line.starts_with('#') {
            skipping = elsewhere(line);
        }
        if !skipping {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    format!("{}\n", kept.trim_end())
}

/// The page for any reason by its name, whatever the case of its letters.
pub fn explain(name: &str) -> Option<(&'static str, &'static str)> {
    let waits = WaitReason::ALL.iter().map(|r| (r.name(), r.page()));
    let blocks = BlockReason::ALL.iter().map(|r| (r.name(), r.page()));
    let others = StatusReason::ALL.iter().map(|r| (r.name(), r.page()));
    let events = EventReason::ALL.iter().map(|r| (r.name(), r.page()));
    let mut all = waits.chain(blocks).chain(others).chain(events);
    all.find(|(n, _)| n.eq_ignore_ascii_case(name))
}

pub fn names() -> impl Iterator<Item = &'static str> {
    WaitReason::ALL
        .iter()
        .map(|r| r.name())
        .chain(BlockReason::ALL.iter().map(|r| r.name()))
        .chain(StatusReason::ALL.iter().map(|r| r.name()))
        .chain(EventReason::ALL.iter().map(|r| r.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_page_that_says_what_why_and_what_to_do() {
        for name in names() {
            let (found, page) = explain(&name.to_lowercase()).unwrap();
            assert_eq!(found, name);
            assert!(
                page.starts_with(&format!("# {name}\n")),
                "{name}: the page must open with its name"
            );
            for part in ["What it means", "What quorate does", "What you can do"] {
                assert!(page.contains(part), "{name}: the page lacks {part:?}");
            }
        }
        assert_eq!(explain("NoSuchReason"), None);
    }

    /// Who reads a page on Kubernetes has no root directory to move, and a host has no pods.
    #[test]
    fn a_page_fits_where_its_reason_was_seen() {
        for (name, page) in names().filter_map(explain) {
            let [host, kubernetes] = SeenOn::ALL.map(|seen| page_on(page, seen));
            let of_host = matches!(name, "DiskFull" | "DiskNearlyFull" | "BackupSilent");
            let of_conditions = StatusReason::ALL.iter().any(|reason| reason.name() == name) && !of_host;
            let of_events = EventReason::ALL.iter().any(|reason| reason.name() == name);
            for word in ["kubectl", "PVC", "the pod"] {
                let there = of_conditions || of_events || name == "VolumeDeletionPending";
                assert!(there || !host.contains(word), "{name} on a host: {word:?}");
            }
            for word in ["root directory", "the root", "quorate logs", "quorate down"] {
                assert!(
                    of_host || !kubernetes.contains(word),
                    "{name} on Kubernetes: {word:?}"
                );
            }
            for seen in SeenOn::ALL {
                assert!(page_on(page, seen).contains("What you can do"), "{name}");
            }
        }
        let page = "# A\n\n## What you can do\nx\n\n## On a host\nh\n\n## On Kubernetes\nk\n";
        assert_eq!(
            page_on(page, SeenOn::Host),
            "# A\n\n## What you can do\nx\n\n## On a host\nh\n"
        );
        assert_eq!(
            page_on(page, SeenOn::Kubernetes),
            "# A\n\n## What you can do\nx\n\n## On Kubernetes\nk\n"
        );
    }
}
