//! Requests of a pass to the API server, and the events that tell of them.
//!
//! In: effects in order, and their news. Out: what failed. Never: a request that could outlast the Lease; news of what was
//! not done.

use quorate_api::crd::EtcdCluster;

use crate::cluster::driver::Driver;
use crate::cluster::execute::Requests;
use crate::requests::api_errors::{RequestError, RequestResults};
use crate::requests::apply::Applied;
use crate::requests::effect::Effect;

/// Asks for what needs each other, in this order: the first that fails is the last.
pub(crate) async fn ask(
    driver: &mut dyn Driver,
    resource: Option<&EtcdCluster>,
    requests: Requests,
) -> Result<(), RequestError> {
    let mut asked = RequestResults::default();
    for effect in &requests.effects {
        match ask_for(driver, effect).await? {
            Some(did) => asked.add(effect, did),
            None => return Ok(()),
        }
    }
    record_events(driver, resource, &requests, &asked).await;
    Ok(())
}

/// Asks for what does not need each other: what fails does not keep the rest from being done.
pub(crate) async fn ask_each(
    driver: &mut dyn Driver,
    resource: &EtcdCluster,
    requests: Requests,
) -> Vec<RequestError> {
    let mut asked = RequestResults::default();
    for effect in &requests.effects {
        if asked.is_open(effect) {
            let came_to = ask_for(driver, effect).await;
            asked.take(effect, came_to);
        }
    }
    record_events(driver, Some(resource), &requests, &asked).await;
    asked.failures
}

/// Asks for one thing, if there is time for it before another may hold the Lease.
async fn ask_for(driver: &mut dyn Driver, effect: &Effect) -> Result<Option<Applied>, RequestError> {
    if !driver.covers() {
        return Ok(None);
    }
    driver.apply(effect).await.map(Some)
}

/// Records what was done. Without an EtcdCluster there is nothing left that it could be about.
async fn record_events(
    driver: &mut dyn Driver,
    resource: Option<&EtcdCluster>,
    requests: &Requests,
    asked: &RequestResults<'_>,
) {
    let Some(resource) = resource else { return };
    for news in requests.news.iter().filter(|news| asked.did(news)) {
        driver.record_event(resource, news).await;
    }
}
