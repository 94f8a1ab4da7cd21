//! Errors of authentication and authorization.

use crate::rights::Right;
use crate::token::TokenError;

/// Why a request is denied. The error does not reveal whether the id of a wrong secret exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The client sent no token, and the server requires one.
    #[error("this server requires a token")]
    NoToken,
    /// The text is not a token.
    #[error("this is not a token: {0}")]
    Malformed(#[from] TokenError),
    /// The token is not in the token store.
    #[error("this token is not valid")]
    Unknown,
    /// The token has expired.
    #[error("this token has expired")]
    Expired,
    /// The token was removed from the token store, or its secret was replaced.
    #[error("this token was revoked")]
    Revoked,
    /// The token does not grant this right in this table.
    #[error("this token does not grant the right \"{0}\" in this table")]
    Right(Right),
    /// The token does not grant the right to administer the server.
    #[error("this token does not grant the right to administer the server")]
    Server,
}

impl AuthError {
    /// Whether another token is needed (HTTP 401), rather than more rights for this one (HTTP 403).
    pub fn is_about_the_token(self) -> bool {
        !matches!(self, Self::Right(_) | Self::Server)
    }
}
