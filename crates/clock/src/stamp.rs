//! A stamp: the state of a clock at an event, which is sent with messages.

use crate::causality::Causality;
use crate::clock::StampError;
use crate::generation::Generation;
use crate::parameters::ClockParams;

/// The state of a Bloom clock at an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub(crate) generation: Generation,
    pub(crate) counters: Box<[u32]>,
}

impl Stamp {
    /// The stamp before all events.
    pub(crate) fn zero(counters: usize) -> Self {
        Self { generation: Generation::default(), counters: vec![0; counters].into() }
    }

    /// The counters.
    pub fn counters(&self) -> &[u32] {
        &self.counters
    }

    /// The generation of the counters.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The sum of the counters in this generation.
    pub fn sum(&self) -> u64 {
        self.counters.iter().copied().map(u64::from).sum()
    }

    /// Whether the event of this stamp can have been caused by the event of `other`. Both clocks must have
    /// the same parameters.
    ///
    /// # Panics
    ///
    /// If the stamps have different numbers of counters.
    #[inline]
    pub fn after(&self, other: &Self) -> Causality {
        assert_eq!(self.counters.len(), other.counters.len(), "stamps of clocks with different parameters");
        match self.generation.cmp(&other.generation) {
            // This generation started after the other event.
            std::cmp::Ordering::Greater => Causality::Possibly,
            std::cmp::Ordering::Less => Causality::CertainlyNot,
            std::cmp::Ordering::Equal if !covers(&self.counters, &other.counters) => Causality::CertainlyNot,
            std::cmp::Ordering::Equal if self.counters == other.counters => Causality::Equal,
            std::cmp::Ordering::Equal => Causality::Possibly,
        }
    }

    /// Folds the stamp into half as many counters, each the sum of two, for clocks of half the size. Causal
    /// relations are preserved. `None` if the number of counters is odd or a sum exceeds 32 bits.
    pub fn fold(&self) -> Option<Self> {
        if !self.counters.len().is_multiple_of(2) {
            return None;
        }
        let (low, high) = self.counters.split_at(self.counters.len() / 2);
        let sums: Option<Vec<u32>> = low.iter().zip(high).map(|(low, high)| low.checked_add(*high)).collect();
        Some(Self { generation: self.generation, counters: sums?.into() })
    }

    /// Checks that the stamp is valid for clocks with these parameters. Stamps from [`read`](Self::read)
    /// always are.
    pub fn check(&self, params: &ClockParams) -> Result<(), StampError> {
        let (found, wanted) = (self.counters.len(), params.counters);
        if found != wanted {
            return Err(StampError::CounterCount { found, wanted });
        }
        if params.limit < u32::MAX {
            // Branch-free, because every counter is read anyway.
            let highest = self.counters.iter().fold(0, |highest, counter| highest.max(*counter));
            if highest > params.limit {
                return Err(StampError::Limit { found: highest, limit: params.limit });
            }
        }
        Ok(())
    }

    /// Merges another stamp: adopts a later generation as a whole, takes the maximum of each counter within
    /// the same generation, ignores an earlier generation.
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

/// Whether no counter of `second` exceeds that of `first`. Compares 16 counters at a time without branches;
/// mostly the first 16 decide.
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
