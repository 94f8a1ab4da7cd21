//! The properties that the model checks.
//!
//! Every path ends, because faults are limited. So liveness is checked in the states in which nothing more
//! can happen.

use std::collections::BTreeSet;

use jeton_etx::{AttemptNumber, ClientOutcome, CoordinatorId, Decision, ProcedureResult};
use stateright::Property;

use crate::model::ClusterModel;
use crate::state::{Part, RESOURCES, State, answer_of};

/// Not a property of the paper. A client whose request is given up is answered too; this property forbids
/// giving up without a cause.
pub const COST: &str = "C.1 a fault costs at most one attempt";

pub fn properties() -> Vec<Property<ClusterModel>> {
    vec![
        Property::always(
            "T.1 a client that keeps retrying gets a response",
            |model: &ClusterModel, state: &State| !state.answers.is_empty() || !model.is_quiet(state),
        ),
        Property::always(COST, |model, state: &State| state.attempts() <= model.attempts_due(state)),
        Property::always("T.2 a database that voted learns the outcome", |model, state: &State| {
            state.branches.is_empty() || !model.is_quiet(state)
        }),
        Property::always("A.1 an answer is given only if all have committed", |_, state: &State| {
            state.answers.iter().all(|ending| match ending {
                ClientOutcome::Answer(answer) => is_committed(state, answer),
                _ => true,
            })
        }),
        Property::always("A.2 at most one attempt commits", |_, state: &State| {
            let executions: BTreeSet<(AttemptNumber, CoordinatorId)> =
                state.committed.iter().map(|(_, attempt, coordinator)| (*attempt, *coordinator)).collect();
            executions.len() <= 1
        }),
        Property::always("A.3 no two databases disagree", |_, state: &State| {
            let is_undone = |(_, attempt, coordinator): &Part| {
                state.rolled_back.iter().any(|other| (other.1, other.2) == (*attempt, *coordinator))
            };
            !state.damage && !state.committed.iter().any(is_undone)
        }),
        Property::always("V.1 an answer was computed by the committed execution", |_, state: &State| {
            state.answers.iter().all(|ending| match ending {
                ClientOutcome::Answer(answer) => is_computed(state, answer),
                // No execution computes these outcomes, and none is due: there are more attempts than faults,
                // and the one request is young.
                ClientOutcome::GivenUp
                | ClientOutcome::Mismatch
                | ClientOutcome::Forgotten
                | ClientOutcome::NoRoom
                | ClientOutcome::Unavailable => false,
            })
        }),
        Property::always("V.2 a database commits only if all have voted yes", |_, state: &State| {
            state.committed.iter().all(|(_, attempt, coordinator)| {
                (0..RESOURCES).all(|resource| state.voted.contains(&(resource, *attempt, *coordinator)))
            })
        }),
        Property::sometimes("a request is answered", |_, state: &State| {
            state.answers.iter().any(|ending| matches!(ending, ClientOutcome::Answer(_)))
        }),
        Property::sometimes("a second attempt commits", |_, state: &State| {
            state.committed.iter().any(|(_, attempt, _)| *attempt > AttemptNumber::FIRST)
        }),
    ]
}

/// The attempts and coordinators whose decisions contain this answer.
fn carriers<'a>(
    state: &'a State,
    answer: &'a ProcedureResult,
) -> impl Iterator<Item = (AttemptNumber, CoordinatorId)> + 'a {
    state.decisions.iter().filter_map(move |(attempt, decision)| match decision {
        Decision::Commit(commit) if commit.answer == *answer => Some((*attempt, commit.coordinator)),
        _ => None,
    })
}

/// A decision contains the answer, and every database has committed the branches that it names. Every
/// execution changes every database.
fn is_committed(state: &State, answer: &ProcedureResult) -> bool {
    carriers(state, answer).any(|(attempt, coordinator)| {
        (0..RESOURCES).all(|resource| state.committed.contains(&(resource, attempt, coordinator)))
    })
}

/// An execution computed this answer, and a recorded answer is that of the committed coordinator.
fn is_computed(state: &State, answer: &ProcedureResult) -> bool {
    state.executed.iter().any(|(attempt, coordinator)| answer_of(*attempt, *coordinator) == *answer)
        && carriers(state, answer).all(|(attempt, coordinator)| answer_of(attempt, coordinator) == *answer)
}
