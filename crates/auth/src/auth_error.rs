//! Errors of authentication and authorization.

use crate::rights::Right;
use crate::token::TokenError;

/// Why a request is denied. The error does not reveal whether the id of a wrong secret exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("this server requires a token")]
    NoToken,
    #[error("this is not a token: {0}")]
    Malformed(#[from] TokenError),
    #[error("this token is not valid")]
    Unknown,
    #[error("this token has expired")]
    Expired,
    /// The token was removed from the token store, or its secret was replaced.
    #[error("this token was revoked")]
    Revoked,
    #[error("this token does not grant the right \"{0}\" in this table")]
    Right(Right),
    #[error("this token does not grant the right to administer the server")]
    Server,
}

impl AuthError {
    /// Whether another token is needed (HTTP 401), rather than more rights for this one (HTTP 403).
    pub fn is_about_the_token(self) -> bool {
        !matches!(self, Self::Right(_) | Self::Server)
    }
}
