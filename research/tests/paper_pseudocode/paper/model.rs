//! The figures for the checker: the possible steps and the properties.
//!
//! Liveness is checked in states without a fair step. Faults are limited, so every path reaches such a state,
//! except for threads that spin.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use super::figures::Action;
use super::state::{
    Cleaning, DATABASES, Decision, Execution, ExecutionResult, Message, SERVERS, Stage, State,
};
use super::variant::Variant;

impl Variant {
    /// The steps that happen eventually, unless another step prevents them.
    fn fair(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        if state.client.stage == Stage::Begin {
            actions.push(Action::Issue);
        }
        for message in &state.messages {
            if can_arrive(state, message) {
                actions.push(Action::Deliver(*message));
            }
            if state.is_orphan(message) {
                actions.push(Action::Lose(*message));
            }
        }
        for number in 0..SERVERS {
            self.fair_of_server(state, number, &mut actions);
        }
        if self.sweeps && state.servers.iter().any(|server| server.is_up) {
            actions.extend(self.sweepable(state).map(|(database, attempt)| Action::Sweep(database, attempt)));
        }
        // The client times out if its server is down or nothing else happens. An earlier timeout is haste.
        let is_waiting = state.client.stage == Stage::First;
        if is_waiting && (!state.server(0).is_up || actions.is_empty()) {
            actions.push(Action::Timeout);
        }
        actions
    }

    fn fair_of_server(&self, state: &State, number: u8, actions: &mut Vec<Action>) {
        let server = state.server(number);
        match server.execution {
            Execution::Claimed(_) => actions.push(Action::Compute(number)),
            Execution::Voting { replied, .. } if replied == [true; DATABASES] => {
                actions.push(Action::Write(number));
            }
            _ => {}
        }
        match server.cleaning {
            Cleaning::Walking { .. } => actions.push(Action::Walk(number)),
            Cleaning::Idle if server.is_up => {
                let names: BTreeSet<_> = state.claims.values().copied().collect();
                let dead = names.into_iter().filter(|name| self.is_dead(state, *name));
                let worth = dead.filter(|name| self.is_worth(state, number, *name));
                actions.extend(worth.map(|name| Action::Suspect(number, name)));
            }
            _ => {}
        }
    }

    /// The prepared branches that have a decision, or whose owner has crashed.
    fn sweepable<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (usize, u8)> + 'a {
        state.databases.iter().enumerate().flat_map(move |(number, database)| {
            let prepared = database.branches.iter().filter(|(_, branch)| branch.is_prepared);
            let to_end = prepared.filter(|(attempt, _)| {
                let owner_is_dead =
                    || state.claims.get(attempt).is_some_and(|name| self.is_dead(state, *name));
                state.decisions.contains_key(attempt) || owner_is_dead()
            });
            to_end.map(move |(attempt, _)| (number, *attempt))
        })
    }

    /// The faults that can happen.
    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let left = state.left;
        if left.haste > 0 && state.client.stage == Stage::First {
            actions.push(Action::Timeout);
        }
        for message in &state.messages {
            let can_fail = match message {
                Message::Prepare { .. } => left.refusals > 0,
                Message::Decide { from, to, attempt, decision: Decision::Commit(_) } => {
                    let branch = state.databases[*to].branches.get(attempt);
                    let is_hidden = branch.is_some_and(|branch| {
                        branch.is_prepared && branch.maker != *from && state.is_alive(branch.maker)
                    });
                    left.unknown > 0 && is_hidden
                }
                _ => false,
            };
            if can_fail {
                actions.push(Action::DeliverBadly(*message));
            }
        }
        for number in 0..SERVERS {
            let server = state.server(number);
            if left.crashes > 0 && server.is_up {
                actions.push(Action::Crash(number));
            }
            if left.restarts > 0 && !server.is_up {
                actions.push(Action::Restart(number));
            }
            let others = (0..SERVERS).filter(|other| *other != number).map(|other| state.incarnation(other));
            for name in others.map(|incarnation| self.name(incarnation)) {
                let can_suspect = left.suspicions > 0 && server.is_up && server.cleaning == Cleaning::Idle;
                if can_suspect && !self.is_dead(state, name) && self.is_worth(state, number, name) {
                    actions.push(Action::Suspect(number, name));
                }
            }
        }
        if left.outages > 0 {
            actions.extend((0..DATABASES).map(Action::Outage));
        }
    }

    /// Whether no fair step is left.
    fn is_at_rest(&self, state: &State) -> bool {
        !state.is_cut() && self.fair(state).is_empty()
    }
}

/// A request waits for the execution thread; all other messages are received at once.
fn can_arrive(state: &State, message: &Message) -> bool {
    match message {
        Message::Request { to, .. } => state.server(*to).execution == Execution::Idle,
        _ => true,
    }
}

fn committed(state: &State) -> impl Iterator<Item = ExecutionResult> + '_ {
    state.databases.iter().flat_map(|database| database.committed.iter().copied())
}

impl Model for Variant {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.faults)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.is_cut() {
            return;
        }
        // Fair steps first, so that of the shortest paths the one with late faults is found.
        let mut faults = Vec::new();
        self.faults(state, &mut faults);
        actions.extend(self.fair(state));
        faults.retain(|action| !actions.contains(action));
        actions.extend(faults);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let is_hasty = action == Action::Timeout && !self.fair(last).contains(&action);
        state.left.haste -= u8::from(is_hasty);
        self.apply(&mut state, action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("T.1 the client delivers a result", |variant: &Self, state: &State| {
                state.delivered().is_some() || !variant.is_at_rest(state)
            }),
            Property::always(
                "T.2 a database that voted learns the outcome",
                |variant: &Self, state: &State| {
                    let mut branches = state.databases.iter().flat_map(|database| database.branches.values());
                    !branches.any(|branch| branch.is_prepared) || !variant.is_at_rest(state)
                },
            ),
            Property::always("A.1 a delivered result is committed everywhere", |_, state: &State| {
                let Some(computed) = state.delivered() else { return true };
                state.databases.iter().all(|database| database.committed.contains(&computed))
            }),
            Property::always("A.2 one result commits at most", |_, state: &State| {
                committed(state).collect::<BTreeSet<_>>().len() <= 1
            }),
            Property::always("A.3 no two databases disagree", |_, state: &State| {
                let is_aborted =
                    |computed| state.databases.iter().any(|database| database.aborted.contains(&computed));
                !committed(state).any(is_aborted)
            }),
            Property::always("V.1 a delivered result was computed", |_, state: &State| {
                let Some(ExecutionResult { attempt, run }) = state.delivered() else { return true };
                state.runs.get(&attempt).is_some_and(|runs| (1..=*runs).contains(&run))
            }),
            Property::always("V.2 a database commits only if all have voted yes", |_, state: &State| {
                committed(state)
                    .all(|computed| state.databases.iter().all(|database| database.voted.contains(&computed)))
            }),
            Property::sometimes("a result is delivered", |_, state: &State| state.delivered().is_some()),
            Property::sometimes("a second attempt commits", |_, state: &State| {
                committed(state).any(|computed| computed.attempt > 1)
            }),
        ]
    }
}
