//! Requests of a pass to the API server, and the events that tell of them.
//!
//! In: effects in order, and their news. Out: what failed. Never: a request that could outlast the Lease; news of what was
//! not done.

use quorate_api::crd::EtcdCluster;

use crate::cluster::execute::Requests;
use crate::cluster::reconcile::Shared;
use crate::names::Names;
use crate::requests::apply::{Did, apply};
use crate::requests::effect::Effect;
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
        self.tell_all(resource, &requests, &asked).await;
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
        self.tell_all(Some(resource), &requests, &asked).await;
        asked.failures
    }

    /// Asks for one thing, if there is time for it before another may hold the Lease.
    async fn ask_for(&self, names: &Names, effect: &Effect) -> Result<Option<Did>, Failed> {
        if !self.tenure.covers(EFFECT_LIMIT) {
            return Ok(None);
        }
        let asked = apply(&self.client, &names.namespace, effect);
        in_time(effect.to_string(), asked).await.map(Some)
    }

    /// Tells of what was done. Without an EtcdCluster there is nothing left that it could be about.
    async fn tell_all(&self, resource: Option<&EtcdCluster>, requests: &Requests, asked: &Asked<'_>) {
        let Some(resource) = resource else { return };
        for news in requests.news.iter().filter(|news| asked.did(news)) {
            self.reporter.tell(resource, news).await;
        }
    }
}
