//! Request ids and attempts.

use crate::{Cluster, CoordinatorId, Xid};

/// Limit of attempts per request. After the last one the request is answered as failed.
pub const ATTEMPTS_MAX: u8 = 64;

/// The id of a request. The client chooses it before the first send and never reuses it.
///
/// A session is dated, as a UUIDv7 is. Requests of sessions older than the window are refused, so that their
/// decisions can be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The session: the bits of a UUIDv7.
    pub session: u128,
    /// The number of the request in the session, in any order. A single request has a session of its own.
    pub sequence: u32,
}

/// An attempt of a request, numbered from 1 to [`ATTEMPTS_MAX`]. It begins only after the one before was
/// aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptNumber(pub u8);

impl AttemptNumber {
    /// The first attempt of a request.
    pub const FIRST: Self = Self(1);

    /// The next attempt; `None` after the last one.
    pub fn next(self) -> Option<Self> {
        (self.0 < ATTEMPTS_MAX).then_some(Self(self.0 + 1))
    }
}

/// Where the decisions of a request are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionLocation {
    /// In the registers that the servers share.
    Registers,
    /// In one of the databases, by its number: a row that is committed together with the branch in that
    /// database, which needs no vote.
    Resource(u8),
}

impl DecisionLocation {
    /// The number that denotes the registers among the numbers of databases.
    const REGISTERS: u8 = u8::MAX;

    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Registers => Self::REGISTERS,
            Self::Resource(number) => number,
        }
    }

    pub(crate) fn from_number(number: u8) -> Self {
        if number == Self::REGISTERS { Self::Registers } else { Self::Resource(number) }
    }
}

/// One execution of an attempt by one coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub request: RequestId,
    /// The attempt of the request.
    pub number: AttemptNumber,
    /// The coordinator that executes it.
    pub coordinator: CoordinatorId,
    /// Where its decision is recorded.
    pub decision_location: DecisionLocation,
}

impl AttemptId {
    /// The name of its branch in a database.
    pub fn branch(self, cluster: Cluster, resource: u8, connection: u64) -> Xid {
        let Self { request, number: attempt, coordinator, decision_location } = self;
        Xid { cluster, request, attempt, decision_location, coordinator, resource, connection }
    }
}
