//! The identity of a process.

/// The identity of a process, for one lifetime of its clock.
///
/// Events of one identity are numbered without gaps or restarts. If a process that lost its clock started
/// again at zero under the same identity, its later events would not cover its earlier ones, and true causes
/// would be denied. So an identity cannot be copied and belongs to one clock. A process that restarts takes a
/// new identity and [joins](crate::BloomClock::join).
#[derive(Debug, PartialEq, Eq)]
pub struct Identity(u128);

impl Identity {
    /// Creates an identity from 16 random bytes, drawn for this clock only.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// Creates an identity from a number that no other clock uses, before or later; for systems that assign
    /// numbers, such as simulations.
    pub fn from_number_never_used_before(number: u64) -> Self {
        Self(number.into())
    }

    pub(crate) fn number(&self) -> u128 {
        self.0
    }
}
