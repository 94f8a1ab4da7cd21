//! What a token has used up: its rate, and how many tables and counters it has created.
//!
//! An account belongs to the name of a token: it is the same before and after a rotation or a reload, so neither is a way
//! around a limit. It lives in memory. Who wants the numbers to outlive the server stores what [`Access::used`] says in a
//! [`UsageFile`] and gives it back with [`Access::set_used`].
//!
//! [`Access::used`]: crate::Access::used
//! [`UsageFile`]: crate::UsedFile
//! [`Access::set_used`]: crate::Access::set_used

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::grant::Limits;
use crate::rate_limiter::RateLimiter;

/// Something of which a token may create so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quota {
    /// Tables.
    Tables,
    /// Counters.
    Counters,
}

/// A token may create no more of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this token may create {limit} {quota}, and these would be more")]
pub struct Exhausted {
    /// Of what.
    pub quota: Quota,
    /// How many it may create.
    pub limit: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) bucket: RateLimiter,
    tables: AtomicU64,
    counters: AtomicU64,
}

impl Quota {
    pub(crate) fn limit(self, limits: &Limits) -> Option<u64> {
        match self {
            Self::Tables => limits.tables,
            Self::Counters => limits.counters,
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tables => "tables",
            Self::Counters => "counters",
        })
    }
}

impl Usage {
    /// Takes all of them or none.
    pub(crate) fn take(&self, quota: Quota, limit: Option<u64>, number: u64) -> Result<(), Exhausted> {
        // Counted without a limit too: one may be set later.
        let limit = limit.unwrap_or(u64::MAX);
        let taken = self.used(quota).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            // Nothing always fits, also when the limit was lowered below what is used.
            used.checked_add(number).filter(|sum| *sum <= limit || number == 0)
        });
        taken.map(|_| ()).map_err(|_| Exhausted { quota, limit })
    }

    /// Gives back what was taken and not used, or was deleted.
    pub(crate) fn give_back(&self, quota: Quota, number: u64) {
        // Never below zero: then somebody could give back what another took, and take it for ever.
        let subtract = |used: u64| Some(used.saturating_sub(number));
        let _always_changed = self.used(quota).fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }

    pub(crate) fn used(&self, quota: Quota) -> &AtomicU64 {
        match quota {
            Quota::Tables => &self.tables,
            Quota::Counters => &self.counters,
        }
    }
}
