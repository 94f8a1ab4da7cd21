//! The exact table that judges the filter: every id of the window, in full.
//!
//! What must hold: the table has exactly the ids that arrived first within the last window. It is what the filter
//! replaces, so its size is what the filter saves.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use forgetful_filter::{Moment, Sighting};

use super::load::{Arrival, Id, IdKind};

/// What an exact table needs for an id at the very least: the id, and when it came.
pub const EXACT_BYTES_PER_ID: usize = size_of::<Id>() + size_of::<Moment>();

/// How the filter did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Score {
    /// New ids that passed.
    pub accepted: u64,
    /// Ids of the window that were recognised.
    pub caught: u64,
    /// Ids of the window that were taken for new ones: the filter promises that there are none.
    pub missed: u64,
    /// Ids that the window does not hold, taken for known ones.
    pub mistaken: u64,
    /// Ids older than the window that passed as new.
    pub forgotten: u64,
}

impl Score {
    /// All ids sent, retries included.
    pub fn sent(&self) -> u64 {
        self.accepted + self.caught + self.missed + self.mistaken + self.forgotten
    }

    /// The share of ids not in the window that were taken for known ones.
    pub fn mistaken_share(&self) -> f64 {
        self.mistaken as f64 / (self.accepted + self.forgotten + self.mistaken).max(1) as f64
    }
}

pub struct ExactOracle {
    window: Duration,
    born: HashMap<Id, Moment>,
    by_age: VecDeque<(Moment, Id)>,
    score: Score,
    most_ids: usize,
}

impl ExactOracle {
    pub fn new(window: Duration) -> Self {
        Self { window, born: HashMap::new(), by_age: VecDeque::new(), score: Score::default(), most_ids: 0 }
    }

    /// Judges what the filter said of an arrival; tells whether the id was in fact new to the window.
    pub fn judge(&mut self, arrival: &Arrival, sighting: Sighting) -> bool {
        self.expire(arrival.at);
        let known = self.born.contains_key(&arrival.id);
        let count = match (known, sighting, arrival.cause) {
            (true, Sighting::Maybe, _) => &mut self.score.caught,
            (true, Sighting::New, _) => &mut self.score.missed,
            (false, Sighting::Maybe, _) => &mut self.score.mistaken,
            (false, Sighting::New, IdKind::Late) => &mut self.score.forgotten,
            (false, Sighting::New, _) => &mut self.score.accepted,
        };
        *count += 1;
        if !known {
            self.born.insert(arrival.id, arrival.at);
            self.by_age.push_back((arrival.at, arrival.id));
            self.most_ids = self.most_ids.max(self.born.len());
        }
        !known
    }

    pub fn score(&self) -> &Score {
        &self.score
    }

    /// The most ids that one window held.
    pub fn most_ids(&self) -> usize {
        self.most_ids
    }

    fn expire(&mut self, now: Moment) {
        while let Some((born, id)) = self.by_age.front() {
            if now.since(*born) <= self.window {
                break;
            }
            self.born.remove(id);
            self.by_age.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_is_counted_as_what_it_is() {
        let mut referee = ExactOracle::new(Duration::from_secs(10));
        let mut judge = |secs, id: u8, cause, sighting| {
            referee.judge(&Arrival { at: Moment::from_secs(secs), id: [id; 16], cause }, sighting)
        };
        assert!(judge(0, 1, IdKind::New, Sighting::New));
        assert!(judge(0, 2, IdKind::New, Sighting::New));
        assert!(judge(1, 3, IdKind::New, Sighting::Maybe), "mistaken, but new");
        assert!(!judge(10, 1, IdKind::Retry, Sighting::Maybe), "the window is inclusive");
        assert!(!judge(10, 2, IdKind::Retry, Sighting::New));
        assert!(judge(11, 1, IdKind::Late, Sighting::New), "the window counts from the first arrival");
        let expected = Score { accepted: 2, caught: 1, missed: 1, mistaken: 1, forgotten: 1 };
        assert_eq!(*referee.score(), expected);
        assert_eq!((expected.sent(), referee.most_ids()), (6, 3));
        assert_eq!(expected.mistaken_share(), 0.25);
    }
}
