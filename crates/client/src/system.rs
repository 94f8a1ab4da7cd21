//! The system clock and the random numbers of the operating system: the inputs of the pure parts.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(crate) fn unix_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

pub(crate) fn random_u64() -> u64 {
    u64::from_ne_bytes(random_bytes())
}

pub(crate) fn random_u128() -> u128 {
    u128::from_ne_bytes(random_bytes())
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Repeated ids would lose counts, so the client cannot continue without random numbers.
    getrandom::fill(&mut bytes).expect("the operating system provides random numbers");
    bytes
}
