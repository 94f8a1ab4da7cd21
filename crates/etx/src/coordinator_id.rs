//! Who works on a try.

/// One piece of work on one try. No two are ever the same: a server draws an incarnation at random each time it starts, and counts.
///
/// A decision to commit names the executor whose branches are meant. So servers that work on the same try, because one thinks
/// the other dead, need not be kept from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoordinatorId {
    /// The application server.
    pub server: u16,
    /// Which life of it.
    pub incarnation: u64,
    /// Which work of that life.
    pub work: u64,
}

impl CoordinatorId {
    /// Who tries out whether a database can prepare branches at all. Its branches are its own business, and nobody else sweeps them up.
    pub const TRIAL: Self = Self { server: u16::MAX, incarnation: u64::MAX, work: 0 };
}
