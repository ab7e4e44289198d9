// @generated from crates/wire/proto by `make codegen`; do not edit.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RaftAttributes {
    #[prost(string, repeated, tag = "1")]
    pub peer_urls: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(bool, tag = "2")]
    pub is_learner: bool,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Attributes {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(string, repeated, tag = "2")]
    pub client_urls: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Member {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(message, optional, tag = "2")]
    pub raft_attributes: ::core::option::Option<RaftAttributes>,
    #[prost(message, optional, tag = "3")]
    pub member_attributes: ::core::option::Option<Attributes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ClusterVersionSetRequest {
    #[prost(string, tag = "1")]
    pub ver: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ClusterMemberAttrSetRequest {
    #[prost(uint64, tag = "1")]
    pub member_id: u64,
    #[prost(message, optional, tag = "2")]
    pub member_attributes: ::core::option::Option<Attributes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DowngradeInfoSetRequest {
    #[prost(bool, tag = "1")]
    pub enabled: bool,
    #[prost(string, tag = "2")]
    pub ver: ::prost::alloc::string::String,
}
