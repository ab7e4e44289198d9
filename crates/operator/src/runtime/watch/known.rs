//! What a watch knows, by the object whose passes need it: a pass over one of a thousand clusters looks through none of the
//! others.
//!
//! In: the events of a watch. Out: the objects under a key, and the keys that something happened to. Never: half of a list;
//! until a new one is whole the former holds, and nobody is woken for what cannot be seen yet; more than so many objects
//! under a key, besides those that the operator itself makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::runtime::watch::kept::Kept;
use crate::runtime::work::WorkKey;

/// Objects under one key, besides those of the operator's own names. Pods of ten members that were evicted a hundred times
/// each are fewer.
const UNDER_MAX: usize = 1024;

type ByKey<K> = BTreeMap<WorkKey, BTreeMap<String, Kept<K>>>;

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
}

impl<K: DeserializeOwned> Known<K> {
    /// All that is under a key, by name.
    pub fn under(&self, key: &WorkKey) -> BTreeMap<String, K> {
        let objects = self.read();
        let under = objects.get(key).into_iter().flatten();
        under.map(|(name, kept)| (name.clone(), kept.object())).collect()
    }

    pub fn get(&self, key: &WorkKey, name: &str) -> Option<K> {
        Some(self.read().get(key)?.get(name)?.object())
    }

    pub fn has(&self, key: &WorkKey, name: &str) -> bool {
        self.read().get(key).is_some_and(|own| own.contains_key(name))
    }
}

/// The watch's side of it.
#[derive(Debug)]
pub struct Learner<K> {
    objects: Arc<RwLock<ByKey<K>>>,
    /// A list that is not whole yet.
    listing: ByKey<K>,
    listed: watch::Sender<bool>,
    /// Keys under which there is more than is kept.
    overfull: BTreeSet<WorkKey>,
    room_again: bool,
    key_of: fn(&K) -> Option<WorkKey>,
}

/// A watch that knows nothing yet. What has no key is not kept.
pub fn known<K>(key_of: fn(&K) -> Option<WorkKey>) -> (Known<K>, Learner<K>) {
    let (listed, reader) = watch::channel(false);
    let learner = Learner {
        objects: Arc::default(),
        listing: BTreeMap::new(),
        listed,
        overfull: BTreeSet::new(),
        room_again: false,
        key_of,
    };
    let known = Known {
        objects: learner.objects.clone(),
        listed: reader,
    };
    (known, learner)
}

impl<K: Resource<DynamicType = ()> + DeserializeOwned> Learner<K> {
    /// Takes an event in. Out: whose passes it concerns.
    pub fn learn(&mut self, event: Event<Kept<K>>) -> Vec<WorkKey> {
        match event {
            Event::Init => {
                self.listing = BTreeMap::new();
                (self.overfull, self.room_again) = (BTreeSet::new(), false);
            }
            Event::InitApply(kept) => {
                let object = kept.object();
                if let Some(key) = (self.key_of)(&object) {
                    let listed = self.listing.entry(key.clone()).or_default();
                    keep(listed, key, object.name_any(), kept, &mut self.overfull);
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
            Event::Apply(kept) => return self.change(kept, true),
            Event::Delete(kept) => return self.change(kept, false),
        }
        Vec::new()
    }

    fn change(&mut self, kept: Kept<K>, stays: bool) -> Vec<WorkKey> {
        let object = kept.object();
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
            let own = objects.entry(key.clone()).or_default();
            keep(own, key, name, kept, &mut self.overfull);
        }
        for key in &woken {
            let kept = objects.get(key).map_or(0, BTreeMap::len);
            self.room_again |= kept <= UNDER_MAX / 2 && self.overfull.contains(key);
            if objects.get(key).is_some_and(BTreeMap::is_empty) {
                objects.remove(key);
            }
        }
        woken
    }
}

impl<K> Learner<K> {
    /// Is half of what was kept under an overfull key gone? Then all is to be listed again: there is room for what was not
    /// kept.
    pub fn has_room_again(&self) -> bool {
        self.room_again
    }
}

/// Keeps an object if there is room for it. Those of the operator's own names are few, and always kept: a member's claim
/// that is not seen would be taken for lost.
fn keep<K: Resource<DynamicType = ()>>(
    own: &mut BTreeMap<String, Kept<K>>,
    key: WorkKey,
    name: String,
    kept: Kept<K>,
    overfull: &mut BTreeSet<WorkKey>,
) {
    if own.len() < UNDER_MAX || own.contains_key(&name) || key.names().names_own(&name) {
        own.insert(name, kept);
    } else if !overfull.contains(&key) {
        let (namespace, cluster, resource) = (&*key.namespace, &*key.name, &*K::plural(&()));
        tracing::warn!(
            namespace,
            cluster,
            resource,
            "more than {UNDER_MAX} carry this cluster's labels; the others are not seen until there are fewer: delete \
             those that are not needed"
        );
        overfull.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    use super::*;

    fn service(namespace: &str, name: &str, cluster: Option<&str>, port: u16) -> Kept<Service> {
        let labels = cluster.map(|cluster| json!({"cluster": cluster}));
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
        let object = json!({"metadata": metadata, "spec": {"ports": [{"port": port}]}});
        Kept::of(&serde_json::from_value(object).unwrap()).unwrap()
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

    #[test]
    fn a_cluster_has_room_for_so_many_objects_and_for_its_own() {
        let (known, mut learner) = known(key_of);
        let of = |name: &str| service("n", name, Some("c"), 1);
        let other = |n: usize| format!("c-0-{n}");
        for list in [true, false] {
            if list {
                learner.learn(Event::Init);
            }
            for n in 0..UNDER_MAX + 10 {
                let object = of(&other(n));
                learner.learn(match list {
                    true => Event::InitApply(object),
                    false => Event::Apply(object),
                });
            }
            if list {
                learner.learn(Event::InitDone);
            }
            assert_eq!(names(&known, "c").len(), UNDER_MAX, "{list}");
        }
        for own in ["c", "c-client", "c-7", "c-7-tls"] {
            learner.learn(Event::Apply(of(own)));
        }
        learner.learn(Event::Apply(of("c-99")));
        assert_eq!(names(&known, "c").len(), UNDER_MAX + 4);
        assert_eq!(learner.overfull.len(), 1);
        for n in 0..UNDER_MAX {
            assert!(n > UNDER_MAX / 2 || !learner.has_room_again(), "{n}");
            learner.learn(Event::Delete(of(&other(n))));
        }
        assert!(learner.has_room_again());
        learner.learn(Event::Init);
        assert!(!learner.has_room_again(), "it is being listed");
    }
}
