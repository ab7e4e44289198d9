//! The members of a cluster that is about to be, and the ids that follow from them.
//!
//! ```text
//! member id   first 8 bytes of SHA-1 of its peer URLs, sorted, one after another, then the token
//! cluster id  first 8 bytes of SHA-1 of all member ids, ascending, 8 bytes each
//! ```
//!
//! In: `NAME=URL,NAME=URL` as etcd takes it for `--initial-cluster` (a name may be there for each of its URLs), and a
//! token. Out: [`Roster`], and the rows of the `members` bucket. Names and URLs are refused that etcd refuses, and
//! those of a form that no etcd has. Host names are not resolved: two URLs are equal if their texts are. Never: two
//! members with one URL.

use std::collections::{BTreeMap, BTreeSet};

use sha1::{Digest, Sha1};

use crate::Error;

/// Clusters have a handful of members; more than this is a mistake.
const MEMBERS_MAX: usize = 1000;

/// The members of a new cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// What makes its ids differ from those of another cluster with the same URLs.
    pub token: String,
    /// The members, by their ids.
    pub members: Vec<RosterMember>,
    pub cluster_id: u64,
}

/// A member of a new cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RosterMember {
    pub id: u64,
    pub name: String,
    /// Where the others reach it, sorted.
    pub peer_urls: Vec<String>,
}

impl Roster {
    /// The members that `initial_cluster` names.
    pub fn parse(initial_cluster: &str, token: &str) -> Result<Roster, Error> {
        let mut named: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut all = BTreeSet::new();
        for pair in initial_cluster.split(',').filter(|pair| !pair.is_empty()) {
            let (name, text) = pair.split_once('=').ok_or_else(|| {
                Error::refused(
                    format!("`{pair}` in the initial cluster names no member"),
                    "write it as NAME=URL",
                )
            })?;
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(Error::refused(
                    format!("`{pair}` in the initial cluster has no name that can be written"),
                    "write it as NAME=URL",
                ));
            }
            let url = peer_url(text)?;
            if !all.insert(url.clone()) {
                return Err(Error::refused(
                    format!("{url} is in the initial cluster twice"),
                    "give each member URLs of its own",
                ));
            }
            named.entry(name).or_default().insert(url);
        }
        if named.is_empty() || named.len() > MEMBERS_MAX {
            return Err(Error::refused(
                format!("the initial cluster names {} members", named.len()),
                format!("name 1 to {MEMBERS_MAX} as NAME=URL,NAME=URL"),
            ));
        }
        let mut members: Vec<RosterMember> = named
            .into_iter()
            .map(|(name, urls)| RosterMember {
                id: first_bytes(Sha1::new_with_prefix(
                    urls.iter().map(String::as_str).collect::<String>() + token,
                )),
                name: name.to_owned(),
                peer_urls: urls.into_iter().collect(),
            })
            .collect();
        members.sort_unstable_by_key(|member| member.id);
        let alike = members.array_windows().any(|[a, b]| a.id == b.id);
        if alike || members.iter().any(|member| member.id == 0) {
            return Err(Error::refused(
                "these URLs and this token give a member an id that it cannot have",
                "take another token",
            ));
        }
        let mut ids = Sha1::new();
        for member in &members {
            ids.update(member.id.to_be_bytes());
        }
        Ok(Roster {
            token: token.to_owned(),
            cluster_id: first_bytes(ids),
            members,
        })
    }

    /// The member `name`, which says of itself that it is reached at `advertised`, a list with commas.
    pub fn member(&self, name: &str, advertised: &str) -> Result<&RosterMember, Error> {
        let Some(member) = self.members.iter().find(|member| member.name == name) else {
            let names: BTreeSet<&str> = self.members.iter().map(|member| member.name.as_str()).collect();
            let names: Vec<&str> = names.into_iter().collect();
            return Err(Error::refused(
                format!("`{name}` is not in the initial cluster"),
                format!("it names {}", names.join(", ")),
            ));
        };
        let urls: BTreeSet<String> = advertised.split(',').map(peer_url).collect::<Result<_, _>>()?;
        if !urls.iter().eq(&member.peer_urls) {
            return Err(Error::refused(
                format!("{name} is to advertise {advertised}"),
                format!("the initial cluster has it at {}", member.peer_urls.join(",")),
            ));
        }
        Ok(member)
    }

    /// The rows of the `members` bucket, in order.
    pub fn rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let row = |member: &RosterMember| (member.hex_id().into_bytes(), member.json().into_bytes());
        let mut rows: Vec<_> = self.members.iter().map(row).collect();
        rows.sort_unstable();
        rows
    }
}

impl RosterMember {
    /// Its id as etcd writes it into keys and paths.
    pub(crate) fn hex_id(&self) -> String {
        format!("{:x}", self.id)
    }

    /// It as etcd writes it into its database and its log.
    pub(crate) fn json(&self) -> String {
        let (id, urls, name) = (self.id, self.urls_json(), quoted(&self.name));
        format!("{{\"id\":{id},\"peerURLs\":{urls},\"name\":{name}}}")
    }

    /// Its URLs as JSON.
    pub(crate) fn urls_json(&self) -> String {
        let urls: Vec<String> = self.peer_urls.iter().map(|url| quoted(url)).collect();
        format!("[{}]", urls.join(","))
    }
}

fn first_bytes(hash: Sha1) -> u64 {
    let digest = hash.finalize();
    digest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// A peer URL as etcd would write it, if it takes it.
fn peer_url(text: &str) -> Result<String, Error> {
    let text = text.trim();
    let refuse = |advice: &str| Error::refused(format!("`{text}` is no peer URL"), advice);
    let form = "write it as http://HOST:PORT or https://HOST:PORT";
    let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse(form))?;
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "http" | "https" => {
            if rest.contains('/') {
                return Err(refuse("a peer URL has no path: not even a slash at its end"));
            }
            let (host, port) = rest.rsplit_once(':').ok_or_else(|| refuse(form))?;
            let sound = match host.strip_prefix('[') {
                Some(inner) => inner
                    .strip_suffix(']')
                    .is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok()),
                None => host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)),
            };
            if !sound || port.parse::<u16>().is_err() || port.starts_with('+') {
                return Err(refuse(form));
            }
        }
        "unix" | "unixs" => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"./:-_~@".contains(&byte);
            if rest.is_empty() || !rest.bytes().all(plain) {
                return Err(refuse("write it as unix://PATH or unixs://PATH"));
            }
        }
        _ => return Err(refuse(form)),
    }
    Ok(format!("{scheme}://{rest}"))
}

/// `text` as a JSON string, the way etcd writes one.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                json.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            control if control < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(control))),
            _ => json.push(character),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const THREE: &str = "m1=http://127.0.0.1:23801,m2=http://127.0.0.1:23811,m3=http://127.0.0.1:23821";

    fn refusal(initial_cluster: &str) -> String {
        Roster::parse(initial_cluster, "tok1").unwrap_err().to_string()
    }

    #[test]
    fn ids_are_etcds() {
        let roster = Roster::parse(THREE, "tok1").unwrap();
        let ids: Vec<_> = roster
            .members
            .iter()
            .map(|member| (member.id, &member.name[..]))
            .collect();
        let expected = [
            (0x14c4_d86c_ba9e_4486, "m2"),
            (0x5485_ed9a_2f08_260c, "m1"),
            (0xc67a_3cc5_99bb_cebb, "m3"),
        ];
        assert_eq!(ids, expected);
        assert_eq!(roster.cluster_id, 0x192a_008d_c1e3_4ac3);
        let other = Roster::parse(THREE, "tok2").unwrap();
        assert!(
            other
                .members
                .iter()
                .all(|member| !ids.iter().any(|(id, _)| *id == member.id))
        );
        assert_ne!(other.cluster_id, roster.cluster_id);
    }

    #[test]
    fn rows_are_etcds() {
        let rows = Roster::parse(THREE, "tok1").unwrap().rows();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0].0, b"14c4d86cba9e4486");
        let expected = r#"{"id":1496558937692849286,"peerURLs":["http://127.0.0.1:23811"],"name":"m2"}"#;
        assert_eq!(std::str::from_utf8(&rows[0].1).unwrap(), expected);
        let odd = Roster::parse("a<\"b=http://b:1,a<\"b=http://a:1", "")
            .unwrap()
            .rows();
        let text = std::str::from_utf8(&odd[0].1).unwrap();
        assert!(
            text.ends_with(r#""peerURLs":["http://a:1","http://b:1"],"name":"a\u003c\"b"}"#),
            "{text}"
        );
    }

    #[test]
    fn the_order_of_pairs_does_not_matter() {
        let several = "a=http://a:1,b=http://b:1,a=https://a:2";
        let shuffled = ",a=https://a:2,,b= http://b:1,a=HTTP://a:1,";
        assert_eq!(
            Roster::parse(several, "t").unwrap(),
            Roster::parse(shuffled, "t").unwrap()
        );
    }

    #[test]
    fn what_etcd_would_not_take_is_refused() {
        assert!(refusal("").contains("0 members"));
        assert!(refusal("http://a:1").contains("names no member"));
        assert!(refusal("=http://a:1").contains("no name"));
        assert!(refusal("a\u{7}=http://a:1").contains("no name"));
        assert!(refusal("a=http://x:1,b=http://x:1").contains("twice"));
        assert!(refusal("a=http://x:1,a=http://x:1").contains("twice"));
        for bad in [
            "",
            "a:1",
            "ftp://a:1",
            "http://a",
            "http://a:1/",
            "http://a:x",
            "http://a:70000",
            "http://a:+1",
            "http://u@a:1",
            "http://a b:1",
            "http://[::1:1",
            "http://[x]:1",
            "unix://",
            "unix://a b",
            "http://a:1?x",
        ] {
            assert!(refusal(&format!("m={bad}")).contains("no peer URL"), "{bad}");
        }
        for good in [
            "http://a:1",
            "https://[::1]:2380",
            "http://:1",
            "unix:///run/a.sock",
            "unixs://localhost:1",
        ] {
            assert_eq!(
                Roster::parse(&format!("m={good}"), "").unwrap().members[0].peer_urls,
                [good]
            );
        }
    }

    #[test]
    fn a_member_is_who_it_says() {
        let roster = Roster::parse("a=http://a:1,b=http://b:1,a=http://a:2", "t").unwrap();
        assert_eq!(roster.member("a", "http://a:2, http://a:1").unwrap().name, "a");
        let error = roster.member("c", "http://a:1").unwrap_err().to_string();
        assert!(
            error.contains("`c` is not in") && error.contains("a, b"),
            "{error}"
        );
        let error = roster.member("a", "http://a:1").unwrap_err().to_string();
        assert!(error.contains("http://a:1,http://a:2"), "{error}");
        assert!(roster.member("a", "nonsense").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_judged_without_a_panic(text: String, token: String) {
            let _ = Roster::parse(&text, &token);
        }

        #[test]
        fn ids_are_ascending(hosts in proptest::collection::btree_set("[a-z]{1,6}", 1..8), token: String) {
            let pairs: Vec<String> = hosts.iter().map(|host| format!("{host}=http://{host}:1")).collect();
            let roster = Roster::parse(&pairs.join(","), &token).unwrap();
            prop_assert!(roster.members.is_sorted_by(|a, b| a.id < b.id));
            prop_assert_eq!(roster.members.len(), hosts.len());
        }
    }
}
