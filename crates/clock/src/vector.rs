//! The vector clock (Fidge; Mattern): exact, with a number for every process. For comparison, and for few processes.

use crate::causality::{Causality, Relation};
use crate::clock::{Clock, Refusal};

/// What a vector clock shows at an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VectorStamp(pub(crate) Box<[u64]>);

/// The most processes.
pub const PROCESSES_MAX: usize = 1 << 20;

impl VectorStamp {
    /// No stamp that is read has more events of a process: a clock that took it in has as many to come.
    #[cfg(feature = "serde")]
    pub(crate) const EVENTS_MAX: u64 = u64::MAX >> 1;

    /// How many events of each process are known.
    pub fn events(&self) -> &[u64] {
        &self.0
    }

    /// Whether the event of this stamp was caused by that of the other: [`Causality::Possibly`] is certain here.
    ///
    /// # Panics
    ///
    /// If the clocks have different numbers of processes.
    pub fn after(&self, other: &Self) -> Causality {
        assert_eq!(self.0.len(), other.0.len(), "stamps of clocks of different systems");
        if self.0.iter().zip(&other.0).any(|(ours, theirs)| theirs > ours) {
            Causality::CertainlyNot
        } else if self == other {
            Causality::Equal
        } else {
            Causality::Possibly
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
}

/// The clock of a process of a system whose processes are numbered.
#[derive(Debug)]
pub struct VectorClock {
    process: usize,
    now: VectorStamp,
}

impl VectorClock {
    /// The clock of process number `process`, from 0, of `processes`.
    ///
    /// # Panics
    ///
    /// If there is no such process, or there are more than [`PROCESSES_MAX`].
    pub fn begin(process: usize, processes: usize) -> Self {
        assert!(process < processes && processes <= PROCESSES_MAX, "process {process} of {processes}");
        Self { process, now: VectorStamp(vec![0; processes].into()) }
    }
}

impl Clock for VectorClock {
    type Stamp = VectorStamp;

    fn tick(&mut self) -> &VectorStamp {
        self.now.0[self.process] += 1;
        &self.now
    }

    fn receive(&mut self, stamp: &VectorStamp) -> Result<&VectorStamp, Refusal> {
        let (found, wanted) = (stamp.0.len(), self.now.0.len());
        if found != wanted {
            return Err(Refusal::Shape { found, wanted });
        }
        for (ours, theirs) in self.now.0.iter_mut().zip(&stamp.0) {
            *ours = (*ours).max(*theirs);
        }
        Ok(self.tick())
    }

    fn now(&self) -> &VectorStamp {
        &self.now
    }

    fn after(stamp: &VectorStamp, other: &VectorStamp) -> Causality {
        stamp.after(other)
    }
}
