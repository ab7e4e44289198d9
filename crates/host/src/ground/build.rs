//! etcd's command line.
//!
//! In: who a member is, how it starts, what the manifest sets. Out: arguments that every supported version (3.4 to
//! 3.7) understands. Never: `initial-cluster-state=new` but for a first member of a new cluster;
//! `strict-reconfig-check` off; a data directory, state or token that a manifest could choose.

use std::path::Path;

use quorate_api::Cluster;
use quorate_core::model::{MemberName, PeerUrl};
use quorate_core::plan::StartHow;
use quorate_pki::Layout;

use crate::ground::certs;
use crate::ground::ports::Ports;

/// Changes whenever the arguments below do, so that running members are restarted with the new ones in their turn.
pub(crate) const REVISION: u32 = 1;

/// What the arguments are made from.
#[derive(Debug)]
pub(crate) struct Arguments<'a> {
    pub(crate) member: &'a MemberName,
    pub(crate) ports: Ports,
    pub(crate) tls: bool,
    pub(crate) pki: &'a Path,
    pub(crate) data_dir: &'a Path,
    pub(crate) cluster: &'a Cluster,
    pub(crate) how: &'a StartHow,
}

/// Where clients reach a member.
pub(crate) fn client_url(ports: Ports, tls: bool) -> String {
    url(ports.client, tls)
}

/// Where members reach a member.
pub(crate) fn peer_url(ports: Ports, tls: bool) -> PeerUrl {
    PeerUrl(url(ports.peer, tls))
}

fn url(port: u16, tls: bool) -> String {
    format!("{}://127.0.0.1:{port}", if tls { "https" } else { "http" })
}

impl Arguments<'_> {
    /// The arguments, without the program's name.
    pub(crate) fn list(&self) -> Vec<String> {
        let client = client_url(self.ports, self.tls);
        let peer = peer_url(self.ports, self.tls).0;
        let mut all = vec![
            flag("name", self.member),
            flag("data-dir", self.data_dir.display()),
            flag("listen-client-urls", &client),
            flag("advertise-client-urls", &client),
            flag("listen-peer-urls", &peer),
            flag("initial-advertise-peer-urls", &peer),
            flag("logger", "zap"),
            flag("log-outputs", "stderr"),
        ];
        self.start(&peer, &mut all);
        if self.tls {
            self.encryption(&mut all);
        }
        all.extend(
            self.cluster
                .options
                .settings()
                .into_iter()
                .map(|(name, value)| flag(name, value)),
        );
        all.extend(
            self.cluster
                .quota_bytes
                .map(|quota| flag("quota-backend-bytes", quota)),
        );
        if *self.how == StartHow::Settle {
            // After the user's own, so that it holds: the replay at the start is more than one entry.
            all.push(flag("snapshot-count", 1));
        }
        all
    }

    fn start(&self, peer: &str, all: &mut Vec<String>) {
        let own = || format!("{}={peer}", self.member);
        let joined = |initial: &[(MemberName, PeerUrl)]| {
            let pairs: Vec<String> = initial
                .iter()
                .map(|(name, url)| format!("{name}={url}"))
                .collect();
            pairs.join(",")
        };
        let (state, initial) = match self.how {
            StartHow::New { token, initial } => {
                all.push(flag("initial-cluster-token", token));
                ("new", joined(initial))
            }
            StartHow::Join { initial } => ("existing", joined(initial)),
            // etcd has its own list in its data and only checks that it finds itself here.
            StartHow::Resume | StartHow::Settle => ("existing", own()),
        };
        all.push(flag("initial-cluster-state", state));
        all.push(flag("initial-cluster", initial));
    }

    fn encryption(&self, all: &mut Vec<String>) {
        let layout = Layout::new(self.pki);
        let (ca, peer_ca) = (layout.ca().cert, certs::peer_cas(&layout).ca().cert);
        let (server, peer) = (
            layout.server(self.member.as_str()),
            layout.peer(self.member.as_str()),
        );
        all.extend([
            flag("cert-file", server.cert.display()),
            flag("key-file", server.key.display()),
            flag("trusted-ca-file", ca.display()),
            flag("client-cert-auth", true),
            flag("peer-cert-file", peer.cert.display()),
            flag("peer-key-file", peer.key.display()),
            flag("peer-trusted-ca-file", peer_ca.display()),
            flag("peer-client-cert-auth", true),
        ]);
    }
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::model::Token;

    fn list(how: &StartHow, tls: bool) -> Vec<String> {
        let text = quorate_api::default_manifest("c", 3, &"3.6.1".parse().unwrap());
        let text = format!("{text}\n  quota: 2Gi\n  options:\n    electionTimeout: 2000\n");
        let manifest = quorate_api::parse(&text, "c").unwrap();
        let (cluster, _) = quorate_api::resolve(&manifest, quorate_api::Ground::Host, &text, "c").unwrap();
        let member = MemberName("c-1".to_owned());
        let (pki, data_dir) = (Path::new("/r/pki"), Path::new("/r/members/c-1/g0"));
        let ports = Ports {
            client: 2381,
            peer: 2382,
        };
        Arguments {
            member: &member,
            ports,
            tls,
            pki,
            data_dir,
            cluster: &cluster,
            how,
        }
        .list()
    }

    #[test]
    fn only_a_first_member_starts_new_and_only_it_has_a_token() {
        let initial = vec![(
            MemberName("c-1".to_owned()),
            PeerUrl("https://127.0.0.1:2382".to_owned()),
        )];
        let new = list(
            &StartHow::New {
                token: Token("t".to_owned()),
                initial: initial.clone(),
            },
            true,
        );
        assert!(new.contains(&"--initial-cluster-state=new".to_owned()));
        assert!(new.contains(&"--initial-cluster-token=t".to_owned()));
        for how in [StartHow::Join { initial }, StartHow::Resume] {
            let other = list(&how, true);
            assert!(other.contains(&"--initial-cluster-state=existing".to_owned()));
            assert!(other.contains(&"--initial-cluster=c-1=https://127.0.0.1:2382".to_owned()));
            assert!(!other.iter().any(|argument| argument.contains("token")));
        }
    }

    #[test]
    fn encryption_is_whole_or_absent() {
        let count = |tls| {
            list(&StartHow::Resume, tls)
                .iter()
                .filter(|a| a.contains("cert") || a.contains("-ca-"))
                .count()
        };
        assert_eq!((count(true), count(false)), (6, 0));
        assert!(
            list(&StartHow::Resume, false)
                .iter()
                .all(|argument| !argument.contains("https"))
        );
        let all = list(&StartHow::Resume, true);
        for wanted in [
            "--election-timeout=2000",
            "--quota-backend-bytes=2147483648",
            "--name=c-1",
        ] {
            assert!(all.contains(&wanted.to_owned()), "{wanted} is not in {all:?}");
        }
    }
}
