//! The rules of `spec.storage`.

use super::{Findings, Ground};
use crate::cluster::quantity::{BadQuantity, Quantity};
use crate::cluster::storage::Storage;
use crate::path::FieldPath;

const CLAIM: &str = "spec.storage.volumeClaimTemplate";
/// What the guides' demonstrations ask for, on volumes that are directories and hold more.
const ADVISED_VOLUME: u64 = 50 << 20;

/// The size of a member's volume.
pub(crate) fn storage(storage: Option<&Storage>, found: &mut Findings) -> u64 {
    let Some(storage) = storage else {
        found.missing(
            "spec.storage",
            "where the members keep their data",
            "Add storage.volumeClaimTemplate with resources.requests.storage, for example 8Gi.",
        );
        return 0;
    };
    let Some(claim) = &storage.volume_claim_template else {
        found.missing(
            CLAIM,
            "the volume each member gets",
            "Add resources.requests.storage below it, for example 8Gi.",
        );
        return 0;
    };
    if found.ground == Ground::Kubernetes && claim.storage_class_name.is_none() {
        found.missing(
            "spec.storage.volumeClaimTemplate.storageClassName",
            "the storage class of the volumes",
            "Write one that `kubectl get storageclass` lists.",
        );
    }
    let path = FieldPath::of(CLAIM)
        .key("resources")
        .key("requests")
        .key("storage");
    let Some(size) = storage.size() else {
        found.fault(
            path,
            "nothing",
            "the size of each member's volume",
            "Write one, for example `storage: 8Gi`.",
        );
        return 0;
    };
    let bytes = bytes(path.clone(), &size, found);
    if found.ground == Ground::Kubernetes && (1..ADVISED_VOLUME).contains(&bytes) {
        found.warn(
            path,
            "etcd allocates its log in files of 64 MB, the next one in advance: where volumes are held to their size this \
             one is full before a member serves; ask for some Gi, and never for less than 256Mi.",
        );
    }
    bytes
}

/// A positive number of bytes.
pub(super) fn bytes(path: FieldPath, size: &Quantity, found: &mut Findings) -> u64 {
    let fix = match size.units() {
        Ok(0) => "Write a size above zero, for example 8Gi.",
        Ok(bytes) => return bytes,
        Err(BadQuantity::Negative) => "Write a size above zero, for example 8Gi.",
        Err(BadQuantity::TooLarge) => "Write a size that a disk can have, for example 8Gi.",
        Err(BadQuantity::Form) => {
            "Write a number and a unit without a space between: Ki, Mi, Gi, Ti (1024) or k, M, G, T (1000)."
        }
    };
    found.fault(
        path,
        format!("the text {:?}", size.as_str()),
        "a size such as 50Mi or 8Gi",
        fix,
    );
    0
}
