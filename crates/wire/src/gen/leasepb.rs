// @generated from crates/wire/proto by `make codegen`; do not edit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Lease {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(int64, tag = "2")]
    pub ttl: i64,
    #[prost(int64, tag = "3")]
    pub remaining_ttl: i64,
}
