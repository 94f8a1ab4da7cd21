//! The generated load: new ids at the rate of the script, and some of them once more.
//!
//! What must hold: arrivals come in order of time; a retry comes within the window after its first arrival, and a
//! late one when every promise to remember it has ended; nothing arrives in the silence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use forgetful_filter::Moment;

use super::chance::Chance;
use super::script::{Phase, Script};

/// An id as clients draw them: 16 random bytes.
pub type Id = [u8; 16];

/// Of a hundred new ids, this many are sent again within the window, and this many long after it.
const RETRIES_PERCENT: u64 = 5;
const LATE_PERCENT: u64 = 2;

/// Why an id is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdKind {
    /// For the first time, and perhaps again within the window.
    New,
    /// For the first time, and once more when the window has passed.
    NewAndLateAgain,
    /// Again, within the window.
    Retry,
    /// Again, when the window has passed.
    Late,
}

/// One id on its way to the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    pub at: Moment,
    pub id: Id,
    pub cause: IdKind,
}

pub struct Load {
    script: Script,
    chance: Chance,
    next_new: Option<Moment>,
    again: BinaryHeap<Reverse<Arrival>>,
    /// Real load is never quite steady: its pace in percent, drawn anew every so often.
    pace: u64,
    pace_until: Moment,
}

impl Load {
    pub fn new(script: Script, chance: Chance) -> Self {
        Self {
            script,
            chance,
            next_new: Some(Moment::ZERO),
            again: BinaryHeap::new(),
            pace: 100,
            pace_until: Moment::ZERO,
        }
    }

    /// The next arrival, if it is before `until`.
    pub fn next_before(&mut self, until: Moment) -> Option<Arrival> {
        let again = self.again.peek().map(|Reverse(arrival)| arrival.at);
        match self.next_new {
            Some(at) if at < until && again.is_none_or(|again| at <= again) => Some(self.new_id(at)),
            _ if again? < until => self.again.pop().map(|Reverse(arrival)| arrival),
            _ => None,
        }
    }

    fn new_id(&mut self, at: Moment) -> Arrival {
        self.next_new = self.after(at);
        let id = self.chance.bytes();
        let cause = match self.chance.between(0, 100) {
            0..RETRIES_PERCENT => {
                self.send_again(id, at, IdKind::Retry, 0, 1_000);
                IdKind::New
            }
            // The filter has forgotten an id at the latest a seventh of a window after the window.
            draw if draw < RETRIES_PERCENT + LATE_PERCENT => {
                self.send_again(id, at, IdKind::Late, 1_200, 1_600);
                IdKind::NewAndLateAgain
            }
            _ => IdKind::New,
        };
        Arrival { at, id, cause }
    }

    /// Sends the id again, between so many and so many thousandths of a window later.
    fn send_again(&mut self, id: Id, first: Moment, cause: IdKind, from: u64, to: u64) {
        let window = self.script.window().as_nanos() as u64;
        let delay = self.chance.between(window / 1_000 * from, window / 1_000 * to);
        let at = first.after(Duration::from_nanos(delay));
        if self.script.phase(at) != Phase::Silence {
            self.again.push(Reverse(Arrival { at, id, cause }));
        }
    }

    /// When the new id after the one at `at` comes; none in the silence, which is the end.
    fn after(&mut self, at: Moment) -> Option<Moment> {
        if at >= self.pace_until {
            self.pace = self.chance.between(88, 113);
            self.pace_until = at.after(self.script.total() / 200);
        }
        let rate = self.script.phase(at).rate();
        let gap = 100_000_000_000_u64.checked_div(rate * self.pace)?;
        let next = at.after(Duration::from_nanos(self.chance.between(gap / 2, gap * 3 / 2)));
        (self.script.phase(next) != Phase::Silence).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_arrival_is_what_it_says_it_is() {
        let script = Script::new(Duration::from_secs(6));
        let mut load = Load::new(script, Chance::new(7));
        let mut first_seen = HashMap::new();
        let (mut latest, mut counts) = (Moment::ZERO, [0_u64; 3]);
        while let Some(Arrival { at, id, cause }) = load.next_before(script.end()) {
            assert!(at >= latest, "in order of time");
            assert_ne!(script.phase(at), Phase::Silence);
            latest = at;
            let age = first_seen.insert(id, at).map(|first| at.since(first));
            match cause {
                IdKind::New | IdKind::NewAndLateAgain => assert_eq!(age, None),
                IdKind::Retry => assert!(age.is_some_and(|age| age <= script.window())),
                IdKind::Late => assert!(age.is_some_and(|age| age >= script.window() * 6 / 5)),
            }
            counts[match cause {
                IdKind::New | IdKind::NewAndLateAgain => 0,
                IdKind::Retry => 1,
                IdKind::Late => 2,
            }] += 1;
        }
        let [new, retries, late] = counts;
        assert!((55_000..70_000).contains(&new), "{new}");
        assert!((new / 25..new / 18).contains(&retries), "{retries}");
        assert!((new / 70..new / 45).contains(&late), "{late}");
    }
}
