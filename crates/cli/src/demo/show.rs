//! The demo itself, without its looks: the real filter under the generated load, in virtual time.
//!
//! What must hold: what happens depends on the script and the seed alone, never on how fast or in which steps it is
//! watched. So a live run, a piped one and a test of the same seed end with the same numbers.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use forgetful_filter::{ForgetfulFilter, Key, Moment, Settings, Sighting, Status};

use super::chance::Chance;
use super::history::{History, SAMPLES};
use super::load::{Arrival, Id, IdKind, Load};
use super::referee::{ExactOracle, Score};
use super::script::{CALM_RATE, Script, TARGET};

/// Ids a window that are kept aside, to ask the filter later whether it still knows them.
const WITNESSES_PER_WINDOW: u32 = 1_000;

/// The witnesses are asked up to this age, in windows.
pub const WITNESS_WINDOWS: u32 = 2;

/// The ids of one age.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Age {
    /// How many there were, a second.
    pub rate: u64,
    /// The share of them that the filter remembers.
    pub remembered: f64,
}

pub struct Show {
    script: Script,
    filter: ForgetfulFilter,
    load: Load,
    referee: ExactOracle,
    history: History,
    witnesses: VecDeque<(Moment, Id)>,
    status: Status,
    now: Moment,
    /// The end of the step under way, and the ids that arrived in it.
    step_end: Moment,
    arrived: u64,
}

impl Show {
    pub fn new(script: Script, seed: u64) -> Result<Self> {
        let mut chance = Chance::new(seed);
        let key = Key::new(chance.bytes());
        // Sized for the calm only: the surge is to be a surprise.
        let calm_ids = CALM_RATE * script.window().as_millis() as u64 / 1_000;
        let filter = Settings::for_window(script.window())
            .false_positive_rate(TARGET)
            .expected_ids(calm_ids.max(1))
            .build(key)?;
        Ok(Self {
            script,
            load: Load::new(script, chance),
            referee: ExactOracle::new(script.window()),
            history: History::default(),
            witnesses: VecDeque::new(),
            status: filter.status(),
            filter,
            now: Moment::ZERO,
            step_end: Moment::ZERO.after(script.total() / SAMPLES),
            arrived: 0,
        })
    }

    /// Plays on to a moment, or until so many ids have arrived: then there is more to do before that moment.
    pub fn play(&mut self, until: Moment, arrivals_max: usize) {
        let until = until.min(self.script.end());
        for _ in 0..arrivals_max {
            let Some(arrival) = self.load.next_before(until.min(self.step_end)) else {
                self.now = until.min(self.step_end);
                if self.now < self.step_end {
                    return;
                }
                self.end_step();
                if self.now >= until {
                    return;
                }
                continue;
            };
            self.now = arrival.at;
            self.receive(arrival);
        }
    }

    pub fn is_over(&self) -> bool {
        self.now >= self.script.end()
    }

    pub fn script(&self) -> &Script {
        &self.script
    }

    pub fn now(&self) -> Moment {
        self.now
    }

    /// The filter, as of the last step.
    pub fn status(&self) -> &Status {
        &self.status
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    pub fn score(&self) -> &Score {
        self.referee.score()
    }

    /// The most ids that one window held.
    pub fn most_ids(&self) -> usize {
        self.referee.most_ids()
    }

    /// What the filter still knows, by age: in so many columns, from now to [`WITNESS_WINDOWS`] windows ago.
    pub fn ages(&self, columns: u16) -> Vec<Age> {
        let span = self.script.window() * WITNESS_WINDOWS;
        let mut counts = vec![(0_u64, 0_u64); usize::from(columns)];
        for (born, id) in &self.witnesses {
            let share = self.now.since(*born).as_secs_f64() / span.as_secs_f64();
            if let Some((known, all)) = counts.get_mut((share * f64::from(columns)) as usize) {
                *known += u64::from(self.filter.contains(id, self.now));
                *all += 1;
            }
        }
        let age = |(column, (known, all)): (usize, (u64, u64))| {
            let middle = span.mul_f64((column as f64 + 0.5) / f64::from(columns));
            // Where nobody can bear witness nothing was sent.
            let rate =
                if all == 0 { 0 } else { self.history.rate_at(self.now.since(Moment::ZERO.after(middle))) };
            Age { rate, remembered: known as f64 / all.max(1) as f64 }
        };
        counts.into_iter().enumerate().map(age).collect()
    }

    fn receive(&mut self, arrival: Arrival) {
        self.arrived += 1;
        let sighting = self.filter.check_and_insert(&arrival.id, arrival.at);
        let new = self.referee.judge(&arrival, sighting);
        if new && sighting == Sighting::Maybe {
            // The exact table knows better, and from now on the filter has to remember this one too.
            self.filter.insert(&arrival.id, arrival.at);
        }
        // An id that comes again late would count as remembered at an age at which it was merely sent again.
        if arrival.cause == IdKind::New {
            self.call_witness(arrival);
        }
    }

    fn call_witness(&mut self, arrival: Arrival) {
        let every = self.script.window() / WITNESSES_PER_WINDOW;
        if self.witnesses.back().is_none_or(|(born, _)| arrival.at.since(*born) >= every) {
            self.witnesses.push_back((arrival.at, arrival.id));
        }
    }

    fn end_step(&mut self) {
        let step = self.step();
        self.filter.maintain(self.now);
        self.status = self.filter.status();
        self.history.add(self.now, self.arrived, step, self.status);
        self.arrived = 0;
        self.step_end = self.now.after(step);
        let span = self.script.window() * WITNESS_WINDOWS;
        while self.witnesses.front().is_some_and(|(born, _)| self.now.since(*born) > span) {
            self.witnesses.pop_front();
        }
    }

    fn step(&self) -> Duration {
        self.script.total() / SAMPLES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        Script::new(Duration::from_secs(6))
    }

    fn played_in_steps_of(millis: u64, arrivals_max: usize) -> Show {
        let mut show = Show::new(script(), 3).unwrap();
        let mut until = Moment::ZERO;
        while !show.is_over() {
            until = until.after(Duration::from_millis(millis));
            show.play(until, arrivals_max);
        }
        show
    }

    #[test]
    fn the_filter_keeps_its_promises_and_forgets() {
        let show = played_in_steps_of(1_000, usize::MAX);
        let score = show.score();
        assert_eq!(score.missed, 0);
        assert!(score.caught > 1_000 && score.forgotten > 300, "{score:?}");
        assert!(score.mistaken_share() < TARGET, "{score:?}");
        assert!(show.status().resizes >= 2, "{:?}", show.status());
        assert_eq!(show.status().ids, 0, "at the end everything is forgotten");
    }

    #[test]
    fn it_does_not_matter_in_which_steps_it_is_watched() {
        let (one, other) = (played_in_steps_of(6_000, usize::MAX), played_in_steps_of(7, 13));
        assert_eq!(one.score(), other.score());
        assert_eq!(one.status(), other.status());
        assert_eq!(one.most_ids(), other.most_ids());
    }

    #[test]
    fn witnesses_are_known_through_the_window_and_no_longer() {
        let mut show = Show::new(script(), 3).unwrap();
        show.play(Moment::from_secs(4), usize::MAX);
        let ages = show.ages(20);
        assert!(ages.iter().all(|age| age.rate > 0), "{ages:?}");
        assert!(ages[..10].iter().all(|age| age.remembered == 1.0), "{ages:?}");
        assert!(ages[12..].iter().all(|age| age.remembered < 0.1), "{ages:?}");
    }
}
