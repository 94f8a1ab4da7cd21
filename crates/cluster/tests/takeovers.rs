//! Seeds of the simulation without planted bugs.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod simulation;

use simulation::{Outcome, Violation};

const SEEDS: u64 = 2_000;

/// Each creates many filters.
const ERA_SEEDS: u64 = 100;

/// Returns the sums of all runs.
fn no_violation(lossy: bool) -> Outcome {
    let mut all = Outcome::default();
    for seed in 0..SEEDS {
        let outcome = simulation::run(seed, lossy);
        if let Some(Violation { rule, what }) = outcome.violation {
            panic!("seed {seed} violates {rule}: {what}");
        }
        all.acknowledged += outcome.acknowledged;
        all.claims += outcome.claims;
        all.deposed += outcome.deposed;
        all.proved_reads += outcome.proved_reads;
    }
    all
}

#[test]
fn no_seed_violates_a_rule() {
    let Outcome { acknowledged, claims, deposed, proved_reads, .. } = no_violation(false);
    // The seeds contain what they are for.
    for (what, count) in [
        ("operations", acknowledged / 5),
        ("claims", claims),
        ("deposed", 2 * deposed),
        ("reads", proved_reads),
    ] {
        assert!(count > SEEDS, "{what}: {count}");
    }
}

#[test]
fn no_node_reads_past_a_lost_frame() {
    no_violation(true);
}

#[test]
fn no_id_counts_twice_when_tables_change_elsewhere() {
    let found = (0..ERA_SEEDS).find_map(|seed| Some((seed, simulation::eras::run(seed)?)));
    assert!(found.is_none(), "{found:?}");
}
