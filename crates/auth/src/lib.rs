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
mod account;
mod base32;
mod book;
mod bucket;
mod denied;
mod file;
mod format;
mod grant;
mod hash;
mod keyring;
pub mod limits;
mod listening;
mod pass;
mod pattern;
mod rights;
mod stamp;
mod token;
mod used;

pub use access::{Access, Used};
pub use account::{Exhausted, Quota};
pub use book::{BookError, Entry, RANDOM_BYTES, SecretEntry, TokenStore};
pub use bucket::Throttled;
pub use denied::AuthError;
pub use file::{FileError, TokenFile};
pub use format::ParseError;
pub use grant::{Grant, GrantError, Limits, Rate, TableRule};
pub use listening::may_listen;
pub use pass::AuthContext;
pub use pattern::{Pattern, PatternError};
pub use rights::{Right, Rights, RightsError};
pub use token::{Token, TokenError, TokenId, redacted};
pub use used::UsageFile;
