//! The request numbers of a session: the next one, and the highest below which all are answered. Pure.

use std::collections::BTreeSet;

/// Requests of one session. The limit bounds `answered`: one unanswered request keeps all later ones in it.
const NUMBERS_MAX: u32 = 1 << 16;

/// The request numbers of one session.
#[derive(Debug, Default)]
pub struct AckWatermark {
    next: u32,
    /// All requests below are answered.
    answered_below: u32,
    /// Answered requests above it.
    answered: BTreeSet<u32>,
}

impl AckWatermark {
    /// The number of the next request, and the highest number up to which all requests are answered. Returns
    /// `None` when the session has no more numbers.
    pub fn next(&mut self) -> Option<(u32, Option<u32>)> {
        let number = Some(self.next).filter(|number| *number < NUMBERS_MAX)?;
        self.next += 1;
        Some((number, self.answered_below.checked_sub(1)))
    }

    /// Records that a request is answered and will not be retried.
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
    fn numbers_above_a_gap_are_not_acknowledged() {
        let mut acks = AckWatermark::default();
        assert_eq!(acks.next(), Some((0, None)));
        assert_eq!(acks.next(), Some((1, None)));
        acks.answered(1);
        assert_eq!(acks.next(), Some((2, None)), "0 is not answered yet");
        acks.answered(0);
        assert_eq!(acks.next(), Some((3, Some(1))));
        acks.answered(3);
        assert_eq!(acks.next(), Some((4, Some(1))));
        acks.answered(2);
        assert_eq!(acks.next(), Some((5, Some(3))));
    }

    #[test]
    fn a_session_runs_out_of_numbers() {
        let mut acks = AckWatermark { next: NUMBERS_MAX - 1, ..AckWatermark::default() };
        assert_eq!(acks.next(), Some((NUMBERS_MAX - 1, None)));
        assert_eq!(acks.next(), None);
        assert_eq!(acks.next(), None);
    }
}
