//! A proxy that breaks connections when told to.
//!
//! In: the address of a server, and a [`Fault`] at any time. Out: a loopback address that behaves like the server, but for
//! the fault. A change of the fault cuts every connection that is open, and returns when they are closed: it holds for every
//! byte that a client sends after it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use super::fault::Fault;

/// A request's head is shorter than this.
const HEAD: usize = 64 * 1024;
const PIECE: usize = 64 * 1024;
/// How long a connection that says nothing is kept.
const IDLE: Duration = Duration::from_secs(300);
/// How long the connections of the fault before may take to close.
const CLOSED_WITHIN: Duration = Duration::from_secs(60);

/// A running proxy. Gone when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    now: watch::Sender<Now>,
    /// Disconnected once every connection of the present fault is closed and another fault is set.
    closed: Mutex<Receiver<()>>,
    struck: AtomicU64,
}

/// The fault of this moment, how often it is still to strike, and which one it is.
#[derive(Debug, Clone)]
struct Now {
    fault: Option<Fault>,
    left: Option<u64>,
    number: u64,
    /// Every open connection has a copy.
    _open: Sender<()>,
}

impl Proxy {
    /// Starts one in front of a server. Nothing is broken yet.
    pub fn start(server: SocketAddr) -> Proxy {
        let (open, closed) = channel();
        let nothing = Now {
            fault: None,
            left: None,
            number: 0,
            _open: open,
        };
        let shared = Arc::new(Shared {
            now: watch::Sender::new(nothing),
            closed: Mutex::new(closed),
            struck: AtomicU64::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = channel();
        let for_thread = shared.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                tell.send(listener.local_addr().expect("an address"))
                    .expect("somebody listens");
                tokio::select! {
                    () = serve(listener, server, for_thread) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told
            .recv_timeout(Duration::from_secs(10))
            .expect("the proxy starts");
        Proxy {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on this is broken.
    pub fn set(&self, fault: Fault) {
        self.change(Some(fault), None);
    }

    /// This is broken so many times, and then nothing is.
    pub fn set_times(&self, fault: Fault, times: u64) {
        self.change(Some(fault), Some(times));
    }

    /// From now on nothing is broken.
    pub fn heal(&self) {
        self.change(None, None);
    }

    /// How often a fault has struck since the proxy started.
    pub fn struck(&self) -> u64 {
        self.shared.struck.load(Ordering::SeqCst)
    }

    fn change(&self, fault: Option<Fault>, left: Option<u64>) {
        let (open, next) = channel();
        let mut closed = self.shared.closed.lock().expect("no other change failed");
        self.shared.now.send_modify(|now| {
            *now = Now {
                fault,
                left,
                number: now.number + 1,
                _open: open,
            }
        });
        let ended = closed.recv_timeout(CLOSED_WITHIN);
        assert_eq!(
            ended,
            Err(RecvTimeoutError::Disconnected),
            "a connection stays open"
        );
        *closed = next;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Takes one strike of a fault, if it has any left; the last one ends it, without cutting what else is open.
    fn strike(&self, number: u64) -> bool {
        let mut struck = false;
        self.now.send_if_modified(|now| {
            if now.number != number || now.fault.is_none() || now.left == Some(0) {
                return false;
            }
            struck = true;
            if let Some(left) = &mut now.left {
                *left -= 1;
                if *left == 0 {
                    now.fault = None;
                }
            }
            false
        });
        if struck {
            self.struck.fetch_add(1, Ordering::SeqCst);
        }
        struck
    }
}

async fn serve(listener: TcpListener, server: SocketAddr, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let mut changes = shared.now.subscribe();
            let now = changes.borrow_and_update().clone();
            tokio::select! {
                // What broke is what was to break.
                _ = connection(client, server, &now, &shared) => {}
                _ = changes.changed() => {}
            }
        });
    }
}

async fn connection(client: TcpStream, server: SocketAddr, now: &Now, shared: &Shared) -> io::Result<()> {
    let number = now.number;
    match &now.fault {
        Some(Fault::Refuse) if shared.strike(number) => return reset(client),
        Some(Fault::Hang) if shared.strike(number) => return std::future::pending().await,
        Some(Fault::NoConditions) => {
            return answer(
                client,
                server,
                501,
                "NotImplemented",
                Some("if-none-match:"),
                number,
                shared,
            )
            .await;
        }
        Some(Fault::Answer { status, code }) => {
            return answer(client, server, *status, code, None, number, shared).await;
        }
        _ => {}
    }
    tunnel(client, server, now, shared).await
}

/// Closes a connection so that the other side sees it break.
fn reset(stream: TcpStream) -> io::Result<()> {
    stream.set_zero_linger()
}

async fn tunnel(client: TcpStream, server: SocketAddr, now: &Now, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    let (mut cut_up, mut cut_down, mut latency) = (None, None, Duration::ZERO);
    match &now.fault {
        Some(Fault::CutRequest { after }) => cut_up = Some(*after),
        Some(Fault::CutAnswer { after }) => cut_down = Some(*after),
        Some(Fault::Latency(late)) => latency = *late,
        _ => {}
    }
    let up = pipe(client_in, server_out, cut_up, Duration::ZERO, now.number, shared);
    let down = pipe(server_in, client_out, cut_down, latency, now.number, shared);
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}

/// Passes bytes on, until the end, the cut, or a long silence.
async fn pipe(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    cut: Option<u64>,
    latency: Duration,
    number: u64,
    shared: &Shared,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut passed = 0;
    loop {
        let size = tokio::time::timeout(IDLE, from.read(&mut piece)).await??;
        if size == 0 {
            return Ok(());
        }
        if let Some(cut) = cut.filter(|cut| passed + size as u64 > *cut)
            && shared.strike(number)
        {
            let rest = (cut - passed) as usize;
            to.write_all(&piece[..rest]).await?;
            // Neither side may take it for a regular end.
            from.as_ref().set_zero_linger()?;
            to.as_ref().set_zero_linger()?;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        to.write_all(&piece[..size]).await?;
        passed += size as u64;
    }
}

/// Answers requests, or only those with a certain header. A request is read whole first, so that its answer is not lost in a
/// reset. When the fault has struck often enough the request goes to the server after all.
async fn answer(
    mut client: TcpStream,
    server: SocketAddr,
    status: u16,
    code: &str,
    only_with: Option<&str>,
    number: u64,
    shared: &Shared,
) -> io::Result<()> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if head.len() > HEAD || client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    let text = String::from_utf8_lossy(&head[..end]).to_lowercase();
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned()))
    };
    let concerned = only_with.is_none_or(|name| field(name).is_some());
    if !concerned || !shared.strike(number) {
        let mut server = TcpStream::connect(server).await?;
        server.write_all(&head).await?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    }
    let length: usize = field("content-length:")
        .and_then(|value| value.parse().ok())
        .unwrap_or(0);
    if field("expect:").is_some() {
        client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let mut left = length.saturating_sub(head.len() - end);
    let mut piece = vec![0; PIECE];
    while left > 0 {
        match client.read(&mut piece).await? {
            0 => return Ok(()),
            size => left = left.saturating_sub(size),
        }
    }
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as the test wants it</Message></Error>"
    );
    // An answer to HEAD has no body.
    let body = if text.starts_with("head ") {
        ""
    } else {
        body.as_str()
    };
    let answer = format!(
        "HTTP/1.1 {status} Fault\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A client keeps connections for later requests: what it sends over one of them is after the change, too.
    #[test]
    fn nothing_sent_after_a_fault_is_set_reaches_the_server() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap());
        for round in 0..200 {
            let mut client = TcpStream::connect(proxy.address()).unwrap();
            client.write_all(b"before").unwrap();
            let (mut arrived, _) = server.accept().unwrap();
            arrived.read_exact(&mut [0; 6]).unwrap();
            proxy.set(Fault::Refuse);
            let _ = client.write_all(b"after");
            let mut rest = Vec::new();
            let _ = arrived.read_to_end(&mut rest);
            assert_eq!(rest, b"", "round {round}");
            proxy.heal();
        }
    }
}
