//! Requests of a pass to the API server, and the events that tell of them.
//!
//! In: effects in order, and their news. Out: what failed. Never: a request that could outlast the Lease; news of what was
//! not done.

use quorate_api::crd::EtcdCluster;

use crate::cluster::execute::Requests;
use crate::cluster::reconcile::Shared;
use crate::names::Names;
use crate::requests::apply::{Did, apply};
use crate::requests::effect::{Effect, News};
use crate::requests::trouble::{Asked, EFFECT_LIMIT, Failed, each, in_time};

impl Shared {
    /// Asks for what needs each other, in this order: the first that fails is the last.
    pub(crate) async fn ask(
        &self,
        resource: Option<&EtcdCluster>,
        names: &Names,
        requests: Requests,
    ) -> Result<(), Failed> {
        let mut asked = Asked::default();
        for effect in &requests.effects {
            match self.ask_for(names, effect).await? {
                Some(did) => asked.add(effect, did),
                None => return Ok(()),
            }
        }
        self.tell_all(resource, names, &requests, &asked).await;
        Ok(())
    }

    /// Asks for what does not need each other: what fails does not keep the rest from being done.
    pub(crate) async fn ask_each(
        &self,
        resource: &EtcdCluster,
        names: &Names,
        requests: Requests,
    ) -> Vec<Failed> {
        let asked = each(&requests.effects, |effect| self.ask_for(names, effect)).await;
        self.tell_all(Some(resource), names, &requests, &asked).await;
        asked.failures
    }

    /// Asks for one thing, if there is time for it before another may hold the Lease.
    async fn ask_for(&self, names: &Names, effect: &Effect) -> Result<Option<Did>, Failed> {
        if !self.tenure.covers(EFFECT_LIMIT) {
            return Ok(None);
        }
        let asked = apply(&self.client, &names.namespace, effect);
        let did = in_time(effect.to_string(), asked).await?;
        let Names { namespace, cluster } = names;
        tracing::debug!(
            namespace,
            cluster,
            found_so = (did == Did::Nothing),
            "request: {effect}"
        );
        Ok(Some(did))
    }

    /// Tells of what was done. Without an EtcdCluster there is nothing left that it could be about.
    async fn tell_all(
        &self,
        resource: Option<&EtcdCluster>,
        names: &Names,
        requests: &Requests,
        asked: &Asked<'_>,
    ) {
        for news in requests.news.iter().filter(|news| asked.did(news)) {
            log(names, news);
            if let Some(resource) = resource {
                self.reporter.tell(resource, news).await;
            }
        }
    }
}

fn log(names: &Names, news: &News) {
    let Names { namespace, cluster } = names;
    let (reason, (kind, object)) = (news.reason, &news.about);
    if news.warning {
        tracing::warn!(namespace, cluster, reason, kind, object, "{}", news.message);
    } else {
        tracing::info!(namespace, cluster, reason, kind, object, "{}", news.message);
    }
}
