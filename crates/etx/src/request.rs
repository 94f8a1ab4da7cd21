//! What is asked for, and its tries.

/// How often a request is tried before it is given up for good, with an answer that says so.
pub const TRIES_MAX: u8 = 64;

/// The name of a request. It is given by the client, before it asks for the first time, and never given again.
///
/// A session is dated, as a UUIDv7 is: requests of a session that is older than the window are refused, so that what is remembered of them can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The session: the bits of a UUIDv7.
    pub session: u128,
    /// Which request of the session, counted as the client likes. A request that stands alone has a session of its own.
    pub sequence: u32,
}

/// A try of a request, numbered from 1 to [`TRIES_MAX`]. One is begun only when the one before it is decided to abort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptNumber(pub u8);

impl AttemptNumber {
    /// The first of a request.
    pub const FIRST: Self = Self(1);

    /// The next one, if the request is not given up.
    pub fn next(self) -> Option<Self> {
        (self.0 < TRIES_MAX).then_some(Self(self.0 + 1))
    }
}

/// Where the decisions about a request are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionLocation {
    /// In the registers that the servers share.
    Registers,
    /// In one of the databases, by its number: a row that is committed together with what the request does there. That database needs no vote.
    Resource(u8),
}

impl DecisionLocation {
    /// Stands for the registers among the numbers of databases.
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

/// A piece of work: somebody at work on a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The request.
    pub request: RequestId,
    /// Which try of it.
    pub number: AttemptNumber,
    /// Who works on it.
    pub executor: crate::CoordinatorId,
    /// Where the decision will be.
    pub home: DecisionLocation,
}
