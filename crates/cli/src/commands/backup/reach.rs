//! How a cluster is reached: by URLs that were named, or the cluster on this machine.
//!
//! In: the command line. Out: what says where members are and how they are spoken to, each time anew: certificates are
//! renewed and members move while an agent runs.

use std::path::PathBuf;
use std::sync::Arc;

use quorate_backup::agent::{Cluster, Find, Reach};
use quorate_client::{IdentityFiles, Tls, TlsFiles};
use quorate_host::Root;

use crate::arguments::backup::{Members, Secrets};
use crate::commands::snapshot::choose::credentials;
use crate::failure::{Failure, chain};
use crate::roots;

/// The cluster that the command line means. Refused at once if it cannot be reached as it says.
pub fn cluster(root: Option<PathBuf>, members: Members) -> Result<Cluster, Failure> {
    match members.endpoints.is_empty() {
        true => {
            let root = roots::resolve(root)?;
            let find = move || local(&root).map_err(|failure| failure.to_string());
            find().map_err(|why| Failure::failed(why).and("Or name the members to ask with --endpoints."))?;
            Ok(Cluster::new(Arc::new(find)))
        }
        false => named(members.endpoints, members.secrets),
    }
}

/// The cluster at these URLs.
pub fn named(urls: Vec<String>, secrets: Secrets) -> Result<Cluster, Failure> {
    let find: Find = {
        let secure = secrets.cacert.is_some()
            || secrets.cert.is_some()
            || urls.iter().any(|url| url.starts_with("https://"));
        if secure && secrets.cacert.is_none() {
            return Err(Failure::usage(format!(
                "--cacert is required for https endpoints ({})",
                urls.join(",")
            )));
        }
        let whole = |url: &String| match (url.contains("://"), secure) {
            (true, _) => url.clone(),
            (false, true) => format!("https://{url}"),
            (false, false) => format!("http://{url}"),
        };
        let urls: Vec<String> = urls.iter().map(whole).collect();
        let credentials = credentials(secrets.user.as_deref(), secrets.password.as_deref())?;
        let files = secrets.cacert.clone().filter(|_| secure).map(|ca| TlsFiles {
            ca,
            identity: secrets
                .cert
                .clone()
                .zip(secrets.key.clone())
                .map(|(cert, key)| IdentityFiles { cert, key }),
        });
        Arc::new(move || {
            Ok(Reach {
                urls: urls.clone(),
                tls: files.as_ref().map(tls).transpose()?,
                credentials: credentials.clone(),
            })
        })
    };
    find().map_err(Failure::failed)?;
    Ok(Cluster::new(find))
}

fn tls(files: &TlsFiles) -> Result<Tls, String> {
    Tls::from_files(files).map_err(|error| format!("cannot use the certificates: {}", chain(&error)))
}

/// The cluster under a root.
fn local(root: &Root) -> Result<Reach, Failure> {
    let status = roots::status(root)?;
    let urls: Vec<String> = status
        .members
        .iter()
        .map(|member| member.client_url.clone())
        .filter(|url| !url.is_empty())
        .collect();
    if urls.is_empty() {
        return Err(Failure::failed(format!(
            "no member of the cluster under {} is known yet",
            root.path().display()
        )));
    }
    let own = status.certs.is_some().then(|| quorate_host::own_certs(root));
    let files = own.map(|certs| TlsFiles {
        ca: certs.ca.clone(),
        identity: Some(IdentityFiles {
            cert: certs.cert.clone(),
            key: certs.key.clone(),
        }),
    });
    Ok(Reach {
        urls,
        tls: files.as_ref().map(tls).transpose().map_err(Failure::failed)?,
        credentials: None,
    })
}
