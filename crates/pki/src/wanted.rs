//! What is asked of the certificate directory: who needs a certificate, under which names, for how long.
//!
//! In: names from a manifest. Out: checked values. Never: a member name that could leave the directory.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::Error;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A name that a certificate is valid for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum San {
    /// A DNS name, compared in lower case.
    Dns(String),
    Ip(IpAddr),
}

impl San {
    /// Reads an IP address, or else a DNS name.
    pub fn parse(text: &str) -> Result<San, Error> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(San::Ip(ip));
        }
        let label = |l: &str| {
            !l.is_empty()
                && l.len() <= 63
                && l.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        let host = text.strip_prefix("*.").unwrap_or(text);
        if text.len() > 253 || !host.split('.').all(label) {
            return Err(Error::San {
                text: text.to_owned(),
            });
        }
        Ok(San::Dns(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for San {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            San::Dns(name) => f.write_str(name),
            San::Ip(ip) => ip.fmt(f),
        }
    }
}

/// One member and the names under which it is dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberIdentity {
    /// The member's name; part of the file names and the certificates' common name.
    pub name: String,
    /// Exactly the names its server and peer certificates carry.
    pub sans: BTreeSet<San>,
}

impl MemberIdentity {
    /// A member of a local cluster: `localhost`, both loopback addresses, its own name, and `addresses`.
    pub fn local(name: &str, addresses: impl IntoIterator<Item = San>) -> Result<MemberIdentity, Error> {
        let mut sans = BTreeSet::from([
            San::Dns("localhost".to_owned()),
            San::Ip(Ipv4Addr::LOCALHOST.into()),
            San::Ip(Ipv6Addr::LOCALHOST.into()),
            San::parse(name)?,
        ]);
        sans.extend(addresses);
        Ok(MemberIdentity {
            name: name.to_owned(),
            sans,
        })
    }

    fn check(&self) -> Result<(), Error> {
        check_name(&self.name)?;
        self.sans
            .iter()
            .try_for_each(|san| San::parse(&san.to_string()).map(drop))
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.bytes().all(fits) {
        let name = name.to_owned();
        return Err(Error::MemberName { name });
    }
    Ok(())
}

/// The certificates a cluster needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The cluster's name; it goes into the CA's subject when a CA is made.
    pub cluster_name: String,
    /// The members; each gets a server and a peer certificate.
    pub members: Vec<MemberIdentity>,
    /// Members that left; the certificates and keys that were issued for them are removed.
    pub departed: Vec<String>,
    /// The common name of the certificate for applications: the etcd user it stands for where etcd's
    /// authentication is on.
    pub client_name: String,
}

impl Wanted {
    /// What `members` of `cluster_name` need, with the client name `client`.
    pub fn new(cluster_name: &str, members: Vec<MemberIdentity>) -> Wanted {
        Wanted {
            cluster_name: cluster_name.to_owned(),
            members,
            departed: Vec::new(),
            client_name: "client".to_owned(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        for member in &self.members {
            member.check()?;
            // A file system that ignores case would give two such members one file.
            if !seen.insert(member.name.to_ascii_lowercase()) {
                return Err(Error::MemberTwice {
                    name: member.name.clone(),
                });
            }
        }
        for name in &self.departed {
            check_name(name)?;
            if !seen.insert(name.to_ascii_lowercase()) {
                return Err(Error::MemberTwice { name: name.clone() });
            }
        }
        Ok(())
    }
}

/// How long certificates live and when they are renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub ca_lifetime: Duration,
    /// Lifetime of every other certificate; cut short at the CA's end.
    pub leaf_lifetime: Duration,
    /// A certificate with less than this left is reissued. So is the CA.
    pub renew_before: Duration,
}

impl Default for Policy {
    /// Ten years, one year, thirty days.
    fn default() -> Self {
        Policy {
            ca_lifetime: 3650 * DAY,
            leaf_lifetime: 365 * DAY,
            renew_before: 30 * DAY,
        }
    }
}

impl Policy {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Policy {
            ca_lifetime,
            leaf_lifetime,
            renew_before,
        } = *self;
        // Otherwise what was just made would be due again at once, on every pass.
        if renew_before < leaf_lifetime && leaf_lifetime <= ca_lifetime {
            return Ok(());
        }
        Err(Error::Policy {
            ca_lifetime,
            leaf_lifetime,
            renew_before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sans_are_read() {
        assert_eq!(
            San::parse("127.0.0.1").unwrap(),
            San::Ip(Ipv4Addr::LOCALHOST.into())
        );
        assert_eq!(San::parse("::1").unwrap(), San::Ip(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(
            San::parse("Demo-0.Example.com").unwrap(),
            San::Dns("demo-0.example.com".to_owned())
        );
        assert_eq!(San::parse("*.demo").unwrap(), San::Dns("*.demo".to_owned()));
        for bad in [
            "",
            "a..b",
            "a b",
            "ä",
            "*",
            "127.0.0.1:2379",
            "http://x",
            &"x".repeat(64),
        ] {
            assert!(San::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for bad in ["", ".", "..", "../x", "a/b", ".hidden", "a\0b", &"x".repeat(201)] {
            let wanted = Wanted::new(
                "c",
                vec![MemberIdentity {
                    name: bad.to_owned(),
                    sans: BTreeSet::new(),
                }],
            );
            assert!(wanted.check().is_err(), "{bad:?}");
            let mut wanted = Wanted::new("c", Vec::new());
            wanted.departed.push(bad.to_owned());
            assert!(wanted.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_member_twice_is_refused() {
        let member = |name| MemberIdentity {
            name: String::from(name),
            sans: BTreeSet::new(),
        };
        assert!(matches!(
            Wanted::new("c", vec![member("a"), member("A")]).check(),
            Err(Error::MemberTwice { .. })
        ));
        let mut wanted = Wanted::new("c", vec![member("a")]);
        wanted.departed.push("A".to_owned());
        assert!(matches!(wanted.check(), Err(Error::MemberTwice { .. })));
    }

    #[test]
    fn lifetimes_must_descend() {
        let policy = Policy {
            renew_before: 400 * DAY,
            ..Policy::default()
        };
        assert!(matches!(policy.check(), Err(Error::Policy { .. })));
        let policy = Policy {
            ca_lifetime: 300 * DAY,
            ..Policy::default()
        };
        assert!(matches!(policy.check(), Err(Error::Policy { .. })));
        Policy::default().check().unwrap();
    }
}
