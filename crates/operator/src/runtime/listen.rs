//! A port, and not more than so many connections to it at a time, none of them for long.
//!
//! In: a listener, limits, and what to do with a connection. Out: nothing; it listens for ever.
//! Never: an error of one connection that ends the others; a connection that stays open without a word.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const HEADER_LIMIT: Duration = Duration::from_secs(5);

/// What a port bears.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time; further ones wait.
    pub connections: usize,
    /// How long one may take, all in all.
    pub time: Duration,
}

/// Serves every connection with `serve`, for ever.
pub async fn accept<F, S>(listener: TcpListener, limits: Limits, serve: F)
where
    F: Fn(TcpStream) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, say: that passes.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let served = tokio::time::timeout(limits.time, serve(stream));
        tokio::spawn(async move {
            let _ = served.await;
            drop(permit);
        });
    }
}

/// Answers the one request of a connection. The next one takes another: none is lost to a connection that just ended.
pub async fn answer<C, F, A>(connection: C, answer: F)
where
    C: AsyncRead + AsyncWrite + Unpin + Send,
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    // Whoever asked knows by itself if it got no answer.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(connection), service)
        .await;
}
