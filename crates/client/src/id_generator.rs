//! Makes ids: UUIDs of version 7, each larger than the one before. Pure: time and chance come in.

/// The bits behind the time: 12 before the variant, 62 behind it.
const TAIL_BITS: u32 = 74;
const TAIL_MASK: u128 = (1 << TAIL_BITS) - 1;

/// How far a clock may go back and be waited for. Ids that are dated further ahead than servers allow (a minute, if nothing else is
/// said) would be refused, so after a larger step back the order of ids is given up, and not the ids.
const STEP_BACK_MAX: u64 = 10_000;

/// Makes ids: UUIDs of version 7, each larger than the one before unless the clock is set back by more than ten seconds.
///
/// Within a millisecond the id before is increased by chance, so that neither order nor unguessability is lost.
#[derive(Debug, Default)]
pub struct IdGenerator {
    last: Option<(u64, u128)>,
}

impl IdGenerator {
    /// The next id: at this time in milliseconds since 1970, with this chance.
    pub fn next(&mut self, millis: u64, chance: u128) -> u128 {
        let (millis, tail) = match self.last {
            Some((last, tail)) if millis <= last && last - millis <= STEP_BACK_MAX => {
                // A step of 1 to 2^32: there are 2^42 and more in a millisecond.
                let tail = tail + 1 + (chance & 0xffff_ffff);
                if tail > TAIL_MASK { (last + 1, chance & TAIL_MASK >> 1) } else { (last, tail) }
            }
            // The highest bit is left free for the steps.
            _ => (millis, chance & TAIL_MASK >> 1),
        };
        self.last = Some((millis, tail));
        uuid7(millis, tail)
    }
}

fn uuid7(millis: u64, tail: u128) -> u128 {
    let (high, low) = (tail >> 62, tail & ((1 << 62) - 1));
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
        fn ids_grow_while_the_clock_jitters(
            ids in prop::collection::vec((0..5_000u64, any::<u128>()), 2..200)
        ) {
            let mut mint = IdGenerator::default();
            let ids: Vec<u128> = ids.into_iter().map(|(late, chance)| mint.next(NOW - late, chance)).collect();
            for pair in ids.windows(2) {
                prop_assert!(pair[0] < pair[1], "{:x} {:x}", pair[0], pair[1]);
            }
            for id in ids {
                prop_assert!(OpId::uuid7(id).is_ok());
            }
        }

        #[test]
        fn an_id_carries_its_time(millis in 0..1u64 << 47, chance: u128) {
            let id = IdGenerator::default().next(millis, chance);
            prop_assert_eq!((id >> 80) as u64, millis);
            prop_assert!(OpId::uuid7(id).is_ok());
        }
    }

    #[test]
    fn a_clock_that_is_set_back_far_is_followed() {
        let mut mint = IdGenerator::default();
        mint.next(NOW, 0);
        assert_eq!((mint.next(NOW - STEP_BACK_MAX, 0) >> 80) as u64, NOW);
        assert_eq!((mint.next(NOW - STEP_BACK_MAX - 1, 0) >> 80) as u64, NOW - STEP_BACK_MAX - 1);
    }

    #[test]
    fn a_millisecond_that_is_full_borrows_from_the_next() {
        let mut mint = IdGenerator { last: Some((NOW, TAIL_MASK)) };
        let id = mint.next(NOW, u128::MAX);
        assert_eq!((id >> 80) as u64, NOW + 1);
        assert!(OpId::uuid7(id).is_ok());
    }
}
