//! Requests of a pass to the API server, and the events that tell of them.
//!
//! In: effects in order, and their news. Out: what failed. Never: a request that could outlast the Lease; news of what was
//! not done.

use quorate_api::crd::EtcdCluster;

use crate::apply::{Did, apply};
use crate::effect::Effect;
use crate::execute::Done;
use crate::names::Names;
use crate::reconcile::Shared;
use crate::trouble::{Asked, EFFECT_LIMIT, Failed, each, in_time};

impl Shared {
    /// Asks for what needs each other, in this order: the first that fails is the last.
    pub(crate) async fn ask(
        &self,
        resource: Option<&EtcdCluster>,
        names: &Names,
        done: Done,
    ) -> Result<(), Failed> {
        let mut asked = Asked::default();
        for effect in &done.effects {
            match self.ask_for(names, effect).await? {
                Some(did) => asked.add(effect, did),
                None => return Ok(()),
            }
        }
        self.tell_all(resource, &done, &asked).await;
        Ok(())
    }

    /// Asks for what does not need each other: what fails does not keep the rest from being done.
    pub(crate) async fn ask_each(&self, resource: &EtcdCluster, names: &Names, done: Done) -> Vec<Failed> {
        let asked = each(&done.effects, |effect| self.ask_for(names, effect)).await;
        self.tell_all(Some(resource), &done, &asked).await;
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
    async fn tell_all(&self, resource: Option<&EtcdCluster>, done: &Done, asked: &Asked<'_>) {
        let Some(resource) = resource else { return };
        for news in done.news.iter().filter(|news| asked.did(news)) {
            self.reporter.tell(resource, news).await;
        }
    }
}
