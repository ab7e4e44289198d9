//! A client to one member, and the way every call goes.
//!
//! In: a URL, TLS material, timeouts. Out: [`Endpoint`], cheap to clone, which connects when first used and
//! reconnects by itself. Every call is bounded in time. A request is sent once; only when etcd refused it
//! for its token, before executing it, is it sent a second time with a new one.
//!
//! Must never: send a request twice that may have been executed, or fall back from TLS to plain text.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::auth::{Credentials, Token};
use crate::error::{Error, Operation};
use crate::tls::Tls;

/// etcd closes connections that ping more often than every 5 s, or ping without a request under way.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(3);
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;
const QUEUED_REQUESTS: usize = 32;

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, including its TLS handshake.
    pub connect: Duration,
    /// For one call, including connecting and authenticating where needed.
    pub request: Duration,
    /// For the next piece of a stream.
    pub stream_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(1),
            request: Duration::from_secs(2),
            stream_idle: Duration::from_secs(10),
        }
    }
}

/// A URL and TLS material that no connection can be made from.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEndpoint {
    /// Not of the form `http://host:port` or `https://host:port`.
    #[error("endpoint URL {url:?} is not of the form http(s)://host:port")]
    Url {
        /// The URL as given.
        url: String,
    },
    /// An `https` URL, and no TLS material to verify it with.
    #[error("endpoint {url} needs TLS material")]
    TlsMissing { url: String },
    /// TLS material, and a URL that would send everything in plain text.
    #[error("endpoint {url} is plain http although TLS is configured")]
    TlsUnused { url: String },
    /// TLS material that does not fit together.
    #[error("set up TLS for {url}")]
    Tls {
        url: String,
        #[source]
        source: tonic::transport::Error,
    },
}

/// A client to one member.
#[derive(Clone)]
pub struct Endpoint {
    shared: Arc<Shared>,
    timeouts: Timeouts,
}

struct Shared {
    url: Arc<str>,
    transport: tonic::transport::Endpoint,
    channel: Mutex<Option<Channel>>,
    credentials: Option<Credentials>,
    token: Mutex<Option<Token>>,
}

impl Endpoint {
    /// A client to the member at `url`, which connects when first used.
    pub fn connect_lazy(
        url: &str,
        tls: Option<&Tls>,
        timeouts: Timeouts,
    ) -> Result<Endpoint, InvalidEndpoint> {
        let given = || url.to_owned();
        let uri: Uri = url.parse().map_err(|_| InvalidEndpoint::Url { url: given() })?;
        let host = match (
            uri.scheme_str(),
            uri.authority(),
            uri.path_and_query().map(|path| path.as_str()),
        ) {
            (Some("http" | "https"), Some(authority), None | Some("/"))
                if authority.port().is_some() && !authority.as_str().contains('@') =>
            {
                authority.host().to_owned()
            }
            _ => return Err(InvalidEndpoint::Url { url: given() }),
        };
        let secure = uri.scheme_str() == Some("https");
        let mut transport = tonic::transport::Endpoint::from(uri)
            .connect_timeout(timeouts.connect)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(false)
            .tcp_keepalive(Some(PING_EVERY))
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .buffer_size(QUEUED_REQUESTS);
        transport = match (secure, tls) {
            (false, None) => transport,
            (false, Some(_)) => return Err(InvalidEndpoint::TlsUnused { url: given() }),
            (true, None) => return Err(InvalidEndpoint::TlsMissing { url: given() }),
            (true, Some(tls)) => transport
                .tls_config(tls.config(&host))
                .map_err(|source| InvalidEndpoint::Tls { url: given(), source })?,
        };
        let shared = Shared {
            url: Arc::from(url),
            transport,
            channel: Mutex::new(None),
            credentials: None,
            token: Mutex::new(None),
        };
        Ok(Endpoint {
            shared: Arc::new(shared),
            timeouts,
        })
    }

    /// The same member, asked as this user. Connects anew.
    pub fn with_credentials(&self, credentials: Credentials) -> Endpoint {
        let shared = Shared {
            url: Arc::clone(&self.shared.url),
            transport: self.shared.transport.clone(),
            channel: Mutex::new(None),
            credentials: Some(credentials),
            token: Mutex::new(None),
        };
        Endpoint {
            shared: Arc::new(shared),
            timeouts: self.timeouts,
        }
    }

    /// The same client over the same connection, with each call bounded by `request`.
    pub fn within(&self, request: Duration) -> Endpoint {
        Endpoint {
            shared: Arc::clone(&self.shared),
            timeouts: Timeouts {
                request,
                ..self.timeouts
            },
        }
    }

    pub fn url(&self) -> &str {
        &self.shared.url
    }

    pub(crate) fn label(&self) -> &Arc<str> {
        &self.shared.url
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        self.shared.credentials.as_ref()
    }

    pub(crate) fn token(&self) -> MutexGuard<'_, Option<Token>> {
        lock(&self.shared.token)
    }

    /// The connection, made lazily: building it needs a running executor, naming an endpoint does not.
    pub(crate) fn channel(&self) -> Channel {
        lock(&self.shared.channel)
            .get_or_insert_with(|| self.shared.transport.connect_lazy())
            .clone()
    }

    /// Lets go of the connection; the next call connects anew.
    pub(crate) fn disconnect(&self) {
        lock(&self.shared.channel).take();
    }

    /// Sends one request, authenticated as needed, and waits no longer than the request timeout.
    pub(crate) async fn call<Q, R, F, Fut>(
        &self,
        operation: Operation,
        request: Q,
        send: F,
    ) -> Result<R, Error>
    where
        Q: Clone,
        F: Fn(Channel, Request<Q>) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let bound = self.timeouts.request;
        match tokio::time::timeout(bound, self.attempt(operation, request, send)).await {
            Ok(result) => result,
            Err(_) => {
                // The peer may be gone without a word, and TCP would take minutes to notice: pings run only
                // while a request does, and the request has just been given up. The next call connects anew.
                self.disconnect();
                Err(Error::no_answer(operation, &self.shared.url, bound))
            }
        }
    }

    async fn attempt<Q, R, F, Fut>(&self, operation: Operation, request: Q, send: F) -> Result<R, Error>
    where
        Q: Clone,
        F: Fn(Channel, Request<Q>) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let token = self.token_for(operation).await?;
        let first = match self
            .send_once(operation, request.clone(), token.as_ref(), &send)
            .await
        {
            Err(error) if error.refusal().wants_new_token() && self.credentials().is_some() => error,
            result => return result,
        };
        // etcd refused the request for its token and did not execute it, so it may be sent once more.
        match self.renew_token(token.as_ref()).await? {
            None => Err(first),
            Some(token) => self.send_once(operation, request, Some(&token), &send).await,
        }
    }

    async fn send_once<Q, R, F, Fut>(
        &self,
        operation: Operation,
        request: Q,
        token: Option<&Token>,
        send: &F,
    ) -> Result<R, Error>
    where
        F: Fn(Channel, Request<Q>) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let mut request = Request::new(request);
        if let Some(token) = token {
            token.attach(&mut request);
        }
        match send(self.channel(), request).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(Error::answered(operation, &self.shared.url, status)),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.shared.url)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, tls: Option<&Tls>) -> InvalidEndpoint {
        Endpoint::connect_lazy(url, tls, Timeouts::default()).unwrap_err()
    }

    fn tls() -> Tls {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Tls::from_pem(made.cert.pem().into_bytes(), None).unwrap()
    }

    #[test]
    fn urls_are_scheme_host_and_port_and_nothing_else() {
        for url in [
            "",
            "localhost:2379",
            "unix:///run/etcd",
            "http://localhost",
            "http://localhost:2379/v3",
            "http://root:secret@localhost:2379",
            "ftp://localhost:2379",
        ] {
            assert!(matches!(refused(url, None), InvalidEndpoint::Url { .. }), "{url}");
        }
        for url in [
            "http://localhost:2379",
            "http://127.0.0.1:2379/",
            "http://[::1]:2379",
        ] {
            let endpoint = Endpoint::connect_lazy(url, None, Timeouts::default()).unwrap();
            assert_eq!(endpoint.url(), url);
        }
    }

    #[test]
    fn tls_is_neither_missing_nor_ignored() {
        assert!(matches!(
            refused("https://localhost:2379", None),
            InvalidEndpoint::TlsMissing { .. }
        ));
        assert!(matches!(
            refused("http://localhost:2379", Some(&tls())),
            InvalidEndpoint::TlsUnused { .. }
        ));
        for url in [
            "https://localhost:2379",
            "https://127.0.0.1:2379",
            "https://[::1]:2379",
        ] {
            Endpoint::connect_lazy(url, Some(&tls()), Timeouts::default()).unwrap();
        }
    }
}
