//! Clocks at work: they tick at every event of their process, and take in what messages carry.

use crate::causality::Causality;
use crate::generation::Generation;
use crate::hash::HashIndexArray;
use crate::identity::Identity;
use crate::parameters::{ClockParams, TickKey};
use crate::stamp::Stamp;

/// What every logical clock does.
pub trait Clock {
    /// What it shows at an event, and what goes with a message.
    type Stamp: Clone;

    /// An event of the process, such as the sending of a message: its stamp.
    fn tick(&mut self) -> &Self::Stamp;

    /// The receipt of a message with this stamp, which is an event: its stamp. If it is refused, nothing has happened.
    fn receive(&mut self, stamp: &Self::Stamp) -> Result<&Self::Stamp, StampError>;

    /// The stamp of the last event.
    fn now(&self) -> &Self::Stamp;

    /// Whether the event of the first stamp can have been caused by that of the second.
    fn after(stamp: &Self::Stamp, other: &Self::Stamp) -> Causality;
}

/// Why a stamp is not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StampError {
    /// It is of a clock of another params.
    CounterCount {
        /// How many counters it has.
        found: usize,
        /// How many the clock has.
        wanted: usize,
    },
    /// Its generation is so far ahead that it is made up.
    Ahead {
        /// The generation.
        found: Generation,
        /// The clock's own.
        own: Generation,
    },
    /// A counter of it is above the limit of the params.
    Limit {
        /// The counter.
        found: u32,
        /// The limit.
        limit: u32,
    },
}

impl std::fmt::Display for StampError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CounterCount { found, wanted } => {
                write!(out, "a stamp of {found} counters, for a clock of {wanted}")
            }
            Self::Ahead { found, own } => {
                write!(out, "a stamp of generation {}, for a clock in generation {}", found.0, own.0)
            }
            Self::Limit { found, limit } => write!(out, "a counter at {found}, above the limit of {limit}"),
        }
    }
}

impl std::error::Error for StampError {}

/// A clock of constant size.
#[derive(Debug)]
pub struct BloomClock {
    pub(crate) params: ClockParams,
    pub(crate) identity: Identity,
    /// How many events the process had.
    pub(crate) events: u64,
    pub(crate) now: Stamp,
    /// What an event increments; for all alike, if the process alone is their name.
    places: HashIndexArray,
}

impl BloomClock {
    /// The clock of a process that begins, with an identity that no clock had before.
    pub fn begin(params: ClockParams, identity: Identity) -> Self {
        Self::at(params, identity, 0, Stamp::zero(params.counters))
    }

    /// The clock of a process that begins, with an identity that no clock had before, and knows all that this stamp knows: what the stamp is of is before
    /// all that it does. For one that comes to others that began long ago, and for one that lost its clock and kept a stamp of it.
    ///
    /// The stamp is trusted to be of this system: its generation may be any, other than that of one that is
    /// [received](Clock::receive).
    pub fn join(params: ClockParams, identity: Identity, known: &Stamp) -> Result<Self, StampError> {
        known.check(&params)?;
        let (found, own) = (known.generation, Generation::default());
        if found > Generation::SAVED_MAX {
            return Err(StampError::Ahead { found, own });
        }
        Ok(Self::at(params, identity, 0, known.clone()))
    }

    /// After so many events, the last of which has this stamp.
    pub(crate) fn at(params: ClockParams, identity: Identity, events: u64, now: Stamp) -> Self {
        let places = HashIndexArray::of(&params, &identity, 0);
        Self { params, identity, events, now, places }
    }

    /// What all have in common that it is compared with.
    pub fn params(&self) -> ClockParams {
        self.params
    }

    /// How many events the process had.
    pub fn events(&self) -> u64 {
        self.events
    }
}

impl Clock for BloomClock {
    type Stamp = Stamp;

    fn tick(&mut self) -> &Stamp {
        let ClockParams { hashes, key, limit, .. } = self.params;
        self.events += 1;
        if key == TickKey::Event {
            self.places = HashIndexArray::of(&self.params, &self.identity, self.events);
        }
        let (places, counters) = (self.places.drawn(&self.params), &mut self.now.counters);
        // One that is drawn twice takes two steps: near the limit the generation may end a step early.
        if places.iter().any(|place| counters[usize::from(*place)] > limit - hashes) {
            self.now.generation = self.now.generation.next();
            counters.fill(0);
        }
        for place in places {
            counters[usize::from(*place)] += 1;
        }
        &self.now
    }

    fn receive(&mut self, stamp: &Stamp) -> Result<&Stamp, StampError> {
        stamp.check(&self.params)?;
        let (found, own) = (stamp.generation, self.now.generation);
        if found.0 > own.0.saturating_add(Generation::AHEAD_MAX) {
            return Err(StampError::Ahead { found, own });
        }
        self.now.merge(stamp);
        Ok(self.tick())
    }

    fn now(&self) -> &Stamp {
        &self.now
    }

    fn after(stamp: &Stamp, other: &Stamp) -> Causality {
        stamp.after(other)
    }
}
