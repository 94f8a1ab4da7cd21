//! The identity of a coordinator.

/// One execution of one attempt. Ids are unique: a server draws a random incarnation at each start and
/// numbers its executions.
///
/// A commit decision names the coordinator whose branches it commits. So several servers may execute the same
/// attempt if one suspects the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoordinatorId {
    /// The number of the server in its cluster.
    pub server: u16,
    /// The incarnation of the server.
    pub incarnation: u64,
    /// The number of the execution within the incarnation.
    pub work: u64,
}

impl CoordinatorId {
    /// The coordinator of the privilege check of `jeton init`. Only that check resolves its branches;
    /// recovery ignores them.
    pub const TRIAL: Self = Self { server: u16::MAX, incarnation: u64::MAX, work: 0 };
}
