//! The authenticated identity of a connection.
//!
//! What must hold: every check uses the current token store, not the one at the time of authentication.

use std::fmt;
use std::sync::Arc;

use crate::auth_error::AuthError;
use crate::rate_limiter::Throttled;
use crate::rights::Right;
use crate::secret_index::ActiveSecret;
use crate::token::TokenId;
use crate::usage::{Exhausted, Quota};

/// The identity and rights of a client. Cheap to clone; all clones share one usage.
#[derive(Clone)]
pub struct AuthContext(Option<Arc<ActiveSecret>>);

impl AuthContext {
    /// A client of a server without tokens, which has every right.
    pub(crate) const EVERYTHING: Self = Self(None);

    pub(crate) fn of(secret: Arc<ActiveSecret>) -> Self {
        Self(Some(secret))
    }

    /// The name of the token, for logs; `None` on a server without tokens.
    pub fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|secret| secret.principal.name.as_str())
    }

    pub fn id(&self) -> Option<TokenId> {
        self.0.as_ref().map(|secret| secret.id)
    }

    /// Checks that the token is still valid: for requests that require no right.
    pub fn check(&self, now: u64) -> Result<(), AuthError> {
        self.0.as_ref().map_or(Ok(()), |secret| secret.check(now))
    }

    /// Checks a right in a table. The result does not reveal whether the table exists.
    pub fn may(&self, table: &str, right: Right, now: u64) -> Result<(), AuthError> {
        let Some(secret) = &self.0 else { return Ok(()) };
        secret.check(now)?;
        if secret.principal.grant.load().allows(table, right) { Ok(()) } else { Err(AuthError::Right(right)) }
    }

    /// Whether the client may learn that a table exists: it has any right in it, or administers the server.
    pub fn may_see(&self, table: &str, now: u64) -> bool {
        let Some(secret) = &self.0 else { return true };
        let grant = secret.principal.grant.load();
        let has_right = grant.server || Right::ALL.into_iter().any(|right| grant.allows(table, right));
        secret.check(now).is_ok() && has_right
    }

    /// Checks the right to administer the server: tokens, backups.
    pub fn may_administer(&self, now: u64) -> Result<(), AuthError> {
        let Some(secret) = &self.0 else { return Ok(()) };
        secret.check(now)?;
        if secret.principal.grant.load().server { Ok(()) } else { Err(AuthError::Server) }
    }

    /// Takes `operations` from the rate limit of the token, all or none. Does not check whether the token is
    /// valid; [`may`](Self::may) does.
    pub fn spend(&self, now: u64, operations: u64) -> Result<(), Throttled> {
        let Some(secret) = &self.0 else { return Ok(()) };
        match secret.principal.grant.load().limits.operations {
            Some(rate) => secret.principal.usage.rate_limiter.spend(rate, now, operations),
            None => Ok(()),
        }
    }

    /// Takes `number` from a quota, all or none, before the tables or counters are created.
    pub fn take(&self, quota: Quota, number: u64) -> Result<(), Exhausted> {
        let Some(secret) = &self.0 else { return Ok(()) };
        let limit = quota.limit(&secret.principal.grant.load().limits);
        secret.principal.usage.take(quota, limit, number)
    }

    /// Returns `number` to a quota: of tables or counters that were not created, or were deleted.
    pub fn give_back(&self, quota: Quota, number: u64) {
        if let Some(secret) = &self.0 {
            secret.principal.usage.give_back(quota, number);
        }
    }
}

impl fmt::Debug for AuthContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(secret) => write!(f, "AuthContext({:?}, {})", secret.principal.name, secret.id),
            None => f.write_str("AuthContext(everything)"),
        }
    }
}
