//! The pseudo-code of the paper to the letter, and where it fails; and which reading of it holds.
//!
//! `cargo run -p jeton-etx --example counterexamples` tells how.

mod paper;

use paper::{Faults, Variant, check, story};

const CRASH: Faults = Faults::CRASH;
const SUSPICION: Faults = Faults { suspicions: 1, ..CRASH };
const REFUSAL: Faults = Faults { refusals: 1, ..CRASH };
const HASTE: Faults = Faults { haste: 1, ..CRASH };
const OUTAGE: Faults = Faults { outages: 1, ..CRASH };
/// Nobody crashes, but servers get in each other's way.
const RIVALRY: Faults = Faults { suspicions: 1, haste: 1, ..Faults::NONE };

/// A reading violates exactly these properties when there may be these faults.
#[track_caller]
fn violates(variant: Variant, faults: Faults, expected: &[&str]) {
    let findings = check(variant.with(faults));
    let names: Vec<&str> = findings.violations.iter().map(|property| &property[..3]).collect();
    eprintln!("{} states, violated {names:?}, with {faults:?}", findings.states);
    assert_eq!(names, expected, "{faults:?}");
    // A model in which nothing is ever delivered, or no try ever follows another, would hold too much.
    let is_narrow =
        findings.impossible.iter().any(|example| faults != Faults::NONE || example.contains("deliver"));
    assert!(!is_narrow, "{:?} with {faults:?}", findings.impossible);
}

#[track_caller]
fn holds(variant: Variant, faults: Faults) {
    violates(variant, faults, &[]);
}

fn with_restart(faults: Faults) -> Faults {
    Faults { restarts: 1, ..faults }
}

#[test]
fn every_reading_holds_without_faults() {
    for variant in
        [Variant::LITERAL, Variant::LOOP_FIXED, Variant::REMEMBERING, Variant::SWEPT, Variant::NEW_NAMES]
    {
        holds(variant, Faults::NONE);
    }
}

/// Figure 6 advances only when it has cleaned: sooner or later the cleaning thread spins.
#[test]
fn to_the_letter_a_client_waits_for_ever() {
    violates(Variant::LITERAL, SUSPICION, &["T.1", "T.2"]);
    let forgiving = Variant { remembers_aborts: true, ..Variant::LITERAL };
    violates(forgiving, SUSPICION, &["T.1", "T.2"]);
    violates(Variant::LITERAL, CRASH, &["T.2"]);
    holds(forgiving, CRASH);
    holds(Variant::LITERAL, RIVALRY);
}

/// A decision to abort overtakes a `Prepare`, and nobody comes back for the branch.
#[test]
fn with_the_loop_fixed_a_branch_stays_prepared() {
    for faults in [CRASH, SUSPICION, REFUSAL, HASTE, OUTAGE] {
        violates(Variant::LOOP_FIXED, faults, &["T.2"]);
    }
    holds(Variant::LOOP_FIXED, RIVALRY);
}

#[test]
fn with_databases_that_remember_aborts_all_holds() {
    for faults in [CRASH, SUSPICION, REFUSAL, HASTE, OUTAGE] {
        holds(Variant::REMEMBERING, faults);
    }
}

#[test]
fn with_a_sweeper_all_holds() {
    for faults in [CRASH, SUSPICION, REFUSAL, HASTE, OUTAGE, RIVALRY] {
        holds(Variant::SWEPT, faults);
    }
}

/// `regA[j]` says "you" to a server that comes back, whatever it did before; and nobody suspects it.
#[test]
fn a_server_that_comes_back_under_its_name_commits_twice() {
    violates(Variant::SWEPT, with_restart(CRASH), &["A.2", "T.1", "T.2", "V.2"]);
    // It is not the sweeper's fault. Where it is not at work, there is time for one database to commit what the other refuses.
    violates(Variant::LOOP_FIXED, with_restart(CRASH), &["A.2", "A.3", "T.1", "T.2", "V.2"]);
}

#[test]
fn a_server_that_comes_back_under_a_new_name_does_no_harm() {
    for faults in [CRASH, REFUSAL, HASTE] {
        holds(Variant::NEW_NAMES, with_restart(faults));
    }
}

/// "No such branch" is what a database also says of a prepared branch whose maker is still connected.
#[test]
fn a_branch_that_is_unknown_is_not_committed() {
    let faults = Faults { suspicions: 1, unknown: 1, ..Faults::NONE };
    violates(Variant::SWEPT, faults, &["A.1"]);
    holds(Variant::SWEPT, Faults { unknown: 0, ..faults });
}

#[test]
fn a_counterexample_is_told_in_sentences() {
    let faults = Faults { suspicions: 1, unknown: 1, ..Faults::NONE };
    let told = story(Variant::SWEPT.with(faults), "A.1").unwrap();
    assert_eq!(told.len(), 11, "the shortest way has ten steps: {told:#?}");
    assert_eq!(told[1], "server 1 gets the request for try 1 and writes itself into regA[1]");
    assert_eq!(told[9], "the client gets result 1a and delivers it");
    assert_eq!(
        told[10],
        "so the client has its answer, but database 1 has committed result 1a, database 2 has committed nothing"
    );
    assert_eq!(story(Variant::SWEPT.with(faults), "A.2"), None);
}
