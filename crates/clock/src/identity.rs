//! Who ticks.

/// The name of a process, for one life of its clock.
///
/// Events of one name must be numbered on without end: were a process that lost its clock to begin again at zero under the same name, its later
/// events would not cover its earlier ones, and causes would be told to be none. So an identity cannot be copied; a clock takes it, and keeps it
/// where it is saved. Who lost the clock makes a new identity.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity(u128);

impl Identity {
    /// From 16 random bytes, drawn for this one clock.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// From a number that is given once, and never again to any clock: for whoever hands out numbers, such as a simulation.
    pub fn from_number_never_used_before(number: u64) -> Self {
        Self(number.into())
    }

    pub(crate) fn number(&self) -> u128 {
        self.0
    }
}
