//! Causal relations between events.

/// Whether one event can have been caused by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Causality {
    /// Certainly not.
    CertainlyNot,
    /// Possibly, and certainly for a vector clock.
    Possibly,
    /// The stamps are equal. The events are the same, or neither caused the other; equality does not prove
    /// identity.
    Equal,
}

/// The relation between two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// The first may have caused the second; the second certainly not the first.
    PossiblyBefore,
    /// The second may have caused the first; the first certainly not the second.
    PossiblyAfter,
    /// Certainly neither caused the other.
    Concurrent,
    /// The stamps are equal. The events are the same, or neither caused the other.
    Equal,
}

impl Relation {
    /// Combines the results of both directions.
    pub(crate) fn of(second_after_first: Causality, first_after_second: Causality) -> Self {
        match (second_after_first, first_after_second) {
            (Causality::Possibly, Causality::CertainlyNot) => Self::PossiblyBefore,
            (Causality::CertainlyNot, Causality::Possibly) => Self::PossiblyAfter,
            (Causality::CertainlyNot, Causality::CertainlyNot) => Self::Concurrent,
            // `Possibly` in both directions cannot occur: the counters would be equal.
            _ => Self::Equal,
        }
    }
}
