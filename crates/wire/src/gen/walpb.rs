// @generated from crates/wire/proto by `make codegen`; do not edit.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Record {
    #[prost(int64, optional, tag = "1")]
    pub r#type: ::core::option::Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    pub crc: ::core::option::Option<u32>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub data: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Snapshot {
    #[prost(uint64, optional, tag = "1")]
    pub index: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub term: ::core::option::Option<u64>,
    #[prost(message, optional, tag = "3")]
    pub conf_state: ::core::option::Option<super::raftpb::ConfState>,
}
