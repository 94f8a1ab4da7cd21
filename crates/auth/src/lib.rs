//! Who may do what: tokens, rights and limits.
//!
//! A [`Token`] is a secret that a client shows. A [`Grant`] is what it may do. The [`TokenStore`] is the list of both, as it is
//! kept in a [`TokenFile`], with hashes where the secrets were. [`Access`] is what a server asks: it turns the text of a
//! token into a [`AuthContext`], which a connection keeps and asks before everything it does.
//!
//! What always holds:
//!
//! - A secret is shown once, by [`Token::reveal`] to whoever made it. Nothing here prints, stores or repeats it:
//!   no `Debug`, no `Display`, no error, no file.
//! - A pass is worth what the book in force says *now*. A token that was removed, rotated away or has expired stops
//!   working at once, also on connections that showed it long ago.
//! - A book that cannot be read changes nothing: the one before stays in force.
//! - Asking takes no lock. Only reloading does.
//!
//! There is no clock and no chance in here: times are milliseconds since 1970 and random bytes come in as arguments.

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
pub use grant::{Grant, GrantError, Limits, Rate, TableRule};
pub use pattern::{Pattern, PatternError};
pub use rate_limiter::Throttled;
pub use rights::{Right, Rights, RightsError};
pub use token::{Token, TokenError, TokenId, redacted};
pub use token_file::{FileError, TokenFile};
pub use token_file_format::ParseError;
pub use token_store::{BookError, Entry, RANDOM_BYTES, SecretEntry, TokenStore};
pub use usage::{Exhausted, Quota};
pub use usage_file::UsageFile;
