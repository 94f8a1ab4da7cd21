//! A world for the protocol: two servers, two databases, registers, a client, and everything that may go wrong.
//!
//! The servers are the machines of the library, [`CoordinatorState`] and [`BranchRecovery`]. Each step that they want done is under way until the world does it, in any order; what
//! a server had under way when it crashed may come about, or not. Answers come with the deed, unless a connection breaks: what is lost is the deed, or the server.

use jeton_etx::{
    BranchRecovery, CoordinatorAction, CoordinatorId, CoordinatorState, DecisionLocation, RecoveryAction,
    RequestId, TransactionRequest, Xid,
};
use stateright::{Model, Property};

use crate::effects::How;
use crate::fault::{Faults, Mistake};
use crate::properties::promises;
use crate::state::{Errand, Part, PreparedBranch, RESOURCES, State, What};

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct World {
    pub faults: Faults,
    pub mistake: Mistake,
    pub home: DecisionLocation,
    /// How many servers sweep at the same time.
    pub sweepers: usize,
    /// Whether the client always says that it asks for the first time.
    pub clients_forget: bool,
    /// Whether sweepers look into branches that are in good hands too.
    pub looks_everywhere: bool,
}

const REQUEST: RequestId = RequestId { session: 1, sequence: 1 };

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// The client asks a server.
    Ask(u16),
    /// An errand is done.
    Do(Errand, How),
    /// An errand that nobody hears of comes to nothing.
    Lose(Errand),
    /// A server finds a prepared branch.
    Find(u16, Part),
    /// A server crashes and starts again. How long it is down makes no difference: what nobody asks does nothing.
    Crash(u16),
    Outage(u8),
}

impl World {
    /// The branch, as the databases call it.
    fn name(&self, (resource, attempt, executor): Part) -> Xid {
        Xid {
            cluster: 0.into(),
            request: REQUEST,
            attempt,
            home: self.home,
            executor,
            resource,
            connection: 0,
        }
    }

    /// Nothing more can happen, and no fault has to.
    pub fn is_quiet(&self, state: &State) -> bool {
        let is_over = |errand: &Errand| !state.is_orphan(errand) && !self.can(state, errand);
        let is_swept = || {
            (0..state.servers.len()).all(|number| !self.can_sweep(state, number))
                || self.findable(state).all(|part| !Self::is_out_of_order(state, part))
        };
        !state.must_ask() && state.under_way.iter().all(is_over) && is_swept()
    }

    /// How many tries there may be at most, after what has happened: each fault costs one.
    pub fn tries_due(&self, state: &State) -> u8 {
        let costly = |faults: &Faults| {
            faults.crashes + faults.suspicions + faults.refusals + faults.outages + faults.breaks
        };
        1 + costly(&self.faults) - costly(&state.left)
    }

    fn can_sweep(&self, state: &State, number: usize) -> bool {
        let sweepers = state.servers.iter().filter(|server| server.sweep.is_some()).count();
        state.servers[number].sweep.is_none() && sweepers < self.sweepers && self.mistake != Mistake::NoSweep
    }

    fn findable<'a>(&self, state: &'a State) -> impl Iterator<Item = Part> + 'a {
        let prepared = state.branches.iter().filter(|(_, standing)| **standing == PreparedBranch::Prepared);
        prepared.map(|(part, _)| *part).filter(|part| !state.ignored.contains(part))
    }

    /// Whether there is something to do about a prepared branch.
    fn is_out_of_order(state: &State, (_, attempt, executor): Part) -> bool {
        state.decisions.contains_key(&attempt) || !state.is_working(executor, attempt)
    }

    fn actions_of_the_client(state: &State, actions: &mut Vec<Action>) {
        if !state.told.is_empty() {
            return;
        }
        for (number, server) in state.servers.iter().enumerate() {
            // The servers are alike: which one is asked first makes no difference.
            let is_in_turn = state.asked_once || number == 0;
            let is_time = state.must_ask() || state.left.haste > 0;
            if server.work.is_none() && is_in_turn && is_time {
                actions.push(Action::Ask(number as u16));
            }
        }
    }

    fn crash(&self, state: &mut State, number: u16) {
        state.left.crashes -= 1;
        let server = &mut state.servers[usize::from(number)];
        (server.work, server.sweep) = (None, None);
        let incarnation = server.incarnation;
        if self.mistake != Mistake::SameIdentity {
            server.incarnation += 1;
            server.next_work = 1;
        }
        // What changes something elsewhere can still come about. Connections break; only what is on its way may be faster.
        state.under_way.retain(|errand| {
            let reaches = matches!(
                &errand.what,
                What::Step(
                    CoordinatorAction::Vote(..)
                        | CoordinatorAction::Propose(..)
                        | CoordinatorAction::CommitDeciding(..)
                        | CoordinatorAction::Commit(..)
                ) | What::Sweeping(RecoveryAction::ProposeAbort(_) | RecoveryAction::End(..))
            );
            errand.server != number || reaches
        });
        let lost: Vec<Part> = state
            .branches
            .iter()
            .filter(|((_, _, executor), standing)| {
                **standing == PreparedBranch::Active
                    && (executor.server, executor.incarnation) == (number, incarnation)
            })
            .map(|(part, _)| *part)
            .filter(|part| !state.is_voting(*part) && !self.is_deciding(state, *part))
            .collect();
        for part in lost {
            state.branches.remove(&part);
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.faults)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        Self::actions_of_the_client(state, actions);
        for errand in &state.under_way {
            let is_orphan = state.is_orphan(errand);
            if is_orphan {
                actions.push(Action::Lose(errand.clone()));
            }
            if self.can(state, errand) {
                actions.push(Action::Do(errand.clone(), How::Well));
            }
            if !is_orphan {
                let ways = Self::ways_to_fail(state, errand);
                actions.extend(ways.into_iter().map(|how| Action::Do(errand.clone(), how)));
            }
        }
        for number in 0..state.servers.len() {
            if self.can_sweep(state, number) {
                // A look that finds everything in order changes nothing, and is left out, unless it may be mistaken. It may also be too late: that is looked at apart.
                let is_all = self.looks_everywhere || state.left.suspicions > 0;
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
            Action::Ask(number) => {
                state.left.haste -= u8::from(!state.must_ask());
                // A client that does not remember says that it asks for the first time whenever it asks.
                let is_first_time = !state.asked_once || self.clients_forget;
                state.asked_once = true;
                let server = &mut state.servers[usize::from(number)];
                let executor =
                    CoordinatorId { server: number, incarnation: server.incarnation, work: server.next_work };
                server.next_work += u64::from(self.mistake != Mistake::SameIdentity);
                let question = TransactionRequest { request: REQUEST, home: self.home, asked: 7 };
                let (work, steps) = CoordinatorState::begin(question, executor, is_first_time);
                server.work = Some(work);
                state.want(number, steps.into_iter().map(What::Step));
            }
            Action::Do(errand, how) => {
                state.under_way.remove(&errand);
                self.carry_out(&mut state, errand, how);
            }
            Action::Lose(errand) => self.lose(&mut state, errand),
            Action::Find(number, part) => {
                let (sweep, first) = BranchRecovery::begin(self.name(part));
                state.servers[usize::from(number)].sweep = Some(sweep);
                state.want(number, [What::Sweeping(first)]);
            }
            Action::Crash(number) => self.crash(&mut state, number),
            Action::Outage(resource) => {
                state.left.outages -= 1;
                state
                    .branches
                    .retain(|part, standing| part.0 != resource || *standing == PreparedBranch::Prepared);
            }
        }
        Some(state)
    }

    /// Tries that nothing has caused are cut short: that there is one is enough.
    fn within_boundary(&self, state: &State) -> bool {
        state.tries() <= self.tries_due(state) + 1
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises()
    }
}
