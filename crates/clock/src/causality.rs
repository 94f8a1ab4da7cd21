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
