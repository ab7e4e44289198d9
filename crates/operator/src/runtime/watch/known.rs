//! What a watch knows, by the object whose passes need it: a pass over one of a thousand clusters looks through none of the
//! others.
//!
//! In: the events of a watch. Out: the objects under a key, and the keys that something happened to. Never: half of a list;
//! until a new one is whole the former holds, and nobody is woken for what cannot be seen yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use tokio::sync::watch;

use crate::runtime::work::WorkKey;

type ByKey<K> = BTreeMap<WorkKey, BTreeMap<String, Arc<K>>>;

/// What there is, for those who read.
#[derive(Debug)]
pub struct Known<K> {
    objects: Arc<RwLock<ByKey<K>>>,
    listed: watch::Receiver<bool>,
}

impl<K> Clone for Known<K> {
    fn clone(&self) -> Self {
        Known {
            objects: self.objects.clone(),
            listed: self.listed.clone(),
        }
    }
}

impl<K> Known<K> {
    /// Waits until all there is has been listed.
    pub async fn ready(&self) {
        // An error says that the watch has ended. That ends with the operator alone.
        let _ = self.listed.clone().wait_for(|listed| *listed).await;
    }

    fn read(&self) -> RwLockReadGuard<'_, ByKey<K>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn keys(&self) -> Vec<WorkKey> {
        self.read().keys().cloned().collect()
    }

    /// All that is under a key, by name.
    pub fn under(&self, key: &WorkKey) -> BTreeMap<String, Arc<K>> {
        self.read().get(key).cloned().unwrap_or_default()
    }

    pub fn get(&self, key: &WorkKey, name: &str) -> Option<Arc<K>> {
        self.read().get(key)?.get(name).cloned()
    }
}

/// The watch's side of it.
#[derive(Debug)]
pub struct Learner<K> {
    objects: Arc<RwLock<ByKey<K>>>,
    /// A list that is not whole yet.
    listing: ByKey<K>,
    listed: watch::Sender<bool>,
    key_of: fn(&K) -> Option<WorkKey>,
}

/// A watch that knows nothing yet. What has no key is not kept.
pub fn known<K>(key_of: fn(&K) -> Option<WorkKey>) -> (Known<K>, Learner<K>) {
    let (listed, reader) = watch::channel(false);
    let learner = Learner {
        objects: Arc::default(),
        listing: BTreeMap::new(),
        listed,
        key_of,
    };
    let known = Known {
        objects: learner.objects.clone(),
        listed: reader,
    };
    (known, learner)
}

impl<K: Resource<DynamicType = ()>> Learner<K> {
    /// Takes an event in. Out: whose passes it concerns.
    pub fn learn(&mut self, event: Event<K>) -> Vec<WorkKey> {
        match event {
            Event::Init => self.listing = BTreeMap::new(),
            Event::InitApply(object) => {
                if let Some(key) = (self.key_of)(&object) {
                    let listed = self.listing.entry(key).or_default();
                    listed.insert(object.name_any(), Arc::new(object));
                }
            }
            Event::InitDone => {
                let whole = std::mem::take(&mut self.listing);
                let mut woken: BTreeSet<WorkKey> = whole.keys().cloned().collect();
                let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
                // Those that went while nobody watched.
                woken.extend(std::mem::replace(&mut *objects, whole).into_keys());
                self.listed.send_replace(true);
                return woken.into_iter().collect();
            }
            Event::Apply(object) => return self.change(object, true),
            Event::Delete(object) => return self.change(object, false),
        }
        Vec::new()
    }

    fn change(&mut self, object: K, stays: bool) -> Vec<WorkKey> {
        let Some(key) = (self.key_of)(&object) else {
            return Vec::new();
        };
        let name = object.name_any();
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let mut woken = vec![key.clone()];
        if !objects.get(&key).is_some_and(|own| own.contains_key(&name)) {
            // It may have been another's until now: who may write it may write its label.
            let near = |other: &WorkKey| other.kind == key.kind && other.namespace == key.namespace;
            let before = objects
                .iter()
                .find(|(other, own)| near(other) && own.contains_key(&name));
            woken.extend(before.map(|(other, _)| other.clone()));
        }
        for key in &woken {
            if let Some(own) = objects.get_mut(key) {
                own.remove(&name);
            }
        }
        if stays {
            let own = objects.entry(key).or_default();
            own.insert(name, Arc::new(object));
        }
        for key in &woken {
            if objects.get(key).is_some_and(BTreeMap::is_empty) {
                objects.remove(key);
            }
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    use super::*;

    fn service(namespace: &str, name: &str, cluster: Option<&str>, port: u16) -> Service {
        let labels = cluster.map(|cluster| json!({"cluster": cluster}));
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"ports": [{"port": port}]}})).unwrap()
    }

    fn key_of(service: &Service) -> Option<WorkKey> {
        let cluster = service.labels().get("cluster")?;
        Some(WorkKey::cluster(&service.namespace()?, cluster))
    }

    fn names(known: &Known<Service>, cluster: &str) -> Vec<String> {
        let under = known.under(&WorkKey::cluster("n", cluster));
        under.into_keys().collect()
    }

    #[test]
    fn objects_are_found_under_their_cluster_and_in_no_other_namespace() {
        let (known, mut learner) = known(key_of);
        for object in [
            service("n", "a", Some("c"), 1),
            service("n", "b", Some("c"), 1),
            service("n", "a2", Some("d"), 1),
            service("m", "a", Some("c"), 1),
            service("n", "none", None, 1),
        ] {
            learner.learn(Event::Apply(object));
        }
        assert_eq!(names(&known, "c"), ["a", "b"]);
        assert_eq!(names(&known, "d"), ["a2"]);
        assert_eq!(known.keys().len(), 3);
        learner.learn(Event::Apply(service("n", "a", Some("c"), 2)));
        let changed = known.get(&WorkKey::cluster("n", "c"), "a").unwrap();
        let port = changed.spec.as_ref().and_then(|s| s.ports.as_ref()).unwrap()[0].port;
        assert_eq!(port, 2);
        learner.learn(Event::Delete(service("n", "a", Some("c"), 2)));
        learner.learn(Event::Delete(service("n", "a2", Some("d"), 1)));
        assert_eq!(names(&known, "c"), ["b"]);
        assert_eq!(known.keys().len(), 2, "a cluster without objects takes no room");
    }

    #[test]
    fn an_object_that_is_given_to_another_cluster_wakes_both() {
        let (known, mut learner) = known(key_of);
        learner.learn(Event::Apply(service("n", "a", Some("c"), 1)));
        let woken = learner.learn(Event::Apply(service("n", "a", Some("d"), 1)));
        assert_eq!(woken, [WorkKey::cluster("n", "d"), WorkKey::cluster("n", "c")]);
        assert_eq!(names(&known, "c"), [""; 0]);
        assert_eq!(names(&known, "d"), ["a"]);
        learner.learn(Event::Delete(service("n", "a", Some("c"), 1)));
        assert_eq!(known.keys(), []);
    }

    #[tokio::test]
    async fn a_list_replaces_the_former_when_it_is_whole() {
        let (known, mut learner) = known(key_of);
        let key = |cluster| WorkKey::cluster("n", cluster);
        learner.learn(Event::Init);
        let woken = learner.learn(Event::InitApply(service("n", "a", Some("c"), 1)));
        assert_eq!(
            (woken, names(&known, "c")),
            (vec![], vec![]),
            "it cannot be seen yet"
        );
        assert_eq!(learner.learn(Event::InitDone), [key("c")]);
        known.ready().await;
        assert_eq!(names(&known, "c"), ["a"]);
        learner.learn(Event::Init);
        learner.learn(Event::InitApply(service("n", "b", Some("d"), 1)));
        assert_eq!(names(&known, "c"), ["a"]);
        let woken = learner.learn(Event::InitDone);
        assert_eq!(woken, [key("c"), key("d")], "the one that went, and the new one");
        learner.learn(Event::Init);
        learner.learn(Event::InitApply(service("n", "e", Some("e"), 1)));
        // That list was cut short, and is begun again.
        learner.learn(Event::Init);
        assert_eq!(learner.learn(Event::InitDone), [key("d")]);
        assert_eq!(known.keys(), []);
    }
}
