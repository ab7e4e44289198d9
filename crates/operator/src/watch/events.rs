//! What happens to objects of one kind, as a stream.
//!
//! In: a client, a kind, a selection. Out: events with objects of that kind. Never: managed fields, which nobody reads and
//! which are half of every object; one object that cannot be read as a reason to stop watching the others.
//!
//! Objects come as plain data and are read into their type here: so the machinery of a watch is compiled once, and not
//! for each kind.

use futures::future::ready;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::events::log_line;

/// Watches the objects of one kind, in one namespace or in all. Errors are told, and retried after growing pauses.
pub fn watch<K>(
    client: &Client,
    namespace: Option<&str>,
    config: Config,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send,
{
    let resource = ApiResource::erase::<K>(&());
    plain(client, namespace, &resource, config).filter_map(|event| ready(event.map(typed).transpose()))
}

fn plain(
    client: &Client,
    namespace: Option<&str>,
    resource: &ApiResource,
    config: Config,
) -> BoxStream<'static, Result<Event<DynamicObject>, Error>> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    watcher(api, config)
        .modify(|object| object.managed_fields_mut().clear())
        .default_backoff()
        .boxed()
}

/// The event with its object read; `None`, and a line in the log, if that cannot be read.
fn typed<K: DeserializeOwned>(event: Event<DynamicObject>) -> Option<Event<K>> {
    Some(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(read(&object)?),
        Event::Apply(object) => Event::Apply(read(&object)?),
        Event::Delete(object) => Event::Delete(read(&object)?),
    })
}

fn read<K: DeserializeOwned>(object: &DynamicObject) -> Option<K> {
    let plain = serde_json::to_value(object);
    match plain.and_then(|plain| quorate_api::from_plain(&plain)) {
        Ok(read) => Some(read),
        Err(error) => {
            let kind = object.types.as_ref().map_or("object", |types| &types.kind);
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            log_line(&format!(
                "{kind} {namespace}/{name} cannot be read and is left alone: {error}"
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_read_is_left_out_alone() {
        let service = |ports: serde_json::Value| -> DynamicObject {
            let object = json!({"metadata": {"name": "a", "labels": {"l": "v"}}, "spec": {"ports": ports}});
            serde_json::from_value(object).unwrap()
        };
        let good = typed::<Service>(Event::Apply(service(json!([{"port": 2379, "later": "unknown"}]))));
        let Some(Event::Apply(good)) = good else {
            panic!("{good:?}");
        };
        assert_eq!(
            (good.name_any(), &good.labels()["l"]),
            ("a".to_owned(), &"v".to_owned())
        );
        assert_eq!(
            good.spec.and_then(|spec| spec.ports).map(|ports| ports[0].port),
            Some(2379)
        );
        assert!(typed::<Service>(Event::Apply(service(json!("none")))).is_none());
        assert!(matches!(typed::<Service>(Event::InitDone), Some(Event::InitDone)));
    }
}
