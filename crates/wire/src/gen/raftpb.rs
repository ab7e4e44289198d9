// @generated from crates/wire/proto by `make codegen`; do not edit.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Entry {
    #[prost(enumeration = "EntryType", optional, tag = "1")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(uint64, optional, tag = "2")]
    pub term: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub index: ::core::option::Option<u64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub data: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HardState {
    #[prost(uint64, optional, tag = "1")]
    pub term: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub vote: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub commit: ::core::option::Option<u64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ConfState {
    #[prost(uint64, repeated, packed = "false", tag = "1")]
    pub voters: ::prost::alloc::vec::Vec<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub learners: ::prost::alloc::vec::Vec<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub voters_outgoing: ::prost::alloc::vec::Vec<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "4")]
    pub learners_next: ::prost::alloc::vec::Vec<u64>,
    #[prost(bool, optional, tag = "5")]
    pub auto_leave: ::core::option::Option<bool>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SnapshotMetadata {
    #[prost(message, optional, tag = "1")]
    pub conf_state: ::core::option::Option<ConfState>,
    #[prost(uint64, optional, tag = "2")]
    pub index: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub term: ::core::option::Option<u64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Snapshot {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub data: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
    #[prost(message, optional, tag = "2")]
    pub metadata: ::core::option::Option<SnapshotMetadata>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ConfChange {
    #[prost(uint64, optional, tag = "1")]
    pub id: ::core::option::Option<u64>,
    #[prost(enumeration = "ConfChangeType", optional, tag = "2")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(uint64, optional, tag = "3")]
    pub node_id: ::core::option::Option<u64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub context: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ConfChangeSingle {
    #[prost(enumeration = "ConfChangeType", optional, tag = "1")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(uint64, optional, tag = "2")]
    pub node_id: ::core::option::Option<u64>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ConfChangeV2 {
    #[prost(enumeration = "ConfChangeTransition", optional, tag = "1")]
    pub transition: ::core::option::Option<i32>,
    #[prost(message, repeated, tag = "2")]
    pub changes: ::prost::alloc::vec::Vec<ConfChangeSingle>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub context: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum EntryType {
    EntryNormal = 0,
    EntryConfChange = 1,
    EntryConfChangeV2 = 2,
}
impl EntryType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::EntryNormal => "EntryNormal",
            Self::EntryConfChange => "EntryConfChange",
            Self::EntryConfChangeV2 => "EntryConfChangeV2",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "EntryNormal" => Some(Self::EntryNormal),
            "EntryConfChange" => Some(Self::EntryConfChange),
            "EntryConfChangeV2" => Some(Self::EntryConfChangeV2),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ConfChangeType {
    ConfChangeAddNode = 0,
    ConfChangeRemoveNode = 1,
    ConfChangeUpdateNode = 2,
    ConfChangeAddLearnerNode = 3,
}
impl ConfChangeType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::ConfChangeAddNode => "ConfChangeAddNode",
            Self::ConfChangeRemoveNode => "ConfChangeRemoveNode",
            Self::ConfChangeUpdateNode => "ConfChangeUpdateNode",
            Self::ConfChangeAddLearnerNode => "ConfChangeAddLearnerNode",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ConfChangeAddNode" => Some(Self::ConfChangeAddNode),
            "ConfChangeRemoveNode" => Some(Self::ConfChangeRemoveNode),
            "ConfChangeUpdateNode" => Some(Self::ConfChangeUpdateNode),
            "ConfChangeAddLearnerNode" => Some(Self::ConfChangeAddLearnerNode),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ConfChangeTransition {
    Auto = 0,
    JointImplicit = 1,
    JointExplicit = 2,
}
impl ConfChangeTransition {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Auto => "ConfChangeTransitionAuto",
            Self::JointImplicit => "ConfChangeTransitionJointImplicit",
            Self::JointExplicit => "ConfChangeTransitionJointExplicit",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ConfChangeTransitionAuto" => Some(Self::Auto),
            "ConfChangeTransitionJointImplicit" => Some(Self::JointImplicit),
            "ConfChangeTransitionJointExplicit" => Some(Self::JointExplicit),
            _ => None,
        }
    }
}
