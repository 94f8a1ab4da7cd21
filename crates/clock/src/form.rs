//! Stamps, shapes and saved clocks in the formats of serde (with the feature `serde`).
//!
//! A stamp is its generation and its counters; that of a vector clock its numbers; a shape all that it has. A saved clock is its bytes, or these in
//! hexadecimal where people read them. An [`Identity`](crate::Identity) has no form: it is in one clock, or saved with it, and nowhere else.
//!
//! What must hold: what a stranger sends is read or refused as strictly as [bytes](crate::Stamp::read) are, with no more memory than
//! [`COUNTERS_MAX`] counters or [`PROCESSES_MAX`] numbers take (half as much again while they are moved), and no more than 4 KiB before any
//! came: what a format says of the number to come is not believed. Of which shape a stamp is nobody knows here: [check](Stamp::check) it before it is compared.

use std::fmt::{Formatter, Result as Written, Write};
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::generation::Generation;
use crate::saved::{SAVED_BYTES_MAX, Saved};
use crate::shape::{COUNTERS_MAX, Shape, TickKey};
use crate::stamp::Stamp;
use crate::vector::{PROCESSES_MAX, VectorStamp};

/// One to `MANY` numbers.
struct Numbers<T, const MANY: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MANY: usize> Deserialize<'de> for Numbers<T, MANY> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Collect<T, const MANY: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MANY: usize> Visitor<'de> for Collect<T, MANY> {
            type Value = Numbers<T, MANY>;

            fn expecting(&self, out: &mut Formatter<'_>) -> Written {
                write!(out, "1 to {MANY} numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
                const AT_FIRST: usize = 4096;
                let expected = from.size_hint().unwrap_or(0).min(AT_FIRST / size_of::<T>()).min(MANY);
                let mut numbers = Vec::with_capacity(expected);
                while let Some(number) = from.next_element()? {
                    if numbers.len() == MANY {
                        return Err(A::Error::invalid_length(MANY + 1, &self));
                    }
                    // Twice as many as before, but never more than there may be.
                    if numbers.len() == numbers.capacity() {
                        numbers.reserve_exact(numbers.len().max(16).min(MANY - numbers.len()));
                    }
                    numbers.push(number);
                }
                if numbers.is_empty() {
                    return Err(A::Error::invalid_length(0, &self));
                }
                Ok(Numbers(numbers))
            }
        }

        from.deserialize_seq(Collect(PhantomData))
    }
}

impl Serialize for Generation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Generation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        u64::deserialize(from).map(Self)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "Stamp", deny_unknown_fields)]
struct StampForm<C> {
    generation: Generation,
    counters: C,
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        StampForm { generation: self.generation, counters: &self.counters }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = StampForm::<Numbers<u32, COUNTERS_MAX>>::deserialize(from)?;
        Ok(Self { generation: form.generation, counters: form.counters.0.into() })
    }
}

impl Serialize for VectorStamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for VectorStamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let numbers = Numbers::<u64, PROCESSES_MAX>::deserialize(from)?.0;
        match numbers.iter().find(|number| **number > VectorStamp::READ_MAX) {
            // Whoever took it in would soon have no next number.
            Some(number) => {
                Err(D::Error::invalid_value(Unexpected::Unsigned(*number), &"a number of events, below 2^62"))
            }
            None => Ok(Self(numbers.into())),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "TickKey", rename_all = "lowercase")]
enum KeyForm {
    Event,
    Process,
}

impl Serialize for TickKey {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Event => KeyForm::Event,
            Self::Process => KeyForm::Process,
        }
        .serialize(to)
    }
}

impl<'de> Deserialize<'de> for TickKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match KeyForm::deserialize(from)? {
            KeyForm::Event => Self::Event,
            KeyForm::Process => Self::Process,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "Shape", deny_unknown_fields)]
struct ShapeForm {
    counters: usize,
    hashes: u32,
    key: TickKey,
    limit: u32,
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { counters, hashes, key, limit } = *self;
        ShapeForm { counters, hashes, key, limit }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let ShapeForm { counters, hashes, key, limit } = ShapeForm::deserialize(from)?;
        let shape = Self::new(counters).and_then(|shape| shape.hashes(hashes));
        shape.and_then(|shape| shape.key(key).limit(limit)).map_err(D::Error::custom)
    }
}

/// There is a copy then: see [`BloomClock::restore`](crate::BloomClock::restore).
impl Serialize for Saved {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let bytes = self.bytes();
        if !to.is_human_readable() {
            return to.serialize_bytes(&bytes);
        }
        let mut text = String::with_capacity(2 * bytes.len());
        bytes.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a string takes all text"));
        to.serialize_str(&text)
    }
}

/// Of any shape: see [`Saved::shape`].
impl<'de> Deserialize<'de> for Saved {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Saved;

            fn expecting(&self, out: &mut Formatter<'_>) -> Written {
                out.write_str("a saved clock")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Saved, E> {
                Saved::read_any(bytes, |_| true).map_err(E::custom)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Saved, E> {
                let bytes = from_hexadecimal(text);
                let bytes =
                    bytes.ok_or_else(|| E::custom("not in hexadecimal, or longer than any saved clock"))?;
                self.visit_bytes(&bytes)
            }
        }

        if from.is_human_readable() { from.deserialize_str(Bytes) } else { from.deserialize_bytes(Bytes) }
    }
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > SAVED_BYTES_MAX {
        return None;
    }
    // One spelling: what was written is in small letters.
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
