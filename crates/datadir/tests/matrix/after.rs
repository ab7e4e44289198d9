//! What an etcd must still be able to do after it was started on files of ours.

use quorate_testkit::{Client, Said};
use quorate_wire::etcdserverpb::{
    CompactionRequest, CompactionResponse, DefragmentRequest, DefragmentResponse, DeleteRangeRequest,
    DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
};

/// Writes, deletes, compacts, which rebalances trees, and defragments; then all is as it was said to be.
pub fn goes_on(client: &Client) {
    for n in 0..20 {
        let put = PutRequest {
            key: format!("after/{n}").into_bytes(),
            value: vec![b'v'; 300],
            ..PutRequest::default()
        };
        let _: PutResponse = client.call("KV/Put", put);
    }
    let delete = DeleteRangeRequest {
        key: b"after/".to_vec(),
        range_end: b"after/1~".to_vec(),
        ..DeleteRangeRequest::default()
    };
    let deleted: DeleteRangeResponse = client.call("KV/DeleteRange", delete);
    assert!(deleted.deleted > 0);
    let revision = deleted.header.unwrap().revision;
    let compact = CompactionRequest {
        revision,
        physical: true,
    };
    let _: CompactionResponse = client.call("KV/Compact", compact);
    // 3.4 says no hash at the revision of its compaction.
    let put = PutRequest {
        key: b"after/9".to_vec(),
        value: b"again".to_vec(),
        ..PutRequest::default()
    };
    let _: PutResponse = client.call("KV/Put", put);
    let before = Said::by(client);
    let _: DefragmentResponse = client.call("Maintenance/Defragment", DefragmentRequest {});
    let after = Said::by(client);
    assert_eq!(after.hashes, before.hashes);
    let range = RangeRequest {
        key: b"after/".to_vec(),
        range_end: b"after0".to_vec(),
        ..RangeRequest::default()
    };
    let left: RangeResponse = client.call("KV/Range", range);
    assert!(left.count > 0 && left.count < 20, "{}", left.count);
}
