//! What is promised, as the model checks it.
//!
//! Every path ends, because faults are limited in number. So what must happen at last is checked where nothing more can happen.

use std::collections::BTreeSet;

use jeton_etx::{AttemptNumber, ClientOutcome, CoordinatorId, Decision, ProcedureResult};
use stateright::Property;

use crate::model::World;
use crate::state::{Part, RESOURCES, State, answer_of};

/// Not one of the paper's. A client that is told that its request is given up is answered too; this keeps it from being told that without a cause.
pub const COST: &str = "C.1 a fault costs one try at most";

pub fn promises() -> Vec<Property<World>> {
    vec![
        Property::always("T.1 a client that goes on asking is answered", |world: &World, state: &State| {
            !state.told.is_empty() || !world.is_quiet(state)
        }),
        Property::always(COST, |world, state: &State| state.tries() <= world.tries_due(state)),
        Property::always("T.2 who voted learns the outcome", |world, state: &State| {
            state.branches.is_empty() || !world.is_quiet(state)
        }),
        Property::always("A.1 an answer is given only if all have committed", |_, state: &State| {
            state.told.iter().all(|ending| match ending {
                ClientOutcome::Answer(answer) => is_committed(state, answer),
                _ => true,
            })
        }),
        Property::always("A.2 one try commits at most", |_, state: &State| {
            let works: BTreeSet<(AttemptNumber, CoordinatorId)> =
                state.committed.iter().map(|(_, attempt, executor)| (*attempt, *executor)).collect();
            works.len() <= 1
        }),
        Property::always("A.3 no two databases disagree", |_, state: &State| {
            let is_undone = |(_, attempt, executor): &Part| {
                state.undone.iter().any(|other| (other.1, other.2) == (*attempt, *executor))
            };
            !state.damage && !state.committed.iter().any(is_undone)
        }),
        Property::always("V.1 an answer was computed, by the work that counts", |_, state: &State| {
            state.told.iter().all(|ending| match ending {
                ClientOutcome::Answer(answer) => is_computed(state, answer),
                // Nobody computes these. Not one is due: there are more tries than faults, and one request, which is young.
                ClientOutcome::GivenUp
                | ClientOutcome::Mismatch
                | ClientOutcome::Forgotten
                | ClientOutcome::NoRoom => false,
            })
        }),
        Property::always("V.2 a database commits only if all have voted yes", |_, state: &State| {
            state.committed.iter().all(|(_, attempt, executor)| {
                (0..RESOURCES).all(|resource| state.voted.contains(&(resource, *attempt, *executor)))
            })
        }),
        Property::sometimes("a request is answered", |_, state: &State| {
            state.told.iter().any(|ending| matches!(ending, ClientOutcome::Answer(_)))
        }),
        Property::sometimes("a second try commits", |_, state: &State| {
            state.committed.iter().any(|(_, attempt, _)| *attempt > AttemptNumber::FIRST)
        }),
    ]
}

/// The decisions that carry this answer: which try, and whose work.
fn carriers<'a>(
    state: &'a State,
    answer: &'a ProcedureResult,
) -> impl Iterator<Item = (AttemptNumber, CoordinatorId)> + 'a {
    state.decisions.iter().filter_map(move |(attempt, decision)| match decision {
        Decision::Commit(commit) if commit.answer == *answer => Some((*attempt, commit.executor)),
        _ => None,
    })
}

/// A decision carries the answer, and every database has committed the work that it names. Every work changes every database.
fn is_committed(state: &State, answer: &ProcedureResult) -> bool {
    carriers(state, answer).any(|(attempt, executor)| {
        (0..RESOURCES).all(|resource| state.committed.contains(&(resource, attempt, executor)))
    })
}

/// The business logic came to this answer, and if it is what stands, it was for the work that is to be committed with it: an answer may not be of one work and the effects of another.
fn is_computed(state: &State, answer: &ProcedureResult) -> bool {
    state.computed.iter().any(|(attempt, executor)| answer_of(*attempt, *executor) == *answer)
        && carriers(state, answer).all(|(attempt, executor)| answer_of(attempt, executor) == *answer)
}
