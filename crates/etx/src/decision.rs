//! What became of a try.

/// How a try ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Its effects stay.
    Commit,
    /// It has none.
    Abort,
}
