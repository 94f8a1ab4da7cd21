//! Every planted bug is found, by a checker that should find it; and without it the same seeds pass.
#![cfg(feature = "mutations")]

use jeton_sim::many::run_all;
use jeton_sim::mutation::{ALL, find};
use jeton_sim::run::STEPS;

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    let mut needed = 0;
    for mutation in ALL {
        let planted = find(mutation.name).unwrap();
        let tally = run_all(0..mutation.seeds, STEPS, threads(), Some(planted));
        match tally.failed {
            Some((seed, outcome)) => {
                let violation = outcome.violation.unwrap();
                println!("{:24} seed {seed:4} {violation:.120}", mutation.name);
                needed = needed.max(seed + 1);
                if !mutation.noticed_by.contains(&violation.rule) {
                    missed.push(format!(
                        "{} was noticed by {}: {}",
                        mutation.name, violation.rule, violation.what
                    ));
                }
            }
            None => missed.push(format!("{} was not noticed in {} seeds", mutation.name, mutation.seeds)),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    // What was found is the planted bug, not one of the simulator's own.
    let tally = run_all(0..needed, STEPS, threads(), None);
    assert!(tally.failed.is_none(), "{:?}", tally.failed.map(|(seed, outcome)| (seed, outcome.violation)));
}
