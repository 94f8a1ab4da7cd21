//! Generations: counters do not count for ever. Before one would pass its limit the clock begins again at zero, in the next
//! generation; whoever receives a stamp of a later one goes over to it.
//!
//! What must hold: along every chain of causes generations never go back. So of two events in different generations the later generation
//! is certainly not a cause of the earlier one, and the earlier one may be of the later; and a chain between two events of one generation is within it.

/// The number of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Generation(pub u64);

impl Generation {
    /// So much later than one's own may a generation be that is received. No process misses so many, and a number that is made up must
    /// not bring the end of all numbers near.
    pub const AHEAD_MAX: u64 = 1 << 20;

    /// No clock that was saved is later. There are as many generations after it.
    pub(crate) const SAVED_MAX: Self = Self(u64::MAX >> 1);

    pub(crate) fn next(self) -> Self {
        let Some(next) = self.0.checked_add(1) else {
            unreachable!("2^64 generations: each message brings at most 2^20, each generation takes a tick")
        };
        Self(next)
    }
}
