//! A script on real etcd.
//!
//! In: a script and a version. Out: the trace of what etcd answered, and who led after each step. After each step the
//! cluster settles: the conditions that follow from who runs and who is cut off are awaited, and then the five seconds
//! for which etcd wants a connection to last before it counts. That interval is a subject of the comparison (before
//! it, answers depend on the clock), not a guess at when something is done. Never: a step on a cluster that is
//! still on its way to where it must end up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use quorate_client::Endpoint;

use super::members::{Ages, Looks, Members, peer_url, place_of};
use super::script::{Action, Ask, Place, Script, Who};
use super::standing::{Disturbed, Raced, Standing};
use super::trace::{Answer, Did, Step, Trace};
use crate::etcd::minor;

/// etcd's HealthInterval is 5 s; a little more, because the clock is read twice.
const HEALTHY_AFTER: Duration = Duration::from_millis(5_300);
/// How often conditions are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// How long a cluster may take to settle. A join that must fail tries every peer for seconds first, and after a cut
/// TCP waits about as long as the cut lasted before it tries again.
const SETTLE: Duration = Duration::from_secs(150);
/// How long enough voters may be without a leader before that is taken for the outcome: it is when the removal of a
/// voter was committed, but no commit index on disk says so, and the removed voter is gone. The model must agree.
const LEADERLESS: Duration = Duration::from_secs(60);
/// A half-open connection that has nothing to send is noticed by a keepalive, sent every 30 s.
const HALF_OPEN: Duration = Duration::from_secs(36);
/// etcd makes ids from URL and second: the same URL must not be added twice in one, or the second is refused like one
/// that was removed.
const BETWEEN_ADDS: Duration = Duration::from_millis(1_100);
/// An id that no member has.
pub const NOBODY: u64 = 0xdead;
/// So many writes come first, that a learner which was ever in sync stays above 90 % of the leader's log.
pub const WRITES: u64 = 400;
/// So many writes follow a heal, each awaited everywhere.
pub const WRITES_AFTER_HEAL: u64 = 2;

/// How long a peer that is in reach may count as lost.
const STUCK: Duration = Duration::from_secs(40);

/// Why a cluster is not yet where it must end up.
struct Unsettled {
    why: String,
    /// And never will be.
    stuck: bool,
}

impl From<String> for Unsettled {
    fn from(why: String) -> Unsettled {
        Unsettled { why, stuck: false }
    }
}

/// A member of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    place: Place,
    id: u64,
    learner: bool,
}

pub struct Real {
    members: Members,
    list: Vec<Listed>,
    /// The last id at each place.
    ids: BTreeMap<Place, u64>,
    /// Ids whose process has started once.
    booted: BTreeSet<u64>,
    /// Whose data lies at a place.
    owner: BTreeMap<Place, u64>,
    cut: BTreeSet<Place>,
    /// Where the running process joined, rather than formed the cluster or resumed.
    joined: BTreeSet<Place>,
    /// A process ended behind a cut, so that peers may hold half-open connections when it is healed.
    half_open: bool,
    /// Until when they may.
    half_open_until: Option<Instant>,
    /// No leader came although enough voters run.
    leaderless: bool,
    /// Whether this etcd gives up a silent connection after 5 s, and not only when TCP does.
    notices_silence: bool,
    ages: Ages,
    /// How the quorum looked when the last step was over; `None` if there was none.
    stood: Option<Standing>,
    last_add: Option<Instant>,
    trace: Trace,
}

impl Real {
    /// Runs a script; the trace ends where etcd did not settle, and the error says why.
    pub async fn run(script: &Script, version: &str) -> (Trace, anyhow::Result<()>, Option<Members>) {
        let members = match Members::new(version) {
            Ok(members) => members,
            Err(error) => return (Trace::default(), Err(error), None),
        };
        let mut real = Real {
            members,
            list: Vec::new(),
            ids: BTreeMap::new(),
            booted: BTreeSet::new(),
            owner: BTreeMap::new(),
            cut: BTreeSet::new(),
            joined: BTreeSet::new(),
            half_open: false,
            half_open_until: None,
            leaderless: false,
            notices_silence: minor(version) == 4,
            ages: Ages::default(),
            stood: None,
            last_add: None,
            trace: Trace::default(),
        };
        let result = real.script(script).await;
        (real.trace, result, Some(real.members))
    }

    async fn script(&mut self, script: &Script) -> anyhow::Result<()> {
        self.form(script.initial).await.context("form the cluster")?;
        for action in &script.actions {
            let (did, answer) = self.act(*action).await.with_context(|| action.to_string())?;
            self.settle(Some(*action), did, answer)
                .await
                .with_context(|| format!("settle after {action}"))?;
        }
        Ok(())
    }

    async fn form(&mut self, initial: u32) -> anyhow::Result<()> {
        let places: Vec<Place> = (1..=initial).collect();
        for place in &places {
            self.members.start(*place, "new", &places)?;
        }
        let began = Instant::now();
        let first = self.members.endpoint(1)?;
        let list = loop {
            match first.member_list_linearizable().await {
                Ok(list) if list.members.len() == places.len() => break list,
                _ if began.elapsed() > SETTLE => {
                    bail!("no cluster; member 1 said:\n{}", self.members.log_tail(1))
                }
                _ => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        for member in &list.members {
            let place = place_of(&member.peer_urls).context("a member at an unknown place")?;
            self.ids.insert(place, member.id);
            self.owner.insert(place, member.id);
            self.booted.insert(member.id);
            self.list.push(Listed {
                place,
                id: member.id,
                learner: false,
            });
        }
        let mut writers = tokio::task::JoinSet::new();
        for n in 0..8 {
            let first = first.clone();
            writers.spawn(async move {
                for _ in 0..WRITES / 8 {
                    written(&first, &format!("k{n}")).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
        self.settle(None, Did::Nothing, None).await
    }

    fn id(&self, who: Who) -> u64 {
        match who {
            Who::Nobody => NOBODY,
            Who::At(place) => self.ids.get(&place).copied().unwrap_or(NOBODY),
        }
    }

    async fn act(&mut self, action: Action) -> anyhow::Result<(Did, Option<Answer>)> {
        let running = self.members.running();
        let did = match action {
            Action::Ask { via, ask } => {
                let endpoint = self.members.endpoint(via)?;
                let mut answer = self.ask(&endpoint, ask).await;
                let itself = ask == Ask::Remove(Who::At(via)) && self.owner.get(&via) == self.ids.get(&via);
                if itself && matches!(answer, Answer::Unforeseen("Stopped" | "Disconnected")) {
                    // Whether a member that is asked to remove itself answers before a peer tells it to go is a race
                    // in etcd. It stops only because the removal was applied, so that this is an acceptance.
                    self.list.retain(|m| m.place != via);
                    answer = Answer::Accepted;
                }
                return Ok((Did::Asked, Some(answer)));
            }
            Action::Kill(place) => {
                self.ages.forget(place);
                if self.members.kill(place) {
                    Did::Killed
                } else {
                    Did::Nothing
                }
            }
            Action::Wipe(place) => {
                let runs = self.members.kill(place);
                self.ages.forget(place);
                if !runs && !self.members.has_data(place) {
                    return Ok((Did::Nothing, None));
                }
                self.members.wipe(place)?;
                self.owner.remove(&place);
                Did::Wiped
            }
            Action::CutOff(place) => {
                self.members.link(place, false)?;
                if self.cut.insert(place) {
                    Did::Cut
                } else {
                    Did::Nothing
                }
            }
            Action::Heal => {
                for place in &self.cut {
                    self.members.link(*place, true)?;
                }
                if std::mem::take(&mut self.cut).is_empty() {
                    Did::Nothing
                } else {
                    Did::Healed
                }
            }
            Action::Start(place) if running.contains(&place) => Did::Nothing,
            Action::Start(place) => self.start(place)?,
        };
        Ok((did, None))
    }

    /// A member of the list that never started joins on an empty volume; else what lies there goes on. A member that
    /// has started once and lost its data is never started under its old id: that is what quorate must not do, and
    /// etcd leaves open what happens then.
    fn start(&mut self, place: Place) -> anyhow::Result<Did> {
        let listed = self
            .list
            .iter()
            .find(|m| m.place == place)
            .filter(|m| !self.booted.contains(&m.id))
            .copied();
        self.ages.forget(place);
        if let Some(new) = listed {
            self.members.wipe(place)?;
            let initial: Vec<Place> = self.list.iter().map(|m| m.place).collect();
            self.members.start(place, "existing", &initial)?;
            self.joined.insert(place);
            self.owner.insert(place, new.id);
            return Ok(Did::Joined(initial));
        }
        if !self.members.has_data(place) {
            return Ok(Did::Nothing);
        }
        self.members.start(place, "existing", &[place])?;
        self.joined.remove(&place);
        Ok(Did::Resumed)
    }

    async fn ask(&mut self, endpoint: &Endpoint, ask: Ask) -> Answer {
        let result = match ask {
            Ask::AddLearner(place) | Ask::AddVoter(place) => {
                if let Some(last) = self.last_add {
                    tokio::time::sleep(BETWEEN_ADDS.saturating_sub(last.elapsed())).await;
                }
                let urls = [peer_url(place)];
                let added = if matches!(ask, Ask::AddLearner(_)) {
                    endpoint.member_add_learner(&urls).await
                } else {
                    endpoint.member_add_voter(&urls).await
                };
                // The member that was asked made the id, at some time before it answered.
                self.last_add = Some(Instant::now());
                added.map(|added| added.members)
            }
            Ask::Promote(who) => endpoint.member_promote(self.id(who)).await,
            Ask::Remove(who) => endpoint.member_remove(self.id(who)).await,
        };
        match result {
            Ok(members) => {
                self.list = members
                    .iter()
                    .filter_map(|m| {
                        Some(Listed {
                            place: place_of(&m.peer_urls)?,
                            id: m.id,
                            learner: m.is_learner,
                        })
                    })
                    .collect();
                self.list.sort_by_key(|m| m.place);
                self.ids.extend(self.list.iter().map(|m| (m.place, m.id)));
                Answer::Accepted
            }
            Err(error) => Answer::of(error.refusal()),
        }
    }

    /// The running members that can talk to each other and are enough to elect a leader, if any are.
    fn quorum(&self, running: &[Place]) -> Option<Vec<Listed>> {
        let here = |m: &&Listed| running.contains(&m.place) && self.owner.get(&m.place) == Some(&m.id);
        let up: Vec<Listed> = self.list.iter().filter(here).copied().collect();
        let voters = self.list.iter().filter(|m| !m.learner).count();
        let mut islands: Vec<Vec<Listed>> = self.cut.iter().map(|p| at(&up, *p)).collect();
        islands.push(
            up.iter()
                .filter(|m| !self.cut.contains(&m.place))
                .copied()
                .collect(),
        );
        islands
            .into_iter()
            .find(|i| i.iter().filter(|m| !m.learner).count() > voters / 2)
    }

    /// Why the cluster is not yet where it must end up, when it began to settle at `began`; and its leader if it is.
    fn unsettled(&self, looks: &BTreeMap<Place, Looks>, began: Instant) -> Result<Option<Place>, Unsettled> {
        let running: Vec<Place> = looks.keys().copied().collect();
        let now = Instant::now();
        let quorum = self.quorum(&running);
        let majority: Vec<Place> = quorum.iter().flatten().map(|m| m.place).collect();
        let mut leaders = BTreeSet::new();
        for (place, looks) in looks {
            let Some(connections) = &looks.connections else {
                return Err(format!("{place} does not answer").into());
            };
            let leader = looks.status.as_ref().and_then(|s| s.leader);
            if !majority.contains(place) {
                let removed = self
                    .owner
                    .get(place)
                    .is_some_and(|id| self.list.iter().all(|m| m.id != *id));
                if removed && !majority.is_empty() && !self.cut.contains(place) {
                    return Err(format!("{place} has not noticed its removal").into());
                }
                // A learner never campaigns, and so never gives up a leader it no longer hears.
                let learner = looks.status.as_ref().is_some_and(|s| s.is_learner);
                if let Some(leader) = leader.filter(|_| !learner) {
                    return Err(format!("{place} still follows {leader:x}").into());
                }
            } else if looks.status.is_none() {
                return Err(format!("{place} does not serve").into());
            } else if let Some(id) = leader {
                leaders.insert(id);
            } else {
                return Err(format!("{place} knows no leader").into());
            }
            let Some(me) = self
                .list
                .iter()
                .find(|m| m.place == *place && self.owner.get(place) == Some(&m.id))
            else {
                continue;
            };
            for peer in self.list.iter().filter(|m| m.place != *place) {
                let linked = self.cut.is_disjoint(&BTreeSet::from([*place, peer.place]));
                if !linked && !self.notices_silence {
                    // What lies behind a cut counts as it did before, for minutes.
                    continue;
                }
                let there = running.contains(&peer.place) && self.owner.get(&peer.place) == Some(&peer.id);
                let expected = linked && there;
                // A learner is connected when a leader has told it of the others; without one it may not be, and
                // nobody asks: only voters count.
                if expected && majority.is_empty() && (me.learner || peer.learner) {
                    continue;
                }
                let connected = connections.get(&peer.id).copied().unwrap_or_default();
                // A process that joined counts what it used to reach its peers by before it knew of them, too, and
                // keeps counting it when they are gone; that it lost a peer shows all the same.
                let lost = !expected && connected.lost > 0 && self.joined.contains(place);
                if connected.active != expected && !lost {
                    // A peer that was down for long is in reach only since this step.
                    let since = self.ages.age(*place, peer.id, now).min(now - began);
                    let stuck = expected && connected.lost > 0 && since > STUCK;
                    let why = format!("{place} to {}: connected {}", peer.place, connected.active);
                    return Err(Unsettled { why, stuck });
                }
                if expected && self.ages.age(*place, peer.id, now) < HEALTHY_AFTER {
                    return Err(format!("{place} to {}: connected just now", peer.place).into());
                }
            }
        }
        if leaders.len() > 1 {
            return Err(format!("several leaders: {leaders:x?}").into());
        }
        match leaders.first() {
            None => Ok(None),
            Some(id) => {
                let leader = self
                    .list
                    .iter()
                    .find(|m| m.id == *id)
                    .ok_or_else(|| "the leader is not in the list".to_owned())?;
                if majority.contains(&leader.place) {
                    Ok(Some(leader.place))
                } else {
                    Err(format!("{} leads although it cannot", leader.place).into())
                }
            }
        }
    }

    /// After a heal TCP can be stuck in one direction, and a member that hears its leader may not be heard by it; a
    /// leader that knows nothing of a member sends it one message and waits. So once a second write arrives everywhere,
    /// the leader has heard from everyone, and knows how far they are.
    async fn write_everywhere(&mut self, leader: Place) -> anyhow::Result<()> {
        let endpoint = self.members.endpoint(leader)?;
        let began = Instant::now();
        // A leader that has just lost or found a follower may let one time out.
        written(&endpoint, "healed").await.context("after a heal")?;
        loop {
            let index = endpoint.status().await.map(|s| s.raft_index);
            let looks = self.members.look().await?;
            let quorum = self.quorum(&looks.keys().copied().collect::<Vec<_>>());
            let has = |m: &Listed| {
                let status = looks.get(&m.place).and_then(|l| l.status.as_ref());
                let index = index.as_ref().ok();
                status.is_some_and(|s| index.is_some_and(|index| s.raft_index >= *index))
            };
            if quorum.iter().flatten().all(has) {
                return Ok(());
            }
            if began.elapsed() > SETTLE {
                bail!("not settled: a write does not arrive everywhere (the leader is at {index:?})");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// How the quorum looks, and who is in it.
    fn standing(&self, looks: &BTreeMap<Place, Looks>) -> (Option<Standing>, Vec<(Place, u64)>) {
        let quorum = self.quorum(&looks.keys().copied().collect::<Vec<_>>());
        let members: Vec<(Place, u64)> = quorum.iter().flatten().map(|m| (m.place, m.id)).collect();
        (Standing::of(&members, looks), members)
    }

    /// Fails if something changed since `before` that this step was no cause of.
    fn undisturbed(
        &self,
        before: Option<&Standing>,
        did: &Did,
        looks: &BTreeMap<Place, Looks>,
    ) -> anyhow::Result<()> {
        let (now, members) = self.standing(looks);
        let why = before
            .zip(now)
            .and_then(|(before, now)| now.disturbed_since(before, did, &members));
        why.map_or(Ok(()), |why| Err(Disturbed(why).into()))
    }

    /// The list as the cluster has it.
    async fn listed(&self, leader: Place) -> anyhow::Result<BTreeMap<Place, bool>> {
        let endpoint = self.members.endpoint(leader)?;
        let began = Instant::now();
        loop {
            match endpoint.member_list_linearizable().await {
                Ok(list) => {
                    let row = |m: &quorate_client::Member| place_of(&m.peer_urls).map(|p| (p, m.is_learner));
                    return Ok(list.members.iter().filter_map(row).collect());
                }
                Err(error) if began.elapsed() > SETTLE => {
                    return Err(error).context("the leader does not return the list");
                }
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Do enough voters run that know of no leader?
    fn no_leader(&self, looks: &BTreeMap<Place, Looks>) -> bool {
        let known = |l: &Looks| {
            l.status
                .as_ref()
                .is_some_and(|s| s.leader.is_some() && !s.is_learner)
        };
        !looks.is_empty() && !looks.values().any(known)
    }

    async fn settle(
        &mut self,
        action: Option<Action>,
        did: Did,
        answer: Option<Answer>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        self.half_open |= matches!(did, Did::Killed | Did::Wiped) && !self.cut.is_empty();
        if did == Did::Healed && std::mem::take(&mut self.half_open) {
            self.half_open_until = Some(began + HALF_OPEN);
        }
        let before = self.stood.take();
        let patience = if self.leaderless {
            LEADERLESS / 2
        } else {
            LEADERLESS
        };
        let leader = loop {
            let looks = self.members.look().await?;
            for place in (1..=super::script::PLACES).filter(|p| !looks.contains_key(p)) {
                self.ages.forget(place);
            }
            for (place, looks) in &looks {
                for (id, connection) in looks.connections.iter().flatten() {
                    self.ages.note(*place, *id, *connection, Instant::now());
                }
            }
            self.undisturbed(before.as_ref(), &did, &looks)?;
            match self.unsettled(&looks, began) {
                Ok(leader) if self.half_open_until.is_none_or(|until| Instant::now() > until) => {
                    self.leaderless = false;
                    self.stood = self.standing(&looks).0;
                    break leader;
                }
                Ok(_) => tokio::time::sleep(LOOK_EVERY * 3).await,
                Err(_) if self.no_leader(&looks) && began.elapsed() > patience => {
                    self.leaderless = true;
                    break None;
                }
                Err(Unsettled { why, stuck: true }) => return Err(Raced(why).into()),
                Err(Unsettled { why, .. }) if began.elapsed() > SETTLE => bail!("not settled: {why}"),
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        if did == Did::Healed
            && let Some(leader) = leader
        {
            for _ in 0..WRITES_AFTER_HEAL {
                self.write_everywhere(leader).await?;
            }
        }
        let running: BTreeSet<Place> = self.members.running().into_iter().collect();
        for place in &running {
            self.booted.extend(self.owner.get(place));
        }
        let list = match leader {
            None => None,
            Some(place) => Some(self.listed(place).await?),
        };
        let looks = self.members.look().await?;
        self.undisturbed(self.stood.as_ref(), &Did::Nothing, &looks)?;
        let expected: BTreeMap<Place, bool> = self.list.iter().map(|m| (m.place, m.learner)).collect();
        if list.as_ref().is_some_and(|list| *list != expected) {
            bail!("the list became {list:?} and should be {expected:?}: {answer:?} was no true answer");
        }
        self.trace.steps.push(Step {
            action,
            did,
            answer,
            list,
            running,
            leader,
        });
        Ok(())
    }
}

/// Writes a key, again until it is acknowledged.
async fn written(endpoint: &Endpoint, key: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    while let Err(error) = endpoint.put(key.as_bytes(), b"v").await {
        if began.elapsed() > SETTLE {
            return Err(error).with_context(|| format!("write {key}"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

fn at(members: &[Listed], place: Place) -> Vec<Listed> {
    members.iter().filter(|m| m.place == place).copied().collect()
}
