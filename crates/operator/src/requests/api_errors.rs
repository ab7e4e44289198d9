//! What the API server did not do as asked: collected in a pass, kept until it is over, shown to people.
//!
//! In: failed requests. Out: one text for the status, the log and an event. Never: one refusal that keeps the rest of a
//! pass from being done; a request after one that failed for the same object; a conflict shown that the next try heals.

use std::collections::BTreeSet;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use quorate_core::reason::StatusReason;

use crate::requests::apply::Applied;
use crate::requests::effect::{ClusterEvent, Effect};

/// No effect takes longer: the Lease must hold for this long when it begins.
pub const EFFECT_LIMIT: Duration = Duration::from_secs(8);

/// Why a pass came to nothing, or not to all that it should have.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The API server did not do as asked.
    #[error("{doing}")]
    Api {
        doing: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time; it may have done it.
    #[error("{doing}: no answer within {} s", EFFECT_LIMIT.as_secs())]
    Slow { doing: String },
    /// These failed, each for itself; the rest of the pass was done.
    #[error("{} requests failed", .0.len())]
    Some(Vec<RequestError>),
}

impl RequestError {
    /// The first of all that failed.
    fn first(&self) -> &RequestError {
        match self {
            RequestError::Some(all) => all.first().map_or(self, RequestError::first),
            one => one,
        }
    }

    /// A word for programs.
    pub fn reason(&self) -> &'static str {
        if self.is_refusal() {
            StatusReason::RequestRefused.name()
        } else {
            StatusReason::NoAnswer.name()
        }
    }

    /// Did the API server answer that it will not?
    pub fn is_refusal(&self) -> bool {
        matches!(self.first(), RequestError::Api { source, .. } if matches!(**source, kube::Error::Api(_)))
    }

    /// Was it a conflict with someone else's change, and nothing else? The next try begins with that change.
    fn is_conflict(&self) -> bool {
        match self {
            RequestError::Api { source, .. } => crate::requests::apply::is(source, 409),
            RequestError::Slow { .. } => false,
            RequestError::Some(all) => all.iter().all(RequestError::is_conflict),
        }
    }

    /// For people, in the API server's own words.
    pub fn message(&self) -> String {
        match self {
            RequestError::Api { doing, source } => match &**source {
                kube::Error::Api(status) => format!("{doing}: {}", status.message),
                other => format!("{doing}: {}", chain(other)),
            },
            RequestError::Slow { .. } => self.to_string(),
            RequestError::Some(all) => all
                .iter()
                .map(RequestError::message)
                .collect::<Vec<_>>()
                .join("; "),
        }
    }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.ends_with(&next_text) {
            text.push_str(": ");
            text.push_str(&next_text);
        }
        cause = next.source();
    }
    text
}

/// Waits for an answer of the API server, no longer than the Lease was made sure of.
pub(crate) async fn in_time<T>(
    doing: impl Into<String>,
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RequestError> {
    let doing = doing.into();
    match tokio::time::timeout(EFFECT_LIMIT, asked).await {
        Ok(answer) => answer.map_err(|source| RequestError::Api {
            doing,
            source: Box::new(source),
        }),
        Err(_) => Err(RequestError::Slow { doing }),
    }
}

/// What came of asking.
#[derive(Debug, Default)]
pub(crate) struct RequestResults<'a> {
    /// The names of objects for which not all was done.
    pub(crate) left: BTreeSet<&'a str>,
    /// What was to be made and was there already, or to be deleted and was not as it was seen.
    not_done: BTreeSet<String>,
    pub(crate) failures: Vec<RequestError>,
    silent: bool,
}

impl<'a> RequestResults<'a> {
    /// Is this to be asked for? Not after one that failed for the same object, for it may rely on it; and not of somebody
    /// who does not answer.
    pub(crate) fn is_open(&mut self, effect: &'a Effect) -> bool {
        if self.silent {
            self.left.insert(effect.name());
        }
        !self.left.contains(effect.name())
    }

    /// Takes in what asking for an effect came to: nothing, if it was not asked for.
    pub(crate) fn take(&mut self, effect: &'a Effect, came_to: Result<Option<Applied>, RequestError>) {
        match came_to {
            Ok(Some(did)) => return self.add(effect, did),
            Ok(None) => {}
            Err(failed) => {
                self.silent = !failed.is_refusal();
                self.failures.push(failed);
            }
        }
        self.left.insert(effect.name());
    }

    /// Takes in what an effect came to.
    pub(crate) fn add(&mut self, effect: &Effect, did: Applied) {
        match (did, effect) {
            (Applied::Unchanged, Effect::Create(object)) => self.not_done.insert(object.to_string()),
            (Applied::Unchanged, Effect::DeleteUnchanged { kind, name, .. }) => {
                self.not_done.insert(format!("{} {name}", kind.resource().kind))
            }
            (Applied::Unchanged, Effect::Resize { name, .. }) => self.not_done.insert(format!("Pod {name}")),
            _ => return,
        };
    }

    /// Did what this reports happen?
    pub(crate) fn did(&self, news: &ClusterEvent) -> bool {
        let (kind, name) = &news.about;
        !self.left.contains(name.as_str()) && !self.not_done.contains(&format!("{kind} {name}"))
    }
}

/// What is wrong with a cluster's requests, from pass to pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiFailures {
    reason: &'static str,
    text: String,
    conflict: bool,
    /// Passes in a row.
    times: u32,
}

impl ApiFailures {
    /// A pass has failed. Out: an event, if there is news for people in it.
    pub fn add(&mut self, failed: &RequestError, cluster: &str) -> Option<ClusterEvent> {
        let before = self.shown().map(|(_, text)| text.to_owned());
        *self = ApiFailures {
            reason: failed.reason(),
            text: failed.message(),
            conflict: failed.is_conflict(),
            times: self.times.saturating_add(1),
        };
        let (reason, text) = self.shown()?;
        let new = before.as_deref() != Some(text) && failed.is_refusal();
        new.then(|| ClusterEvent::warning(reason, ("EtcdCluster", cluster), text.to_owned()))
    }

    /// What people should see: a reason and a text.
    pub fn shown(&self) -> Option<(&'static str, &str)> {
        let heals = self.conflict && self.times < 2;
        (self.times > 0 && !heals).then_some((self.reason, self.text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::effect::Kind;
    use kube::core::Status;

    fn refused(code: u16, message: &str) -> RequestError {
        RequestError::Api {
            doing: "create PersistentVolumeClaim c-0".to_owned(),
            source: Box::new(kube::Error::Api(Box::new(
                Status::failure(message, "Forbidden").with_code(code),
            ))),
        }
    }

    fn delete(kind: Kind, name: &str) -> Effect {
        Effect::Delete {
            kind,
            name: name.to_owned(),
            uid: "u".to_owned(),
        }
    }

    fn asked(
        effects: &[Effect],
        bad: fn(&Effect) -> Option<RequestError>,
    ) -> (Vec<String>, Vec<String>, usize) {
        let mut applied = Vec::new();
        let mut asked = RequestResults::default();
        for effect in effects {
            if asked.is_open(effect) {
                applied.push(effect.to_string());
                asked.take(effect, bad(effect).map_or(Ok(Some(Applied::Changed)), Err));
            }
        }
        let left = asked.left.iter().map(ToString::to_string).collect();
        (applied, left, asked.failures.len())
    }

    #[test]
    fn one_refusal_does_not_keep_the_others_from_being_done() {
        let effects = [
            delete(Kind::Set, "c-0"),
            delete(Kind::Peer, "c-0"),
            delete(Kind::Set, "c-1"),
        ];
        let first = |e: &Effect| (e.name() == "c-0").then(|| refused(403, "exceeded quota"));
        let (requests, left, failures) = asked(&effects, first);
        assert_eq!(
            requests,
            ["delete Set c-0", "delete Set c-1"],
            "what relies on it is left out"
        );
        assert_eq!((left, failures), (vec!["c-0".to_owned()], 1));
        let silent = |_: &Effect| {
            Some(RequestError::Slow {
                doing: "delete".to_owned(),
            })
        };
        let (applied, left, failures) = asked(&effects, silent);
        assert_eq!(
            applied.len(),
            1,
            "who does not answer is not asked again and again"
        );
        assert_eq!((left.len(), failures), (2, 1));
    }

    #[test]
    fn a_refusal_is_shown_in_the_api_servers_words_until_it_is_over() {
        let mut trouble = ApiFailures::default();
        assert_eq!(trouble.shown(), None);
        let failed = RequestError::Some(vec![refused(403, "exceeded quota: storage")]);
        let news = trouble.add(&failed, "c").unwrap();
        assert!(news.warning);
        let text = "create PersistentVolumeClaim c-0: exceeded quota: storage";
        assert_eq!(trouble.shown(), Some(("RequestRefused", text)));
        assert_eq!(trouble.add(&failed, "c"), None, "the same is no news");
        assert!(trouble.add(&refused(422, "invalid"), "c").is_some());
    }

    #[test]
    fn a_conflict_shows_only_when_it_does_not_heal() {
        let mut trouble = ApiFailures::default();
        assert_eq!(
            trouble.add(&refused(409, "the object has been modified"), "c"),
            None
        );
        assert_eq!(trouble.shown(), None);
        assert!(
            trouble
                .add(&refused(409, "the object has been modified"), "c")
                .is_some()
        );
        assert!(trouble.shown().is_some());
    }

    #[test]
    fn silence_is_shown_but_is_no_event() {
        let mut trouble = ApiFailures::default();
        let doing = "create Service c".to_owned();
        assert_eq!(trouble.add(&RequestError::Slow { doing }, "c"), None);
        assert_eq!(trouble.shown().map(|s| s.0), Some("NoAnswer"));
    }
}
