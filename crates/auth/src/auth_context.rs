//! A pass: what a connection keeps once it has shown its token, and asks before everything it does.
//!
//! What must hold: every answer is by the book in force at that moment, not by the one the pass was given under.

use std::fmt;
use std::sync::Arc;

use crate::auth_error::AuthError;
use crate::rate_limiter::Throttled;
use crate::rights::Right;
use crate::secret_index::Key;
use crate::token::TokenId;
use crate::usage::{Exhausted, Quota};

/// Permission to ask. Cheap to clone; all clones share one account.
#[derive(Clone)]
pub struct AuthContext(Option<Arc<Key>>);

impl AuthContext {
    /// On a server without tokens: may do everything.
    pub(crate) const EVERYTHING: Self = Self(None);

    pub(crate) fn of(key: Arc<Key>) -> Self {
        Self(Some(key))
    }

    /// The name of the token, for logs; `None` on a server without tokens.
    pub fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|key| key.holder.name.as_str())
    }

    /// The public part of the token.
    pub fn id(&self) -> Option<TokenId> {
        self.0.as_ref().map(|key| key.id)
    }

    /// Whether the token is still valid: for requests that need no right.
    pub fn check(&self, now: u64) -> Result<(), AuthError> {
        self.0.as_ref().map_or(Ok(()), |key| key.check(now))
    }

    /// Whether it gives the right in the table. The table need not exist: who asks cannot tell from the answer.
    pub fn may(&self, table: &str, right: Right, now: u64) -> Result<(), AuthError> {
        let Some(key) = &self.0 else { return Ok(()) };
        key.check(now)?;
        if key.holder.grant.load().allows(table, right) { Ok(()) } else { Err(AuthError::Right(right)) }
    }

    /// Whether it gives the right to administer the server: tokens, backups.
    pub fn may_administer(&self, now: u64) -> Result<(), AuthError> {
        let Some(key) = &self.0 else { return Ok(()) };
        key.check(now)?;
        if key.holder.grant.load().server { Ok(()) } else { Err(AuthError::Server) }
    }

    /// Takes so many operations from the rate of the token: all of them or none. Does not ask whether the token is
    /// valid: [`may`](Self::may) does.
    pub fn spend(&self, now: u64, operations: u64) -> Result<(), Throttled> {
        let Some(key) = &self.0 else { return Ok(()) };
        match key.holder.grant.load().limits.operations {
            Some(rate) => key.holder.account.bucket.spend(rate, now, operations),
            None => Ok(()),
        }
    }

    /// Whether there is a limit to what the token may create of these.
    pub fn is_limited(&self, quota: Quota) -> bool {
        let Some(key) = &self.0 else { return false };
        quota.limit(&key.holder.grant.load().limits).is_some()
    }

    /// Takes so many tables or counters from what the token may create, all of them or none: before they are created.
    pub fn take(&self, quota: Quota, number: u64) -> Result<(), Exhausted> {
        let Some(key) = &self.0 else { return Ok(()) };
        let limit = quota.limit(&key.holder.grant.load().limits);
        key.holder.account.take(quota, limit, number)
    }

    /// Gives back what was taken and then not created, or what was deleted.
    pub fn give_back(&self, quota: Quota, number: u64) {
        if let Some(key) = &self.0 {
            key.holder.account.give_back(quota, number);
        }
    }
}

impl fmt::Debug for AuthContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(key) => write!(f, "Pass({:?}, {})", key.holder.name, key.id),
            None => f.write_str("Pass(everything)"),
        }
    }
}
