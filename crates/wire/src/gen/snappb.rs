// @generated from crates/wire/proto by `make codegen`; do not edit.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Snapshot {
    #[prost(uint32, optional, tag = "1")]
    pub crc: ::core::option::Option<u32>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub data: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
}
