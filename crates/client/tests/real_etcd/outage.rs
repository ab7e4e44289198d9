//! Members that are absent, silent, or vanish: what the client may and may not conclude.

use std::time::Duration;

use quorate_client::{Endpoint, Error, Outcome, Refusal, Timeouts};
use quorate_testkit::{free_port, versions};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::member::{PATIENCE, Plan, eventually, eventually_or};

#[tokio::test]
async fn nobody_there_means_not_done() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let endpoint = Endpoint::connect_lazy(&url, None, Timeouts::default()).unwrap();
    for _ in 0..2 {
        let error = endpoint.put(b"a", b"1").await.unwrap_err();
        assert_eq!(
            (error.refusal(), error.outcome()),
            (Refusal::Unreachable, Outcome::NotDone)
        );
        assert_eq!(error.endpoint(), url);
        assert!(error.chain().contains("Connection refused"), "{}", error.chain());
    }
}

/// A stopped process accepts and never answers: calls end in time, with an unknown outcome, and the client
/// works again as soon as the member does.
#[tokio::test]
async fn silence_means_unknown() {
    let version = versions().pop().unwrap();
    let member = Plan::new(&version).single().await;
    // By itself this endpoint waits longer than the test does: only the bound of the call can end it.
    let timeouts = Timeouts {
        request: PATIENCE * 10,
        ..Timeouts::default()
    };
    let endpoint = Endpoint::connect_lazy(&member.url, None, timeouts).unwrap();
    endpoint.put(b"a", b"1").await.unwrap();

    member.server().pause();
    let bounded = endpoint.within(Duration::from_secs(2));
    for _ in 0..3 {
        let ended = tokio::time::timeout(PATIENCE, bounded.put(b"a", b"2")).await;
        let error = ended.expect("the call ends at its own bound").unwrap_err();
        assert_eq!(
            (error.refusal(), error.outcome()),
            (Refusal::DeadlineExceeded, Outcome::Unknown)
        );
    }
    member.server().resume();
    let again = endpoint.within(Duration::from_secs(5));
    eventually(|| again.put(b"a", b"3")).await.unwrap();
}

/// A peer that takes the whole request and hangs up.
#[tokio::test]
async fn hanging_up_after_the_request_means_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let value = b"the value, which HTTP/2 sends as it is";
    let peer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        while !received.windows(value.len()).any(|window| window == value) {
            assert_ne!(
                stream.read_buf(&mut received).await.unwrap(),
                0,
                "the client hung up first"
            );
        }
    });
    let endpoint = Endpoint::connect_lazy(&url, None, Timeouts::default()).unwrap();
    let error = endpoint.put(b"a", value).await.unwrap_err();
    peer.await.unwrap();
    assert_eq!(error.refusal(), Refusal::Disconnected, "{}", error.chain());
    assert_eq!(error.outcome(), Outcome::Unknown);
}

/// A member that dies and comes back is found again by the same endpoint.
#[tokio::test]
async fn restarted_member_is_found_again() {
    let version = versions().pop().unwrap();
    let mut member = Plan::new(&version).single().await;
    let endpoint = member.endpoint();
    endpoint.put(b"a", b"1").await.unwrap();
    member.kill();
    let gone = |error: &Error| error.refusal() == Refusal::Unreachable;
    let error = eventually_or(gone, || endpoint.put(b"a", b"2"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.refusal(), error.outcome()),
        (Refusal::Unreachable, Outcome::NotDone)
    );
    member.start();
    member.await_quorum().await;
    endpoint.put(b"a", b"3").await.unwrap();
}
