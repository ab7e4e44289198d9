//! What is kept of a watched object: nothing that no pass reads.
//!
//! In: an object as the API server sent it. Out: the same, smaller, before it is stored. Whoever may write objects with
//! our labels decides how many of them there are, but not what each costs: a Secret is kept with the certificates and keys
//! that quorate itself writes, and only as far as they are as short as those are. Lists are read in pages, small ones for
//! Secrets, so that a page of the largest there can be fits into the operator's memory as well.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

/// What `kubectl apply` leaves of a whole object on it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The data of one Secret that is kept, in base64: two pairs and two bundles of CAs take a fifth of it.
const SECRET_MAX: usize = 64 * 1024;
/// Secrets in a page of a list. The API server stores at most one and a half million bytes of each.
pub const SECRETS_PAGE: u32 = 16;

/// What is left of an object of any kind.
pub fn any(object: &mut DynamicObject) {
    object.managed_fields_mut().clear();
    object.annotations_mut().remove(LAST_APPLIED);
}

/// What is left of a Secret.
pub fn secret(object: &mut DynamicObject) {
    any(object);
    let Some(data) = object.data.get_mut("data").and_then(Value::as_object_mut) else {
        return;
    };
    data.retain(|key, _| key.ends_with(".crt") || key.ends_with(".key"));
    let size: usize = data
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > SECRET_MAX {
        data.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn left(data: Value) -> Value {
        let annotations = json!({LAST_APPLIED: "x".repeat(100_000), "ours": "y"});
        let managed = json!([{"manager": "m", "operation": "Update"}]);
        let metadata = json!({"name": "s", "annotations": annotations, "managedFields": managed});
        let mut object = serde_json::from_value(json!({"metadata": metadata, "data": data})).unwrap();
        secret(&mut object);
        assert_eq!(object.annotations().len(), 1);
        assert!(object.managed_fields().is_empty());
        object.data["data"].clone()
    }

    #[test]
    fn of_a_secret_no_more_is_kept_than_what_quorate_writes() {
        let pair = json!({"tls.crt": "YQ==", "tls.key": "Yg==", "ca.crt": "Yw=="});
        assert_eq!(left(pair.clone()), pair);
        let mut more = pair.clone();
        more["archive"] = json!("A".repeat(1_000_000));
        assert_eq!(left(more), pair);
        let mut longer = pair;
        longer["huge.crt"] = json!("A".repeat(1_000_000));
        assert_eq!(left(longer), json!({}));
    }
}
