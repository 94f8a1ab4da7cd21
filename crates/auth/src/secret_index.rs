//! The current token store, indexed: secrets by id, principals by name.
//!
//! What must hold: a secret that the current store does not have, or has with another hash, is revoked, and
//! with it every context that was created from it. Secrets and principals that the next store still has are
//! carried over and updated in place, so that contexts and usage survive a reload.

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

/// Marks a secret as revoked. No secret of a store expires at this time, because 1970 has passed.
const REVOKED: u64 = 0;

#[derive(Default)]
pub(crate) struct SecretIndex {
    secrets: HashMap<TokenId, Arc<ActiveSecret>>,
    principals: HashMap<String, Arc<Principal>>,
}

/// A secret that clients can authenticate with.
pub(crate) struct ActiveSecret {
    pub(crate) id: TokenId,
    pub(crate) principal: Arc<Principal>,
    hashed: SecretHash,
    /// The secret is valid before this time.
    until: AtomicU64,
}

/// The owner of a token: its name, grant and usage, independent of its secrets.
pub(crate) struct Principal {
    pub(crate) name: String,
    pub(crate) grant: ArcSwap<Grant>,
    pub(crate) usage: Usage,
}

impl ActiveSecret {
    pub(crate) fn check(&self, now: u64) -> Result<(), AuthError> {
        match self.until.load(Ordering::Acquire) {
            REVOKED => Err(AuthError::Revoked),
            until if now >= until => Err(AuthError::Expired),
            _ => Ok(()),
        }
    }

    fn set_until(&self, until: u64) {
        self.until.store(until, Ordering::Release);
    }
}

impl SecretIndex {
    /// The secret of a token. Computes one hash for known and unknown tokens alike, so that the time reveals
    /// nothing that is not public.
    pub(crate) fn find(&self, token: &Token) -> Option<&Arc<ActiveSecret>> {
        let found = self.secrets.get(&token.id());
        let same = found.map_or(&SecretHash::NOBODY, |found| &found.hashed).is_of(token);
        found.filter(|_| bool::from(same))
    }

    pub(crate) fn principal(&self, name: &str) -> Option<&Arc<Principal>> {
        self.principals.get(name)
    }

    pub(crate) fn principals(&self) -> impl Iterator<Item = &Arc<Principal>> {
        self.principals.values()
    }

    /// The index of the next store. Secrets and principals of both stores follow the next one from now on.
    /// Secrets of this one alone stay valid until [`revoke`](Self::revoke).
    pub(crate) fn next(&self, tokens: &TokenStore) -> Self {
        let mut next = Self::default();
        for entry in tokens.entries() {
            let principal = self.next_principal(&entry.grant);
            for secret in &entry.secrets {
                next.secrets.insert(secret.id, self.next_secret(&principal, entry, secret));
            }
            next.principals.insert(principal.name.clone(), principal);
        }
        next
    }

    fn next_principal(&self, grant: &Grant) -> Arc<Principal> {
        if let Some(principal) = self.principals.get(&grant.name) {
            principal.grant.store(Arc::new(grant.clone()));
            return Arc::clone(principal);
        }
        Arc::new(Principal {
            name: grant.name.clone(),
            grant: ArcSwap::from_pointee(grant.clone()),
            usage: Usage::default(),
        })
    }

    fn next_secret(
        &self,
        principal: &Arc<Principal>,
        entry: &Entry,
        secret: &SecretEntry,
    ) -> Arc<ActiveSecret> {
        let until = entry.end_of(secret).unwrap_or(u64::MAX);
        let same = |found: &&Arc<ActiveSecret>| {
            found.hashed == secret.hashed && Arc::ptr_eq(&found.principal, principal)
        };
        if let Some(found) = self.secrets.get(&secret.id).filter(same) {
            found.set_until(until);
            return Arc::clone(found);
        }
        Arc::new(ActiveSecret {
            id: secret.id,
            principal: Arc::clone(principal),
            hashed: secret.hashed.clone(),
            until: AtomicU64::new(until),
        })
    }

    /// Revokes every secret that the next index does not have.
    pub(crate) fn revoke(&self, next: &Self) {
        for (id, secret) in &self.secrets {
            if !next.secrets.get(id).is_some_and(|kept| Arc::ptr_eq(kept, secret)) {
                secret.set_until(REVOKED);
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
    fn every_lookup_computes_one_hash() {
        let mut tokens = TokenStore::new();
        let known = tokens.add(Grant::new("a"), &[1; RANDOM_BYTES], 0).unwrap();
        let index = SecretIndex::default().next(&tokens);
        let mut random = [1; Token::RANDOM_BYTES];
        random[Token::RANDOM_BYTES - 1] = 2;
        let wrong = Token::from_random(&random);
        assert_eq!(wrong.id(), known.id());
        let unknown = Token::from_random(&[3; Token::RANDOM_BYTES]);

        for (token, found) in [(known, true), (wrong, false), (unknown, false)] {
            let before = COMPUTED.get();
            assert_eq!(index.find(&token).is_some(), found, "{token}");
            assert_eq!(COMPUTED.get() - before, 1, "{token}");
        }
    }
}
