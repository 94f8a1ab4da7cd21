//! The vector clock (Fidge; Mattern): exact, with one number per process. For comparison, and for few
//! processes.

use crate::causality::Causality;
use crate::clock::{Clock, StampError};

/// The state of a vector clock at an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VectorStamp(pub(crate) Box<[u64]>);

/// Maximum of events of a process.
const EVENTS_MAX: u64 = u64::MAX >> 1;

/// Maximum number of processes.
pub const PROCESSES_MAX: usize = 1 << 20;

impl VectorStamp {
    /// Known events of each process.
    pub fn events(&self) -> &[u64] {
        &self.0
    }

    /// Whether the event of this stamp was caused by the event of `other`; here [`Causality::Possibly`] is
    /// certain.
    ///
    /// # Panics
    ///
    /// If the clocks have different numbers of processes.
    pub fn after(&self, other: &Self) -> Causality {
        assert_eq!(self.0.len(), other.0.len(), "stamps of clocks of different systems");
        // No number reaches 2^63, so the highest bit of a difference is its sign. The bitwise OR of all
        // differences decides, 16 at a time without branches.
        const LINE: usize = 16;
        let (lines, rest) = self.0.as_chunks::<LINE>();
        let (other_lines, other_rest) = other.0.as_chunks::<LINE>();
        let bits = |ours: &[u64], theirs: &[u64]| {
            ours.iter().zip(theirs).fold(0, |bits, (ours, theirs)| bits | ours.wrapping_sub(*theirs))
        };
        let mut all = 0;
        for (ours, theirs) in lines.iter().zip(other_lines) {
            all |= bits(ours, theirs);
            if all > EVENTS_MAX {
                return Causality::CertainlyNot;
            }
        }
        match all | bits(rest, other_rest) {
            0 => Causality::Equal,
            1..=EVENTS_MAX => Causality::Possibly,
            _ => Causality::CertainlyNot,
        }
    }
}

/// The vector clock of one process in a system of numbered processes.
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
    /// If `process` is not below `processes`, or there are more than [`PROCESSES_MAX`].
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

    fn receive(&mut self, stamp: &VectorStamp) -> Result<&VectorStamp, StampError> {
        let (found, wanted) = (stamp.0.len(), self.now.0.len());
        if found != wanted {
            return Err(StampError::CounterCount { found, wanted });
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
