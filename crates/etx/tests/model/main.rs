//! Model checking of the protocol: every order of events, with limited numbers of faults.

mod effects;
mod fault;
mod model;
mod properties;
mod state;

use fault::{Faults, Mistake};
use jeton_etx::DecisionLocation;
use model::ClusterModel;
use stateright::{Checker, Model};

const NONE: Faults = Faults {
    crashes: 0,
    suspicions: 0,
    refusals: 0,
    haste: 0,
    unknown: 0,
    outages: 0,
    fences: 0,
    breaks: 0,
    unavailable: 0,
};
const CRASH: Faults = Faults { crashes: 1, ..NONE };
const HASTE: Faults = Faults { haste: 1, ..NONE };

const MODEL: ClusterModel = ClusterModel {
    faults: NONE,
    mistake: Mistake::None,
    decision_location: DecisionLocation::Registers,
    recovery_tasks: 1,
    clients_forget: false,
    checks_all_branches: false,
};

const LOCATIONS: [DecisionLocation; 2] = [DecisionLocation::Registers, DecisionLocation::Resource(0)];

/// The result of a check.
struct Findings {
    /// The violated properties, in order.
    violated: Vec<&'static str>,
    /// The reachability examples that were found.
    examples: Vec<&'static str>,
}

fn check(name: &str, model: ClusterModel) -> Findings {
    let checker = model.checker().threads(2).spawn_bfs().join();
    let (examples, mut violated): (Vec<_>, Vec<_>) =
        checker.discoveries().into_keys().partition(|property| property.starts_with("a "));
    for property in &mut violated {
        *property = &property[..3];
    }
    violated.sort_unstable();
    let ClusterModel { decision_location, clients_forget, .. } = model;
    let states = checker.unique_state_count();
    eprintln!(
        "{name}, {decision_location:?}, client forgets: {clients_forget}: {states} states, violated: {violated:?}"
    );
    Findings { violated, examples }
}

/// Checks a client that remembers its first send and, where the client sends more than once, one that does
/// not.
#[track_caller]
fn holds(name: &str, faults: Faults, recovery_tasks: usize) {
    let memories: &[bool] = if faults.haste > 0 { &[false, true] } else { &[false] };
    for decision_location in LOCATIONS {
        for clients_forget in memories.iter().copied() {
            let model = ClusterModel { faults, decision_location, recovery_tasks, clients_forget, ..MODEL };
            let Findings { violated, examples } = check(name, model);
            assert_eq!(violated, Vec::<&str>::new(), "{name}, {model:?}");
            // A model without any answer, or without a second attempt, would satisfy the properties
            // trivially.
            let is_harmless = Faults { haste: 0, unknown: 0, unavailable: 0, ..faults } == NONE;
            assert_eq!(examples.len(), if is_harmless { 1 } else { 2 }, "{name}, {model:?}: {examples:?}");
        }
    }
}

#[test]
fn all_holds_without_faults() {
    holds("no faults", NONE, 2);
}

#[test]
fn all_holds_when_a_server_crashes() {
    holds("a crash, and a no", Faults { refusals: 1, ..CRASH }, 1);
    holds("a crash, and a database that crashes", Faults { outages: 1, ..CRASH }, 1);
}

#[test]
fn all_holds_when_servers_compete() {
    holds("haste, two recovery tasks", HASTE, 2);
    holds("haste, and a no", Faults { refusals: 1, ..HASTE }, 1);
    holds("haste, and an unknown branch", Faults { unknown: 1, ..HASTE }, 1);
}

/// A fence terminates effects that would be lost anyway: it matters for time, not for safety. Faults are
/// optional, so these are checked without a failing fence too.
#[test]
fn all_holds_when_a_fence_fails() {
    let fence = Faults { fences: 1, ..NONE };
    holds("a crash, two recovery tasks", CRASH, 2);
    holds("a fence that fails, a crash, haste", Faults { crashes: 1, haste: 1, ..fence }, 1);
    holds("a fence that fails, a crash, a false suspicion", Faults { crashes: 1, suspicions: 1, ..fence }, 1);
    holds("a fence that fails, haste, a false suspicion", Faults { haste: 1, suspicions: 1, ..fence }, 1);
}

#[test]
fn all_holds_when_a_connection_breaks() {
    let broken = Faults { breaks: 1, ..NONE };
    holds("a break, two recovery tasks", broken, 2);
    holds("two breaks", Faults { breaks: 2, ..broken }, 1);
    holds("a break, a crash", Faults { crashes: 1, ..broken }, 1);
    holds("a break, haste", Faults { haste: 1, ..broken }, 1);
    holds("a break, a false suspicion, a fence that fails", Faults { suspicions: 1, fences: 1, ..broken }, 1);
    holds("a break, a no", Faults { refusals: 1, ..broken }, 1);
    holds("a break, a database that crashes", Faults { outages: 1, ..broken }, 1);
}

/// An unavailable database uses no attempt, however often.
#[test]
fn all_holds_when_a_database_is_unavailable() {
    let unavailable = Faults { unavailable: 1, ..NONE };
    holds("a database is unavailable three times", Faults { unavailable: 3, ..NONE }, 2);
    holds("unavailable, a crash", Faults { crashes: 1, ..unavailable }, 1);
    holds("unavailable, haste", Faults { haste: 1, ..unavailable }, 1);
    holds("unavailable, a false suspicion", Faults { suspicions: 1, ..unavailable }, 1);
    holds("unavailable, a no", Faults { refusals: 1, ..unavailable }, 1);
    holds("unavailable, a break", Faults { breaks: 1, ..unavailable }, 1);
    holds("unavailable, a database that crashes", Faults { outages: 1, ..unavailable }, 1);
}

/// A check may be late: the coordinator executes another attempt by then. And a suspected coordinator that is
/// running may begin again.
#[test]
fn late_checks_and_false_suspicions_cost_at_most_one_attempt() {
    let suspicion = Faults { suspicions: 1, ..NONE };
    for decision_location in LOCATIONS {
        for (name, faults, checks_all_branches) in [
            ("a no, checks of all branches", Faults { refusals: 1, ..NONE }, true),
            ("a break, checks of all branches", Faults { breaks: 1, ..NONE }, true),
            ("unavailable, checks of all branches", Faults { unavailable: 2, ..NONE }, true),
            ("a false suspicion", suspicion, false),
            ("a false suspicion, a no", Faults { refusals: 1, ..suspicion }, false),
        ] {
            let model = ClusterModel { faults, decision_location, checks_all_branches, ..MODEL };
            assert_eq!(check(name, model).violated, Vec::<&str>::new());
        }
    }
}

/// Each planted mistake violates the expected properties, so the checks can detect it. Every property is
/// violated by some mistake.
#[test]
fn planted_mistakes_are_detected() {
    let [registers, database] = LOCATIONS;
    let [outage, unknown, refusal, broken_off] = [
        Faults { outages: 1, ..NONE },
        Faults { unknown: 1, ..NONE },
        Faults { refusals: 1, ..NONE },
        Faults { breaks: 1, ..NONE },
    ];
    let suspicion = Faults { suspicions: 1, ..HASTE };
    let attached = Faults { haste: 1, ..CRASH };
    let unavailable = Faults { unavailable: 1, ..NONE };
    let cases: &[(Mistake, Faults, &[DecisionLocation], &[&str])] = &[
        (Mistake::NoRecovery, CRASH, &LOCATIONS, &["T.2"]),
        (Mistake::UnknownIsCommitted, unknown, &LOCATIONS, &["A.1"]),
        (Mistake::RecoveryWithoutDecision, CRASH, &LOCATIONS, &["A.1", "A.3"]),
        (Mistake::EarlyAnswer, NONE, &LOCATIONS, &["A.1"]),
        (Mistake::LostVoteIsYes, outage, &LOCATIONS, &["A.1", "A.3", "V.2"]),
        (Mistake::LostVoteIsYes, broken_off, &LOCATIONS, &["A.1", "A.3", "V.2"]),
        (Mistake::AssumesAbort, suspicion, &LOCATIONS, &["A.2"]),
        (Mistake::OwnAnswer, HASTE, &LOCATIONS, &["A.1"]),
        (Mistake::FirstAnswerIsKept, refusal, &LOCATIONS, &["V.1"]),
        (Mistake::OtherAnswerIsKept, NONE, &LOCATIONS, &["V.1"]),
        (Mistake::SameIdentity, CRASH, &[registers], &["A.3"]),
        (Mistake::WaitsForTheDead, attached, &[database], &["T.1"]),
        (Mistake::EveryCommitIsOurs, HASTE, &[registers], &["A.1", "A.2", "A.3"]),
        // A branch in the database that decides never votes: it ends when the commit of another coordinator
        // is recorded.
        (Mistake::EveryCommitIsOurs, HASTE, &[database], &["A.1", "A.2", "A.3", "V.2"]),
        (Mistake::UnavailableIsAborted, unavailable, &LOCATIONS, &["C.1"]),
        // This is a mistake only if a fence fails.
        (Mistake::FenceIsTrusted, attached, &[registers], &[]),
        (Mistake::FenceIsTrusted, Faults { fences: 1, ..attached }, &[registers], &["T.2"]),
    ];
    for (mistake, faults, locations, expected) in cases {
        for &decision_location in *locations {
            // Two servers execute the same attempt only if a client sends to both as if each were the first.
            let clients_forget = matches!(mistake, Mistake::EveryCommitIsOurs | Mistake::OwnAnswer);
            let (faults, mistake) = (*faults, *mistake);
            let model = ClusterModel { faults, mistake, decision_location, clients_forget, ..MODEL };
            assert_eq!(check(&format!("{mistake:?}"), model).violated, *expected, "{model:?}");
        }
    }
}
