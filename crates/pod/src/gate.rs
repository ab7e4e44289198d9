//! `prepare`: the gate in front of etcd.
//!
//! In: a volume, what this pod would start, and the operator's go-ahead. Out: everything is ready for the launcher. A
//! plain restart (data that was let through before with this very version and configuration) passes by itself, so that
//! a member comes back while the operator is away. All else waits for a go-ahead given to this very pod.
//!
//! ```text
//! hold the volume ─▶ judge its data ─▶ decide ─▶ pass: admit
//!        ▲                               └─────▶ wait (let it go, try again)
//!        └──────────────────────────────────────────┘
//! ```
//!
//! Never: a volume that belongs to another member, however it came here; data of another member or cluster than is known,
//! without a go-ahead; a volume of another epoch, or that was put back to an
//! earlier state than it is known to have had, with or without a go-ahead; a first start where something may have run; a
//! go-ahead of another pod, volume or generation; data of a newer etcd under an older one.

use std::path::Path;
use std::time::{Duration, Instant};

use quorate_core::model::{Generation, Version};
use quorate_datadir::durable;

use crate::Error;
use crate::admit::{self, Admission};
use crate::contract::{
    GO_AHEAD_BYTES_MAX, GateResult, GoAhead, How, IDENTITY_GONE, KnownProgress, MemberRef, Started,
};
use crate::volume::hold::{EVERY, Held, Hold};
use crate::volume::judge::{Data, Identity, judge};
use crate::volume::layout::Layout;
use crate::volume::record::{Known, Record};

/// How long the gate waits before it ends, so that kubelet restarts it.
pub const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// How often the volume is judged again while the go-ahead stays the same.
const JUDGED_EVERY: Duration = Duration::from_secs(2);

/// What is at the gate.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    pub volume: &'a Path,
    /// Which generation of it.
    pub generation: Generation,
    /// Which etcd the pod has.
    pub version: Version,
    pub config: &'a str,
    pub pod: &'a str,
    /// Whose pod it is; `None` in pods of an operator that did not say.
    pub member: Option<&'a MemberRef>,
    /// Where the go-ahead appears.
    pub go: &'a Path,
    /// Where it appears what is known to be on the volume.
    pub reached: Option<&'a Path>,
    /// Where things are left for the launcher.
    pub shared: &'a Path,
    /// This program, to be left there.
    pub program: &'a Path,
    /// Whom the data is to belong to, if this runs as the superuser.
    pub owner: Option<(u32, u32)>,
    pub patience: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Pass(Admission),
    Wait { why: String },
    Refuse { why: String },
}

/// Waits until the start may pass, and lets it through. `waiting` gets what is waited for, once per change.
#[allow(clippy::disallowed_methods, reason = "waits, and decides nothing by it")]
pub fn pass(gate: &Gate<'_>, mut waiting: impl FnMut(&str)) -> Result<GateResult, Error> {
    let layout = Layout::new(gate.volume);
    let began = Instant::now();
    let mut reported = String::new();
    let mut last: Option<(Option<Vec<u8>>, Instant)> = None;
    loop {
        let go = go_ahead(gate.go)?;
        let judged_lately = last
            .as_ref()
            .is_some_and(|(then, at)| *then == go && at.elapsed() < JUDGED_EVERY);
        if !judged_lately {
            let attempt = attempt(gate, &layout, go.as_deref())?;
            // A volume in use is tried again soon: only its lock is looked at.
            last = matches!(attempt, Attempt::NotYet(_)).then(|| (go, Instant::now()));
            match attempt {
                Attempt::Passed(passed) => return Ok(passed),
                Attempt::NotYet(why) | Attempt::InUse(why) => {
                    if why != reported {
                        waiting(&why);
                        reported = why;
                    }
                }
            }
        }
        if began.elapsed() >= gate.patience {
            return Err(Error::GaveUp {
                after: gate.patience,
                why: reported,
            });
        }
        std::thread::sleep(EVERY);
    }
}

enum Attempt {
    Passed(GateResult),
    NotYet(String),
    InUse(String),
}

/// Tries once; says what to wait for if it did not pass.
fn attempt(gate: &Gate<'_>, layout: &Layout, go: Option<&[u8]>) -> Result<Attempt, Error> {
    let hold = match Hold::attempt(layout, gate.generation)? {
        Held::Ours(hold) => hold,
        Held::Busy { why } => return Ok(Attempt::InUse(why)),
    };
    let record = match Record::read(layout)? {
        Known::Record(record) => record,
        Known::Absent | Known::Unreadable { .. } => {
            let why = format!(
                "{IDENTITY_GONE}, so it was wiped or exchanged; delete the pod, so that the volume is looked at again"
            );
            return Err(Error::refused(gate.volume, why));
        }
    };
    let floor = match floor(gate)? {
        Ok(floor) => floor,
        Err(why) => return Ok(Attempt::NotYet(why)),
    };
    let directory = layout.data(gate.generation);
    let mut data = judge(&directory)?;
    let mut decision = decide(gate, &record, &data, go, &floor);
    if let (Decision::Pass(_), Data::Member(_)) = (&decision, &data) {
        // Only now: a long log takes a while to read, and a pod may have to wait for long.
        data = data.with_log(&directory);
        decision = decide(gate, &record, &data, go, &floor);
    }
    match decision {
        Decision::Pass(admission) => {
            let passed = admit::admit(gate, layout, record, &admission, &hold)?;
            Ok(Attempt::Passed(passed))
        }
        Decision::Wait { why } => Ok(Attempt::NotYet(why)),
        Decision::Refuse { why } => Err(Error::refused(gate.volume, why)),
    }
}

/// What is known to be on the volume, or why that cannot be understood.
fn floor(gate: &Gate<'_>) -> Result<Result<KnownProgress, String>, Error> {
    let Some(path) = gate.reached else {
        return Ok(Ok(KnownProgress::default()));
    };
    let content = go_ahead(path)?.unwrap_or_default();
    Ok(KnownProgress::read(&content).map_err(|error| {
        format!("waiting for the operator: what is known to be on the volume cannot be read: {error}")
    }))
}

/// The annotation as the downward API shows it; `None` while there is none.
fn go_ahead(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let content = durable::read(path, 2 * GO_AHEAD_BYTES_MAX as u64)?;
    Ok(content.filter(|bytes| !bytes.iter().all(u8::is_ascii_whitespace)))
}

/// May this start pass? A function of what is there, and of nothing else.
pub fn decide(
    gate: &Gate<'_>,
    record: &Record,
    data: &Data,
    go: Option<&[u8]>,
    floor: &KnownProgress,
) -> Decision {
    let entry = record.entry(gate.generation);
    let wanted = Started {
        version: gate.version,
        config: gate.config.to_owned(),
    };
    if let (Some(owner), Some(member)) = (&record.belongs_to, gate.member)
        && owner != member
    {
        return refuse(format!(
            "the volume belongs to the member {owner}, and this is the pod of {member}: it was copied, swapped or bound \
             to another claim; two members with the data of one would damage both clusters"
        ));
    }
    if let Some(newest) = record.newest().filter(|newest| *newest > gate.generation) {
        return refuse(format!(
            "this pod is for {}, and the volume has gone on to {newest}; delete this pod",
            gate.generation
        ));
    }
    if let Data::Member(identity) = data {
        // One of a later epoch may be right where this pod was made before that; a go-ahead knows.
        let later = entry.epoch > floor.epoch;
        if let Some(why) = floor
            .refuses(&entry.marks(identity.last_index))
            .filter(|_| !later)
        {
            return refuse(why);
        }
        if let Some(why) = too_old(gate.version, identity) {
            return refuse(why);
        }
        // What the volume says of itself came with it. What is known of the slot says whether it is an earlier cluster's.
        let known = entry.started.as_ref() == Some(&wanted)
            && identity.is(entry.member, entry.cluster)
            && floor.fits(identity.member, identity.cluster);
        if known && !later {
            return Decision::Pass(Admission {
                how: How::Resume,
                identity: Some(*identity),
                served: entry.served,
                run: None,
            });
        }
    }
    let go = match addressed(gate, go) {
        Ok(go) => go,
        Err(why) => {
            return Decision::Wait {
                why: format!("{}; {why}", purpose(data, &entry.started, &wanted, floor)),
            };
        }
    };
    if go.volume_id != record.id {
        return refuse(format!(
            "the go-ahead was given for volume {}, and this is volume {}",
            go.volume_id, record.id
        ));
    }
    // Another's, or a later life of this cluster's: what it knows, the go-ahead does not.
    if let Some(later) = record.epoch().filter(|epoch| *epoch > go.floor.epoch) {
        let own = go.floor.epoch;
        return refuse(format!(
            "the volume is of epoch {later}, and the cluster is in epoch {own}"
        ));
    }
    if let Data::Member(identity) = data
        && let Some(why) = go.floor.refuses(&entry.marks(identity.last_index))
    {
        return refuse(why);
    }
    let run = Some((go.run, go.floor.epoch));
    match (&go.how, data) {
        (How::New { .. } | How::Join { .. }, Data::Member(found)) => {
            refuse(format!("a first start over the data of {found}"))
        }
        (How::New { .. } | How::Join { .. }, Data::Damaged { why }) => {
            refuse(format!("a first start over damaged data ({why})"))
        }
        (How::New { .. } | How::Join { .. }, Data::Blank) if !entry.may_be_blank() => {
            refuse("a first start over a log that is blank, and was not before".to_owned())
        }
        // Executed before, and nothing was promised by it.
        (How::New { .. } | How::Join { .. }, Data::Blank) => Decision::Pass(Admission {
            served: go.served,
            how: go.how,
            identity: None,
            run,
        }),
        (How::New { .. } | How::Join { .. }, _) if entry.may_have_acknowledged() => refuse(format!(
            "a first start on {}, where etcd was executed before; its data has gone, and a member that forgot what it \
             acknowledged must come back as another",
            gate.generation
        )),
        (How::New { .. } | How::Join { .. }, Data::Nothing | Data::Remains { .. }) => {
            Decision::Pass(Admission {
                served: go.served,
                how: go.how,
                identity: None,
                run,
            })
        }
        (How::Resume | How::Settle, Data::Member(found)) => {
            let (member, cluster) = match (go.member, go.cluster) {
                (None, None) => (entry.member, entry.cluster),
                expected => expected,
            };
            if found.is(member, cluster) {
                Decision::Pass(Admission {
                    how: go.how,
                    identity: Some(*found),
                    served: entry.served || go.served,
                    run,
                })
            } else {
                refuse(format!(
                    "the data is that of {found}, and not of member {}, cluster {}",
                    id_or_any(member),
                    id_or_any(cluster)
                ))
            }
        }
        (How::Resume | How::Settle, Data::Nothing) => {
            refuse("it is to go on from its data, and there is none".to_owned())
        }
        (How::Resume | How::Settle, Data::Blank) => {
            refuse("it is to go on from its data, and its log is blank".to_owned())
        }
        (How::Resume | How::Settle, Data::Remains { why } | Data::Damaged { why }) => refuse(format!(
            "it is to go on from its data, and that is damaged ({why})"
        )),
    }
}

fn id_or_any(id: Option<impl ToString>) -> String {
    id.map_or_else(|| "any".to_owned(), |id| id.to_string())
}

fn refuse(why: String) -> Decision {
    Decision::Refuse { why }
}

/// The go-ahead, if it is for this pod and what it would start; else what is wrong with it.
fn addressed(gate: &Gate<'_>, go: Option<&[u8]>) -> Result<GoAhead, String> {
    let Some(bytes) = go else {
        return Err("no go-ahead yet".to_owned());
    };
    let go = GoAhead::read(bytes).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        format!(
            "the go-ahead does not count: {error}{}",
            cause.unwrap_or_default()
        )
    })?;
    let table = [
        ("the pod", go.pod.clone(), gate.pod.to_owned()),
        (
            "generation",
            go.generation.to_string(),
            gate.generation.to_string(),
        ),
        ("version", go.version.to_string(), gate.version.to_string()),
        ("configuration", go.config.clone(), gate.config.to_owned()),
    ];
    match table.into_iter().find(|(_, given, own)| given != own) {
        None => Ok(go),
        Some((what, given, own)) => Err(format!(
            "the go-ahead does not count: it is for {what} {given}, and this is {own}"
        )),
    }
}

/// What is waited for, in words.
fn purpose(data: &Data, before: &Option<Started>, wanted: &Started, floor: &KnownProgress) -> String {
    match (data, before) {
        (Data::Member(found), _) if !floor.fits(found.member, found.cluster) => format!(
            "waiting for the operator: the data is that of {found}, and not of member {}, cluster {}, which this pod is for",
            id_or_any(floor.member),
            id_or_any(floor.cluster)
        ),
        (Data::Nothing | Data::Blank | Data::Remains { .. }, _) => {
            "waiting for the operator's go-ahead for a first start".to_owned()
        }
        (Data::Damaged { why }, _) => {
            format!("waiting for the operator: the data is damaged ({why})")
        }
        (Data::Member(_), Some(before)) if before.version != wanted.version => format!(
            "waiting for the operator's go-ahead to go on from the data with etcd {} after {}",
            wanted.version, before.version
        ),
        (Data::Member(_), Some(before)) if before == wanted => {
            "waiting for the operator's go-ahead: the data is not of the member that was seen here before"
                .to_owned()
        }
        (Data::Member(_), Some(_)) => {
            "waiting for the operator's go-ahead to go on from the data with another configuration".to_owned()
        }
        (Data::Member(_), None) => {
            "waiting for the operator's go-ahead to go on from data that this volume has no record of"
                .to_owned()
        }
    }
}

/// etcd does not start on data that a newer minor has written; some versions find out only after they wrote to it.
fn too_old(version: Version, identity: &Identity) -> Option<String> {
    let newest = identity.minor.filter(|minor| *minor > u64::from(version.minor))?;
    Some(format!(
        "etcd {version} is older than the data, which etcd 3.{newest} has written"
    ))
}

#[cfg(test)]
mod tests;
