//! The Secret through its life: an API server that does as it is asked, configurations that follow or do not.

use std::time::Duration;

use quorate_pki::describe_all;

use super::*;
use crate::tls::cas::ROTATE_ANNOTATION;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct World {
    secret: Option<Secret>,
    /// Whom the configurations trust.
    trusted: Vec<u8>,
    now: SystemTime,
    writes: u32,
    /// Every CA there ever was.
    cas: Vec<PairPem>,
}

impl World {
    fn new() -> World {
        World {
            secret: None,
            trusted: Vec::new(),
            now: SystemTime::now(),
            writes: 0,
            cas: Vec::new(),
        }
    }

    fn judge(&self) -> Judged {
        let lifetimes = Lifetimes::default();
        let keeper = WebhookCert {
            namespace: "n",
            lifetimes: &lifetimes,
            now: self.now,
        };
        keeper
            .judge(self.secret.as_ref(), |bundle| bundle == self.trusted)
            .unwrap()
    }

    /// One write, as the keeper does it: the Secret first, then whom to trust. False: there is nothing to do.
    fn step(&mut self) -> bool {
        let judged = self.judge();
        match judged.change {
            Some(Effect::Create(Object::Secret(made))) => {
                assert!(self.secret.is_none());
                self.secret = Some(*made);
            }
            Some(Effect::Amend(change)) => {
                let secret = self.secret.as_mut().unwrap();
                let data = secret.data.get_or_insert_default();
                for (key, value) in change.data {
                    match value {
                        Some(value) => data.insert(key, value),
                        None => data.remove(&key),
                    };
                }
                let annotations = secret.metadata.annotations.get_or_insert_default();
                for (key, value) in change.annotations {
                    match value {
                        Some(value) => annotations.insert(key, value),
                        None => annotations.remove(&key),
                    };
                }
            }
            Some(other) => panic!("{other}"),
            None => match judged.bundle {
                Some(bundle) if bundle != self.trusted => self.trusted = bundle,
                _ => return false,
            },
        }
        self.writes += 1;
        for (cert, key) in [(CLIENTS.cert, CLIENTS.key), (CLIENTS.next_cert, CLIENTS.next_key)] {
            let (cert, key) = (self.value(cert), self.value(key));
            self.cas.push(PairPem { cert, key });
        }
        true
    }

    fn settle(&mut self) {
        for _ in 0..10 {
            if !self.step() {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn value(&self, key: &str) -> Vec<u8> {
        let secret = self.secret.as_ref().unwrap();
        value(secret, key).unwrap_or_default().to_vec()
    }

    /// What pods serve with is signed by someone whom the configurations trust.
    fn believed(&self) -> bool {
        let Some(pem) = self.secret.as_ref().and_then(served) else {
            return false;
        };
        let leaf = WebhookCert {
            namespace: "n",
            lifetimes: &Lifetimes::default(),
            now: self.now,
        };
        let leaf = leaf.leaf();
        let signed = self.cas.iter().find_map(|pem_of| {
            let ca = Ca::read(pem_of).ok()?;
            let policy = Lifetimes::default().policy;
            ca.judge(&pem, &leaf, &policy, self.now).ok()?;
            Some(ca.info().fingerprint.to_string())
        });
        let trusted = describe_all(&self.trusted).unwrap_or_default();
        signed.is_some_and(|signer| trusted.iter().any(|ca| ca.fingerprint.to_string() == signer))
    }

    fn trusts(&self) -> usize {
        describe_all(&self.trusted).map_or(0, |all| all.len())
    }
}

#[test]
fn made_once_and_then_left_alone() {
    let mut world = World::new();
    world.settle();
    assert_eq!(world.writes, 2, "the Secret, and whom to trust");
    assert!(world.believed());
    let judged = world.judge();
    assert!(judged.change.is_none());
    let until = judged.good_until.unwrap();
    assert!(until > world.now + 200 * DAY && until < world.now + 300 * DAY);
    world.now += 200 * DAY;
    assert!(!world.step());
}

#[test]
fn a_certificate_is_renewed_when_its_time_has_come_and_nothing_else_changes_for_it() {
    let mut world = World::new();
    world.settle();
    let (before, trusted) = (world.value(LEAF_CERT), world.trusted.clone());
    world.now = world.judge().good_until.unwrap() + Duration::from_secs(1);
    world.settle();
    assert_ne!(world.value(LEAF_CERT), before);
    assert_eq!(world.trusted, trusted);
    assert!(world.believed());
}

#[test]
fn another_ca_comes_in_without_a_moment_of_disbelief() {
    let mut world = World::new();
    world.settle();
    let before = world.value(CLIENTS.cert);
    let ends = describe_all(&before).unwrap()[0].not_after;
    world.now = ends - 730 * DAY + Duration::from_secs(1);
    // The certificate is renewed first: it is long over.
    assert!(world.step());
    let mut most = 0;
    let mut days = 0;
    while world.value(CLIENTS.cert) == before || world.trusts() != 1 {
        if world.step() {
            assert!(
                world.believed(),
                "in stage {:?}",
                Cas::read_without_peers(world.secret.as_ref().unwrap())
                    .unwrap()
                    .stage
            );
        } else {
            world.now = world.judge().good_until.unwrap();
            days += 1;
            assert!(days < 5, "it takes for ever");
        }
        most = most.max(world.trusts());
    }
    assert_eq!(most, 2, "both were trusted on the way");
    assert!(!world.step() && world.believed());
}

#[test]
fn nothing_moves_on_before_the_configurations_have_followed() {
    let mut world = World::new();
    world.settle();
    let annotations = world.secret.as_mut().unwrap().metadata.annotations.as_mut();
    annotations
        .unwrap()
        .insert(ROTATE_ANNOTATION.to_owned(), "now".to_owned());
    assert!(world.step(), "the next is introduced");
    let judged = world.judge();
    assert!(
        judged.change.is_none(),
        "and the configurations do not know it yet"
    );
    assert_ne!(judged.bundle.unwrap(), world.trusted);
    world.settle();
    assert!(world.believed());
    assert_eq!(world.trusts(), 1, "asked for at once, it is done at once");
    let secret = world.secret.unwrap();
    assert_eq!(secret.metadata.annotations.unwrap().get(ROTATE_ANNOTATION), None);
}

#[test]
fn whatever_is_broken_is_recreated() {
    for broken in [LEAF_CERT, LEAF_KEY, CLIENTS.cert, CLIENTS.key] {
        for by in [None, Some(ByteString(b"nonsense".to_vec()))] {
            let mut world = World::new();
            world.settle();
            let data = world.secret.as_mut().unwrap().data.as_mut().unwrap();
            match by {
                None => data.remove(broken),
                Some(by) => data.insert(broken.to_owned(), by),
            };
            world.settle();
            assert!(world.believed(), "{broken}");
        }
    }
    let mut world = World::new();
    world.settle();
    world.secret = None;
    world.settle();
    assert!(world.believed() && world.trusts() == 1);
    world.trusted = b"wiped".to_vec();
    world.settle();
    assert!(world.believed());
}
