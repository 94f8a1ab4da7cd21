//! The parameters of an N-FBF, and the errors for invalid ones.

use std::time::Duration;

/// The parameters of an N-FBF. All are fixed at the start; only [`Resizer`](super::Resizer) changes the
/// number of filters and the period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bits in each constituent filter (the paper's `m`).
    pub bits: usize,
    /// Hash functions, shared by all constituent filters (the paper's `k`).
    pub hashes: usize,
    /// Constituent filters: future, present and at least one past (the paper's `N + 2`).
    pub filters: usize,
    /// Time between two refreshes (the paper's `t`).
    pub period: Duration,
}

impl Settings {
    /// Most bits of a constituent filter: 512 MiB.
    pub const BITS_MAX: usize = 1 << 32;
    /// Most hash functions.
    pub const HASHES_MAX: usize = 32;
    /// Fewest constituent filters: one of each role.
    pub const FILTERS_MIN: usize = 3;
    /// Most constituent filters. The paper has no bound; without one, Algorithm 3 doubles until memory is
    /// gone.
    pub const FILTERS_MAX: usize = 8192;

    pub(super) fn validate(&self) -> Result<(), PaperError> {
        let refuse = |setting, rule| Err(PaperError::Setting { setting, rule });
        if self.bits == 0 || self.bits > Self::BITS_MAX {
            return refuse("bits", "must be between 1 and 2^32");
        }
        if self.hashes == 0 || self.hashes > Self::HASHES_MAX {
            return refuse("hashes", "must be between 1 and 32");
        }
        if self.filters < Self::FILTERS_MIN || self.filters > Self::FILTERS_MAX {
            return refuse("filters", "must be between 3 (future, present, one past) and 8192");
        }
        if self.period.is_zero() {
            return refuse("period", "must be longer than zero");
        }
        Ok(())
    }
}

/// Why a filter of the paper could not be created or grown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaperError {
    /// A setting is outside its bounds.
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// What it must satisfy.
        rule: &'static str,
    },
    /// The allocator could not provide the filters.
    OutOfMemory {
        /// The requested size.
        bytes: usize,
    },
}

impl std::fmt::Display for PaperError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Setting { setting, rule } => write!(f, "`{setting}` {rule}"),
            Self::OutOfMemory { bytes } => write!(f, "no memory for {bytes} bytes of filters"),
        }
    }
}

impl std::error::Error for PaperError {}
