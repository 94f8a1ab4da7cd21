//! Events allocate nothing; decoding untrusted bytes allocates no more than documented.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/counting.rs"]
mod counting;

use bloom_clock::{
    BloomClock, COUNTERS_MAX, Clock, ClockParams, DeltaDecoder, DeltaEncoder, Identity, PersistedClock,
    Stamp, TickKey, VectorStamp,
};
use counting::counted;
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};

#[test]
fn an_event_allocates_nothing() {
    assert_eq!(counted(|| drop(vec![1_u8; 100])), (1, 100), "the allocator counts");
    for key in [TickKey::Event, TickKey::Process] {
        // A low limit, so that generations end during the test.
        let params = ClockParams::new(64).unwrap().hashes(3).unwrap().key(key).limit(50).unwrap();
        let begin = |number| BloomClock::begin(params, Identity::from_number_never_used_before(number));
        let (mut one, mut other) = (begin(1), begin(2));
        let (mut encoder, mut out) = (DeltaEncoder::default(), Vec::with_capacity(1000));
        encoder.write(one.tick(), &mut out);
        let mut generations = 0;
        let work = || {
            for _ in 0..1000 {
                one.tick();
                other.receive(one.now()).unwrap();
                other.tick();
                one.receive(other.now()).unwrap();
                let _ = one.now().after(other.now());
                out.clear();
                encoder.write(one.now(), &mut out);
            }
            generations = one.now().generation().0;
        };
        assert_eq!(counted(work), (0, 0), "{key:?}");
        assert!(generations > 3, "{generations}");
    }
}

#[test]
fn decoding_allocates_the_expected_counters_only() {
    let params = ClockParams::new(64).unwrap();
    let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(1));
    let (mut encoder, mut decoder) = (DeltaEncoder::default(), DeltaDecoder::new(params));
    let [full, delta, next] = [(); 3].map(|()| {
        let mut message = Vec::new();
        encoder.write(clock.tick(), &mut message);
        message
    });
    let mut stamp = Vec::new();
    clock.now().write(&mut stamp);
    let saved = clock.save().into_bytes();
    const COUNTERS: usize = 64 * 4;
    assert_eq!(counted(|| drop(Stamp::read(&stamp, &params).unwrap())), (1, COUNTERS));
    assert_eq!(counted(|| drop(PersistedClock::read(&saved, &params).unwrap())), (1, COUNTERS));
    assert_eq!(counted(|| drop(decoder.read(&full).unwrap().clone())), (2, 2 * COUNTERS));
    assert_eq!(counted(|| assert!(decoder.read(&delta).is_ok())), (1, COUNTERS));

    // Huge counts and other parameters are rejected before the allocation.
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for first in [1, 3] {
        let huge: Vec<u8> = [first, 1].into_iter().chain(most).collect();
        assert_eq!(counted(|| assert!(Stamp::read(&huge, &params).is_err())).1, 0);
        assert_eq!(counted(|| assert!(decoder.read(&huge).is_err())).1, 0);
    }
    let huge: Vec<u8> = [2, 2].into_iter().chain(most).collect();
    assert!(counted(|| assert!(decoder.read(&huge).is_err())).1 <= COUNTERS);
    let wide = ClockParams::new(COUNTERS_MAX).unwrap();
    assert_eq!(counted(|| assert!(PersistedClock::read(&saved, &wide).is_err())), (0, 0));
    assert_eq!(counted(|| assert!(Stamp::read(&stamp, &wide).is_err())), (0, 0));
    assert!(decoder.read(&next).is_ok(), "errors leave the decoder unchanged");
}

/// Announces `usize::MAX` numbers and sends this many.
struct Announcing(usize);

impl Iterator for Announcing {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0 = self.0.checked_sub(1)?;
        Some(7)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, Some(usize::MAX))
    }
}

/// A field of a stamp.
enum Field {
    Generation,
    Counters(usize),
}

impl IntoDeserializer<'_, Error> for Field {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Field {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Generation => visitor.visit_u64(3),
            Self::Counters(sent) => visitor.visit_seq(SeqDeserializer::new(Announcing(sent))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit struct
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn read_stamp(sent: usize) -> Result<Stamp, Error> {
    let fields = [("generation", Field::Generation), ("counters", Field::Counters(sent))];
    Stamp::deserialize(MapDeserializer::new(fields.into_iter()))
}

#[test]
fn an_announced_length_allocates_no_memory() {
    /// Maximum allocation before the first number.
    const FREE: usize = 4096;
    let read_vector = |sent| VectorStamp::deserialize(Field::Counters(sent));
    let stamp = |sent| counted(|| assert_eq!(read_stamp(sent).is_ok(), sent > 0)).1;
    let vector = |sent| counted(|| assert_eq!(read_vector(sent).is_ok(), sent > 0)).1;
    // The text of an error takes less than 128 bytes.
    assert!(stamp(0) <= FREE + 128 && vector(0) <= FREE + 128, "{} and {}", stamp(0), vector(0));
    assert!(stamp(1) <= FREE + 8 && vector(1) <= FREE + 8, "{} and {}", stamp(1), vector(1));
    // While a vector grows, the old and the new allocation exist.
    for sent in [1025, 3000, COUNTERS_MAX] {
        assert!(stamp(sent) <= 12 * sent, "{sent}: {}", stamp(sent));
        assert!(vector(sent) <= 24 * sent, "{sent}: {}", vector(sent));
    }
    // An endless sequence is rejected at the limit.
    let endless = || assert!(read_stamp(usize::MAX).is_err());
    assert!(counted(endless).1 <= 6 * COUNTERS_MAX + 128);
}
