//! Membership: members added, removed, promoted, their attributes, and the cluster's version.
//!
//! In: a change. Out: rows of `members`, `members_removed`, `cluster` and `meta`. Up to 3.5 the rows only mirror what
//! etcd keeps in its version 2 store, and not every release of 3.5 rewrites a row that is there; so a row is rewritten
//! here only if the log or the database tells that a 3.4, or a 3.6 or newer, will replay it.

use quorate_wire::raftpb::{ConfChange, ConfChangeType};
use serde::{Deserialize, Serialize};

use super::Stop;
use super::command::Attributes;
use super::member_row::Member;
use super::store::Store;

/// Which etcd would replay the log, as far as the database and the log tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Era {
    /// Of minor 3.4, and no newer one has been here.
    is_34: bool,
    /// Of minor 3.6 or newer.
    since_36: bool,
    /// Of minor 3.5 or newer.
    since_35: bool,
    /// Which release of 3.5, where that is known.
    of_35: Option<Of35>,
}

/// What a release of 3.5 does to a row of `members` that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of35 {
    /// Since 3.5.20: writes it anew.
    Rewrites,
    /// Before: leaves it as it is.
    Keeps,
}

impl Era {
    /// What the small buckets tell, and `versions`, to which the cluster is set in the tail.
    pub(crate) fn of<'a>(store: &'a Store, versions: impl Iterator<Item = &'a str>) -> Era {
        let meta = |key: &str| store.bucket("meta").and_then(|meta| meta.get(key.as_bytes()));
        let cluster = store
            .bucket("cluster")
            .and_then(|cluster| cluster.get(b"clusterVersion".as_slice()));
        let stored = [cluster, meta("storageVersion")].into_iter().flatten();
        let stored = stored.filter_map(|value| std::str::from_utf8(value).ok());
        let newest = stored.chain(versions).filter_map(version).max();
        let since_36 = newest >= Some((3, 6, 0));
        let since_35 =
            since_36 || newest >= Some((3, 5, 0)) || meta("term").is_some() || meta("confState").is_some();
        Era {
            is_34: !since_35 && newest.is_some(),
            since_36,
            since_35,
            of_35: None,
        }
    }

    /// The same, where the etcd that will replay the log is known.
    pub(crate) fn replayed_by(self, version: &semver::Version) -> Era {
        let of_35 = if version.patch >= 20 {
            Of35::Rewrites
        } else {
            Of35::Keeps
        };
        Era {
            is_34: version.minor == 4,
            since_36: version.minor >= 6,
            of_35: (version.minor == 5).then_some(of_35),
            ..self
        }
    }

    fn rewrites(self) -> bool {
        self.is_34 || self.since_36 || self.of_35 == Some(Of35::Rewrites)
    }

    /// Whether this member writes the term beside the index.
    pub(crate) fn since_35(self) -> bool {
        self.since_35
    }
}

/// A version in the form that etcd stores, and no other.
fn version(text: &str) -> Option<(u64, u64, u64)> {
    let version = semver::Version::parse(text).ok()?;
    let plain = version.pre.is_empty() && version.build.is_empty();
    plain.then_some((version.major, version.minor, version.patch))
}

/// Sets the cluster's version, which only rises but for a downgrade.
pub(crate) fn set_version(store: &mut Store, text: &str) -> Result<(), Stop> {
    let Some(new) = version(text) else {
        return Err(Stop::because("the version it sets is unreadable"));
    };
    if let Some(old) = store
        .bucket("cluster")
        .and_then(|rows| rows.get(b"clusterVersion".as_slice()))
    {
        let old = std::str::from_utf8(old).ok().and_then(version);
        if old.is_none_or(|old| old > new) {
            return Err(Stop::because("it lowers the cluster's version"));
        }
    }
    store.write("cluster", b"clusterVersion", text.as_bytes().to_owned());
    Ok(())
}

/// Sets a member's name and client URLs.
pub(crate) fn set_attributes(store: &mut Store, era: Era, attributes: &Attributes) -> Result<(), Stop> {
    let id = attributes.member;
    let Some(mut member) = find(store, id)? else {
        if is_removed(store, id) {
            return Ok(());
        }
        return Err(Stop::because(format!("member {id:x} is not in the database")));
    };
    check_mirror(store, era)?;
    member.name.clone_from(&attributes.name);
    member.client_urls = Some(attributes.client_urls.clone());
    rewrite(store, era, &member)
}

/// Adds, removes, updates or promotes a member.
pub(crate) fn change(store: &mut Store, era: Era, change: &ConfChange) -> Result<(), Stop> {
    check_mirror(store, era)?;
    let id = change.node_id();
    if id == 0 {
        return Err(Stop::because("it names no member"));
    }
    let there = find(store, id)?;
    if is_removed(store, id) {
        return Err(Stop::because(format!("member {id:x} was removed before")));
    }
    match change.r#type() {
        ConfChangeType::ConfChangeAddNode | ConfChangeType::ConfChangeAddLearnerNode => {
            let new = context(change)?;
            let as_learner = change.r#type() == ConfChangeType::ConfChangeAddLearnerNode;
            match there {
                Some(member) if new.is_promote && member.is_learner && !as_learner && era.rewrites() => {
                    promote(store, era, member)
                }
                None if !new.is_promote && new.is_learner == as_learner => add(store, new),
                // 3.6 and newer look into the database: the member is there, so nothing happens.
                Some(_) if !new.is_promote && era.since_36 => Ok(()),
                _ => Err(Stop::because(format!(
                    "whether member {id:x} can be added is not certain"
                ))),
            }
        }
        ConfChangeType::ConfChangeRemoveNode => {
            if id == store.member {
                return Err(Stop::because("it removes this very member"));
            }
            if there.is_none() {
                return Err(Stop::because(format!("member {id:x} is not in the database")));
            }
            store.delete("members", &Member::key(id));
            store.write("members_removed", &Member::key(id), b"removed".to_vec());
            set_conf_state(store, |state| {
                state.voters.retain(|voter| *voter != id);
                state.learners.retain(|learner| *learner != id);
            })
        }
        ConfChangeType::ConfChangeUpdateNode => {
            let new = context(change)?;
            let Some(mut member) = there.filter(|_| era.since_36) else {
                return Err(Stop::because("whether the member is updated is not certain"));
            };
            check_urls(store, &new)?;
            member.peer_urls = new.peer_urls;
            rewrite(store, era, &member)
        }
    }
}

fn add(store: &mut Store, new: Member) -> Result<(), Stop> {
    check_urls(store, &new)?;
    if new.is_learner {
        for id in member_ids(store)? {
            // How many learners are allowed is a flag.
            if find(store, id)?.is_some_and(|member| member.is_learner) {
                return Err(Stop::because("it adds another learner"));
            }
        }
    }
    write_row(store, &new)?;
    set_conf_state(store, |state| {
        let list = if new.is_learner {
            &mut state.learners
        } else {
            &mut state.voters
        };
        list.push(new.id);
        list.sort_unstable();
        list.dedup();
    })
}

fn promote(store: &mut Store, era: Era, mut member: Member) -> Result<(), Stop> {
    member.is_learner = false;
    rewrite(store, era, &member)?;
    set_conf_state(store, |state| {
        state.learners.retain(|learner| *learner != member.id);
        state.voters.push(member.id);
        state.voters.sort_unstable();
        state.voters.dedup();
    })
}

fn rewrite(store: &mut Store, era: Era, member: &Member) -> Result<(), Stop> {
    let row = member
        .row()
        .ok_or_else(|| Stop::because("a name or URL holds an unusual character"))?;
    let same = store
        .bucket("members")
        .and_then(|rows| rows.get(&Member::key(member.id)))
        == Some(&row);
    if era.of_35 == Some(Of35::Keeps) {
        return Ok(());
    }
    if !same && !era.rewrites() {
        return Err(Stop::because(
            "whether the member's row is rewritten differs between releases of 3.5",
        ));
    }
    write_row(store, member)
}

fn write_row(store: &mut Store, member: &Member) -> Result<(), Stop> {
    let row = member
        .row()
        .ok_or_else(|| Stop::because("a name or URL holds an unusual character"))?;
    store.write("members", &Member::key(member.id), row);
    Ok(())
}

fn context(change: &ConfChange) -> Result<Member, Stop> {
    let member = Member::parse(change.context());
    let member = member.ok_or_else(|| Stop::because("the member it describes is unreadable"))?;
    if member.id != change.node_id() {
        return Err(Stop::because("it describes another member than it names"));
    }
    Ok(member)
}

fn find(store: &Store, id: u64) -> Result<Option<Member>, Stop> {
    let Some(row) = store
        .bucket("members")
        .and_then(|rows| rows.get(&Member::key(id)))
    else {
        return Ok(None);
    };
    match Member::parse(row) {
        Some(member) if member.id == id => Ok(Some(member)),
        _ => Err(Stop::because(format!("the row of member {id:x} is unreadable"))),
    }
}

fn is_removed(store: &Store, id: u64) -> bool {
    store
        .bucket("members_removed")
        .is_some_and(|rows| rows.contains_key(&Member::key(id)))
}

fn member_ids(store: &Store) -> Result<Vec<u64>, Stop> {
    let keys = store.bucket("members").into_iter().flat_map(|rows| rows.keys());
    keys.map(|key| {
        let text = std::str::from_utf8(key).ok();
        text.and_then(|text| u64::from_str_radix(text, 16).ok())
            .ok_or_else(|| Stop::because("the key of a member's row is unreadable"))
    })
    .collect()
}

/// No other member has one of these peer URLs.
fn check_urls(store: &Store, new: &Member) -> Result<(), Stop> {
    let wanted = new.peer_urls.as_deref().unwrap_or_default();
    for id in member_ids(store)? {
        let member = find(store, id)?;
        let taken = member
            .as_ref()
            .and_then(|member| member.peer_urls.as_deref())
            .unwrap_or_default();
        if id != new.id && taken.iter().any(|url| wanted.contains(url)) {
            return Err(Stop::because(format!("member {id:x} has the same peer URL")));
        }
    }
    Ok(())
}

/// Releases of 3.5 differ in what they do to rows of members that raft does not know.
fn check_mirror(store: &Store, era: Era) -> Result<(), Stop> {
    // A log from its first entry on makes both, the rows and the configuration.
    let index = store
        .bucket("meta")
        .and_then(|rows| rows.get(b"consistent_index".as_slice()));
    let from_the_first = index.is_none_or(|index| *index == [0; 8]);
    if era.is_34 || era.since_36 || (era.of_35.is_some() && from_the_first) {
        return Ok(());
    }
    let mut known = conf_state(store)?
        .map(|state| [state.voters, state.learners].concat())
        .unwrap_or_default();
    let mut there = member_ids(store)?;
    known.sort_unstable();
    there.sort_unstable();
    if known != there {
        return Err(Stop::because(
            "the members in the database are not those of the raft configuration",
        ));
    }
    Ok(())
}

/// The raft configuration, as JSON in `meta`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfState {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    voters: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    learners: Vec<u64>,
    /// 3.7 leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auto_leave: Option<bool>,
}

fn conf_state(store: &Store) -> Result<Option<ConfState>, Stop> {
    let Some(row) = store
        .bucket("meta")
        .and_then(|rows| rows.get(b"confState".as_slice()))
    else {
        return Ok(None);
    };
    let state = serde_json::from_slice(row);
    state
        .map(Some)
        .map_err(|_| Stop::because("the raft configuration in the database is unreadable"))
}

fn set_conf_state(store: &mut Store, set: impl FnOnce(&mut ConfState)) -> Result<(), Stop> {
    // Where there is none, etcd makes one from elsewhere when it starts.
    let Some(mut state) = conf_state(store)? else {
        return Ok(());
    };
    set(&mut state);
    let row = serde_json::to_vec(&state);
    let row = row.map_err(|_| Stop::because("the raft configuration cannot be written"))?;
    store.write("meta", b"confState", row);
    Ok(())
}
