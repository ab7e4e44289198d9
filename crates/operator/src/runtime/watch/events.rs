//! What happens to objects of one kind, as a stream.
//!
//! In: a client, a kind, a selection. Out: events with objects of that kind. Never: managed fields, which nobody reads and
//! which are half of every object; a list without an object that is there and cannot be read, for it would look gone.
//!
//! Objects come as plain data and are read into their type here: so the machinery of a watch is compiled once, and not
//! for each kind.

use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// How long until objects are listed again, of which one could not be read.
const AGAIN: Duration = Duration::from_secs(10);

type Plain = BoxStream<'static, Result<Event<DynamicObject>, Error>>;

/// What is made of an object.
pub type Reader<T> = fn(&DynamicObject) -> Result<T, serde_json::Error>;

/// Watches the objects of one kind, in one namespace or in all; `trim` leaves of each what is to be kept, and `reader` reads
/// it. Errors are reported, and retried after a pause; an object that cannot be read is one, and all are listed again after
/// it.
pub fn watch<K: Resource<DynamicType = ()>, T: Send>(
    client: &Client,
    namespace: Option<&str>,
    config: Config,
    trim: fn(&mut DynamicObject),
    reader: Reader<T>,
) -> impl Stream<Item = Result<Event<T>, Error>> + Send + use<K, T> {
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    read_all(move || plain(api.clone(), config.clone(), trim), reader, AGAIN)
}

fn plain(api: Api<DynamicObject>, config: Config, trim: fn(&mut DynamicObject)) -> Plain {
    watcher(api, config).modify(trim).default_backoff().boxed()
}

/// The events of `begin`, read; begun again `pause` after one that could not be.
fn read_all<T: Send>(
    begin: impl Fn() -> Plain + Send,
    reader: Reader<T>,
    pause: Duration,
) -> impl Stream<Item = Result<Event<T>, Error>> + Send {
    stream::unfold((Some(begin()), begin), move |(source, begin)| async move {
        let mut source = match source {
            Some(source) => source,
            None => {
                tokio::time::sleep(pause).await;
                begin()
            }
        };
        let read = source.next().await?.map(|event| read(event, reader));
        let readable = !matches!(read, Ok(Err(_)));
        Some((read.flatten(), (readable.then_some(source), begin)))
    })
}

fn read<T>(event: Event<DynamicObject>, reader: Reader<T>) -> Result<Event<T>, Error> {
    let read = |object| {
        let unreadable = |error| Error::InitialListFailed(kube::Error::SerdeError(error));
        reader(&object).map_err(unreadable)
    };
    Ok(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(read(object)?),
        Event::Apply(object) => Event::Apply(read(object)?),
        Event::Delete(object) => Event::Delete(read(object)?),
    })
}

/// Reads an object into its type.
pub fn object<K: DeserializeOwned>(object: &DynamicObject) -> Result<K, serde_json::Error> {
    quorate_api::from_plain(&serde_json::to_value(object)?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::Service;
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn service(name: &str, ports: serde_json::Value) -> DynamicObject {
        let object = json!({"metadata": {"name": name, "labels": {"l": "v"}}, "spec": {"ports": ports}});
        serde_json::from_value(object).unwrap()
    }

    fn events(last: serde_json::Value) -> Plain {
        let first = service("a", json!([{"port": 2379, "later": "unknown"}]));
        let objects = [first, service("b", last)].map(Event::InitApply);
        let all = [Event::Init].into_iter().chain(objects).chain([Event::InitDone]);
        stream::iter(all.map(Ok).collect::<Vec<_>>()).boxed()
    }

    /// Of a list with an object that cannot be read the end is never reported: it would take the place of the list before.
    #[tokio::test]
    async fn a_list_with_an_object_that_cannot_be_read_is_begun_again() {
        let times = AtomicUsize::new(0);
        let begin = || match times.fetch_add(1, Ordering::Relaxed) {
            0 => events(json!("none")),
            _ => events(json!([])),
        };
        let reported: Vec<Result<Event<Service>, Error>> =
            read_all(begin, object, Duration::ZERO).take(7).collect().await;
        let shown = reported.iter().map(|event| match event {
            Ok(Event::Init) => "init".to_owned(),
            Ok(Event::InitDone) => "done".to_owned(),
            Ok(Event::InitApply(object)) => object.name_any(),
            Ok(_) => "other".to_owned(),
            Err(_) => "error".to_owned(),
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            ["init", "a", "error", "init", "a", "b", "done"]
        );
        let Ok(Event::InitApply(first)) = &reported[1] else {
            panic!("{:?}", reported[1]);
        };
        assert_eq!(first.labels()["l"], "v");
        let port = first
            .spec
            .as_ref()
            .and_then(|spec| spec.ports.as_ref())
            .map(|ports| ports[0].port);
        assert_eq!(port, Some(2379));
    }
}
