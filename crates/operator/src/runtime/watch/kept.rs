//! An object as it is kept between passes: the JSON that it came as, which takes a fifth of what it takes when parsed.
//!
//! In: an object as the API server sent it, trimmed. Out: the object, parsed again for each pass that reads it. Never: one
//! that cannot be parsed, nor JSON that the object was written as, for that may say less: a time of a year before the first
//! is read and cannot be written.

use std::marker::PhantomData;

use kube::api::DynamicObject;
use quorate_api::from_plain;
use serde::de::DeserializeOwned;

#[derive(Debug)]
pub struct Kept<K> {
    json: Box<[u8]>,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> Kept<K> {
    /// Fails if it cannot be read as an object of that kind.
    pub fn of(object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let json = serde_json::to_vec(object)?.into_boxed_slice();
        parsed::<K>(&json)?;
        Ok(Kept {
            json,
            kind: PhantomData,
        })
    }

    pub fn object(&self) -> K {
        parsed(&self.json).expect("the same JSON was parsed before")
    }
}

/// By way of plain data: so the parser is compiled once, and not for each kind.
fn parsed<K: DeserializeOwned>(json: &[u8]) -> Result<K, serde_json::Error> {
    from_plain(&serde_json::from_slice(json)?)
}

#[cfg(test)]
mod tests {
    use quorate_api::crd::EtcdCluster;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_that_can_be_read_and_not_written_stays_readable() {
        let condition = json!({
            "type": "Quorate", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "0000-01-01T00:00:00+23:00",
        });
        let object = json!({
            "apiVersion": "etcd.improbable.io/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "c"},
            "spec": {"replicas": 1, "version": "3.6.16"}, "status": {"conditions": [condition]},
        });
        let kept = Kept::<EtcdCluster>::of(&serde_json::from_value(object).unwrap()).unwrap();
        let cluster = kept.object();
        assert_eq!(cluster.spec.replicas, Some(1));
        let written = serde_json::to_vec(&cluster).unwrap();
        assert!(parsed::<EtcdCluster>(&written).is_err(), "{cluster:?}");
    }

    #[test]
    fn what_cannot_be_read_is_not_kept() {
        let object = json!({
            "apiVersion": "etcd.improbable.io/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "c"},
            "spec": {"replicas": "one"},
        });
        assert!(Kept::<EtcdCluster>::of(&serde_json::from_value(object).unwrap()).is_err());
    }
}
