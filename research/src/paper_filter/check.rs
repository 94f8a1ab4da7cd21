//! The membership checks: three ways to combine the lookups in the constituent filters.

/// Which membership check to run. Filter 0 is the future, 1 the present, 2 the newest past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    /// Algorithm 2, branch by branch. With more than one past filter the oldest is never checked alone, and
    /// the guaranteed retention is one period shorter than promised. The prototype has the same chain.
    Printed,
    /// As in the paper's text (Sec. III-D) and Eq. (3): the future, or two neighbours, or the oldest past
    /// alone.
    Text,
    /// Any filter that contains it (Sec. III-A): the baseline of the optimised check.
    Simple,
}

impl Check {
    /// Decides from the results of `filters >= 3` constituent filters.
    pub(super) fn decide(self, filters: usize, has: impl Fn(usize) -> bool) -> bool {
        let oldest = filters.saturating_sub(1);
        let pair = |newer: usize| has(newer) && has(newer + 1);
        match self {
            Self::Printed => {
                const PAST_NEWEST: usize = 2;
                if has(0) || pair(1) {
                    true
                } else if oldest > PAST_NEWEST {
                    // The printed procedure ends here without a result when no pair matches.
                    (PAST_NEWEST..oldest).any(pair)
                } else {
                    has(oldest)
                }
            }
            Self::Text => has(0) || (1..oldest).any(pair) || has(oldest),
            Self::Simple => (0..filters).any(has),
        }
    }
}
