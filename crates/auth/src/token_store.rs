//! The book: every token with its grant, and of its secrets the hashes.
//!
//! What must hold: names and ids are unique, every grant is one that [`Grant::check`] accepts, every entry has between one
//! and [`SECRETS_MAX`] secrets, and there are at most [`TOKENS_MAX`] entries.

use std::collections::HashSet;

use crate::grant::{Grant, GrantError};
use crate::limits::{SECRETS_MAX, TOKENS_MAX};
use crate::secret_hash::{SALT_BYTES, SecretHash};
use crate::token::{Token, TokenId, redacted};

/// The random bytes that a new secret takes: the token and its salt.
pub const RANDOM_BYTES: usize = Token::RANDOM_BYTES + SALT_BYTES;

/// All tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenStore {
    entries: Vec<Entry>,
}

/// A token in the book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it may do.
    pub grant: Grant,
    /// When it was added.
    pub created: u64,
    /// Its secrets, the present one first.
    pub secrets: Vec<SecretEntry>,
}

/// One secret of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    /// The public part.
    pub id: TokenId,
    /// When it was made.
    pub created: u64,
    /// From this moment on it is not accepted any more: it was replaced.
    pub until: Option<u64>,
    pub(crate) hashed: SecretHash,
}

/// Why the book was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    /// There cannot be such a grant.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// There is a token with this name.
    #[error("there is a token named {0:?} already")]
    NameTaken(String),
    /// There is no token with this name. (If it was a token instead of a name, without its secret.)
    #[error("there is no token named {0:?}")]
    NoSuchToken(String),
    /// The token would never be valid.
    #[error("the token {0:?} expires before it is made: give it a later time")]
    Expired(String),
    /// There are as many tokens as there can be.
    #[error("there are {TOKENS_MAX} tokens, and there can be no more: remove one")]
    Full,
    /// As many secrets of the token are valid as can be.
    #[error(
        "{SECRETS_MAX} secrets of the token {0:?} would be valid at once: end the old ones now, or wait until one ends"
    )]
    TooManySecrets(String),
    /// The random bytes make an id that is in use.
    #[error(
        "the id {0} is in use, which chance all but excludes: try again, and check the source of randomness"
    )]
    IdTaken(TokenId),
}

impl SecretEntry {
    /// A new secret, and its entry.
    fn make(random: &[u8; RANDOM_BYTES], now: u64) -> (Token, Self) {
        let token = Token::from_random(&std::array::from_fn(|place| random[place]));
        let salt = std::array::from_fn(|place| random[Token::RANDOM_BYTES + place]);
        let hashed = SecretHash::of(&token, salt);
        let entry = Self { id: token.id(), created: now, until: None, hashed };
        (token, entry)
    }
}

impl Entry {
    /// The moment from which a secret of this token is not accepted.
    pub fn end_of(&self, secret: &SecretEntry) -> Option<u64> {
        secret.until.into_iter().chain(self.grant.expires).min()
    }
}

impl TokenStore {
    /// A book without tokens. With it, nobody may do anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// All tokens, in the order in which they were added.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The token with this name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.grant.name == name)
    }

    /// Adds a token. The secret is in what this returns, and nowhere else.
    pub fn add(&mut self, grant: Grant, random: &[u8; RANDOM_BYTES], now: u64) -> Result<Token, BookError> {
        grant.check()?;
        if self.find(&grant.name).is_some() {
            return Err(BookError::NameTaken(grant.name));
        }
        if grant.expires.is_some_and(|expires| expires <= now) {
            return Err(BookError::Expired(grant.name));
        }
        if self.entries.len() >= TOKENS_MAX {
            return Err(BookError::Full);
        }
        let (token, secret) = SecretEntry::make(random, now);
        self.check_id(secret.id)?;
        self.entries.push(Entry { grant, created: now, secrets: vec![secret] });
        Ok(token)
    }

    /// Removes a token with all its secrets.
    pub fn remove(&mut self, name: &str) -> Result<(), BookError> {
        let place = self.place(name)?;
        self.entries.remove(place);
        Ok(())
    }

    /// Gives a token other rights, limits or another end. Its secrets stay.
    pub fn change(&mut self, grant: Grant) -> Result<(), BookError> {
        grant.check()?;
        let place = self.place(&grant.name)?;
        self.entries[place].grant = grant;
        Ok(())
    }

    /// Makes a new secret for a token. The ones before stay valid until `old_until`, for those who have not yet heard of
    /// it; with a moment that has passed they end now.
    pub fn rotate(
        &mut self,
        name: &str,
        random: &[u8; RANDOM_BYTES],
        now: u64,
        old_until: u64,
    ) -> Result<Token, BookError> {
        let place = self.place(name)?;
        let (token, secret) = SecretEntry::make(random, now);
        self.check_id(secret.id)?;
        let entry = &mut self.entries[place];
        if entry.grant.expires.is_some_and(|expires| expires <= now) {
            return Err(BookError::Expired(name.into()));
        }
        let mut secrets = vec![secret];
        for old in &entry.secrets {
            // An earlier rotation may have promised less, and that stands.
            let until = old.until.map_or(old_until, |until| until.min(old_until));
            if until > now {
                secrets.push(SecretEntry { until: Some(until), ..old.clone() });
            }
        }
        if secrets.len() > SECRETS_MAX {
            return Err(BookError::TooManySecrets(name.into()));
        }
        entry.secrets = secrets;
        Ok(token)
    }

    fn place(&self, name: &str) -> Result<usize, BookError> {
        let place = self.entries.iter().position(|entry| entry.grant.name == name);
        place.ok_or_else(|| BookError::NoSuchToken(redacted(name).into_owned()))
    }

    fn check_id(&self, id: TokenId) -> Result<(), BookError> {
        let taken = self.entries.iter().flat_map(|entry| &entry.secrets).any(|secret| secret.id == id);
        if taken { Err(BookError::IdTaken(id)) } else { Ok(()) }
    }

    /// A book of these entries; otherwise the place of the first that cannot be in it, and why.
    pub(crate) fn of(entries: Vec<Entry>) -> Result<Self, (usize, String)> {
        let mut names = HashSet::new();
        let mut ids = HashSet::new();
        for (place, entry) in entries.iter().enumerate() {
            let wrong = |why: String| Err((place, why));
            if place >= TOKENS_MAX {
                return wrong(BookError::Full.to_string());
            }
            if let Err(error) = entry.grant.check() {
                return wrong(error.to_string());
            }
            if !names.insert(&entry.grant.name) {
                return wrong("name: a token before has the same".into());
            }
            if !(1..=SECRETS_MAX).contains(&entry.secrets.len()) {
                return wrong(format!("secrets: between 1 and {SECRETS_MAX} of them are possible"));
            }
            if let Some(secret) = entry.secrets.iter().find(|secret| !ids.insert(secret.id)) {
                return wrong(format!("secrets: the id {} occurs twice", secret.id));
            }
        }
        Ok(Self { entries })
    }
}
