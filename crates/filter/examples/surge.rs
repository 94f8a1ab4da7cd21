//! The filter under a surge of ten times the load: `cargo run --release -p forgetful-filter --example surge
//! [SEED]`.
//!
//! Sends ids in virtual time: normal load, a surge, normal load, silence. Some ids are sent again, within the
//! window (the filter must recognise them) or after it (it must have forgotten them). An exact table checks
//! every result. The same seed prints the same text.

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;

use forgetful_filter::{ForgetfulFilter, Key, Membership, Settings, Timestamp};
use jeton_testkit::Rng;

const WINDOW: Duration = Duration::from_secs(5);
/// At the latest a seventh of a window after the window, the filter has forgotten an id.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(6);
const TARGET: f64 = 1e-3;

/// Ids per second under normal load; the filter is sized for it.
const NORMAL_RATE: u64 = 4_000;
/// Of 100 ids, this many were sent before.
const REPEATED_PERCENT: u32 = 7;

/// The last second of each phase, its name and its rate. Every phase is longer than the window, so that the
/// filter adapts to it; after the silence the filter is empty.
const PHASES: [(u64, &str, u64); 4] = [
    (6, "normal", NORMAL_RATE),
    (12, "surge x10", 10 * NORMAL_RATE),
    (23, "normal", NORMAL_RATE),
    (30, "silence", 0),
];

/// Numbers of results.
#[derive(Debug, Default, PartialEq, Eq)]
struct Score {
    /// New ids, called new.
    accepted: u64,
    /// Ids of the window, recognised.
    caught: u64,
    /// Ids of the window, called new. Must stay 0.
    missed: u64,
    /// Other ids, called known.
    false_positives: u64,
    /// Ids older than the window, called new.
    forgotten: u64,
}

impl Score {
    fn false_positive_rate(&self) -> f64 {
        self.false_positives as f64 / (self.accepted + self.forgotten + self.false_positives).max(1) as f64
    }
}

/// Runs all phases; calls `each_second` with the second, the name of the phase, the filter and the score.
fn simulate(seed: u64, mut each_second: impl FnMut(u64, &str, &ForgetfulFilter, &Score)) -> Score {
    let mut rng = Rng::new(seed);
    let filter = Settings::for_window(WINDOW)
        .false_positive_rate(TARGET)
        .expected_ids(NORMAL_RATE * WINDOW.as_secs())
        .build(Key::new(rng.bytes()))
        .expect("the settings are valid");
    // All ids with the start of their latest window.
    let mut table: HashMap<[u8; 16], Timestamp> = HashMap::new();
    let (mut sent, mut score, mut second) = (Vec::new(), Score::default(), 0);
    for (end, name, rate) in PHASES {
        while second < end {
            for n in 0..rate {
                let now = Timestamp::from_nanos(second * 1_000_000_000 + n * 1_000_000_000 / rate);
                let repeated = !sent.is_empty() && rng.percent(REPEATED_PERCENT);
                let id = if repeated { sent[rng.index(sent.len())] } else { rng.bytes() };
                let age = table.get(&id).map(|first| now.since(*first));
                let found = filter.check_and_insert(&id, now);
                match (age, found) {
                    (Some(age), Membership::Maybe) if age <= WINDOW => score.caught += 1,
                    (Some(age), Membership::New) if age <= WINDOW => score.missed += 1,
                    (Some(age), Membership::Maybe) if age <= FORGOTTEN_AFTER => continue,
                    (Some(_), Membership::New) => score.forgotten += 1,
                    (None, Membership::New) => score.accepted += 1,
                    (_, Membership::Maybe) => {
                        score.false_positives += 1;
                        // The exact table corrects it; from now on the filter must remember the id.
                        filter.insert(&id, now);
                    }
                }
                if age.is_none_or(|age| age > WINDOW) {
                    table.insert(id, now);
                    sent.push(id);
                }
            }
            second += 1;
            filter.maintain(Timestamp::from_secs(second));
            each_second(second, name, &filter, &score);
        }
    }
    score
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
    println!(" time load        known    memory |     new  caught missed false_pos forgotten");
    let score = simulate(seed, |second, name, filter, score| {
        let (ids, kilobytes) = (filter.status().ids, filter.bytes() / 1_000);
        let Score { accepted, caught, missed, false_positives, forgotten } = score;
        println!(
            "{second:>3} s {name:<9} {ids:>7} {kilobytes:>6} kB | {accepted:>7} {caught:>7} {missed:>6} \
             {false_positives:>9} {forgotten:>9}"
        );
    });
    let percent = 100.0 * score.false_positive_rate();
    println!("\nFalse-positive rate {percent:.4} % (target {:.4} %).", 100.0 * TARGET);
    if score.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_retry_is_missed_and_old_ids_are_forgotten() {
        let (mut bytes, mut resizes, mut ids) = (Vec::new(), 0, 0);
        let score = simulate(3, |_, _, filter, _| {
            bytes.push(filter.bytes());
            (resizes, ids) = (filter.status().resizes, filter.status().ids);
        });
        assert_eq!(score.missed, 0);
        assert!(score.caught > 10_000 && score.forgotten > 3_000, "{score:?}");
        assert!(score.false_positive_rate() < TARGET, "{score:?}");
        assert!(resizes >= 2 && bytes[11] > 4 * bytes[5] && bytes[29] <= bytes[0], "{bytes:?}");
        assert_eq!(ids, 0, "after the silence the filter is empty");
        assert_eq!(simulate(3, |_, _, _, _| {}), score, "the same seed, the same numbers");
        assert_ne!(simulate(4, |_, _, _, _| {}), score);
    }
}
