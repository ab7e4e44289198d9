//! How the agent is, over plain HTTP: `/metrics` for Prometheus, `/status` as JSON, `/healthz`.
//!
//! Never: more than a handful of connections, or one that stays open without a word.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::status::Board;
use crate::Error;

const CONNECTIONS: usize = 16;
const CONNECTION_TIME: Duration = Duration::from_secs(30);

/// Takes an address to serve at.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|why| {
        Error::refused(
            format!("metrics cannot be served at {address}: {why}"),
            "choose another address, or stop what listens there",
        )
    })
}

pub async fn serve(listener: TcpListener, board: Board) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Too many open files, or a connection that was gone at once.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let board = board.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| std::future::ready(answer(&board, &request)));
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
            drop(permit);
        });
    }
}

fn answer<B>(board: &Board, request: &Request<B>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (code, kind, text) = page(board, request.method(), request.uri().path());
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let kind = hyper::header::HeaderValue::from_static(kind);
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    Ok(response)
}

fn page(board: &Board, method: &Method, path: &str) -> (StatusCode, &'static str, String) {
    const PLAIN: &str = "text/plain; charset=utf-8";
    const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
    if *method != Method::GET && *method != Method::HEAD {
        return (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n".to_owned());
    }
    match path {
        "/metrics" => (StatusCode::OK, METRICS, board.metrics(Timestamp::now())),
        "/status" => {
            let text = serde_json::to_string_pretty(&board.status()).unwrap_or_default();
            (StatusCode::OK, "application/json", text)
        }
        "/healthz" => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
        _ => (
            StatusCode::NOT_FOUND,
            PLAIN,
            "try /metrics, /status or /healthz\n".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn pages_are_served() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let taken = bind(address).await.unwrap_err().to_string();
        assert!(taken.contains(&address.to_string()), "{taken}");
        let server = tokio::spawn(serve(listener, Board::default()));
        for (path, code, word) in [
            ("/metrics", "200", "quorate_backup_writing 0"),
            ("/status", "200", "\"state\": \"starting\""),
            ("/healthz", "200", "ok"),
            ("/", "404", "/metrics"),
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {code}")), "{text}");
            assert!(text.contains(word), "{text}");
        }
        server.abort();
    }
}
