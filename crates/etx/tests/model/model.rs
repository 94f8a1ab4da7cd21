//! The model: two servers, two databases, registers, a client, and faults.
//!
//! The servers are the state machines of the library, [`CoordinatorState`] and [`BranchRecovery`]. Each of
//! their actions is an effect in flight until the model carries it out, in any order; the effects of a
//! crashed server take place or not. A response arrives with its effect, unless a connection breaks.

use jeton_etx::{
    BranchRecovery, CoordinatorAction, CoordinatorId, CoordinatorState, DecisionLocation, RecoveryAction,
    RequestId, TransactionRequest, Xid,
};
use stateright::{Model, Property};

use crate::effects::How;
use crate::fault::{Faults, Mistake};
use crate::properties::properties;
use crate::state::{Effect, Part, PreparedBranch, RESOURCES, State, What};

#[derive(Debug, Clone, Copy)]
pub struct ClusterModel {
    pub faults: Faults,
    pub mistake: Mistake,
    pub decision_location: DecisionLocation,
    /// The number of servers that run recovery at the same time.
    pub recovery_tasks: usize,
    /// Whether the client always claims to send for the first time.
    pub clients_forget: bool,
    /// Whether recovery also checks branches whose coordinator is executing.
    pub checks_all_branches: bool,
}

const REQUEST: RequestId = RequestId { session: 1, sequence: 1 };

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// The client sends the request to a server.
    Send(u16),
    /// An effect takes place.
    Do(Effect, How),
    /// An effect without an owner is lost.
    Lose(Effect),
    /// Recovery of a server lists a prepared branch.
    Find(u16, Part),
    /// A server crashes and restarts. The downtime does not matter: a server without requests does nothing.
    Crash(u16),
    Outage(u8),
}

impl ClusterModel {
    /// The name of a branch in the databases.
    fn name(&self, (resource, attempt, coordinator): Part) -> Xid {
        Xid {
            cluster: 0.into(),
            request: REQUEST,
            attempt,
            decision_location: self.decision_location,
            coordinator,
            resource,
            connection: 0,
        }
    }

    /// Nothing more can happen without a fault.
    pub fn is_quiet(&self, state: &State) -> bool {
        let has_ended = |effect: &Effect| !state.is_orphan(effect) && !self.can(state, effect);
        let is_recovered = || {
            (0..state.servers.len()).all(|number| !self.can_recover(state, number))
                || self.findable(state).all(|part| !Self::is_out_of_order(state, part))
        };
        !state.must_send() && state.in_flight.iter().all(has_ended) && is_recovered()
    }

    /// The limit of attempts after the faults so far: each fault costs one, but an unavailable database none.
    pub fn attempts_due(&self, state: &State) -> u8 {
        let costly = |faults: &Faults| {
            faults.crashes + faults.suspicions + faults.refusals + faults.outages + faults.breaks
        };
        1 + costly(&self.faults) - costly(&state.left)
    }

    fn can_recover(&self, state: &State, number: usize) -> bool {
        let recovery_tasks = state.servers.iter().filter(|server| server.recovery.is_some()).count();
        state.servers[number].recovery.is_none()
            && recovery_tasks < self.recovery_tasks
            && self.mistake != Mistake::NoRecovery
    }

    fn findable<'a>(&self, state: &'a State) -> impl Iterator<Item = Part> + 'a {
        let prepared = state.branches.iter().filter(|(_, listed)| **listed == PreparedBranch::Prepared);
        prepared.map(|(part, _)| *part).filter(|part| !state.ignored.contains(part))
    }

    /// Whether a prepared branch needs recovery.
    fn is_out_of_order(state: &State, (_, attempt, coordinator): Part) -> bool {
        state.decisions.contains_key(&attempt) || !state.is_working(coordinator, attempt)
    }

    fn client_actions(state: &State, actions: &mut Vec<Action>) {
        if !state.answers.is_empty() {
            return;
        }
        for (number, server) in state.servers.iter().enumerate() {
            // The servers are symmetric, so server 0 gets the first request.
            let is_in_turn = state.has_sent || number == 0;
            let is_time = state.must_send() || state.left.haste > 0;
            if server.work.is_none() && is_in_turn && is_time {
                actions.push(Action::Send(number as u16));
            }
        }
    }

    fn crash(&self, state: &mut State, number: u16) {
        state.left.crashes -= 1;
        let server = &mut state.servers[usize::from(number)];
        (server.work, server.recovery) = (None, None);
        let incarnation = server.incarnation;
        if self.mistake != Mistake::SameIdentity {
            server.incarnation += 1;
            server.next_work = 1;
        }
        // Effects on databases and registers can still take place. Connections break; only statements in
        // flight may be faster.
        state.in_flight.retain(|effect| {
            let reaches = matches!(
                &effect.what,
                What::Action(
                    CoordinatorAction::Vote(..)
                        | CoordinatorAction::Propose(..)
                        | CoordinatorAction::CommitDeciding(..)
                        | CoordinatorAction::Commit(..)
                ) | What::Recovery(RecoveryAction::ProposeAbort(_) | RecoveryAction::End(..))
            );
            effect.server != number || reaches
        });
        let lost: Vec<Part> = state
            .branches
            .iter()
            .filter(|((_, _, coordinator), listed)| {
                **listed == PreparedBranch::Active
                    && (coordinator.server, coordinator.incarnation) == (number, incarnation)
            })
            .map(|(part, _)| *part)
            .filter(|part| !state.is_voting(*part) && !self.is_deciding(state, *part))
            .collect();
        for part in lost {
            state.branches.remove(&part);
        }
    }
}

impl Model for ClusterModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.faults)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        Self::client_actions(state, actions);
        for effect in &state.in_flight {
            let is_orphan = state.is_orphan(effect);
            if is_orphan {
                actions.push(Action::Lose(effect.clone()));
            }
            if self.can(state, effect) {
                actions.push(Action::Do(effect.clone(), How::Well));
            }
            if !is_orphan {
                let faults = Self::possible_faults(state, effect);
                actions.extend(faults.into_iter().map(|how| Action::Do(effect.clone(), how)));
            }
        }
        for number in 0..state.servers.len() {
            if self.can_recover(state, number) {
                // A check that finds a running coordinator changes nothing, and is left out unless it may be
                // mistaken. Late checks are a separate test.
                let is_all = self.checks_all_branches || state.left.suspicions > 0;
                let worth = self.findable(state).filter(|part| is_all || Self::is_out_of_order(state, *part));
                actions.extend(worth.map(|part| Action::Find(number as u16, part)));
            }
            if state.left.crashes > 0 && !state.is_idle(number as u16) {
                actions.push(Action::Crash(number as u16));
            }
        }
        if state.left.outages > 0 {
            let active = (0..RESOURCES).filter(|resource| state.is_active(*resource));
            actions.extend(active.map(Action::Outage));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Send(number) => {
                state.left.haste -= u8::from(!state.must_send());
                // A client that does not remember claims to send for the first time at each send.
                let is_first_time = !state.has_sent || self.clients_forget;
                state.has_sent = true;
                let server = &mut state.servers[usize::from(number)];
                let coordinator =
                    CoordinatorId { server: number, incarnation: server.incarnation, work: server.next_work };
                server.next_work += u64::from(self.mistake != Mistake::SameIdentity);
                let transaction = TransactionRequest {
                    request: REQUEST,
                    decision_location: self.decision_location,
                    request_hash: 7,
                };
                let (work, steps) = CoordinatorState::begin(transaction, coordinator, is_first_time);
                server.work = Some(work);
                state.start(number, steps.into_iter().map(What::Action));
            }
            Action::Do(effect, how) => {
                state.in_flight.remove(&effect);
                self.carry_out(&mut state, effect, how);
            }
            Action::Lose(effect) => self.lose(&mut state, effect),
            Action::Find(number, part) => {
                let (recovery, first) = BranchRecovery::begin(self.name(part));
                state.servers[usize::from(number)].recovery = Some(recovery);
                state.start(number, [What::Recovery(first)]);
            }
            Action::Crash(number) => self.crash(&mut state, number),
            Action::Outage(resource) => {
                state.left.outages -= 1;
                state
                    .branches
                    .retain(|part, listed| part.0 != resource || *listed == PreparedBranch::Prepared);
            }
        }
        Some(state)
    }

    /// Attempts without a cause are cut: one is enough for a counterexample.
    fn within_boundary(&self, state: &State) -> bool {
        state.attempts() <= self.attempts_due(state) + 1
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties()
    }
}
