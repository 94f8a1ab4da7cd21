//! The numbers of a session: which request is next, and up to which all have their answers. Pure.

use std::collections::BTreeSet;

/// How many numbers a session has: one that goes unanswered keeps those above it in memory.
const NUMBERS_MAX: u32 = 1 << 16;

/// The numbers of one session.
#[derive(Debug, Default)]
pub struct AckWatermark {
    next: u32,
    /// All below have their answers.
    answered_below: u32,
    /// Those above that have theirs too.
    answered: BTreeSet<u32>,
}

impl AckWatermark {
    /// The number of the next request, and the highest number up to which all were answered; nothing if there are no more numbers.
    pub fn next(&mut self) -> Option<(u32, Option<u32>)> {
        let number = Some(self.next).filter(|number| *number < NUMBERS_MAX)?;
        self.next += 1;
        Some((number, self.answered_below.checked_sub(1)))
    }

    /// That a request has its answer, and will not be asked for again.
    pub fn answered(&mut self, number: u32) {
        self.answered.insert(number);
        while self.answered.remove(&self.answered_below) {
            self.answered_below += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_no_gap_below_it_is_acknowledged() {
        let mut numbers = AckWatermark::default();
        assert_eq!(numbers.next(), Some((0, None)));
        assert_eq!(numbers.next(), Some((1, None)));
        numbers.answered(1);
        assert_eq!(numbers.next(), Some((2, None)), "0 has no answer yet");
        numbers.answered(0);
        assert_eq!(numbers.next(), Some((3, Some(1))));
        numbers.answered(3);
        assert_eq!(numbers.next(), Some((4, Some(1))));
        numbers.answered(2);
        assert_eq!(numbers.next(), Some((5, Some(3))));
    }

    #[test]
    fn numbers_end() {
        let mut numbers = AckWatermark { next: NUMBERS_MAX - 1, ..AckWatermark::default() };
        assert_eq!(numbers.next(), Some((NUMBERS_MAX - 1, None)));
        assert_eq!(numbers.next(), None);
        assert_eq!(numbers.next(), None);
    }
}
