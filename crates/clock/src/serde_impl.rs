//! Helpers for the serde representations (feature `serde`).
//!
//! A [`Stamp`](crate::Stamp) is its generation and its counters, a [`VectorStamp`] its numbers, a
//! [`ClockParams`] its fields. A [`PersistedClock`](crate::PersistedClock) has its own bytes. An
//! [`Identity`](crate::Identity) has no representation: it exists in one clock or in one persisted clock.
//!
//! Invariants: untrusted input is checked as strictly as by [`Stamp::read`](crate::Stamp::read). It takes no
//! more memory than [`COUNTERS_MAX`](crate::COUNTERS_MAX) counters or [`PROCESSES_MAX`] numbers (half as much
//! again while a vector grows), and at most 4 KiB before the first number arrives, whatever length the format
//! announces. The expected number of counters is not known here: call [`Stamp::check`](crate::Stamp::check)
//! before comparing.

use std::fmt::{self, Formatter};
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::parameters::{ClockParams, ClockParamsError, TickKey};
use crate::vector::{PROCESSES_MAX, VectorStamp};

/// Deserializes a sequence of 1 to `MAX` numbers.
pub(crate) fn bounded_sequence<'de, D, T, const MAX: usize>(from: D) -> Result<Box<[T]>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Collect<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Collect<T, MAX> {
        type Value = Box<[T]>;

        fn expecting(&self, out: &mut Formatter<'_>) -> fmt::Result {
            write!(out, "1 to {MAX} numbers")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            const PREALLOCATED_BYTES: usize = 4096;
            let announced = from.size_hint().unwrap_or(0);
            let mut numbers = Vec::with_capacity(announced.min(PREALLOCATED_BYTES / size_of::<T>()).min(MAX));
            while let Some(number) = from.next_element()? {
                if numbers.len() == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                // Doubles the capacity, up to MAX.
                if numbers.len() == numbers.capacity() {
                    numbers.reserve_exact(numbers.len().max(16).min(MAX - numbers.len()));
                }
                numbers.push(number);
            }
            if numbers.is_empty() {
                return Err(A::Error::invalid_length(0, &self));
            }
            Ok(numbers.into())
        }
    }

    from.deserialize_seq(Collect::<T, MAX>(PhantomData))
}

/// A [`VectorStamp`] before the check of its numbers.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct UncheckedVectorStamp(
    #[serde(deserialize_with = "bounded_sequence::<_, _, PROCESSES_MAX>")] Box<[u64]>,
);

impl TryFrom<UncheckedVectorStamp> for VectorStamp {
    type Error = String;

    fn try_from(unchecked: UncheckedVectorStamp) -> Result<Self, String> {
        // A clock that merged a larger number would soon have no next number.
        match unchecked.0.iter().find(|number| **number > Self::READ_MAX) {
            Some(number) => Err(format!("{number} events of a process, expected a number below 2^62")),
            None => Ok(Self(unchecked.0)),
        }
    }
}

/// A [`ClockParams`] before the check of its fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UncheckedParams {
    counters: usize,
    hashes: u32,
    key: TickKey,
    limit: u32,
}

impl TryFrom<UncheckedParams> for ClockParams {
    type Error = ClockParamsError;

    fn try_from(unchecked: UncheckedParams) -> Result<Self, ClockParamsError> {
        let UncheckedParams { counters, hashes, key, limit } = unchecked;
        Self::new(counters)?.hashes(hashes)?.key(key).limit(limit)
    }
}
