//! The tokens of a server: their grants and the hashes of their secrets.
//!
//! What must hold: names and ids are unique, [`Grant::check`] accepts every grant, every entry has 1 to
//! [`SECRETS_MAX`] secrets, and there are at most [`TOKENS_MAX`] entries.

use std::collections::HashSet;

use crate::grant::{Grant, GrantError};
use crate::limits::{SECRETS_MAX, TOKENS_MAX};
use crate::secret_hash::{SALT_BYTES, SecretHash};
use crate::token::{Token, TokenId, redacted};

/// Number of random bytes of a new secret: token and salt.
pub const RANDOM_BYTES: usize = Token::RANDOM_BYTES + SALT_BYTES;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenStore {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub grant: Grant,
    pub created: u64,
    /// The secrets; the current one is first.
    pub secrets: Vec<SecretEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    pub id: TokenId,
    pub created: u64,
    /// The server accepts a replaced secret before this time.
    pub until: Option<u64>,
    pub(crate) hashed: SecretHash,
}

/// Why a change of the token store was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenStoreError {
    #[error(transparent)]
    Grant(#[from] GrantError),
    #[error("a token named {0:?} exists already")]
    NameTaken(String),
    /// No token has this name. (A token in place of a name is shown without its secret.)
    #[error("no token named {0:?} exists")]
    NoSuchToken(String),
    #[error("the token {0:?} expires before its creation: set a later time")]
    Expired(String),
    #[error("there are {TOKENS_MAX} tokens, which is the maximum: remove one")]
    Full,
    #[error(
        "more than {SECRETS_MAX} secrets of the token {0:?} would be valid: expire the old ones now, or wait until one expires"
    )]
    TooManySecrets(String),
    /// The random bytes result in an id that is in use.
    #[error(
        "the id {0} is in use, which is nearly impossible with a working RNG: check the RNG and try again"
    )]
    IdTaken(TokenId),
}

impl SecretEntry {
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
    /// A store without tokens: it denies every request.
    pub fn new() -> Self {
        Self::default()
    }

    /// All tokens, in the order in which they were added.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.grant.name == name)
    }

    /// Adds a token. Only the returned value contains the secret.
    pub fn add(
        &mut self,
        grant: Grant,
        random: &[u8; RANDOM_BYTES],
        now: u64,
    ) -> Result<Token, TokenStoreError> {
        grant.check()?;
        if self.find(&grant.name).is_some() {
            return Err(TokenStoreError::NameTaken(grant.name));
        }
        if grant.expires.is_some_and(|expires| expires <= now) {
            return Err(TokenStoreError::Expired(grant.name));
        }
        if self.entries.len() >= TOKENS_MAX {
            return Err(TokenStoreError::Full);
        }
        let (token, secret) = SecretEntry::make(random, now);
        self.check_id(secret.id)?;
        self.entries.push(Entry { grant, created: now, secrets: vec![secret] });
        Ok(token)
    }

    /// Removes a token with all its secrets.
    pub fn remove(&mut self, name: &str) -> Result<(), TokenStoreError> {
        let place = self.place(name)?;
        self.entries.remove(place);
        Ok(())
    }

    /// Replaces the grant of a token. Its secrets stay valid.
    pub fn change(&mut self, grant: Grant) -> Result<(), TokenStoreError> {
        grant.check()?;
        let place = self.place(&grant.name)?;
        self.entries[place].grant = grant;
        Ok(())
    }

    /// Creates a new secret for a token. The previous ones stay valid until `old_until`, so that clients can
    /// be reconfigured; a time in the past expires them now.
    pub fn rotate(
        &mut self,
        name: &str,
        random: &[u8; RANDOM_BYTES],
        now: u64,
        old_until: u64,
    ) -> Result<Token, TokenStoreError> {
        let place = self.place(name)?;
        let (token, secret) = SecretEntry::make(random, now);
        self.check_id(secret.id)?;
        let entry = &mut self.entries[place];
        if entry.grant.expires.is_some_and(|expires| expires <= now) {
            return Err(TokenStoreError::Expired(name.into()));
        }
        let mut secrets = vec![secret];
        for old in &entry.secrets {
            // The expiry of an earlier rotation is never extended.
            let until = old.until.map_or(old_until, |until| until.min(old_until));
            if until > now {
                secrets.push(SecretEntry { until: Some(until), ..old.clone() });
            }
        }
        if secrets.len() > SECRETS_MAX {
            return Err(TokenStoreError::TooManySecrets(name.into()));
        }
        entry.secrets = secrets;
        Ok(token)
    }

    fn place(&self, name: &str) -> Result<usize, TokenStoreError> {
        let place = self.entries.iter().position(|entry| entry.grant.name == name);
        place.ok_or_else(|| TokenStoreError::NoSuchToken(redacted(name).into_owned()))
    }

    fn check_id(&self, id: TokenId) -> Result<(), TokenStoreError> {
        let taken = self.entries.iter().flat_map(|entry| &entry.secrets).any(|secret| secret.id == id);
        if taken { Err(TokenStoreError::IdTaken(id)) } else { Ok(()) }
    }

    /// A store of these entries, or the position of the first invalid one and the reason.
    pub(crate) fn of(entries: Vec<Entry>) -> Result<Self, (usize, String)> {
        let mut names = HashSet::new();
        let mut ids = HashSet::new();
        for (place, entry) in entries.iter().enumerate() {
            let wrong = |why: String| Err((place, why));
            if place >= TOKENS_MAX {
                return wrong(TokenStoreError::Full.to_string());
            }
            if let Err(error) = entry.grant.check() {
                return wrong(error.to_string());
            }
            if !names.insert(&entry.grant.name) {
                return wrong("name: an earlier token has the same name".into());
            }
            if !(1..=SECRETS_MAX).contains(&entry.secrets.len()) {
                return wrong(format!("secrets: there must be 1 to {SECRETS_MAX}"));
            }
            if let Some(secret) = entry.secrets.iter().find(|secret| !ids.insert(secret.id)) {
                return wrong(format!("secrets: the id {} occurs twice", secret.id));
            }
        }
        Ok(Self { entries })
    }
}
