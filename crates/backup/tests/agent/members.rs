//! A cluster of three: members die and come back, leadership moves, and the agent follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorate_backup::agent::{self, AskHash, AtLeast, Cluster, Options, Reach, Schedule, TakeFull, take_full};
use quorate_client::Endpoint;
use quorate_testkit::{ClusterSlot, Server, Start, await_that_async, newest};

use crate::world::{Agent, PATIENCE, PATIENT, archived_rows, check_samples, rows_of, sequence, store};

const MEMBERS: usize = 3;

async fn serve(starts: Vec<Start>) -> Vec<Server> {
    let serving = tokio::task::spawn_blocking(move || {
        let mut servers: Vec<Server> = starts.iter().map(Start::spawn).collect();
        for server in &mut servers {
            server.await_serving();
        }
        servers
    });
    serving.await.unwrap()
}

/// Writes through whoever serves, until it is told to stop.
async fn keep_writing(endpoints: Vec<Endpoint>, stop: Arc<AtomicBool>) {
    let mut number = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let endpoint = &endpoints[number as usize % MEMBERS];
        let key = format!("key/{}", number % 50);
        let _ = endpoint.put(key.as_bytes(), number.to_string().as_bytes()).await;
        number += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let _slot = ClusterSlot::acquire();
    let starts = Start::cluster(&newest("3.6"), dir.path(), MEMBERS);
    let urls: Vec<String> = starts
        .iter()
        .map(|start| start.addresses.as_ref().unwrap().client.clone())
        .collect();
    let mut servers: Vec<Option<Server>> = serve(starts.clone()).await.into_iter().map(Some).collect();
    let endpoints: Vec<Endpoint> = urls
        .iter()
        .map(|url| Endpoint::connect_lazy(url, None, PATIENT).unwrap())
        .collect();
    let first = endpoints[0].put(b"first", b"").await.unwrap();

    // It is told of one member only, and finds the others.
    let reach = Reach {
        urls: urls[..1].to_vec(),
        ..Reach::default()
    };
    let store = store(&dir.path().join("archive")).await;
    let mut options = Options::new(store.clone(), Cluster::at(reach));
    options.pace.period = Duration::from_secs(1);
    options.schedule = Schedule::never();
    let agent = Agent::start(options);
    agent.until("a full copy", |status| status.full.is_some()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(keep_writing(endpoints.clone(), stop.clone()));

    for _ in 0..2 {
        for (n, start) in starts.iter().enumerate() {
            let killed = servers[n].take().unwrap();
            tokio::task::spawn_blocking(|| killed.kill()).await.unwrap();
            // The others go on, and so does the archive.
            let others = &endpoints[(n + 1) % MEMBERS];
            let revision = eventually(others).await;
            agent.until_archived(revision).await;
            servers[n] = serve(vec![start.clone()]).await.pop();
        }
    }
    // In the end the only address that it was given leads nowhere.
    let killed = servers[0].take().unwrap();
    tokio::task::spawn_blocking(|| killed.kill()).await.unwrap();
    let revision = eventually(&endpoints[1]).await;
    agent.until_archived(revision).await;
    stop.store(true, Ordering::Relaxed);
    writing.await.unwrap();
    let revision = eventually(&endpoints[1]).await;
    let status = agent.until_archived(revision).await;
    assert_eq!((status.missing, status.fulls), (0, 1), "{status:#?}");
    agent.stop().await.unwrap();

    let archive = quorate_backup::Archive::open(&store, None).await.unwrap();
    let history = archive.history(1).await.unwrap();
    assert_eq!(sequence(&history), (first + 1, revision));
    check_samples(&history);
    let mut expected = rows_of(&endpoints[2], &dir.path().join("compared.db")).await;
    expected.retain(|(main, _), _| *main > first);
    assert_eq!(archived_rows(&archive, &history).await, expected);
    // A follower was asked for its hash.
    let (_, full) = history.fulls().pop().unwrap();
    let told = endpoints[1]
        .within(PATIENCE)
        .hash_kv(full.revision)
        .await
        .unwrap();
    assert_eq!(full.hash.unwrap().hash, told.hash);
    assert!(agent::default_writer().ends_with("/agent"));

    // No member has come to what is asked for.
    let take = async |at_least: AtLeast| {
        let cluster = Cluster::at(Reach {
            urls: urls[2..].to_vec(),
            ..Reach::default()
        });
        let take = TakeFull {
            archive: &archive,
            timeline: 1,
            cluster: &cluster,
            hash: AskHash::Nobody,
            attempt: 0,
            at_least,
        };
        take_full(take, |_, _| {}).await
    };
    let later = AtLeast {
        revision: revision + 1,
        auth_revision: 0,
    };
    let refused = take(later).await.unwrap_err().to_string();
    assert!(refused.contains("has come to revision"), "{refused}");
    let later = AtLeast {
        revision,
        auth_revision: 1000,
    };
    let refused = take(later).await.unwrap_err().to_string();
    assert!(refused.contains("users and roles"), "{refused}");
    // The last one left answers, but nobody knows how old its answers are.
    let killed = servers[1].take().unwrap();
    tokio::task::spawn_blocking(|| killed.kill()).await.unwrap();
    await_that_async(
        "the last member knows no leader",
        PATIENCE,
        async || match endpoints[2].status().await {
            Ok(status) if status.leader.is_none() => Ok(()),
            Ok(status) => Err(format!("{status:?}")),
            Err(error) => Err(error.chain()),
        },
    )
    .await;
    let refused = take(AtLeast::default()).await.unwrap_err().to_string();
    assert!(refused.contains("has a leader"), "{refused}");
}

/// The revision, as soon as a write succeeds.
async fn eventually(endpoint: &Endpoint) -> i64 {
    await_that_async("a write succeeds", PATIENCE, async || {
        let put = endpoint.put(b"seen", b"").await;
        put.map_err(|error| error.chain())
    })
    .await
}
