//! Every mutation is detected by a checker that must detect it; without it the same seeds pass.
#![cfg(feature = "mutations")]

use jeton_sim::mutation::{ALL, find};
use jeton_sim::parallel_runner::{RunOptions, Tally, run_all};

fn with(name: &str, seeds: u64, outside: bool) -> Tally {
    let planted = Some(find(name).expect("the mutations of the table are all there"));
    run_all(0..seeds, RunOptions { planted, outside, ..RunOptions::default() })
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    let mut needed = 0;
    for mutation in ALL {
        match with(mutation.name, mutation.seeds, false).failed {
            Some((seed, outcome)) => {
                let violation = outcome.violation.unwrap();
                println!("{:24} seed {seed:4} {}: {:.100}", mutation.name, violation.rule, violation.what);
                needed = needed.max(seed + 1);
                if !mutation.detected_by.contains(&violation.rule) {
                    let rule = violation.rule;
                    missed.push(format!("{} was noticed by {rule}: {}", mutation.name, violation.what));
                }
            }
            None => missed.push(format!("{} was not noticed in {} seeds", mutation.name, mutation.seeds)),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    // The violation came from the mutation, not from the simulator.
    let tally = run_all(0..needed, RunOptions::default());
    let failed = tally.failed.map(|(seed, outcome)| (seed, outcome.violation));
    assert!(failed.is_none(), "{failed:?}");
}

/// The count is wrong, which a checker without access to the log detects.
#[test]
fn a_wrong_count_is_seen_from_outside() {
    for name in ["AckBeforeSync", "ForgetIndex", "DropGenerationEarly", "ReplaySkipsIds", "SessionsNotStored"]
    {
        let failed = with(name, 200, true).failed.map(|(seed, outcome)| (seed, outcome.violation.unwrap()));
        let (seed, violation) = failed.unwrap_or_else(|| panic!("{name} was not noticed"));
        println!("{name:24} seed {seed:4} {}: {:.100}", violation.rule, violation.what);
        assert_eq!(violation.rule, "counting", "{name}: {}", violation.what);
    }
}
