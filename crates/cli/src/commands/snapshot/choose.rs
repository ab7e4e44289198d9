//! Which member is asked for a snapshot: the one that was named, or a healthy one of a cluster on this machine.
//!
//! In: an endpoint's URL with its certificates, or a root. Out: one endpoint, and the member's name where it is known.
//! Never: a member that has lost its leader while another has one, whose snapshot would be of the past; a leader while a
//! follower can do it, which has less to do.

use std::path::PathBuf;
use std::time::Duration;

use quorate_client::{Credentials, Endpoint, IdentityFiles, Status, Timeouts, Tls, TlsFiles};
use quorate_host::Member;

use crate::arguments::snapshot::Save;
use crate::failure::{Failure, chain};
use crate::{roots, say};

const CONNECT: Duration = Duration::from_secs(5);
const REQUEST: Duration = Duration::from_secs(10);

/// The member to ask.
pub struct Chosen {
    /// How to ask it.
    pub endpoint: Endpoint,
    /// Its name, if it is of a cluster on this machine.
    pub name: Option<String>,
}

/// Chooses as the command line says.
pub async fn choose(root: Option<PathBuf>, arguments: &Save) -> Result<Chosen, Failure> {
    let timeouts = Timeouts {
        connect: CONNECT,
        request: REQUEST,
        stream_idle: arguments.idle_timeout,
    };
    match &arguments.endpoints {
        Some(url) => named(url, arguments, timeouts),
        None => local(root, timeouts).await,
    }
}

/// The one that was named.
fn named(url: &str, arguments: &Save, timeouts: Timeouts) -> Result<Chosen, Failure> {
    if url.contains(',') {
        return Err(Failure::usage("--endpoints names several members")
            .and("A snapshot is of one member: name one of them."));
    }
    let secure = arguments.cacert.is_some() || arguments.cert.is_some() || url.starts_with("https://");
    let url = match (url.contains("://"), secure) {
        (true, _) => url.to_owned(),
        (false, true) => format!("https://{url}"),
        (false, false) => format!("http://{url}"),
    };
    let tls = match (&arguments.cacert, secure) {
        (_, false) => None,
        (Some(ca), true) => {
            let identity = arguments.cert.clone().zip(arguments.key.clone());
            let identity = identity.map(|(cert, key)| IdentityFiles { cert, key });
            Some(tls(&TlsFiles {
                ca: ca.clone(),
                identity,
            })?)
        }
        (None, true) => {
            return Err(Failure::usage(format!(
                "--cacert is required for https endpoints ({url})"
            )));
        }
    };
    let endpoint = Endpoint::connect_lazy(&url, tls.as_ref(), timeouts);
    let endpoint = endpoint.map_err(|error| Failure::usage(chain(&error)))?;
    let endpoint = match credentials(arguments.user.as_deref(), arguments.password.as_deref())? {
        Some(credentials) => endpoint.with_credentials(credentials),
        None => endpoint,
    };
    Ok(Chosen { endpoint, name: None })
}

fn tls(files: &TlsFiles) -> Result<Tls, Failure> {
    Tls::from_files(files)
        .map_err(|error| Failure::failed(format!("cannot use the certificates: {}", chain(&error))))
}

/// The user and the password that were given.
pub fn credentials(user: Option<&str>, password: Option<&str>) -> Result<Option<Credentials>, Failure> {
    let Some(user) = user else {
        return Ok(None);
    };
    let (user, password) = match (password, user.split_once(':')) {
        (Some(password), _) => (user, password),
        (None, Some((user, password))) => (user, password),
        (None, None) => {
            return Err(
                Failure::usage(format!("there is no password for the user {user}"))
                    .and("Give it in the environment as ETCDCTL_PASSWORD, or as --user NAME:PASSWORD."),
            );
        }
    };
    Ok(Some(Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    }))
}

/// A healthy one of the cluster under the root.
async fn local(root: Option<PathBuf>, timeouts: Timeouts) -> Result<Chosen, Failure> {
    let root = roots::resolve(root)?;
    let status = roots::status(&root).map_err(|failure| {
        failure.and("Or name the member to ask with --endpoints, or a stopped one with --from-data-dir.")
    })?;
    let own = status.certs.is_some().then(|| quorate_host::own_certs(&root));
    let tls = match &own {
        Some(certs) => Some(tls(&TlsFiles {
            ca: certs.ca.clone(),
            identity: Some(IdentityFiles {
                cert: certs.cert.clone(),
                key: certs.key.clone(),
            }),
        })?),
        None => None,
    };
    let running = |member: &&Member| member.pid.is_some() && !member.client_url.is_empty();
    let mut answers = Vec::new();
    let mut silent = Vec::new();
    for member in status.members.iter().filter(running) {
        let endpoint = Endpoint::connect_lazy(&member.client_url, tls.as_ref(), timeouts);
        let endpoint = endpoint.map_err(|error| Failure::failed(chain(&error)))?;
        match endpoint.within(Timeouts::default().request).status().await {
            Ok(status) => answers.push((status, endpoint, member.name.clone())),
            Err(error) => silent.push(chain(&error)),
        }
    }
    let best = answers.into_iter().max_by_key(|(status, _, _)| merit(status));
    match best {
        Some((status, endpoint, name)) => {
            if status.leader.is_none() {
                say::warning(&format!(
                    "no member knows of a leader; {name} is asked, which has the highest revision of them, {}",
                    status.revision
                ));
            }
            Ok(Chosen {
                endpoint,
                name: Some(name),
            })
        }
        None => {
            let why = match silent.first() {
                Some(first) => format!(
                    "no member of the cluster under {} answers: {first}",
                    root.path().display()
                ),
                None => format!("no member of the cluster under {} runs", root.path().display()),
            };
            Err(Failure::failed(why).and("Stopped members can be saved with --from-data-dir DIR."))
        }
    }
}

/// What speaks for asking a member, the weightier first.
fn merit(status: &Status) -> (bool, bool, bool, bool, i64) {
    (
        !status.errors.iter().any(|error| error.contains("CORRUPT")),
        status.leader.is_some(),
        !status.is_learner,
        status.leader != Some(status.member_id),
        status.revision,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, leader: Option<u64>, revision: i64) -> Status {
        Status {
            cluster_id: 1,
            member_id: id,
            revision,
            raft_term: 2,
            leader,
            version: "3.6.1".to_owned(),
            db_size: 0,
            db_size_in_use: 0,
            db_size_quota: None,
            raft_index: 0,
            raft_applied_index: 0,
            is_learner: false,
            errors: Vec::new(),
            storage_version: None,
            downgrade_target: None,
        }
    }

    #[test]
    fn a_healthy_follower_is_asked() {
        let best = |all: &[Status]| all.iter().max_by_key(|status| merit(status)).map(|s| s.member_id);
        let (leader, follower) = (member(1, Some(1), 9), member(2, Some(1), 8));
        let lost = member(3, None, 9);
        assert_eq!(best(&[leader.clone(), follower.clone(), lost.clone()]), Some(2));
        assert_eq!(best(&[leader.clone(), lost.clone()]), Some(1));
        assert_eq!(best(&[lost]), Some(3));
        let learner = Status {
            is_learner: true,
            ..member(4, Some(1), 9)
        };
        assert_eq!(best(&[leader.clone(), learner]), Some(1));
        let corrupt = Status {
            errors: vec!["memberID:2 alarm:CORRUPT ".to_owned()],
            ..follower
        };
        assert_eq!(best(&[leader, corrupt]), Some(1));
        assert_eq!(best(&[member(5, Some(1), 3), member(6, Some(1), 7)]), Some(6));
    }
}
