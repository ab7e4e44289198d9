//! Which member list something was decided on.

use serde::{Deserialize, Serialize};

use super::Listed;

/// A fingerprint of a member list. The executor reads the list again and refuses a step whose basis has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Basis(pub u64);

impl Basis {
    /// The fingerprint of `members`, whatever their order. Names are left out: a member gets its name when it
    /// starts, which changes nothing about who votes.
    pub fn of(members: &[Listed]) -> Self {
        let mut rows: Vec<String> = members
            .iter()
            .map(|m| format!("{}{}{:?}", m.id, if m.learner { '~' } else { '=' }, m.peer_urls))
            .collect();
        rows.sort();
        // FNV-1a: stable across builds, unlike the standard hasher.
        let hash = rows
            .iter()
            .flat_map(|r| r.bytes().chain([b'\n']))
            .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
                (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
            });
        Self(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Listed, MemberId, PeerUrl};
    use super::*;

    fn listed(id: u64, learner: bool) -> Listed {
        Listed {
            id: MemberId(id),
            name: format!("m{id}"),
            peer_urls: vec![PeerUrl(format!("https://h:{id}"))],
            learner,
        }
    }

    #[test]
    fn a_basis_ignores_order_and_names_but_not_who_votes() {
        let (a, b) = (listed(1, false), listed(2, true));
        let list = Basis::of(&[a.clone(), b.clone()]);
        assert_eq!(list, Basis::of(&[b.clone(), a.clone()]));
        assert_eq!(
            list,
            Basis::of(&[
                Listed {
                    name: String::new(),
                    ..a.clone()
                },
                b.clone()
            ])
        );
        assert_ne!(list, Basis::of(&[a.clone(), Listed { learner: false, ..b }]));
        assert_ne!(list, Basis::of(&[a]));
    }
}
