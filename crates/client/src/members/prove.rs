//! Which members accept a connection made with certain TLS material: how a CA rotation learns that a member is where a
//! stage takes it.
//!
//! In: where members are, what to connect with. Out: those that answered. etcd reads what it shows for each connection, so
//! every look connects anew. Never: a proof from anything but an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use http::Uri;
use quorate_core::model::Ordinal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::{Address, Tls};

/// How long one member may take, handshake included.
const LIMIT: Duration = Duration::from_millis(1500);

/// Where a member is asked: each has CAs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// The one for clients.
    Client,
    /// The one for the other members.
    Peer,
}

/// Those of `members` that answer over a new connection made with `tls`.
pub async fn prove(port: Port, members: &BTreeMap<Ordinal, Address>, tls: &Tls) -> BTreeSet<Ordinal> {
    let asked = members.iter().map(|(ordinal, address)| async move {
        let answer = match port {
            Port::Client => status(address, tls).await,
            Port::Peer => timeout(LIMIT, version(address, tls)).await.ok().flatten(),
        };
        answer.map(|()| *ordinal)
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn status(address: &Address, tls: &Tls) -> Option<()> {
    let endpoint = address.endpoint(Some(tls)).ok()?;
    endpoint.within(LIMIT).status().await.ok().map(drop)
}

/// Members answer each other over HTTP alone. With TLS 1.3 a certificate is refused only after the handshake: the answer
/// is what proves.
async fn version(address: &Address, tls: &Tls) -> Option<()> {
    let url: Uri = address.url.parse().ok()?;
    let (host, port) = (url.host()?, url.port_u16()?);
    let name = address.server_name.as_deref().unwrap_or(host);
    let (config, name) = tls.rustls(name)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await.ok()?;
    let mut stream = TlsConnector::from(config).connect(name, stream).await.ok()?;
    let request = "GET /version HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).await.ok()?;
    (&answer == b"HTTP/1.").then_some(())
}
