//! A model of the pseudocode in Frølund and Guerraoui, *Implementing e-Transactions with Asynchronous
//! Replication* (HPL-2000-46), figures 2 to 6: one client, one request.
//!
//! Registers are atomic. Messages are reliable and arrive in any order; those of a crashed server may be
//! lost. A reply of a database arrives together with the effect.

mod figures;
mod labels;
mod model;
mod path;
mod state;
mod variant;

use stateright::{Checker, Expectation, Model};

pub use variant::{Faults, Variant};

/// The result of a check.
pub struct Findings {
    /// The number of states.
    pub states: usize,
    /// The violated properties, in order.
    pub violations: Vec<&'static str>,
    /// The reachability examples that were not found: the model is too narrow.
    pub impossible: Vec<&'static str>,
}

/// Checks all states.
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

/// The shortest counterexample of a property in sentences; `None` if the property holds.
pub fn explain(variant: Variant, property: &str) -> Option<Vec<String>> {
    path::shortest(&variant, property).map(|path| labels::explain(&variant, property, &path))
}
