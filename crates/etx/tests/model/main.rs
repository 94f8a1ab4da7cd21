//! The protocol, checked in every order of events, with limited numbers of faults.

mod effects;
mod fault;
mod model;
mod properties;
mod state;

use fault::{Faults, Mistake};
use jeton_etx::DecisionLocation;
use model::World;
use stateright::{Checker, Model};

const NONE: Faults =
    Faults { crashes: 0, suspicions: 0, refusals: 0, haste: 0, unknown: 0, outages: 0, fences: 0, breaks: 0 };
const CRASH: Faults = Faults { crashes: 1, ..NONE };
const HASTE: Faults = Faults { haste: 1, ..NONE };

const WORLD: World = World {
    faults: NONE,
    mistake: Mistake::None,
    home: DecisionLocation::Registers,
    sweepers: 1,
    clients_forget: false,
    looks_everywhere: false,
};

const HOMES: [DecisionLocation; 2] = [DecisionLocation::Registers, DecisionLocation::Resource(0)];

/// What was found in a world.
struct Findings {
    /// The properties that do not hold, in order.
    violated: Vec<&'static str>,
    /// What happened somewhere.
    examples: Vec<&'static str>,
}

fn check(name: &str, world: World) -> Findings {
    let checker = world.checker().threads(2).spawn_bfs().join();
    let (examples, mut violated): (Vec<_>, Vec<_>) =
        checker.discoveries().into_keys().partition(|property| property.starts_with("a "));
    for property in &mut violated {
        *property = &property[..3];
    }
    violated.sort_unstable();
    let World { home, clients_forget, .. } = world;
    let states = checker.unique_state_count();
    eprintln!(
        "{name}, decisions in {home:?}, client forgets: {clients_forget}: {states} states, violated: {violated:?}"
    );
    Findings { violated, examples }
}

/// Checks a client that remembers having asked, and one that does not where that can make a difference: where it asks more than once.
#[track_caller]
fn holds(name: &str, faults: Faults, sweepers: usize) {
    let memories: &[bool] = if faults.haste > 0 { &[false, true] } else { &[false] };
    for home in HOMES {
        for clients_forget in memories.iter().copied() {
            let world = World { faults, home, sweepers, clients_forget, ..WORLD };
            let Findings { violated, examples } = check(name, world);
            assert_eq!(violated, Vec::<&str>::new(), "{name}, {world:?}");
            // A world in which nothing is ever answered, or no try ever follows another, would hold too much.
            let is_harmless = Faults { haste: 0, unknown: 0, ..faults } == NONE;
            assert_eq!(examples.len(), if is_harmless { 1 } else { 2 }, "{name}, {world:?}: {examples:?}");
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
    holds("haste, two sweepers", HASTE, 2);
    holds("haste, and a no", Faults { refusals: 1, ..HASTE }, 1);
    holds("haste, and an unknown branch", Faults { unknown: 1, ..HASTE }, 1);
}

/// A fence ends what would come to nothing anyway, and sooner: whether it holds is a matter of time, not of safety. A fault need not happen, so these are checked without it too.
#[test]
fn all_holds_when_a_fence_fails() {
    let fence = Faults { fences: 1, ..NONE };
    holds("a crash, two sweepers", CRASH, 2);
    holds("a fence that fails, a crash, haste", Faults { crashes: 1, haste: 1, ..fence }, 1);
    holds("a fence that fails, a crash, a false suspicion", Faults { crashes: 1, suspicions: 1, ..fence }, 1);
    holds("a fence that fails, haste, a false suspicion", Faults { haste: 1, suspicions: 1, ..fence }, 1);
}

#[test]
fn all_holds_when_a_connection_breaks() {
    let broken = Faults { breaks: 1, ..NONE };
    holds("a break, two sweepers", broken, 2);
    holds("two breaks", Faults { breaks: 2, ..broken }, 1);
    holds("a break, a crash", Faults { crashes: 1, ..broken }, 1);
    holds("a break, haste", Faults { haste: 1, ..broken }, 1);
    holds("a break, a false suspicion, a fence that fails", Faults { suspicions: 1, fences: 1, ..broken }, 1);
    holds("a break, a no", Faults { refusals: 1, ..broken }, 1);
    holds("a break, a database that crashes", Faults { outages: 1, ..broken }, 1);
}

/// A look may come too late: the executor has gone on to another try, and is not at work on this one any more. And who is taken for dead and lives may begin again. Neither costs more than one
/// try.
#[test]
fn late_looks_and_false_suspicions_cost_a_try_at_most() {
    let suspicion = Faults { suspicions: 1, ..NONE };
    for home in HOMES {
        for (name, faults, looks_everywhere) in [
            ("a no, looks everywhere", Faults { refusals: 1, ..NONE }, true),
            ("a break, looks everywhere", Faults { breaks: 1, ..NONE }, true),
            ("a false suspicion", suspicion, false),
            ("a false suspicion, a no", Faults { refusals: 1, ..suspicion }, false),
        ] {
            let world = World { faults, home, looks_everywhere, ..WORLD };
            assert_eq!(check(name, world).violated, Vec::<&str>::new());
        }
    }
}

/// Each mistake is made for real somewhere, and breaks what it must: the checks can see. Every promise is seen broken.
#[test]
fn mistakes_are_seen() {
    let [registers, database] = HOMES;
    let broken = |mistake, faults, home| {
        // Two servers compute the same try only if a client asks both as if each were the first.
        let clients_forget = matches!(mistake, Mistake::EveryCommitIsOurs | Mistake::OwnAnswer);
        check(&format!("{mistake:?}"), World { faults, mistake, home, clients_forget, ..WORLD }).violated
    };
    let outage = Faults { outages: 1, ..NONE };
    let unknown = Faults { unknown: 1, ..NONE };
    let refusal = Faults { refusals: 1, ..NONE };
    let broken_off = Faults { breaks: 1, ..NONE };
    for home in HOMES {
        assert_eq!(broken(Mistake::NoSweep, CRASH, home), ["T.2"]);
        assert_eq!(broken(Mistake::UnknownIsCommitted, unknown, home), ["A.1"]);
        assert_eq!(broken(Mistake::SweepWithoutWriting, CRASH, home), ["A.1", "A.3"]);
        assert_eq!(broken(Mistake::EarlyAnswer, NONE, home), ["A.1"]);
        assert_eq!(broken(Mistake::LostVoteIsYes, outage, home), ["A.1", "A.3", "V.2"]);
        assert_eq!(broken(Mistake::LostVoteIsYes, broken_off, home), ["A.1", "A.3", "V.2"]);
        assert_eq!(broken(Mistake::TakesForVoid, Faults { suspicions: 1, ..HASTE }, home), ["A.2"]);
        assert_eq!(broken(Mistake::OwnAnswer, HASTE, home), ["A.1"]);
        assert_eq!(broken(Mistake::FirstAnswerIsKept, refusal, home), ["V.1"]);
        assert_eq!(broken(Mistake::OtherAnswerIsKept, NONE, home), ["V.1"]);
    }
    assert_eq!(broken(Mistake::SameIdentity, CRASH, registers), ["A.3"]);
    assert_eq!(broken(Mistake::WaitsForTheDead, Faults { haste: 1, ..CRASH }, database), ["T.1"]);
    assert_eq!(broken(Mistake::EveryCommitIsOurs, HASTE, registers), ["A.1", "A.2", "A.3"]);
    // Where a database decides, the branch in it goes as soon as the commit of another stands: it never came to a vote.
    assert_eq!(broken(Mistake::EveryCommitIsOurs, HASTE, database), ["A.1", "A.2", "A.3", "V.2"]);
    // It takes a fence that fails for this to be a mistake.
    let attached = Faults { haste: 1, ..CRASH };
    assert_eq!(broken(Mistake::FenceIsTrusted, attached, registers), Vec::<&str>::new());
    assert_eq!(broken(Mistake::FenceIsTrusted, Faults { fences: 1, ..attached }, registers), ["T.2"]);
}
