//! One plain HTTP request on a connection of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The whole answer as text, head and body.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    target: &str,
    body: &str,
) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.take(1 << 20).read_to_end(&mut answer)?;
    match answer.starts_with(b"HTTP/") {
        true => Ok(String::from_utf8_lossy(&answer).into_owned()),
        false => Err(std::io::Error::other("no HTTP answer")),
    }
}
