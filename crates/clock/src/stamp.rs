//! A stamp: what a clock shows at an event, and what goes with a message.

use crate::causality::{Causality, Relation};
use crate::clock::StampError;
use crate::generation::Generation;
use crate::parameters::ClockParams;

/// What a Bloom clock shows at an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Stamp {
    pub(crate) generation: Generation,
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::serde_impl::bounded_sequence::<_, _, { crate::COUNTERS_MAX }>")
    )]
    pub(crate) counters: Box<[u32]>,
}

impl Stamp {
    /// Before all events.
    pub(crate) fn zero(counters: usize) -> Self {
        Self { generation: Generation::default(), counters: vec![0; counters].into() }
    }

    /// The counters.
    pub fn counters(&self) -> &[u32] {
        &self.counters
    }

    /// The generation that they are of.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// How much the counters have counted in this generation.
    pub fn sum(&self) -> u64 {
        self.counters.iter().copied().map(u64::from).sum()
    }

    /// Whether the event of this stamp can have been caused by that of the other, of a clock of the same params.
    ///
    /// # Panics
    ///
    /// If the clocks have different numbers of counters: there is no answer that would be safe.
    #[inline]
    pub fn after(&self, other: &Self) -> Causality {
        assert_eq!(self.counters.len(), other.counters.len(), "stamps of clocks of different shapes");
        match self.generation.cmp(&other.generation) {
            // The other was forgotten when this generation began.
            std::cmp::Ordering::Greater => Causality::Possibly,
            std::cmp::Ordering::Less => Causality::CertainlyNot,
            std::cmp::Ordering::Equal if !covers(&self.counters, &other.counters) => Causality::CertainlyNot,
            std::cmp::Ordering::Equal if self.counters == other.counters => Causality::Equal,
            std::cmp::Ordering::Equal => Causality::Possibly,
        }
    }

    /// How the event of this stamp and that of the other are to one another.
    ///
    /// # Panics
    ///
    /// As [`after`](Self::after).
    pub fn relation(&self, other: &Self) -> Relation {
        Relation::of(other.after(self), self.after(other))
    }

    /// The same in half as many counters, each the sum of two: for a message that should be short, to clocks of half the size. What is after what stays
    /// so. Nothing if the number of counters is odd, or a sum is beyond 32 bits.
    pub fn fold(&self) -> Option<Self> {
        if !self.counters.len().is_multiple_of(2) {
            return None;
        }
        let (low, high) = self.counters.split_at(self.counters.len() / 2);
        let sums: Option<Vec<u32>> = low.iter().zip(high).map(|(low, high)| low.checked_add(*high)).collect();
        Some(Self { generation: self.generation, counters: sums?.into() })
    }

    /// Whether it can be of a clock of this params. What comes by [`read`](Self::read) always is.
    pub fn check(&self, params: &ClockParams) -> Result<(), StampError> {
        let (found, wanted) = (self.counters.len(), params.counters);
        if found != wanted {
            return Err(StampError::CounterCount { found, wanted });
        }
        if params.limit < u32::MAX {
            // A fold without a branch, for all counters are looked at anyway.
            let highest = self.counters.iter().fold(0, |highest, counter| highest.max(*counter));
            if highest > params.limit {
                return Err(StampError::Limit { found: highest, limit: params.limit });
            }
        }
        Ok(())
    }

    /// Takes in what the other knows: a later generation as a whole, of the same the greater of each counter, nothing of an earlier one.
    pub(crate) fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.counters.len(), other.counters.len());
        match self.generation.cmp(&other.generation) {
            std::cmp::Ordering::Greater => {}
            std::cmp::Ordering::Less => {
                self.generation = other.generation;
                self.counters.copy_from_slice(&other.counters);
            }
            std::cmp::Ordering::Equal => {
                for (ours, theirs) in self.counters.iter_mut().zip(&other.counters) {
                    *ours = (*ours).max(*theirs);
                }
            }
        }
    }
}

/// Whether no counter of the second is above that of the first. Looks at a line of counters at a time: mostly the first says no, and within it
/// no branch is cheaper than sixteen.
fn covers(first: &[u32], second: &[u32]) -> bool {
    const LINE: usize = 16;
    let (lines, rest) = first.as_chunks::<LINE>();
    let (other_lines, other_rest) = second.as_chunks::<LINE>();
    let above = |(ours, theirs): (&u32, &u32)| theirs > ours;
    lines
        .iter()
        .zip(other_lines)
        .all(|(ours, theirs)| !ours.iter().zip(theirs).map(above).fold(false, |any, above| any | above))
        && !rest.iter().zip(other_rest).any(above)
}
