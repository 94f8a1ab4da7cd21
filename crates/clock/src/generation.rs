//! Generations bound the counters: before a counter would exceed its limit, the clock starts at zero in the
//! next generation. A process that receives a stamp of a later generation adopts that generation.
//!
//! Invariant: along every causal chain the generation never decreases. So an event of a later generation is
//! certainly not a cause of an event of an earlier one, and a causal chain between two events of one
//! generation stays in it.

/// The number of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

impl Generation {
    /// Maximum distance of a received generation from the clock's own. No process misses this many
    /// generations, and a forged number must not bring the counter near its maximum.
    pub const AHEAD_MAX: u64 = 1 << 20;

    /// Maximum generation with which a clock can begin; as many generations follow.
    pub(crate) const BEGIN_MAX: Self = Self(u64::MAX >> 1);

    pub(crate) fn next(self) -> Self {
        let Some(next) = self.0.checked_add(1) else {
            unreachable!("2^64 generations: a message adds at most 2^20, and a generation takes a tick")
        };
        Self(next)
    }
}
