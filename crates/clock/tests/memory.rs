//! What is allocated: nothing at an event, and for the bytes of a stranger no more than is said.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/counting.rs"]
mod counting;

use bloom_clock::{
    BloomClock, COUNTERS_MAX, Clock, ClockParams, DeltaDecoder, DeltaEncoder, Identity, PersistedClock,
    Stamp, TickKey, VectorStamp,
};
use counting::counted;
use serde::Deserialize;
use serde::de::value::{Error, U32Deserializer, U64Deserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

#[test]
fn an_event_allocates_nothing() {
    assert_eq!(counted(|| drop(vec![1_u8; 100])), (1, 100), "it counts");
    for key in [TickKey::Event, TickKey::Process] {
        // A low limit, so that generations end on the way.
        let params = ClockParams::new(64).unwrap().hashes(3).unwrap().key(key).limit(50).unwrap();
        let begin = |number| BloomClock::begin(params, Identity::from_number_never_used_before(number));
        let (mut one, mut other) = (begin(1), begin(2));
        let (mut writing, mut out) = (DeltaEncoder::default(), Vec::with_capacity(1000));
        writing.write(one.tick(), &mut out);
        let mut generations = 0;
        let work = || {
            for _ in 0..1000 {
                one.tick();
                other.receive(one.now()).unwrap();
                other.tick();
                one.receive(other.now()).unwrap();
                let _ = one.now().relation(other.now());
                out.clear();
                writing.write(one.now(), &mut out);
            }
            generations = one.now().generation().0;
        };
        assert_eq!(counted(work), (0, 0), "{key:?}");
        assert!(generations > 3, "{generations}");
    }
}

#[test]
fn bytes_of_a_stranger_take_the_memory_of_the_shape() {
    let params = ClockParams::new(64).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(1));
    let (mut writing, mut reading) = (DeltaEncoder::default(), DeltaDecoder::new(params));
    let (mut whole, mut difference, mut again) = (Vec::new(), Vec::new(), Vec::new());
    writing.write(clock.tick(), &mut whole);
    writing.write(clock.tick(), &mut difference);
    writing.write(clock.tick(), &mut again);
    let mut stamp = Vec::new();
    clock.now().write(&mut stamp);
    let saved = clock.save().into_bytes();
    const COUNTERS: usize = 64 * 4;
    assert_eq!(counted(|| drop(Stamp::read(&stamp, &params).unwrap())), (1, COUNTERS));
    assert_eq!(counted(|| drop(PersistedClock::read(&saved, &params).unwrap())), (1, COUNTERS));
    assert_eq!(counted(|| drop(reading.read(&whole).unwrap().clone())), (2, 2 * COUNTERS));
    assert_eq!(counted(|| assert!(reading.read(&difference).is_ok())), (1, COUNTERS));

    // Numbers that ask for much, and bytes of another params: refused before anything is taken.
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for first in [1, 3] {
        let huge: Vec<u8> = [first, 1].into_iter().chain(most).collect();
        assert_eq!(counted(|| assert!(Stamp::read(&huge, &params).is_err())).1, 0);
        assert_eq!(counted(|| assert!(reading.read(&huge).is_err())).1, 0);
    }
    let huge: Vec<u8> = [2, 2].into_iter().chain(most).collect();
    assert!(counted(|| assert!(reading.read(&huge).is_err())).1 <= COUNTERS);
    let wide = ClockParams::new(COUNTERS_MAX).unwrap();
    assert_eq!(counted(|| assert!(PersistedClock::read(&saved, &wide).is_err())), (0, 0));
    assert_eq!(counted(|| assert!(Stamp::read(&stamp, &wide).is_err())), (0, 0));
    assert!(reading.read(&again).is_ok(), "what was refused left everything as it was");
}

/// A format that announces as much as there is, and then sends `sent` numbers.
struct Announcing {
    sent: usize,
}

impl<'de> Deserializer<'de> for Announcing {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { numbers: Some(self), named: 0 })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de> SeqAccess<'de> for Announcing {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(rest) = self.sent.checked_sub(1) else { return Ok(None) };
        self.sent = rest;
        let number: U32Deserializer<Error> = 7_u32.into_deserializer();
        seed.deserialize(number).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(usize::MAX)
    }
}

/// The fields of a stamp.
struct Fields {
    numbers: Option<Announcing>,
    named: usize,
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(name) = ["generation", "counters"].get(self.named) else { return Ok(None) };
        self.named += 1;
        seed.deserialize((*name).into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let generation: U64Deserializer<Error> = 3_u64.into_deserializer();
        if self.named == 1 {
            seed.deserialize(generation)
        } else {
            seed.deserialize(self.numbers.take().unwrap())
        }
    }
}

#[test]
fn what_a_format_announces_takes_no_memory() {
    /// What is taken before any number came.
    const FREE: usize = 4096;
    let stamp = |sent| counted(|| assert_eq!(Stamp::deserialize(Announcing { sent }).is_ok(), sent > 0)).1;
    let vector =
        |sent| counted(|| assert_eq!(VectorStamp::deserialize(Announcing { sent }).is_ok(), sent > 0)).1;
    // The text of an error is short.
    assert!(stamp(0) <= FREE + 128 && vector(0) <= FREE + 128, "{} and {}", stamp(0), vector(0));
    assert!(stamp(1) <= FREE + 8 && vector(1) <= FREE + 8, "{} and {}", stamp(1), vector(1));
    // While numbers are moved to a larger place there are both.
    for sent in [1025, 3000, COUNTERS_MAX] {
        assert!(stamp(sent) <= 12 * sent, "{sent}: {}", stamp(sent));
        assert!(vector(sent) <= 24 * sent, "{sent}: {}", vector(sent));
    }
    // Endless ones are left at the limit.
    let endless = || assert!(Stamp::deserialize(Announcing { sent: usize::MAX }).is_err());
    assert!(counted(endless).1 <= 6 * COUNTERS_MAX + 128);
}
