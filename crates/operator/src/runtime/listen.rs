//! A port, and not more than so many connections to it at a time, none of them for long.
//!
//! In: a listener, limits, and what to do with a connection. Out: nothing; it listens for ever.
//! Never: an error of one connection that ends the others; a connection that stays open without a word; one that is not
//! being answered, in the way of a new one: the oldest of those is closed for it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use tokio::task::AbortHandle;

/// What is read of a connection before somebody takes it.
const READ_MAX: usize = 64 << 10;

/// What a port bears.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time. For a further one the oldest is closed that is not being answered; if all are, it
    /// waits.
    pub connections: usize,
    /// How long one may be open without a request.
    pub idle: Duration,
    /// How long one may take, all in all.
    pub time: Duration,
}

/// What is known of a connection that was accepted.
#[derive(Clone, Debug, Default)]
pub struct Accepted(Arc<Progress>);

#[derive(Debug, Default)]
struct Progress {
    asked: AtomicBool,
    answering: AtomicBool,
}

impl Accepted {
    /// Its request has arrived as a whole: until it is answered, the connection is not closed for another.
    pub fn request_arrived(&self) {
        self.0.answering.store(true, Ordering::Relaxed);
    }

    fn is_answering(&self) -> bool {
        self.0.answering.load(Ordering::Relaxed)
    }

    /// Ends if there was no request within `idle`.
    async fn stays_idle(&self, idle: Duration) {
        tokio::time::sleep(idle).await;
        if self.0.asked.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }
}

/// Serves every connection with `serve`, for ever.
pub async fn accept<F, S>(listener: TcpListener, limits: Limits, serve: F)
where
    F: Fn(TcpStream, Accepted) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut open: VecDeque<(Accepted, AbortHandle)> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, say: that passes.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        open.retain(|(_, task)| !task.is_finished());
        if room.available_permits() == 0 {
            let oldest = open.iter().position(|(accepted, _)| !accepted.is_answering());
            if let Some((_, task)) = oldest.and_then(|at| open.remove(at)) {
                task.abort();
            }
        }
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        let accepted = Accepted::default();
        let served = tokio::time::timeout(limits.time, serve(stream, accepted.clone()));
        let watched = accepted.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                _ = served => {}
                () = watched.stays_idle(limits.idle) => {}
            }
            drop(permit);
        });
        open.push_back((accepted, task.abort_handle()));
    }
}

/// Answers the one request of a connection. The next one takes another: none is lost to a connection that just ended.
pub async fn answer<C, F, A>(connection: C, accepted: Accepted, answer: F)
where
    C: AsyncRead + AsyncWrite + Unpin + Send,
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Response<Full<Bytes>>>,
{
    let progress = &accepted.0;
    let service = service_fn(|request| {
        progress.asked.store(true, Ordering::Relaxed);
        let answered = answer(request);
        async move {
            let answer = answered.await;
            // What is left is to write it. Who does not read it must not keep others out.
            progress.answering.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(answer)
        }
    });
    // A client knows by itself if it got no answer.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(READ_MAX)
        .serve_connection(TokioIo::new(connection), service)
        .await;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    pub(crate) const HOUR: Duration = Duration::from_secs(3600);
    /// With these nothing ends by itself: what is in the way is closed, or a test never ends.
    pub(crate) const PATIENT: Limits = Limits {
        connections: 8,
        idle: HOUR,
        time: HOUR,
    };

    async fn served(limits: Limits) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, limits, |stream, accepted| {
            let page =
                async |_: Request<Incoming>| Response::new(Full::new(Bytes::from(vec![b'x'; 8 << 20])));
            answer(stream, accepted, page)
        }));
        address
    }

    pub(crate) async fn idle(address: std::net::SocketAddr, count: usize) -> Vec<TcpStream> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(TcpStream::connect(address).await.unwrap());
        }
        all
    }

    /// The first bytes of an answer.
    pub(crate) async fn get(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: o\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.unwrap();
        String::from_utf8(begin.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn idle_connections_do_not_keep_a_request_from_being_answered() {
        let address = served(PATIENT).await;
        let held = idle(address, 64).await;
        assert_eq!(get(address, "/").await, "HTTP/1.1 200");
        drop(held);
    }

    #[tokio::test]
    async fn nor_do_answers_that_nobody_reads() {
        let address = served(PATIENT).await;
        let mut held = idle(address, 16).await;
        for stream in &mut held {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: o\r\n\r\n").await;
        }
        assert_eq!(get(address, "/").await, "HTTP/1.1 200");
        drop(held);
    }

    #[tokio::test]
    async fn a_connection_without_a_request_is_closed() {
        let limits = Limits {
            idle: Duration::from_millis(10),
            ..PATIENT
        };
        let address = served(limits).await;
        for mut stream in idle(address, 3).await {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost").await;
            let mut rest = Vec::new();
            // How it ends is not looked at, only that it does.
            let _ = stream.read_to_end(&mut rest).await;
            assert!(rest.is_empty());
        }
    }
}
