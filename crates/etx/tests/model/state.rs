//! The state of the world: what servers, databases, registers and the client know, and what is under way between them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use jeton_etx::{
    AttemptNumber, BranchRecovery, ClientOutcome, CoordinatorAction, CoordinatorId, CoordinatorState,
    Decision, Event, Outcome, ProcedureResult, RecoveryAction, RecoveryEvent, VoteResult,
};

use crate::fault::Faults;

pub const SERVERS: u16 = 2;
pub const RESOURCES: u8 = 2;

/// The life that a server is in which does not hear of an errand any more. Those that servers have are counted from 1.
pub const NO_LIFE: u64 = 0;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    pub incarnation: u64,
    pub next_work: u64,
    pub work: Option<CoordinatorState>,
    pub sweep: Option<BranchRecovery>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreparedBranch {
    Active,
    Prepared,
}

/// The work of one executor on one try, in one database.
pub type Part = (u8, AttemptNumber, CoordinatorId);

/// A step that a server wants done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errand {
    pub server: u16,
    pub incarnation: u64,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    Step(CoordinatorAction),
    Sweeping(RecoveryAction),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub servers: Vec<Server>,
    pub decisions: BTreeMap<AttemptNumber, Decision>,
    pub branches: BTreeMap<Part, PreparedBranch>,
    /// Where the business logic came to its end, for whom.
    pub computed: BTreeSet<(AttemptNumber, CoordinatorId)>,
    pub voted: BTreeSet<Part>,
    pub committed: BTreeSet<Part>,
    /// Branches that voted yes and were rolled back.
    pub undone: BTreeSet<Part>,
    /// A branch was to be committed and is gone.
    pub damage: bool,
    /// What nobody looks for any more, by mistake.
    pub ignored: BTreeSet<Part>,
    pub under_way: BTreeSet<Errand>,
    /// What the client was told. It takes the first, but each must be right.
    pub told: BTreeSet<ClientOutcome>,
    pub asked_once: bool,
    pub left: Faults,
}

/// What a computation says. It tells itself from every other.
pub fn answer_of(attempt: AttemptNumber, executor: CoordinatorId) -> ProcedureResult {
    let CoordinatorId { server, incarnation, work } = executor;
    ProcedureResult::Done(Bytes::copy_from_slice(&[attempt.0, server as u8, incarnation as u8, work as u8]))
}

impl State {
    pub fn new(faults: Faults) -> Self {
        let server = || Server { incarnation: 1, next_work: 1, work: None, sweep: None };
        Self {
            servers: (0..SERVERS).map(|_| server()).collect(),
            decisions: BTreeMap::new(),
            branches: BTreeMap::new(),
            computed: BTreeSet::new(),
            voted: BTreeSet::new(),
            committed: BTreeSet::new(),
            undone: BTreeSet::new(),
            damage: false,
            ignored: BTreeSet::new(),
            under_way: BTreeSet::new(),
            told: BTreeSet::new(),
            asked_once: false,
            left: faults,
        }
    }

    pub fn is_alive(&self, executor: CoordinatorId) -> bool {
        self.servers[usize::from(executor.server)].incarnation == executor.incarnation
    }

    pub fn is_working(&self, executor: CoordinatorId, attempt: AttemptNumber) -> bool {
        let server = &self.servers[usize::from(executor.server)];
        server.incarnation == executor.incarnation
            && server
                .work
                .as_ref()
                .is_some_and(|work| work.executor() == executor && work.is_executing(attempt))
    }

    /// Nobody hears what becomes of it.
    pub fn is_orphan(&self, errand: &Errand) -> bool {
        let server = &self.servers[usize::from(errand.server)];
        server.incarnation != errand.incarnation
    }

    pub fn is_voting(&self, part: Part) -> bool {
        self.under_way.iter().any(|errand| {
            matches!(&errand.what, What::Step(CoordinatorAction::Vote(attempt, branch))
            if (branch.resource, attempt.number, attempt.executor) == part)
        })
    }

    /// How many tries were begun.
    pub fn tries(&self) -> u8 {
        self.computed.iter().map(|(attempt, _)| attempt.0).max().unwrap_or_default()
    }

    pub fn is_served(&self) -> bool {
        self.servers.iter().any(|server| server.work.is_some())
    }

    /// Whether the client has to ask: for the first time, or because nobody is at it. All else is haste.
    pub fn must_ask(&self) -> bool {
        self.told.is_empty() && (!self.asked_once || !self.is_served())
    }

    /// Whether a server has nothing to lose: to crash is then to lose nothing but its name.
    pub fn is_idle(&self, number: u16) -> bool {
        let server = &self.servers[usize::from(number)];
        let life = (number, server.incarnation);
        let at_work = self.branches.iter().any(|((_, _, executor), standing)| {
            *standing == PreparedBranch::Active && (executor.server, executor.incarnation) == life
        });
        server.work.is_none()
            && server.sweep.is_none()
            && !at_work
            && !self.under_way.iter().any(|errand| (errand.server, errand.incarnation) == life)
    }

    /// Whether a database has something to lose when it crashes.
    pub fn is_active(&self, resource: u8) -> bool {
        self.branches.iter().any(|(part, standing)| part.0 == resource && *standing == PreparedBranch::Active)
    }

    pub fn want(&mut self, server: u16, steps: impl IntoIterator<Item = What>) {
        let incarnation = self.servers[usize::from(server)].incarnation;
        self.under_way.extend(steps.into_iter().map(|what| Errand { server, incarnation, what }));
    }

    /// What stands after an attempt to write.
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
            (Some(standing), Outcome::Abort) => {
                if *standing == PreparedBranch::Prepared {
                    self.undone.insert(part);
                }
                self.branches.remove(&part);
            }
            (None, Outcome::Abort) => {}
        }
    }

    /// What a fence would end: parts at work, and parts of which a vote is under way.
    pub fn unfenced(&self, concerns: impl Fn(&Part) -> bool) -> BTreeSet<Part> {
        let active = self.branches.iter().filter(|(_, standing)| **standing == PreparedBranch::Active);
        let voting = self.under_way.iter().filter_map(|errand| match &errand.what {
            What::Step(CoordinatorAction::Vote(attempt, branch)) => {
                Some((branch.resource, attempt.number, attempt.executor))
            }
            _ => None,
        });
        active.map(|(part, _)| *part).chain(voting).filter(concerns).collect()
    }

    /// Ends what a fence ends. A vote that is under way comes back as a no.
    pub fn end_sessions(&mut self, parts: &BTreeSet<Part>) {
        let mut broken = Vec::new();
        self.under_way.retain(|errand| match &errand.what {
            What::Step(CoordinatorAction::Vote(attempt, branch))
                if parts.contains(&(branch.resource, attempt.number, attempt.executor)) =>
            {
                broken.push((errand.clone(), attempt.number, *branch));
                false
            }
            _ => true,
        });
        self.branches.retain(|part, standing| !parts.contains(part) || *standing == PreparedBranch::Prepared);
        for (errand, attempt, branch) in broken {
            if !self.is_orphan(&errand) {
                self.tell(errand.server, attempt, Event::Voted(branch, VoteResult::No));
            }
        }
    }

    pub fn tell(&mut self, server: u16, attempt: AttemptNumber, event: Event) {
        let Some(work) = &mut self.servers[usize::from(server)].work else { return };
        let steps = work.on(attempt, event);
        self.want(server, steps.into_iter().map(What::Step));
    }

    pub fn tell_sweep(&mut self, server: u16, found: RecoveryEvent) {
        let slot = &mut self.servers[usize::from(server)].sweep;
        let Some(sweep) = slot else { return };
        let next = sweep.on(found);
        if sweep.is_over() {
            *slot = None;
        }
        self.want(server, next.map(What::Sweeping));
    }
}
