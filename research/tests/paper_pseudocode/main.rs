//! Model checking of the pseudocode of the paper and of corrected variants. The example `counterexamples`
//! prints the counterexamples.

mod paper;

use paper::{Faults, Variant, check, explain};

const CRASH: Faults = Faults::CRASH;
const SUSPICION: Faults = Faults { suspicions: 1, ..CRASH };
const REFUSAL: Faults = Faults { refusals: 1, ..CRASH };
const HASTE: Faults = Faults { haste: 1, ..CRASH };
const OUTAGE: Faults = Faults { outages: 1, ..CRASH };
/// Competing servers without a crash.
const RIVALRY: Faults = Faults { suspicions: 1, haste: 1, ..Faults::NONE };

/// A variant violates exactly these properties under these faults.
#[track_caller]
fn violates(variant: Variant, faults: Faults, expected: &[&str]) {
    let findings = check(variant.with(faults));
    let names: Vec<&str> = findings.violations.iter().map(|property| &property[..3]).collect();
    eprintln!("{} states, violated {names:?}, with {faults:?}", findings.states);
    assert_eq!(names, expected, "{faults:?}");
    // A model without a delivery, or without a second attempt, would satisfy the properties trivially.
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
fn every_variant_holds_without_faults() {
    for variant in
        [Variant::LITERAL, Variant::LOOP_FIXED, Variant::REMEMBERING, Variant::SWEPT, Variant::NEW_NAMES]
    {
        holds(variant, Faults::NONE);
    }
}

/// Figure 6 advances only after it has cleaned an attempt, so the cleaning thread spins.
#[test]
fn literal_variant_leaves_the_client_waiting() {
    violates(Variant::LITERAL, SUSPICION, &["T.1", "T.2"]);
    let forgiving = Variant { remembers_aborts: true, ..Variant::LITERAL };
    violates(forgiving, SUSPICION, &["T.1", "T.2"]);
    violates(Variant::LITERAL, CRASH, &["T.2"]);
    holds(forgiving, CRASH);
    holds(Variant::LITERAL, RIVALRY);
}

/// An abort overtakes a `Prepare`, and no server ends the branch.
#[test]
fn fixed_loop_leaves_a_branch_prepared() {
    for faults in [CRASH, SUSPICION, REFUSAL, HASTE, OUTAGE] {
        violates(Variant::LOOP_FIXED, faults, &["T.2"]);
    }
    holds(Variant::LOOP_FIXED, RIVALRY);
}

#[test]
fn databases_that_remember_aborts_hold() {
    for faults in [CRASH, SUSPICION, REFUSAL, HASTE, OUTAGE] {
        holds(Variant::REMEMBERING, faults);
    }
}

#[test]
fn recovery_holds() {
    for faults in [CRASH, SUSPICION, REFUSAL, HASTE, OUTAGE, RIVALRY] {
        holds(Variant::SWEPT, faults);
    }
}

/// After a restart the server finds its own name in `regA[j]`, and no server suspects it.
#[test]
fn restart_under_the_same_name_commits_twice() {
    violates(Variant::SWEPT, with_restart(CRASH), &["A.2", "T.1", "T.2", "V.2"]);
    // Recovery is not the cause: without it, databases disagree as well.
    violates(Variant::LOOP_FIXED, with_restart(CRASH), &["A.2", "A.3", "T.1", "T.2", "V.2"]);
}

#[test]
fn restart_under_a_new_name_holds() {
    for faults in [CRASH, REFUSAL, HASTE] {
        holds(Variant::NEW_NAMES, with_restart(faults));
    }
}

/// A database also reports a prepared branch as unknown while the session of its owner is open.
#[test]
fn unknown_branch_is_not_committed() {
    let faults = Faults { suspicions: 1, unknown: 1, ..Faults::NONE };
    violates(Variant::SWEPT, faults, &["A.1"]);
    holds(Variant::SWEPT, Faults { unknown: 0, ..faults });
}

#[test]
fn counterexample_is_described_in_sentences() {
    let faults = Faults { suspicions: 1, unknown: 1, ..Faults::NONE };
    let sentences = explain(Variant::SWEPT.with(faults), "A.1").unwrap();
    assert_eq!(sentences.len(), 11, "the shortest path has ten steps: {sentences:#?}");
    assert_eq!(sentences[1], "server 1 gets the request for attempt 1 and writes itself into regA[1]");
    assert_eq!(sentences[9], "the client gets result 1a and delivers it");
    assert_eq!(
        sentences[10],
        "so the client has its result, but database 1 has committed result 1a, database 2 has committed nothing"
    );
    assert_eq!(explain(Variant::SWEPT.with(faults), "A.2"), None);
}
