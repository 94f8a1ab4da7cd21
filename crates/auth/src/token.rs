//! A token: `jeton_`, eight characters that name it, `_`, and thirty-two that are the secret.
//!
//! The name (the id) is public: it is in the book, in logs and in error messages, so that people can say which token they
//! mean. The secret is 160 random bits: it cannot be guessed, and therefore needs no slow hash (see the module `hash`).
//!
//! What must hold: the secret leaves a [`Token`] through [`Token::reveal`] and in no other way.

use std::borrow::Cow;
use std::fmt;

use crate::base32;

/// What every token begins with. Scanners for leaked secrets look for such words.
const PREFIX: &[u8; 6] = b"jeton_";
const ID_BYTES: usize = 5;
const ID_CHARS: usize = 8;
const SECRET_BYTES: usize = 20;
const SECRET_CHARS: usize = 32;
const ID_AT: usize = PREFIX.len();
const SECRET_AT: usize = ID_AT + ID_CHARS + 1;

/// The length of a token as text.
const CHARS: usize = SECRET_AT + SECRET_CHARS;

/// A token, with its secret. Compare tokens by what [`Access`](crate::Access) says of them: there is no `==` here, because
/// it would take longer the more of a guess is right.
#[derive(Clone)]
pub struct Token {
    id: TokenId,
    secret: [u8; SECRET_BYTES],
}

/// The public part of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId([u8; ID_BYTES]);

/// A text that is no token. The message tells what is wrong and where, and repeats nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It does not begin as tokens do.
    #[error("a token begins with \"jeton_\"")]
    Prefix,
    /// It is too long or too short.
    #[error("a token has 47 characters, this has {0}: is it whole, and without spaces around it?")]
    Length(usize),
    /// The id and the secret are not kept apart.
    #[error("a token has \"_\" as its 15th character")]
    Separator,
    /// A character that tokens do not have; counted from one.
    #[error("character {0} is not one that tokens have: digits and small letters without i, l, o, u")]
    Character(usize),
}

impl Token {
    /// The bytes of chance in a token.
    pub const RANDOM_BYTES: usize = ID_BYTES + SECRET_BYTES;

    /// The token that these bytes make. They come from the system's source of randomness, and are used for nothing else.
    pub fn from_random(random: &[u8; Self::RANDOM_BYTES]) -> Self {
        let id = TokenId(std::array::from_fn(|place| random[place]));
        Self { id, secret: std::array::from_fn(|place| random[ID_BYTES + place]) }
    }

    /// Reads a token. Bytes, because that is what arrives on a connection.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, TokenError> {
        Self::read(text.as_ref())
    }

    fn read(text: &[u8]) -> Result<Self, TokenError> {
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

    /// The public part.
    pub fn id(&self) -> TokenId {
        self.id
    }

    /// The whole token as text, secret and all: for the one who asked for it, once, and never for a log.
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
    /// Reads an id.
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

/// So much of a secret makes a text look like a token. Less leaves more to guess than anybody can, and names like
/// `jeton_requests_total` should stay names.
const TELLING_CHARS: usize = SECRET_CHARS / 2;

/// A text with the secrets of all tokens in it replaced by `…`, also of tokens that were cut off or mistyped. For texts of
/// others that go into a message or a log: people paste tokens into the wrong places.
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

/// Whether a text has something like a token in it.
pub(crate) fn looks_secret(text: &str) -> bool {
    find_secret(text).is_some()
}

/// Where in a text the first secret begins.
fn find_secret(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let begins = |at: &usize| {
        let Some(head) = bytes.get(*at..at + SECRET_AT + TELLING_CHARS) else { return false };
        head[..ID_AT].eq_ignore_ascii_case(PREFIX)
            && head[ID_AT..SECRET_AT - 1].iter().all(u8::is_ascii_alphanumeric)
            && head[SECRET_AT - 1] == b'_'
            && head[SECRET_AT..].iter().all(u8::is_ascii_alphanumeric)
    };
    (0..bytes.len()).find(begins).map(|at| at + SECRET_AT)
}
