//! Every mutation is detected by a rule that must detect it; without it the same seeds pass.

#![cfg(feature = "mutations")]
#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod simulation;

use jeton_core::mutation::{Mutation, activate};
use simulation::Violation;

/// A mutation is detected within this number of seeds.
const SEEDS: u64 = 400;

/// The mutations, whether they show only if registers lose frames, and the rules of which one must detect
/// them.
const ALL: &[(Mutation, bool, &[&str])] = &[
    (Mutation::OwnerIgnoresTaken, false, &["acknowledged", "chain", "stale-read"]),
    (Mutation::UnknownIsFailure, false, &["deposed"]),
    (Mutation::UnknownIsSuccess, false, &["acknowledged", "chain", "deposed", "stale-read"]),
    (Mutation::RetryWithOtherBytes, false, &["deposed"]),
    (Mutation::RetryAtNextSlot, false, &["chain", "deposed"]),
    (Mutation::ClaimWithoutReadingToEnd, false, &["chain", "twice"]),
    (Mutation::TwoClaimsOneTerm, false, &["chain", "deposed"]),
    (Mutation::ChainNotChecked, true, &["stale"]),
    (Mutation::ReadWithoutProof, false, &["stale-read"]),
    (Mutation::ProofFromBeforeTheRead, false, &["stale-read"]),
    (Mutation::StandbyAppliesBeforeFresh, false, &["chain"]),
    (Mutation::PushSkipsGap, false, &["chain"]),
    (Mutation::DeposedKeepsFilter, false, &["acknowledged"]),
    (Mutation::DeposedAnswersPending, false, &["acknowledged", "deposed", "stale-read"]),
    (Mutation::TimelineBelievesWallAtTakeover, false, &["clock"]),
];

/// The first seed with a violation.
fn search(planted: Option<Mutation>, lossy: bool, seeds: u64) -> Option<(u64, Violation)> {
    activate(planted);
    let found =
        (0..seeds).find_map(|seed| simulation::run(seed, lossy).violation.map(|violation| (seed, violation)));
    activate(None);
    found
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for (mutation, lossy, rules) in ALL {
        match search(Some(*mutation), *lossy, SEEDS) {
            Some((seed, Violation { rule, what })) => {
                println!("{mutation:?} seed {seed} {rule}: {what}");
                if !rules.contains(&rule) {
                    missed.push(format!("{mutation:?} was noticed by {rule}: {what}"));
                }
            }
            None => missed.push(format!("{mutation:?} was not noticed")),
        }
    }
    activate(Some(Mutation::AdoptKeepsEraEnds));
    if (0..SEEDS).find_map(simulation::eras::run).is_none() {
        missed.push("AdoptKeepsEraEnds was not noticed".to_owned());
    }
    activate(None);
    assert!(missed.is_empty(), "{missed:#?}");
    // The violations came from the mutations, not from the simulation.
    for lossy in [false, true] {
        let found = search(None, lossy, SEEDS);
        assert!(found.is_none(), "{found:?}");
    }
}
