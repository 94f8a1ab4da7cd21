//! The protocol, checked in every order of events, with limited numbers of faults.

mod world;

use jeton_etx::Home;
use stateright::{Checker, Model};
use world::{Faults, Mistake, World};

const NONE: Faults = Faults { crashes: 0, suspicions: 0, refusals: 0, haste: 0, unknown: 0, outages: 0 };

const CRASH: Faults = Faults { crashes: 1, ..NONE };

const HOMES: [Home; 2] = [Home::Registers, Home::Resource(0)];

/// The properties that do not hold, in order.
fn violated(name: &str, world: World) -> Vec<&'static str> {
    let checker = world.checker().threads(2).spawn_bfs().join();
    let states = checker.unique_state_count();
    eprintln!(
        "{name}, decisions in {:?}, client forgets: {}: {states} states",
        world.home, world.clients_forget
    );
    let mut violated = Vec::new();
    for (property, path) in checker.discoveries() {
        let is_example = property.starts_with("a ");
        if !is_example {
            eprintln!("  {property}: violated after {} steps", path.into_actions().len());
            violated.push(&property[..3]);
        }
    }
    violated.sort_unstable();
    violated
}

/// Checks a client that remembers having asked, and one that does not where that can make a difference: where it asks more than once.
#[track_caller]
fn holds(name: &str, faults: Faults, sweepers: usize) {
    let memories: &[bool] = if faults.haste > 0 { &[false, true] } else { &[false] };
    for home in HOMES {
        for clients_forget in memories.iter().copied() {
            let world = World { faults, mistake: Mistake::None, home, sweepers, clients_forget };
            assert_eq!(violated(name, world), Vec::<&str>::new());
        }
    }
}

#[test]
fn all_holds_without_faults() {
    holds("no faults", NONE, 2);
}

#[test]
fn all_holds_when_a_server_crashes() {
    holds("a crash, two sweepers", CRASH, 2);
    holds("a crash, and a client in haste", Faults { haste: 1, ..CRASH }, 1);
    holds("a crash, and a false suspicion", Faults { suspicions: 1, ..CRASH }, 1);
    holds("a crash, and a no", Faults { refusals: 1, ..CRASH }, 1);
    holds("a crash, and a database that crashes", Faults { outages: 1, ..CRASH }, 1);
}

#[test]
fn all_holds_when_servers_compete() {
    let haste = Faults { haste: 1, ..NONE };
    holds("haste, two sweepers", haste, 2);
    holds("haste, and a false suspicion", Faults { suspicions: 1, ..haste }, 1);
    holds("haste, and a no", Faults { refusals: 1, ..haste }, 1);
    holds("haste, and an unknown branch", Faults { unknown: 1, ..haste }, 1);
}

/// Each mistake is made for real somewhere, and breaks what it must: the checks can see.
#[test]
fn mistakes_are_seen() {
    let broken = |mistake, faults, home| {
        violated(&format!("{mistake:?}"), World { faults, mistake, home, sweepers: 1, clients_forget: false })
    };
    let [registers, database] = HOMES;
    let outage = Faults { outages: 1, ..NONE };
    let unknown = Faults { unknown: 1, ..NONE };
    assert_eq!(broken(Mistake::NoSweep, CRASH, registers), ["T.2"]);
    assert_eq!(broken(Mistake::SameIdentity, CRASH, registers), ["A.1", "A.3"]);
    assert_eq!(broken(Mistake::UnknownIsCommitted, unknown, registers), ["A.1"]);
    assert_eq!(broken(Mistake::SweepWithoutWriting, CRASH, registers), ["A.1", "A.3"]);
    assert_eq!(broken(Mistake::EarlyAnswer, NONE, registers), ["A.1"]);
    assert_eq!(broken(Mistake::LostVoteIsYes, outage, registers), ["A.1", "A.3", "V.2"]);
    assert_eq!(broken(Mistake::LostVoteIsYes, outage, database), ["A.1", "A.3", "V.2"]);
}
