//! Authentication and authorization: tokens, rights, rate limits and quotas.
//!
//! A [`Token`] is the credential of a client. A [`Grant`] is the set of its rights and limits. The
//! [`TokenStore`] lists the tokens with their grants and the hashes of their secrets; a [`TokenFile`] stores
//! it. The server uses [`Access`], which turns the text of a token into an [`AuthContext`]. A connection
//! keeps the context and checks each request against it.
//!
//! What must hold:
//!
//! - [`Token::reveal`] returns the secret to the operator who created the token. Nothing else prints or
//!   stores it: no `Debug`, no `Display`, no error, no file.
//! - Every check uses the current token store. A token that is removed, rotated or expired stops working at
//!   once, also on connections that authenticated before.
//! - A token file that cannot be read changes nothing: the previous token store stays current.
//! - A check takes no lock. Only a reload does.
//!
//! The crate has no clock and no RNG: times (milliseconds since 1970) and random bytes are arguments.

mod access;
mod auth_context;
mod auth_error;
mod base32;
mod bind_policy;
mod file_version;
mod grant;
pub mod limits;
mod pattern;
mod rate_limiter;
mod rights;
mod secret_hash;
mod secret_index;
mod token;
mod token_file;
mod token_file_format;
mod token_store;
mod usage;
mod usage_file;

pub use access::{Access, Used};
pub use auth_context::AuthContext;
pub use auth_error::AuthError;
pub use bind_policy::may_listen;
pub use file_version::FileVersion;
pub use grant::{Grant, GrantError, Limits, Rate, TableRule};
pub use pattern::{Pattern, PatternError};
pub use rate_limiter::Throttled;
pub use rights::{Right, Rights, RightsError};
pub use token::{Token, TokenError, TokenId, redacted};
pub use token_file::{FileError, TokenFile};
pub use token_file_format::ParseError;
pub use token_store::{Entry, RANDOM_BYTES, SecretEntry, TokenStore, TokenStoreError};
pub use usage::{Exhausted, Quota};
pub use usage_file::UsageFile;
