//! A book in use: by id what a secret must hash to, by name what has been used up.
//!
//! What must hold: a key that the book in force does not have, or has with another hash, is withdrawn, and with it every
//! pass that was given for it. Keys and holders that the next book still has are carried over and changed in place, so
//! that passes and accounts outlive a reload.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::auth_error::AuthError;
use crate::grant::Grant;
use crate::secret_hash::SecretHash;
use crate::token::{Token, TokenId};
use crate::token_store::{Entry, SecretEntry, TokenStore};
use crate::usage::Usage;

/// As the end of a key: it was withdrawn. Not an end that a book can be without, since 1970 has passed.
const WITHDRAWN: u64 = 0;

#[derive(Default)]
pub(crate) struct SecretIndex {
    keys: HashMap<TokenId, Arc<Key>>,
    holders: HashMap<String, Arc<Principal>>,
}

/// A secret that opens.
pub(crate) struct Key {
    pub(crate) id: TokenId,
    pub(crate) holder: Arc<Principal>,
    hashed: SecretHash,
    /// From this moment on it opens nothing.
    until: AtomicU64,
}

/// A token by its name, whatever its secrets.
pub(crate) struct Principal {
    pub(crate) name: String,
    pub(crate) grant: ArcSwap<Grant>,
    pub(crate) account: Usage,
}

impl Key {
    pub(crate) fn check(&self, now: u64) -> Result<(), AuthError> {
        match self.until.load(Ordering::Acquire) {
            WITHDRAWN => Err(AuthError::Withdrawn),
            until if now >= until => Err(AuthError::Expired),
            _ => Ok(()),
        }
    }

    fn set_until(&self, until: u64) {
        self.until.store(until, Ordering::Release);
    }
}

impl SecretIndex {
    /// The key that the token is. Computes one hash, whatever the token, and tells nothing by the time it takes beyond
    /// what is public.
    pub(crate) fn find(&self, token: &Token) -> Option<&Arc<Key>> {
        let key = self.keys.get(&token.id());
        let same = key.map_or(&SecretHash::NOBODY, |key| &key.hashed).is_of(token);
        key.filter(|_| bool::from(same))
    }

    pub(crate) fn holder(&self, name: &str) -> Option<&Arc<Principal>> {
        self.holders.get(name)
    }

    pub(crate) fn holders(&self) -> impl Iterator<Item = &Arc<Principal>> {
        self.holders.values()
    }

    /// The keyring of the next book. From here on, what both have follows the next book. What only this one has goes on
    /// opening until [`withdraw`](Self::withdraw).
    pub(crate) fn next(&self, book: &TokenStore) -> Self {
        let mut next = Self::default();
        for entry in book.entries() {
            let holder = self.next_holder(&entry.grant);
            for secret in &entry.secrets {
                next.keys.insert(secret.id, self.next_key(&holder, entry, secret));
            }
            next.holders.insert(holder.name.clone(), holder);
        }
        next
    }

    fn next_holder(&self, grant: &Grant) -> Arc<Principal> {
        if let Some(holder) = self.holders.get(&grant.name) {
            holder.grant.store(Arc::new(grant.clone()));
            return Arc::clone(holder);
        }
        Arc::new(Principal {
            name: grant.name.clone(),
            grant: ArcSwap::from_pointee(grant.clone()),
            account: Usage::default(),
        })
    }

    fn next_key(&self, holder: &Arc<Principal>, entry: &Entry, secret: &SecretEntry) -> Arc<Key> {
        let until = entry.end_of(secret).unwrap_or(u64::MAX);
        let same = |key: &&Arc<Key>| key.hashed == secret.hashed && Arc::ptr_eq(&key.holder, holder);
        if let Some(key) = self.keys.get(&secret.id).filter(same) {
            key.set_until(until);
            return Arc::clone(key);
        }
        Arc::new(Key {
            id: secret.id,
            holder: Arc::clone(holder),
            hashed: secret.hashed.clone(),
            until: AtomicU64::new(until),
        })
    }

    /// Ends every key that is not carried over to the next keyring.
    pub(crate) fn withdraw(&self, next: &Self) {
        for (id, key) in &self.keys {
            if !next.keys.get(id).is_some_and(|kept| Arc::ptr_eq(kept, key)) {
                key.set_until(WITHDRAWN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_hash::COMPUTED;
    use crate::token_store::RANDOM_BYTES;

    #[test]
    fn whoever_asks_costs_one_hash() {
        let mut book = TokenStore::new();
        let known = book.add(Grant::new("a"), &[1; RANDOM_BYTES], 0).unwrap();
        let keyring = SecretIndex::default().next(&book);
        let mut random = [1; Token::RANDOM_BYTES];
        random[Token::RANDOM_BYTES - 1] = 2;
        let wrong = Token::from_random(&random);
        assert_eq!(wrong.id(), known.id());
        let unknown = Token::from_random(&[3; Token::RANDOM_BYTES]);

        for (token, found) in [(known, true), (wrong, false), (unknown, false)] {
            let before = COMPUTED.get();
            assert_eq!(keyring.find(&token).is_some(), found, "{token}");
            assert_eq!(COMPUTED.get() - before, 1, "{token}");
        }
    }
}
