//! Asking as a user: password for token, token on every request, and a new token when the old one is gone.
//!
//! In: [`Credentials`]. Out: requests that carry a token. Where authentication is off, requests go without.
//! Tokens end with their time, with the member's restart, and with every change of users or roles; each
//! call renews at most once. Passwords and tokens must never be printed.

use std::fmt;

use quorate_wire::authpb::{Permission, permission};
use quorate_wire::etcdserverpb::{
    AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleGrantPermissionRequest,
    AuthStatusRequest, AuthUserAddRequest, AuthUserGrantRoleRequest, AuthenticateRequest,
};
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};

use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::refusal::Refusal;
use crate::stub::auth_client::AuthClient;

const TOKEN_KEY: &str = "token";

/// A user and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthStatus {
    pub enabled: bool,
    /// Grows with every change of users, roles, and the switch itself.
    pub revision: u64,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// What a member gave in exchange for a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(MetadataValue<Ascii>);

impl Token {
    pub(crate) fn attach<T>(&self, request: &mut Request<T>) {
        request.metadata_mut().insert(TOKEN_KEY, self.0.clone());
    }
}

impl Endpoint {
    /// Goes on with the token that another member of the cluster gave, if it has none. A learner gives none itself, and
    /// knows those of the others.
    pub(crate) fn borrow_token(&self, other: &Endpoint) {
        let borrowed = other.token().clone();
        let mut held = self.token();
        if held.is_none() {
            *held = borrowed;
        }
    }

    pub(crate) fn holds_token(&self) -> bool {
        self.token().is_some()
    }

    pub(crate) fn forget_token(&self) {
        *self.token() = None;
    }

    /// The token to send with a request: the one held, or a first one.
    ///
    /// Authenticating needs a quorum, and a member's status must be readable without one: before its first
    /// token a status request goes without, which is all that 3.4 and 3.5 ask for.
    pub(crate) async fn token_for(&self, operation: Operation) -> Result<Option<Token>, Error> {
        let held = self.token().clone();
        if held.is_some() || self.credentials().is_none() || operation == Operation::Status {
            return Ok(held);
        }
        self.authenticate().await
    }

    /// A token other than the refused one: the one a concurrent call got meanwhile, or a new one.
    pub(crate) async fn renew_token(&self, refused: Option<&Token>) -> Result<Option<Token>, Error> {
        let held = self.token().clone();
        if held.is_some() && held.as_ref() != refused {
            return Ok(held);
        }
        self.authenticate().await
    }

    /// Fetches a token. `None` where authentication is off.
    async fn authenticate(&self) -> Result<Option<Token>, Error> {
        let Some(Credentials { user, password }) = self.credentials() else {
            return Ok(None);
        };
        let operation = Operation::Authenticate;
        let request = AuthenticateRequest {
            name: user.clone(),
            password: password.clone(),
        };
        let token = match AuthClient::new(self.channel()).authenticate(request).await {
            Ok(response) => Some(response.into_inner().token),
            Err(status) => match Error::answered(operation, self.label(), status) {
                error if error.refusal() == Refusal::AuthNotEnabled => None,
                error => return Err(error.before_sending()),
            },
        };
        let token = match token.map(|token| token.parse()) {
            None => None,
            Some(Ok(value)) => {
                let mut value: MetadataValue<Ascii> = value;
                value.set_sensitive(true);
                Some(Token(value))
            }
            Some(Err(_)) => {
                let what = "the token holds characters that no header may hold";
                return Err(Error::malformed(operation, self.label(), what).before_sending());
            }
        };
        self.token().clone_from(&token);
        Ok(token)
    }

    /// Switches authentication on. Needs a user `root` that has the role `root`.
    pub async fn auth_enable(&self) -> Result<(), Error> {
        let send = |channel, request| async move { AuthClient::new(channel).auth_enable(request).await };
        self.call(Operation::AuthAdmin, AuthEnableRequest {}, send)
            .await
            .map(|_| ())
    }

    /// Whether authentication is on, and how often users, roles or the switch itself were changed. `None` where etcd
    /// does not tell, before 3.5. Needs the role `root` while it is on. A raft entry in 3.5: not for every second.
    pub async fn auth_status(&self) -> Result<Option<AuthStatus>, Error> {
        let send = |channel, request| async move { AuthClient::new(channel).auth_status(request).await };
        match self.call(Operation::AuthStatus, AuthStatusRequest {}, send).await {
            Ok(response) => Ok(Some(AuthStatus {
                enabled: response.enabled,
                revision: response.auth_revision,
            })),
            Err(error) if error.refusal() == Refusal::NotImplemented => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn auth_disable(&self) -> Result<(), Error> {
        let send = |channel, request| async move { AuthClient::new(channel).auth_disable(request).await };
        self.call(Operation::AuthAdmin, AuthDisableRequest {}, send)
            .await
            .map(|_| ())
    }

    pub async fn user_add(&self, user: &Credentials) -> Result<(), Error> {
        let request = AuthUserAddRequest {
            name: user.user.clone(),
            password: user.password.clone(),
            ..AuthUserAddRequest::default()
        };
        let send = |channel, request| async move { AuthClient::new(channel).user_add(request).await };
        self.call(Operation::AuthAdmin, request, send).await.map(|_| ())
    }

    /// Adds a role, which at first permits nothing.
    pub async fn role_add(&self, role: &str) -> Result<(), Error> {
        let request = AuthRoleAddRequest {
            name: role.to_owned(),
        };
        let send = |channel, request| async move { AuthClient::new(channel).role_add(request).await };
        self.call(Operation::AuthAdmin, request, send).await.map(|_| ())
    }

    /// Lets a role read and write one key.
    pub async fn role_grant_key(&self, role: &str, key: &[u8]) -> Result<(), Error> {
        let permission = Permission {
            perm_type: permission::Type::Readwrite.into(),
            key: key.to_vec(),
            range_end: Vec::new(),
        };
        let request = AuthRoleGrantPermissionRequest {
            name: role.to_owned(),
            perm: Some(permission),
        };
        let send =
            |channel, request| async move { AuthClient::new(channel).role_grant_permission(request).await };
        self.call(Operation::AuthAdmin, request, send).await.map(|_| ())
    }

    /// Gives a role to a user.
    pub async fn user_grant_role(&self, user: &Credentials, role: &str) -> Result<(), Error> {
        let request = AuthUserGrantRoleRequest {
            user: user.user.clone(),
            role: role.to_owned(),
        };
        let send = |channel, request| async move { AuthClient::new(channel).user_grant_role(request).await };
        self.call(Operation::AuthAdmin, request, send).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_password() {
        let credentials = Credentials {
            user: "root".into(),
            password: "secret".into(),
        };
        assert_eq!(format!("{credentials:?}"), "Credentials { user: \"root\", .. }");
    }
}
