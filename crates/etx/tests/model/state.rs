//! The state of the model: servers, databases, registers, the client, and the effects in flight.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use jeton_etx::{
    AttemptNumber, BranchRecovery, ClientOutcome, CoordinatorAction, CoordinatorId, CoordinatorState,
    Decision, Event, Outcome, ProcedureResult, RecoveryAction, RecoveryEvent, VoteResult,
};

use crate::fault::Faults;

pub const SERVERS: usize = 2;
pub const RESOURCES: u8 = 2;

/// The incarnation of effects without an owner. Incarnations of servers count from 1.
pub const NO_OWNER: u64 = 0;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    pub incarnation: u64,
    pub next_work: u64,
    pub work: Option<CoordinatorState>,
    pub recovery: Option<BranchRecovery>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreparedBranch {
    Active,
    Prepared,
}

/// The branch of one coordinator and attempt in one database.
pub type Part = (u8, AttemptNumber, CoordinatorId);

/// An action of a server that is in flight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effect {
    pub server: u16,
    pub incarnation: u64,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    Action(CoordinatorAction),
    Recovery(RecoveryAction),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub servers: Vec<Server>,
    pub decisions: BTreeMap<AttemptNumber, Decision>,
    pub branches: BTreeMap<Part, PreparedBranch>,
    /// The attempts whose procedure ended, with the coordinator.
    pub executed: BTreeSet<(AttemptNumber, CoordinatorId)>,
    pub voted: BTreeSet<Part>,
    pub committed: BTreeSet<Part>,
    /// Branches that voted yes and were rolled back.
    pub rolled_back: BTreeSet<Part>,
    /// A branch was to be committed and does not exist.
    pub damage: bool,
    /// Branches that recovery ignores, by a planted mistake.
    pub ignored: BTreeSet<Part>,
    pub in_flight: BTreeSet<Effect>,
    /// All outcomes that the client got. It takes the first, but each must be right.
    pub answers: BTreeSet<ClientOutcome>,
    pub has_sent: bool,
    pub left: Faults,
}

/// The answer of an execution. It is unique.
pub fn answer_of(attempt: AttemptNumber, coordinator: CoordinatorId) -> ProcedureResult {
    let CoordinatorId { server, incarnation, work } = coordinator;
    ProcedureResult::Done(Bytes::copy_from_slice(&[attempt.0, server as u8, incarnation as u8, work as u8]))
}

impl State {
    pub fn new(faults: Faults) -> Self {
        let server = Server { incarnation: 1, next_work: 1, work: None, recovery: None };
        Self { servers: vec![server; SERVERS], left: faults, ..Self::default() }
    }

    pub fn is_alive(&self, coordinator: CoordinatorId) -> bool {
        self.servers[usize::from(coordinator.server)].incarnation == coordinator.incarnation
    }

    pub fn is_working(&self, coordinator: CoordinatorId, attempt: AttemptNumber) -> bool {
        let server = &self.servers[usize::from(coordinator.server)];
        server.incarnation == coordinator.incarnation
            && server
                .work
                .as_ref()
                .is_some_and(|work| work.coordinator() == coordinator && work.is_executing(attempt))
    }

    /// Whether no server waits for the result.
    pub fn is_orphan(&self, effect: &Effect) -> bool {
        let server = &self.servers[usize::from(effect.server)];
        server.incarnation != effect.incarnation
    }

    pub fn is_voting(&self, part: Part) -> bool {
        self.in_flight.iter().any(|effect| {
            matches!(&effect.what, What::Action(CoordinatorAction::Vote(attempt, branch))
            if (branch.resource, attempt.number, attempt.coordinator) == part)
        })
    }

    /// The number of attempts that were begun.
    pub fn attempts(&self) -> u8 {
        self.executed.iter().map(|(attempt, _)| attempt.0).max().unwrap_or_default()
    }

    pub fn is_served(&self) -> bool {
        self.servers.iter().any(|server| server.work.is_some())
    }

    /// Whether the client has to send: for the first time, or because no server executes the request. Other
    /// sends are haste.
    pub fn must_send(&self) -> bool {
        self.answers.is_empty() && (!self.has_sent || !self.is_served())
    }

    /// Whether a server has nothing in flight: a crash then only changes its identity.
    pub fn is_idle(&self, number: u16) -> bool {
        let server = &self.servers[usize::from(number)];
        let incarnation = (number, server.incarnation);
        let has_open_branch = self.branches.iter().any(|((_, _, coordinator), listed)| {
            *listed == PreparedBranch::Active && (coordinator.server, coordinator.incarnation) == incarnation
        });
        server.work.is_none()
            && server.recovery.is_none()
            && !has_open_branch
            && !self.in_flight.iter().any(|effect| (effect.server, effect.incarnation) == incarnation)
    }

    /// Whether a crash of the database would lose something.
    pub fn is_active(&self, resource: u8) -> bool {
        self.branches.iter().any(|(part, listed)| part.0 == resource && *listed == PreparedBranch::Active)
    }

    pub fn start(&mut self, server: u16, steps: impl IntoIterator<Item = What>) {
        let incarnation = self.servers[usize::from(server)].incarnation;
        self.in_flight.extend(steps.into_iter().map(|what| Effect { server, incarnation, what }));
    }

    /// Records a decision unless there is one, and returns the recorded one.
    pub fn propose(&mut self, attempt: AttemptNumber, decision: Decision) -> Decision {
        self.decisions.entry(attempt).or_insert(decision).clone()
    }

    pub fn end(&mut self, part: Part, outcome: Outcome) {
        match (self.branches.get(&part), outcome) {
            (Some(PreparedBranch::Prepared), Outcome::Commit) => {
                self.branches.remove(&part);
                self.committed.insert(part);
            }
            (_, Outcome::Commit) => self.damage |= !self.committed.contains(&part),
            (Some(listed), Outcome::Abort) => {
                if *listed == PreparedBranch::Prepared {
                    self.rolled_back.insert(part);
                }
                self.branches.remove(&part);
            }
            (None, Outcome::Abort) => {}
        }
    }

    /// The branches that a fence would terminate: open ones, and those whose prepare is in flight.
    pub fn unfenced(&self, concerns: impl Fn(&Part) -> bool) -> BTreeSet<Part> {
        let active = self.branches.iter().filter(|(_, listed)| **listed == PreparedBranch::Active);
        let voting = self.in_flight.iter().filter_map(|effect| match &effect.what {
            What::Action(CoordinatorAction::Vote(attempt, branch)) => {
                Some((branch.resource, attempt.number, attempt.coordinator))
            }
            _ => None,
        });
        active.map(|(part, _)| *part).chain(voting).filter(concerns).collect()
    }

    /// Terminates the sessions of branches. A prepare in flight becomes a no vote.
    pub fn end_sessions(&mut self, parts: &BTreeSet<Part>) {
        let mut broken = Vec::new();
        self.in_flight.retain(|effect| match &effect.what {
            What::Action(CoordinatorAction::Vote(attempt, branch))
                if parts.contains(&(branch.resource, attempt.number, attempt.coordinator)) =>
            {
                broken.push((effect.clone(), attempt.number, *branch));
                false
            }
            _ => true,
        });
        self.branches.retain(|part, listed| !parts.contains(part) || *listed == PreparedBranch::Prepared);
        for (effect, attempt, branch) in broken {
            if !self.is_orphan(&effect) {
                self.deliver(effect.server, attempt, Event::Voted(branch, VoteResult::No));
            }
        }
    }

    pub fn deliver(&mut self, server: u16, attempt: AttemptNumber, event: Event) {
        let Some(work) = &mut self.servers[usize::from(server)].work else { return };
        let steps = work.on(attempt, event);
        self.start(server, steps.into_iter().map(What::Action));
    }

    pub fn on_recovery_event(&mut self, server: u16, found: RecoveryEvent) {
        let slot = &mut self.servers[usize::from(server)].recovery;
        let Some(recovery) = slot else { return };
        let next = recovery.on(found);
        if recovery.has_ended() {
            *slot = None;
        }
        self.start(server, next.map(What::Recovery));
    }
}
