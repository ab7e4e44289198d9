//! Any call of etcd's API, one at a time and without a runtime to be seen.

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use quorate_wire::etcdserverpb::{AuthenticateRequest, AuthenticateResponse};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// No call takes longer on a member that serves.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Where nothing listens a connection is refused at once; a member that is not scheduled takes longer.
const CONNECT: Duration = Duration::from_secs(30);
const LARGEST: usize = 1 << 30;

/// A user and its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub password: String,
}

/// A connection to one member.
#[derive(Debug)]
pub struct Client {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
}

impl Client {
    /// A client for the member at this URL; connects when first used.
    pub fn new(url: &str) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let endpoint = Endpoint::from_shared(url.to_owned()).expect("a URL");
        let endpoint = endpoint.connect_timeout(CONNECT).timeout(TIMEOUT);
        let channel = {
            let _inside = runtime.enter();
            endpoint.connect_lazy()
        };
        Client {
            runtime,
            channel,
            token: None,
        }
    }

    /// From now on calls are this user's.
    pub fn log_in(&mut self, user: &User) {
        let request = AuthenticateRequest {
            name: user.name.clone(),
            password: user.password.clone(),
        };
        let response: AuthenticateResponse = self.call("Auth/Authenticate", request);
        self.token = Some(response.token.parse().expect("a token is plain text"));
    }

    /// One call, such as `KV/Put`, that must succeed.
    pub fn call<Q, A>(&self, method: &str, request: Q) -> A
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.try_call(method, request)
            .unwrap_or_else(|status| panic!("{method}: {status}"))
    }

    /// One call, and how it ended.
    pub fn try_call<Q, A>(&self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = PathAndQuery::try_from(format!("/etcdserverpb.{method}")).expect("a method");
        let mut request = Request::new(request);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        let mut grpc = tonic::client::Grpc::new(self.channel.clone()).max_decoding_message_size(LARGEST);
        self.runtime.block_on(async {
            grpc.ready()
                .await
                .map_err(|error| Status::unavailable(error.to_string()))?;
            let codec = tonic_prost::ProstCodec::default();
            Ok(grpc.unary(request, path, codec).await?.into_inner())
        })
    }
}
