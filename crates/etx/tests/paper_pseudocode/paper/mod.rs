//! The figures of the paper as they are printed, in a world in which everything may be late and some things fail.
//!
//! Frølund and Guerraoui, *Implementing e-Transactions with Asynchronous Replication* (HPL-2000-46), figures 2 to 6: one client, one request. Registers are
//! atomic. Messages are reliable and come in any order; those of a server that crashed come, or do not. What a database says to a server comes with the deed.
//!
//! - [`variant`]: what is read differently from the print, and how many faults there may be.
//! - [`state`]: the client, the servers with their two threads, the databases, the registers, the letters on their way.
//! - [`figures`]: what each of them does.
//! - [`model`]: all of it for the checker, and what must hold.
//! - [`path`]: the shortest way to where something does not hold.
//! - [`words`]: a path through it, in sentences.

mod figures;
mod labels;
mod model;
mod path;
mod state;
mod variant;

use stateright::{Checker, Expectation, Model};

pub use variant::{Faults, Variant};

/// What the checker found.
pub struct Findings {
    /// How many states there are.
    pub states: usize,
    /// What does not hold, in order.
    pub violations: Vec<&'static str>,
    /// What must be possible, or else the model is too narrow to say anything, and is not.
    pub impossible: Vec<&'static str>,
}

/// Looks at every state that there is.
pub fn check(variant: Variant) -> Findings {
    let checker = variant.checker().spawn_bfs().join();
    let found = checker.discoveries();
    let mut findings =
        Findings { states: checker.unique_state_count(), violations: Vec::new(), impossible: Vec::new() };
    for property in variant.properties() {
        let is_found = found.contains_key(property.name);
        match property.expectation {
            Expectation::Sometimes if !is_found => findings.impossible.push(property.name),
            Expectation::Always if is_found => findings.violations.push(property.name),
            _ => {}
        }
    }
    findings.violations.sort_unstable();
    findings
}

/// The shortest way to see that a property does not hold, in sentences; none if it holds.
pub fn story(variant: Variant, property: &str) -> Option<Vec<String>> {
    path::shortest(&variant, property).map(|path| labels::story(&variant, property, &path))
}
