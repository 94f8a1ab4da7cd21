//! Why somebody may not do what they asked for.

use crate::rights::Right;
use crate::token::TokenError;

/// Why not. Says nothing that helps to guess: who shows a wrong secret does not hear whether its id is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No token was shown, and this server wants one.
    #[error("this server wants a token")]
    NoToken,
    /// What was shown is no token.
    #[error("this is no token: {0}")]
    Malformed(#[from] TokenError),
    /// The token is not in the book.
    #[error("this token is not valid")]
    Unknown,
    /// The token was valid until some time ago.
    #[error("this token has expired")]
    Expired,
    /// The token was valid until it was taken out of the book, or its secret replaced.
    #[error("this token was withdrawn")]
    Withdrawn,
    /// The token is valid and does not give this right in this table.
    #[error("this token does not give the right \"{0}\" in this table")]
    Right(Right),
    /// The token is valid and does not give the right to administer the server.
    #[error("this token does not give the right to administer the server")]
    Server,
}

impl AuthError {
    /// Whether another token is needed (HTTP 401), rather than more rights for this one (HTTP 403).
    pub fn is_about_the_token(self) -> bool {
        !matches!(self, Self::Right(_) | Self::Server)
    }
}
