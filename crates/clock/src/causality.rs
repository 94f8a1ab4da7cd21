//! What two stamps tell of their events.

/// Whether an event can have been caused by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Causality {
    /// It was certainly not.
    CertainlyNot,
    /// It may have been. A vector clock says this only if it was.
    Possibly,
    /// The stamps are the same. It is the same event, or neither caused the other: never take this for identity.
    Equal,
}

/// How two events are to one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// The first may have caused the second; the second certainly not the first.
    PossiblyBefore,
    /// The second may have caused the first; the first certainly not the second.
    PossiblyAfter,
    /// Certainly neither caused the other.
    Concurrent,
    /// The stamps are the same. It is the same event, or neither caused the other.
    Equal,
}

impl Relation {
    /// From what is known of either direction.
    pub(crate) fn of(second_after_first: Causality, first_after_second: Causality) -> Self {
        match (second_after_first, first_after_second) {
            (Causality::Possibly, Causality::CertainlyNot) => Self::PossiblyBefore,
            (Causality::CertainlyNot, Causality::Possibly) => Self::PossiblyAfter,
            (Causality::CertainlyNot, Causality::CertainlyNot) => Self::Concurrent,
            // Both ways is possible for no two stamps: all counters at most those of the other, and not the same.
            _ => Self::Equal,
        }
    }
}
