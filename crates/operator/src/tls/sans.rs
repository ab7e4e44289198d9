//! Under which names members are dialled, and so which their certificates carry.
//!
//! In: a cluster's names, and the domain of the cluster's DNS if it is known. Out: what goes into certificates.
//! A member that is dialled by another looks up the exact names in the caller's certificate and lets it in if one of
//! them leads to the caller's address; patterns it compares only with what the address is called, in full. So a peer
//! certificate carries the member's own names, without patterns, and needs no domain: the resolver completes them.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use quorate_core::model::Ordinal;
use quorate_pki::San;

use crate::names::Names;

/// The domain of the cluster's DNS, from the text of a pod's resolv.conf; `None` outside of pods.
pub fn domain(resolv_conf: &str) -> Option<String> {
    let search = resolv_conf
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("search "))?;
    let domain = search.split_whitespace().find_map(|s| s.strip_prefix("svc."))?;
    let domain = domain.trim_end_matches('.');
    (!domain.is_empty()).then(|| domain.to_owned())
}

/// `host` in the namespace, more and more in full.
fn completed(host: &str, names: &Names, domain: Option<&str>) -> Vec<String> {
    let namespace = &names.namespace;
    let mut all = vec![format!("{host}.{namespace}"), format!("{host}.{namespace}.svc")];
    all.extend(domain.map(|domain| format!("{host}.{namespace}.svc.{domain}")));
    all
}

fn dns(all: impl IntoIterator<Item = String>) -> BTreeSet<San> {
    all.into_iter()
        .map(|name| San::Dns(name.to_ascii_lowercase()))
        .collect()
}

/// What a member shows to, and dials, other members with.
pub fn peer(names: &Names, ordinal: Ordinal, domain: Option<&str>) -> BTreeSet<San> {
    let own = format!("{}.{}", names.member(ordinal), names.service());
    let mut all = completed(&own, names, domain);
    all.push(own);
    dns(all)
}

/// What a member shows to clients. They may dial it under its own name or any Service's; and a client that knows
/// several members may verify all of them under the name of the first, so it is good for the others' names too.
pub fn server(names: &Names, ordinal: Ordinal, domain: Option<&str>) -> BTreeSet<San> {
    let mut all = peer(names, ordinal, domain);
    let any = format!("*.{}", names.service());
    for host in [any.clone(), names.service().to_owned(), names.client_service()] {
        all.extend(dns(completed(&host, names, domain)));
        all.extend(dns([host]));
    }
    all.extend([
        San::Dns("localhost".to_owned()),
        San::Ip(Ipv4Addr::LOCALHOST.into()),
        San::Ip(Ipv6Addr::LOCALHOST.into()),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sans: &BTreeSet<San>) -> BTreeSet<String> {
        sans.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_peer_carries_its_own_names_and_no_pattern() {
        let names = Names::of("prod", "c");
        let sans = texts(&peer(&names, Ordinal(1), None));
        assert_eq!(
            sans,
            ["c-1.c", "c-1.c.prod", "c-1.c.prod.svc"]
                .map(str::to_owned)
                .into()
        );
        let full = texts(&peer(&names, Ordinal(1), Some("example.org")));
        assert!(full.contains("c-1.c.prod.svc.example.org"), "{full:?}");
    }

    #[test]
    fn a_server_is_good_under_every_name_that_leads_to_it() {
        let names = Names::of("prod", "c");
        let sans = texts(&server(&names, Ordinal(0), Some("cluster.local")));
        for name in [
            names.host(Ordinal(0)),
            "*.c.prod.svc".to_owned(),
            "*.c.prod.svc.cluster.local".to_owned(),
            "c-client".to_owned(),
            "c-client.prod".to_owned(),
            "c-client.prod.svc".to_owned(),
            "c.prod.svc".to_owned(),
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
        ] {
            assert!(sans.contains(&name), "{name} is not in {sans:?}");
        }
        let readable = sans.iter().all(|san| San::parse(san).is_ok());
        assert!(readable, "{sans:?}");
    }

    #[test]
    fn the_domain_is_that_of_the_resolver() {
        let pod =
            "nameserver 10.0.0.10\nsearch n.svc.k8s.example svc.k8s.example k8s.example\noptions ndots:5\n";
        assert_eq!(domain(pod).as_deref(), Some("k8s.example"));
        for elsewhere in [
            "",
            "nameserver 1.1.1.1\n",
            "search example.org\n",
            "search svc.\n",
        ] {
            assert_eq!(domain(elsewhere), None, "{elsewhere:?}");
        }
    }
}
