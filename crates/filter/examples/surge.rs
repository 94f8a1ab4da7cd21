//! The filter under a surge of ten times the load: `cargo run --release -p forgetful-filter --example surge
//! [SEED]`.
//!
//! Sends ids in virtual time: normal load, a surge, normal load, silence. Some ids are sent again within the
//! window (the filter must recognise them), some long after it (the filter must have forgotten them). An
//! exact table of the window checks every result. The same seed prints the same text.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::process::ExitCode;
use std::time::Duration;

use forgetful_filter::{ForgetfulFilter, Key, Membership, Settings, Timestamp};
use jeton_testkit::Rng;

const WINDOW: Duration = Duration::from_secs(5);
const TARGET: f64 = 1e-3;

/// New ids per second under normal load; the filter is sized for it.
const NORMAL_RATE: u64 = 4_000;
const SURGE_RATE: u64 = 10 * NORMAL_RATE;

/// The last second of each phase, its name and its rate of new ids. Every phase is longer than the window, so
/// that the filter adapts to it; after the silence the filter is empty.
const PHASES: [(u64, &str, u64); 4] = [
    (6, "normal", NORMAL_RATE),
    (12, "surge x10", SURGE_RATE),
    (23, "normal", NORMAL_RATE),
    (30, "silence", 0),
];

/// Of 100 new ids, this many are sent again within the window, and this many after it.
const RETRIES_PERCENT: u64 = 5;
const LATE_PERCENT: u64 = 2;

type Id = [u8; 16];

/// Why an id is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    New,
    Retry,
    Late,
}

/// An id on its way to the filter, in order of time.
type Arrival = (Timestamp, Id, Cause);

/// How the filter did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Score {
    /// New ids that the filter called new.
    accepted: u64,
    /// Ids of the window that the filter recognised.
    caught: u64,
    /// Ids of the window that the filter called new. Must stay 0.
    missed: u64,
    /// Ids outside the window that the filter called known: false positives.
    false_positives: u64,
    /// Ids older than the window that the filter called new.
    forgotten: u64,
}

impl Score {
    fn false_positive_rate(&self) -> f64 {
        self.false_positives as f64 / (self.accepted + self.forgotten + self.false_positives).max(1) as f64
    }
}

/// The ids that arrived first within the last window.
#[derive(Default)]
struct ExactTable {
    inserted: HashMap<Id, Timestamp>,
    by_age: VecDeque<(Timestamp, Id)>,
    peak: usize,
}

impl ExactTable {
    /// Whether the id is in the window; inserts it if not.
    fn check_and_insert(&mut self, id: Id, now: Timestamp) -> bool {
        while let Some((inserted, id)) = self.by_age.front()
            && now.since(*inserted) > WINDOW
        {
            self.inserted.remove(id);
            self.by_age.pop_front();
        }
        if self.inserted.contains_key(&id) {
            return true;
        }
        self.inserted.insert(id, now);
        self.by_age.push_back((now, id));
        self.peak = self.peak.max(self.inserted.len());
        false
    }
}

struct Simulation {
    rng: Rng,
    filter: ForgetfulFilter,
    table: ExactTable,
    score: Score,
    /// Ids to send again.
    again: BinaryHeap<Reverse<Arrival>>,
    next_new: Timestamp,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let filter = Settings::for_window(WINDOW)
            .false_positive_rate(TARGET)
            .expected_ids(NORMAL_RATE * WINDOW.as_secs())
            .build(Key::new(rng.bytes()))
            .expect("the settings are valid");
        Self {
            rng,
            filter,
            table: ExactTable::default(),
            score: Score::default(),
            again: BinaryHeap::new(),
            next_new: Timestamp::ZERO,
        }
    }

    /// Sends everything that is due in one second of virtual time.
    fn run_second(&mut self, second: u64, rate: u64) {
        let end = Timestamp::from_secs(second + 1);
        loop {
            let again = self.again.peek().map(|Reverse((at, _, _))| *at).filter(|at| *at < end);
            let new = (rate > 0 && self.next_new < end).then_some(self.next_new);
            match (new, again) {
                (Some(at), again) if again.is_none_or(|again| at <= again) => self.send_new(at, rate),
                (_, Some(_)) => {
                    if let Some(Reverse(arrival)) = self.again.pop() {
                        self.send(arrival);
                    }
                }
                _ => break,
            }
        }
        self.filter.maintain(end);
    }

    fn send_new(&mut self, at: Timestamp, rate: u64) {
        let gap = 1_000_000_000 / rate;
        self.next_new = at.after(Duration::from_nanos(gap / 2 + self.rng.below(gap)));
        let id = self.rng.bytes();
        let window = WINDOW.as_nanos() as u64;
        let again = match self.rng.below(100) {
            0..RETRIES_PERCENT => Some((Cause::Retry, self.rng.below(window))),
            // The filter has forgotten an id at the latest a seventh of a window after the window.
            n if n < RETRIES_PERCENT + LATE_PERCENT => {
                Some((Cause::Late, window * 6 / 5 + self.rng.below(window * 2 / 5)))
            }
            _ => None,
        };
        if let Some((cause, delay)) = again {
            let at = at.after(Duration::from_nanos(delay));
            if at < Timestamp::from_secs(PHASES[2].0) {
                self.again.push(Reverse((at, id, cause)));
            }
        }
        self.send((at, id, Cause::New));
    }

    fn send(&mut self, (now, id, cause): Arrival) {
        let known = self.table.check_and_insert(id, now);
        let found = self.filter.check_and_insert(&id, now);
        let count = match (known, found, cause) {
            (true, Membership::Maybe, _) => &mut self.score.caught,
            (true, Membership::New, _) => &mut self.score.missed,
            (false, Membership::Maybe, _) => &mut self.score.false_positives,
            (false, Membership::New, Cause::Late) => &mut self.score.forgotten,
            (false, Membership::New, _) => &mut self.score.accepted,
        };
        *count += 1;
        if !known && found == Membership::Maybe {
            // The exact table corrects a false positive; from now on the filter must remember the id.
            self.filter.insert(&id, now);
        }
    }
}

/// Runs all phases; calls `each_second` with the second, the name of the phase and its rate.
fn simulate(seed: u64, mut each_second: impl FnMut(u64, &str, u64, &Simulation)) -> Simulation {
    let mut simulation = Simulation::new(seed);
    let mut second = 0;
    for (end, name, rate) in PHASES {
        while second < end {
            simulation.run_second(second, rate);
            second += 1;
            each_second(second, name, rate, &simulation);
        }
    }
    simulation
}

fn main() -> ExitCode {
    let seed = match std::env::args().nth(1).map(|text| text.parse()) {
        None => 1,
        Some(Ok(seed)) => seed,
        Some(Err(error)) => {
            eprintln!("the seed is not a number: {error}");
            return ExitCode::from(2);
        }
    };
    println!(" time load      new/s   known    memory |     new  caught missed false_pos forgotten");
    let simulation = simulate(seed, |second, name, rate, simulation| {
        let (status, score) = (simulation.filter.status(), &simulation.score);
        println!(
            "{second:>3} s {name:<9} {rate:>5} {:>7} {:>6} kB | {:>7} {:>7} {:>6} {:>9} {:>9}",
            status.ids,
            status.bytes / 1_000,
            score.accepted,
            score.caught,
            score.missed,
            score.false_positives,
            score.forgotten,
        );
    });
    let score = &simulation.score;
    println!(
        "\n{} retries caught, {} missed. False-positive rate {:.4} % (target {:.4} %).",
        score.caught,
        score.missed,
        100.0 * score.false_positive_rate(),
        100.0 * TARGET,
    );
    println!(
        "The exact table held up to {} ids, which takes at least {} kB.",
        simulation.table.peak,
        simulation.table.peak * size_of::<(Id, Timestamp)>() / 1_000,
    );
    if score.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_retry_is_missed_and_old_ids_are_forgotten() {
        let (mut bytes, mut resizes) = (Vec::new(), 0);
        let simulation = simulate(3, |_, _, _, simulation| {
            bytes.push(simulation.filter.status().bytes);
            resizes = simulation.filter.status().resizes;
        });
        let score = &simulation.score;
        assert_eq!(score.missed, 0);
        assert!(score.caught > 10_000 && score.forgotten > 3_000, "{score:?}");
        assert!(score.false_positive_rate() < TARGET, "{score:?}");
        assert!(resizes >= 2 && bytes[11] > 4 * bytes[5] && bytes[29] == bytes[0], "{bytes:?}");
        assert_eq!(simulation.filter.status().ids, 0, "after the silence the filter is empty");
        assert_eq!(simulate(3, |_, _, _, _| {}).score, *score, "the same seed, the same numbers");
        assert_ne!(simulate(4, |_, _, _, _| {}).score, *score);
    }

    #[test]
    fn exact_table_holds_one_window() {
        let mut table = ExactTable::default();
        let mut check = |secs, id: u8| table.check_and_insert([id; 16], Timestamp::from_secs(secs));
        assert!(!check(0, 1) && !check(0, 2));
        assert!(check(5, 1), "the window is inclusive");
        assert!(!check(6, 1), "the window counts from the first arrival");
        assert_eq!(table.peak, 2);
    }
}
