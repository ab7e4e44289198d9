//! The CA of a running cluster replaced in stages, under a client that writes all the while.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use futures::future::join_all;
use quorate_client::{Endpoint, IdentityFiles, Port, Timeouts, Tls, TlsFiles, prove};
use quorate_core::model::Ordinal;
use quorate_pki::{
    Ca, Cas, Layout, Leaf, LeafUsages, MemberIdentity, PairPem, Policy, Wanted, ensure, request_rotation,
};
use quorate_testkit::{StallWitness, await_that_async};
use tokio::sync::oneshot;

use crate::harness::{PATIENCE, Place, Up, any_etcd, pids, run};

/// How long no write may be acknowledged, beyond what the machine stood still: an election takes one or two seconds.
const GAP: Duration = Duration::from_secs(5);
/// How long one write may take, with its connection. Two that are lost with their leaders, one after the other, are no gap.
const WRITE: Timeouts = Timeouts {
    connect: Duration::from_secs(2),
    request: Duration::from_secs(2),
    stream_idle: Duration::from_secs(2),
};

fn cas(root: &Path) -> Cas {
    Cas::read(&root.join("pki"), SystemTime::now()).unwrap()
}

fn peer_cas(root: &Path) -> Cas {
    Cas::read(&root.join("pki/peers"), SystemTime::now()).unwrap()
}

fn signer(root: &Path) -> Option<String> {
    Some(cas(root).signer()?.info().fingerprint.to_string())
}

fn tls(root: &Path) -> Option<Tls> {
    let file = |name: &str| root.join("pki").join(name);
    let files = TlsFiles {
        ca: file("ca.crt"),
        identity: Some(IdentityFiles {
            cert: file("client.crt"),
            key: file("client.key"),
        }),
    };
    Tls::from_files(&files).ok()
}

/// Writers on a thread of their own, so that nothing the supervisor does in this one delays them.
struct Writers {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Duration>,
}

impl Writers {
    /// One writer for each member, as an application that reads its files for every connection.
    fn start(place: &Place) -> Writers {
        let (urls, root) = (place.status().endpoints, place.root().to_owned());
        assert!(!urls.is_empty());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            run(async { longest = write_until(&urls, &root, stopped).await });
            longest
        });
        Writers { stop, thread }
    }

    /// Ends them. Out: the longest time in which none of them had a write acknowledged.
    fn longest_gap(self) -> Duration {
        drop(self.stop);
        self.thread.join().expect("the writers do not panic")
    }
}

async fn write_until(urls: &[String], root: &Path, stopped: oneshot::Receiver<()>) -> Duration {
    let (longest, last) = (Cell::new(Duration::ZERO), Cell::new(Instant::now()));
    let passed = || longest.set(longest.get().max(last.get().elapsed()));
    let acknowledged = || {
        passed();
        last.set(Instant::now());
    };
    tokio::select! {
        _ = join_all(urls.iter().map(|url| write_to(url, root, &acknowledged))) => {}
        _ = stopped => {}
    }
    passed();
    longest.get()
}

async fn write_to(url: &str, root: &Path, acknowledged: &impl Fn()) {
    loop {
        let endpoint = tls(root).and_then(|tls| Endpoint::connect_lazy(url, Some(&tls), WRITE).ok());
        if let Some(endpoint) = endpoint
            && endpoint.put(b"k", b"v").await.is_ok()
        {
            acknowledged();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Does `work` while clients write to every member. They must hardly notice.
async fn under_writes(what: &str, place: &Place, work: impl Future<Output = ()>) {
    let (witness, writers) = (StallWitness::watch(place.root()), Writers::start(place));
    work.await;
    let gap = writers.longest_gap();
    println!("{what}: longest write gap {gap:.2?}");
    witness.judge(what, gap, GAP);
}

async fn until(what: &str, place: &Place, wanted: impl Fn(&Cas) -> bool) {
    await_that_async(what, PATIENCE, async || {
        let cas = cas(place.root());
        match wanted(&cas) {
            true => Ok(()),
            false => Err(format!("{:?}, {:#?}", cas.trusted(), place.status())),
        }
    })
    .await
}

/// As kill -9 does: whatever stage it was in, the next supervisor goes on.
async fn killed(place: &Place, up: Up) -> Up {
    up.crash().await;
    place.up()
}

/// Everyone trusts and shows the one CA, and was restarted for it.
async fn finished(place: &Place, former: &str, before: &BTreeSet<u32>) {
    let done = |cas: &Cas| cas.trusted().len() == 1 && cas.trusted()[0] != former;
    until("the former CA dropped", place, done).await;
    let between = |_: &Cas| peer_cas(place.root()).trusted().len() == 1;
    until("one CA between members", place, between).await;
    place
        .until("all restarted and at rest", |s| {
            s.ready && pids(s).len() == 3 && pids(s).is_disjoint(before)
        })
        .await;
}

#[test]
fn a_rotation_goes_on_after_a_kill_in_each_stage_and_writes_go_on_all_the_while() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let mut up = Some(place.up());
        let before = pids(&place.until_ready().await);
        let former = signer(place.root()).unwrap();
        let between = peer_cas(place.root()).trusted();
        under_writes("rotated", &place, async {
            place.edit_manifest("\n  host:", "\n  paused: true\n  host:");
            place.until("paused", |s| s.spec.paused).await;
            request_rotation(&place.root().join("pki"), SystemTime::now()).unwrap();
            // Asked for and paused: the next look comes, and nothing is begun.
            place.edit_manifest("paused: true", "paused: true # still");
            let looked = place.status().updated_at;
            place.until("looked again", |s| s.updated_at > looked).await;
            assert_eq!(cas(place.root()).trusted(), [former.as_str()]);
            assert_eq!(pids(&place.status()), before, "nobody was stopped");
            place.edit_manifest("\n  paused: true # still", "");
            until("introduced", &place, |cas| cas.next().is_some()).await;
            assert_eq!(
                signer(place.root()).as_deref(),
                Some(former.as_str()),
                "it signs until all trust the next"
            );
            up = Some(killed(&place, up.take().unwrap()).await);
            until("switched", &place, |cas| cas.retires_former()).await;
            assert_ne!(signer(place.root()).as_deref(), Some(former.as_str()));
            up = Some(killed(&place, up.take().unwrap()).await);
            until("dropped", &place, |cas| cas.trusted().len() == 1).await;
            up = Some(killed(&place, up.take().unwrap()).await);
            finished(&place, &former, &before).await;
        })
        .await;
        for request in ["pki/rotate", "pki/peers/rotate"] {
            assert!(!place.root().join(request).exists(), "{request} is carried out");
        }
        assert_ne!(peer_cas(place.root()).trusted(), between);
        up.take().unwrap().down().await;
    });
}

/// What it signed still serves: nobody is stopped but one by one, and a new CA takes its place.
#[test]
fn a_ca_whose_files_are_lost_is_replaced_in_stages() {
    run(async {
        for lost in [&["ca.key"][..], &["ca.crt", "ca.key"]] {
            let place = Place::new(3, &any_etcd());
            let up = place.up();
            let before = pids(&place.until_ready().await);
            let former = signer(place.root()).unwrap();
            for file in lost {
                std::fs::remove_file(place.root().join("pki").join(file)).unwrap();
            }
            under_writes(&format!("{lost:?} lost"), &place, async {
                // Certificates are looked at when the manifest changes, and once a minute.
                place.edit_manifest("\n  host:", "\n  # Looked at.\n  host:");
                let reported = |s: &quorate_host::Status| s.problems.iter().any(|p| p.contains("ca.key"));
                place.until("reported", reported).await;
                until("introduced", &place, |cas| cas.next().is_some()).await;
                assert!(cas(place.root()).trusted().contains(&former), "{lost:?}");
                // Without this each stage lasts a day, for clients.
                request_rotation(&place.root().join("pki"), SystemTime::now()).unwrap();
                finished(&place, &former, &before).await;
                place.until("reported no longer", |s| !reported(s)).await;
            })
            .await;
            up.down().await;
        }
    });
}

/// Certificates as an earlier quorate left them: one CA signed for all.
fn as_it_was_before(root: &Path) {
    let (policy, now) = (Policy::default(), SystemTime::now());
    let layout = Layout::new(&root.join("pki"));
    let members = ["t-0", "t-1", "t-2"].map(|name| MemberIdentity::local(name, []).unwrap());
    ensure(layout.dir(), &Wanted::new("t", members.to_vec()), &policy, now).unwrap();
    let read = |path: &Path| std::fs::read(path).unwrap();
    let ca = Ca::read(&PairPem {
        cert: read(&layout.ca().cert),
        key: read(&layout.ca().key),
    });
    for MemberIdentity { name, sans } in members {
        let leaf = Leaf {
            common_name: &name,
            cluster_name: "t",
            sans,
            usages: LeafUsages::ServerAndClient,
        };
        let pem = ca
            .as_ref()
            .unwrap()
            .issue(&leaf, policy.leaf_lifetime, now)
            .unwrap();
        std::fs::write(layout.peer(&name).cert, pem.cert).unwrap();
        std::fs::write(layout.peer(&name).key, pem.key).unwrap();
    }
    std::fs::remove_dir_all(layout.peers().dir()).unwrap();
}

/// The members whose port for other members answers to what applications show.
async fn let_applications_in(place: &Place) -> BTreeSet<Ordinal> {
    let file = |name: &str| place.root().join("pki").join(name);
    let files = TlsFiles {
        ca: file("peers/ca.crt"),
        identity: Some(IdentityFiles {
            cert: file("client.crt"),
            key: file("client.key"),
        }),
    };
    let members = place.status().members.into_iter().zip(0..);
    let addresses = members.map(|(member, ordinal)| (Ordinal(ordinal), member.peer_url.into()));
    prove(
        Port::Peer,
        &addresses.collect(),
        &Tls::from_files(&files).unwrap(),
    )
    .await
}

#[test]
fn an_earlier_cluster_gets_a_ca_between_members_and_then_no_client_is_taken_for_one() {
    run(async {
        let place = Place::new(3, &any_etcd());
        as_it_was_before(place.root());
        // Otherwise the rotation could be over before anybody looked.
        let up = place.up_paused_after_start(3);
        let before = pids(
            &place
                .until("paused", |s| s.spec.paused && pids(s).len() == 3)
                .await,
        );
        let all: BTreeSet<Ordinal> = (0..3).map(Ordinal).collect();
        await_that_async("one CA signed for all", PATIENCE, async || {
            let let_in = let_applications_in(&place).await;
            if let_in == all {
                Ok(())
            } else {
                Err(format!("{let_in:?} let them in"))
            }
        })
        .await;
        let former = signer(place.root()).unwrap();
        under_writes("a CA between members", &place, async {
            place.edit_manifest("\n  paused: true", "");
            await_that_async("no member takes a client for another", PATIENCE, async || {
                let status = place.status();
                let restarted = status.ready && pids(&status).is_disjoint(&before);
                match let_applications_in(&place).await {
                    let_in if let_in.is_empty() && restarted => Ok(()),
                    let_in => Err(format!("{let_in:?} do, {status:#?}")),
                }
            })
            .await;
            let one = |_: &Cas| peer_cas(place.root()).trusted().len() == 1;
            until("one CA between members", &place, one).await;
        })
        .await;
        assert_eq!(
            cas(place.root()).trusted(),
            [former.as_str()],
            "clients go on as they were"
        );
        assert_ne!(peer_cas(place.root()).trusted(), [former]);
        up.down().await;
    });
}
