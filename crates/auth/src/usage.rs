//! The usage of a token: its rate limiter, and the number of tables and counters it has created.
//!
//! Usage belongs to the name of a token and survives a rotation or a reload, so neither bypasses a limit. It
//! is in memory. The server stores the numbers of [`Access::used`] in a [`UsageFile`] and restores them with
//! [`Access::set_used`].
//!
//! [`Access::used`]: crate::Access::used
//! [`UsageFile`]: crate::UsageFile
//! [`Access::set_used`]: crate::Access::set_used

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::grant::Limits;
use crate::rate_limiter::RateLimiter;

/// A kind of object that a token may create a limited number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quota {
    Tables,
    Counters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this token may create {limit} {quota}; the request exceeds this quota")]
pub struct Exhausted {
    pub quota: Quota,
    /// The number that the token may create.
    pub limit: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) rate_limiter: RateLimiter,
    /// By [`Quota`].
    used: [AtomicU64; 2],
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
    pub(crate) fn take(&self, quota: Quota, limit: Option<u64>, number: u64) -> Result<(), Exhausted> {
        // Counted without a limit too, because the operator may set one later.
        let limit = limit.unwrap_or(u64::MAX);
        let taken = self.used(quota).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            // Zero always fits, also if the limit was lowered below the usage.
            used.checked_add(number).filter(|sum| *sum <= limit || number == 0)
        });
        taken.map(|_| ()).map_err(|_| Exhausted { quota, limit })
    }

    pub(crate) fn give_back(&self, quota: Quota, number: u64) {
        // Saturates at zero: an underflow would exhaust the quota permanently.
        let subtract = |used: u64| Some(used.saturating_sub(number));
        let _always_changed = self.used(quota).fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }

    pub(crate) fn used(&self, quota: Quota) -> &AtomicU64 {
        &self.used[quota as usize]
    }
}
