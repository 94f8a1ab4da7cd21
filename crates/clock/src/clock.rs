//! Logical clocks: they tick at every event of their process and merge the stamps of received messages.

use crate::causality::Causality;
use crate::generation::Generation;
use crate::hash::HashIndexArray;
use crate::identity::Identity;
use crate::parameters::{ClockParams, TickKey};
use crate::stamp::Stamp;

/// Operations of every logical clock.
pub trait Clock {
    /// The state of the clock at an event, which is sent with messages.
    type Stamp: Clone;

    /// Records an event of the process, such as sending a message; returns its stamp.
    fn tick(&mut self) -> &Self::Stamp;

    /// Records the receipt of a message with this stamp, which is an event; returns its stamp. An error
    /// leaves the clock unchanged.
    fn receive(&mut self, stamp: &Self::Stamp) -> Result<&Self::Stamp, StampError>;

    /// The stamp of the last event.
    fn now(&self) -> &Self::Stamp;

    /// Whether the event of `stamp` can have been caused by the event of `other`.
    fn after(stamp: &Self::Stamp, other: &Self::Stamp) -> Causality;
}

/// Why a stamp was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StampError {
    /// The stamp has another number of counters than the clock.
    CounterCount {
        /// Counters of the stamp.
        found: usize,
        /// Counters of the clock.
        wanted: usize,
    },
    /// The generation is implausibly far ahead of the clock's generation.
    Ahead {
        /// Generation of the stamp.
        found: Generation,
        /// Generation of the clock.
        own: Generation,
    },
    /// A counter exceeds the limit of the parameters.
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
                write!(out, "the stamp has {found} counters, the clock {wanted}")
            }
            Self::Ahead { found, own } => {
                let (found, own) = (found.0, own.0);
                write!(out, "the stamp has generation {found}, too far ahead of the clock's generation {own}")
            }
            Self::Limit { found, limit } => write!(out, "a counter is {found}, above the limit of {limit}"),
        }
    }
}

impl std::error::Error for StampError {}

/// A logical clock of constant size.
#[derive(Debug)]
pub struct BloomClock {
    params: ClockParams,
    identity: Identity,
    /// Number of events of the process.
    events: u64,
    now: Stamp,
    /// Counters that an event increments; the same for all events with [`TickKey::Process`].
    places: HashIndexArray,
}

impl BloomClock {
    /// The clock of a new process. No clock may have had this identity before.
    pub fn begin(params: ClockParams, identity: Identity) -> Self {
        Self::at(params, identity, Stamp::zero(params.counters))
    }

    /// The clock of a new process that has received `known`: its event is a cause of all events of the
    /// process. For a process that joins a running system, and for one that restarts and kept a stamp.
    /// No clock may have had this identity before.
    ///
    /// The stamp is trusted: unlike a [received](Clock::receive) stamp, its generation may be arbitrarily far
    /// ahead.
    pub fn join(params: ClockParams, identity: Identity, known: &Stamp) -> Result<Self, StampError> {
        known.check(&params)?;
        let (found, own) = (known.generation, Generation::default());
        if found > Generation::BEGIN_MAX {
            return Err(StampError::Ahead { found, own });
        }
        Ok(Self::at(params, identity, known.clone()))
    }

    fn at(params: ClockParams, identity: Identity, now: Stamp) -> Self {
        let places = HashIndexArray::new(&params, &identity, 0);
        Self { params, identity, events: 0, now, places }
    }

    /// The parameters, which all clocks in a system share.
    pub fn params(&self) -> ClockParams {
        self.params
    }

    /// Number of events of the process.
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
            self.places = HashIndexArray::new(&self.params, &self.identity, self.events);
        }
        let (places, counters) = (self.places.get(&self.params), &mut self.now.counters);
        // A counter that occurs twice is incremented twice, so a generation can end early.
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
