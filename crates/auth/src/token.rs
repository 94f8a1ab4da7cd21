//! A token: `jeton_`, an id of 8 characters, `_`, and a secret of 32 characters.
//!
//! The id is public: it occurs in the token file, in logs and in error messages. The secret is 160 random
//! bits: it cannot be guessed, and therefore needs no slow hash (see `secret_hash.rs`).
//!
//! What must hold: only [`Token::reveal`] returns the secret of a [`Token`].

use std::borrow::Cow;
use std::fmt;

use crate::base32;

/// The prefix of every token. Scanners for leaked secrets search for such prefixes.
const PREFIX: &[u8; 6] = b"jeton_";
const ID_BYTES: usize = 5;
const ID_CHARS: usize = 8;
const SECRET_BYTES: usize = 20;
const SECRET_CHARS: usize = 32;
const ID_AT: usize = PREFIX.len();
const SECRET_AT: usize = ID_AT + ID_CHARS + 1;

const CHARS: usize = SECRET_AT + SECRET_CHARS;

/// A token with its secret. It has no `==`, whose time would reveal how much of a guess is right; use
/// [`Access::authenticate`](crate::Access::authenticate).
#[derive(Clone)]
pub struct Token {
    id: TokenId,
    secret: [u8; SECRET_BYTES],
}

/// The public part of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId([u8; ID_BYTES]);

/// A malformed token. The message names the position and repeats nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("a token starts with \"jeton_\"")]
    Prefix,
    #[error("a token has 47 characters, this text has {0}: check for missing characters and spaces")]
    Length(usize),
    #[error("a token has \"_\" as its 15th character")]
    Separator,
    /// A character that tokens do not have; counted from 1.
    #[error("character {0} is invalid: a token has digits and lower case letters without i, l, o, u")]
    Character(usize),
}

impl Token {
    pub const RANDOM_BYTES: usize = ID_BYTES + SECRET_BYTES;

    /// A token from random bytes of the system's RNG, which must not be used for anything else.
    pub fn from_random(random: &[u8; Self::RANDOM_BYTES]) -> Self {
        let id = TokenId(std::array::from_fn(|place| random[place]));
        Self { id, secret: std::array::from_fn(|place| random[ID_BYTES + place]) }
    }

    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, TokenError> {
        let text = text.as_ref();
        if !text.starts_with(PREFIX) {
            return Err(TokenError::Prefix);
        }
        let text: &[u8; CHARS] = text.try_into().map_err(|_| TokenError::Length(text.len()))?;
        if text[SECRET_AT - 1] != b'_' {
            return Err(TokenError::Separator);
        }
        let group = |at: usize| {
            base32::decode(std::array::from_fn(|place| text[at + place]))
                .map_err(|place| TokenError::Character(at + place + 1))
        };
        let id = TokenId(group(ID_AT)?);
        let mut secret = [0; SECRET_BYTES];
        for (place, bytes) in secret.chunks_exact_mut(ID_BYTES).enumerate() {
            bytes.copy_from_slice(&group(SECRET_AT + place * ID_CHARS)?);
        }
        Ok(Self { id, secret })
    }

    pub fn id(&self) -> TokenId {
        self.id
    }

    /// The text of the token with its secret: for the operator who created it, never for a log.
    pub fn reveal(&self) -> String {
        let mut text = format!("jeton_{}_", self.id);
        for bytes in self.secret.as_chunks::<ID_BYTES>().0 {
            text.extend(base32::encode(*bytes).map(char::from));
        }
        text
    }

    pub(crate) fn secret(&self) -> &[u8; SECRET_BYTES] {
        &self.secret
    }
}

impl TokenId {
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.as_bytes().try_into().map_err(|_| TokenError::Length(text.len()))?;
        base32::decode(text).map(Self).map_err(|place| TokenError::Character(place + 1))
    }

    pub(crate) fn bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        base32::encode(self.0).into_iter().try_for_each(|byte| fmt::Write::write_char(f, byte.into()))
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "jeton_{}_…", self.id)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Minimum number of characters of a secret that make a text look like a token. With fewer, the rest cannot
/// be guessed, and names like `jeton_requests_total` are not redacted.
const REDACTED_CHARS_MIN: usize = SECRET_CHARS / 2;

/// Replaces the secrets of all tokens in a text by `…`, also of truncated or mistyped tokens. For texts of
/// clients that go into a message or a log: a client may have put a token in the wrong place.
pub fn redacted(text: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let mut rest = text;
    while let Some(secret_at) = find_secret(rest) {
        let (before, after) = rest.split_at(secret_at);
        clean.push_str(before);
        clean.push('…');
        rest = after.trim_start_matches(|character: char| character.is_ascii_alphanumeric());
    }
    if clean.is_empty() {
        return Cow::Borrowed(text);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

pub(crate) fn looks_secret(text: &str) -> bool {
    find_secret(text).is_some()
}

fn find_secret(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let starts = |at: &usize| {
        let Some(head) = bytes.get(*at..at + SECRET_AT + REDACTED_CHARS_MIN) else { return false };
        head[..ID_AT].eq_ignore_ascii_case(PREFIX)
            && head[ID_AT..SECRET_AT - 1].iter().all(u8::is_ascii_alphanumeric)
            && head[SECRET_AT - 1] == b'_'
            && head[SECRET_AT..].iter().all(u8::is_ascii_alphanumeric)
    };
    (0..bytes.len()).find(starts).map(|at| at + SECRET_AT)
}
