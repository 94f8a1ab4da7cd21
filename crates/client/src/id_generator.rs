//! Generates ids: UUIDs of version 7 that increase. [`IdGenerator::next`] is pure.

use crate::system::{random_u128, unix_millis};

/// The bits after the time: 12 before the variant, 62 after it.
const TAIL_BITS: u32 = 74;
const TAIL_MASK: u128 = (1 << TAIL_BITS) - 1;

/// Largest step back of the clock, in milliseconds, for which ids keep the later time. After a larger step
/// ids follow the clock and lose their order: servers would reject ids dated too far in the future (one
/// minute by default).
const STEP_BACK_MAX: u64 = 10_000;

/// Generates UUIDs of version 7. Each is larger than the last, unless the clock steps back by more than 10
/// seconds.
///
/// Within a millisecond, an id is the last one plus a random step: ids stay ordered and hard to guess.
#[derive(Debug, Default)]
pub struct IdGenerator {
    last: Option<(u64, u128)>,
}

impl IdGenerator {
    /// The next id, from the system clock and the random numbers of the operating system.
    ///
    /// # Panics
    ///
    /// If the operating system provides no random numbers.
    pub fn generate(&mut self) -> u128 {
        self.next(unix_millis(), random_u128())
    }

    /// The next id, from the time in milliseconds since 1970 and a random number.
    pub fn next(&mut self, millis: u64, random: u128) -> u128 {
        let (millis, tail) = match self.last {
            Some((last, tail)) if millis <= last && last - millis <= STEP_BACK_MAX => {
                // A step of 1 to 2^32: a millisecond has room for at least 2^42 of them.
                let tail = tail + 1 + (random & 0xffff_ffff);
                if tail > TAIL_MASK { (last + 1, random & TAIL_MASK >> 1) } else { (last, tail) }
            }
            // The highest bit is left free for the steps.
            _ => (millis, random & TAIL_MASK >> 1),
        };
        self.last = Some((millis, tail));
        uuid7(millis, tail)
    }
}

/// A UUID of version 7 from the time in milliseconds since 1970 and the low 74 bits of a random number.
pub fn uuid7(millis: u64, random: u128) -> u128 {
    let (high, low) = (random >> 62 & 0xfff, random & ((1 << 62) - 1));
    u128::from(millis & 0xffff_ffff_ffff) << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low
}

#[cfg(test)]
mod tests {
    use jeton_core::OpId;
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    proptest! {
        #[test]
        fn ids_increase_while_the_clock_jitters(
            ids in prop::collection::vec((0..5_000u64, any::<u128>()), 2..200)
        ) {
            let mut generator = IdGenerator::default();
            let ids: Vec<u128> = ids.into_iter().map(|(late, random)| generator.next(NOW - late, random)).collect();
            for pair in ids.windows(2) {
                prop_assert!(pair[0] < pair[1], "{:x} {:x}", pair[0], pair[1]);
            }
            for id in ids {
                prop_assert!(OpId::uuid7(id).is_ok());
            }
        }

        #[test]
        fn an_id_contains_its_time(millis in 0..1u64 << 47, random: u128) {
            let id = IdGenerator::default().next(millis, random);
            prop_assert_eq!((id >> 80) as u64, millis);
            prop_assert!(OpId::uuid7(id).is_ok());
        }
    }

    #[test]
    fn ids_follow_a_clock_that_steps_far_back() {
        let mut generator = IdGenerator::default();
        generator.next(NOW, 0);
        assert_eq!((generator.next(NOW - STEP_BACK_MAX, 0) >> 80) as u64, NOW);
        assert_eq!((generator.next(NOW - STEP_BACK_MAX - 1, 0) >> 80) as u64, NOW - STEP_BACK_MAX - 1);
    }

    #[test]
    fn a_full_millisecond_continues_in_the_next() {
        let mut generator = IdGenerator { last: Some((NOW, TAIL_MASK)) };
        let id = generator.next(NOW, u128::MAX);
        assert_eq!((id >> 80) as u64, NOW + 1);
        assert!(OpId::uuid7(id).is_ok());
    }

    #[test]
    fn uuid7_is_valid_for_all_inputs() {
        for (millis, random) in [(0, 0), (NOW, u128::MAX), ((1 << 48) - 1, 1)] {
            let id = uuid7(millis, random);
            assert!(OpId::uuid7(id).is_ok(), "{id:x}");
            assert_eq!((id >> 80) as u64, millis);
        }
        assert_ne!(IdGenerator::default().generate(), IdGenerator::default().generate());
    }
}
